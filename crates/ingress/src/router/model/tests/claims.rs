//! Which claim gets a host and a path.

use super::*;

#[test]
fn the_oldest_claim_wins_and_the_next_follows_when_it_goes() {
    let edge = json!({"termination": "edge"});
    let pass = json!({"termination": "passthrough"});
    type Case = (&'static str, Admission, Vec<(&'static str, Value)>, Vec<&'static str>);
    // The first route is in namespace a, the others where they say; each is a second younger than the one before.
    let cases: Vec<Case> = vec![
        (
            "same host, same path",
            Admission::default(),
            vec![("a", json!({})), ("a", json!({}))],
            vec!["", "HostAlreadyClaimed"],
        ),
        (
            "same host, other path",
            Admission::default(),
            vec![("a", json!({})), ("a", json!({"path": "/x"}))],
            vec!["", ""],
        ),
        (
            "a path and the same with a slash",
            Admission::default(),
            vec![("a", json!({"path": "/x"})), ("a", json!({"path": "/x/"}))],
            vec!["", ""],
        ),
        (
            "other namespace",
            Admission::default(),
            vec![("a", json!({})), ("b", json!({"path": "/x"}))],
            vec!["", "HostAlreadyClaimed"],
        ),
        ("other namespace, shared", shared(), vec![("a", json!({})), ("b", json!({"path": "/x"}))], vec!["", ""]),
        ("same path, shared", shared(), vec![("a", json!({})), ("b", json!({}))], vec!["", "HostAlreadyClaimed"]),
        (
            "plain and edge on one path",
            Admission::default(),
            vec![("a", json!({})), ("a", json!({"tls": edge}))],
            vec!["", "HostAlreadyClaimed"],
        ),
        (
            "edge, then passthrough",
            Admission::default(),
            vec![("a", json!({"tls": edge, "path": "/x"})), ("a", json!({"tls": pass}))],
            vec!["", "HostAlreadyClaimed"],
        ),
        (
            "passthrough, then edge",
            Admission::default(),
            vec![("a", json!({"tls": pass})), ("a", json!({"tls": edge, "path": "/x"}))],
            vec!["", "HostAlreadyClaimed"],
        ),
        (
            "passthrough and plain HTTP",
            Admission::default(),
            vec![("a", json!({"tls": pass})), ("a", json!({}))],
            vec!["", ""],
        ),
        (
            "wildcard not allowed",
            Admission::default(),
            vec![("a", json!({"wildcardPolicy": "Subdomain"}))],
            vec!["RouteNotAdmitted"],
        ),
        (
            "wildcard beside a name of its own",
            wild(),
            vec![("a", json!({"wildcardPolicy": "Subdomain"})), ("a", json!({}))],
            vec!["", ""],
        ),
        (
            "wildcard before a foreign name",
            wild(),
            vec![("a", json!({"wildcardPolicy": "Subdomain"})), ("b", json!({}))],
            vec!["", "HostAlreadyClaimed"],
        ),
        (
            "wildcard after a foreign name",
            wild(),
            vec![("b", json!({})), ("a", json!({"wildcardPolicy": "Subdomain"}))],
            vec!["", "HostAlreadyClaimed"],
        ),
        (
            "two wildcards",
            wild(),
            vec![("a", json!({"wildcardPolicy": "Subdomain"})), ("b", json!({"wildcardPolicy": "Subdomain"}))],
            vec!["", "HostAlreadyClaimed"],
        ),
    ];
    for (name, rules, routes, expected) in cases {
        let mut cluster = Cluster::default();
        let keys: Vec<Key> = routes
            .into_iter()
            .enumerate()
            .map(|(at, (namespace, mut spec))| {
                spec["host"] = "h.apps.test".into();
                cluster.put_route(namespace, &format!("r{at}"), u32::try_from(at).unwrap(), spec)
            })
            .collect();
        let mut model = cluster.model(rules);
        let found: Vec<String> = keys.iter().map(|key| reason(&model, key)).collect();
        assert_eq!(found, expected, "{name}");
        // The oldest goes: whoever waited is served.
        cluster.routes.remove(&keys[0]);
        model.object_changed(Source::Route, keys[0].clone());
        model.settle(&cluster);
        assert!(keys[1..].iter().all(|key| reason(&model, key).is_empty()), "{name}: after the first is gone");
    }
}

/// Which hosts a router takes at all.
#[test]
fn hosts_are_admitted_as_the_rules_say() {
    let domains = |allowed: &[&str], denied: &[&str]| Admission {
        allowed_domains: allowed.iter().map(|domain| (*domain).to_owned()).collect(),
        denied_domains: denied.iter().map(|domain| (*domain).to_owned()).collect(),
        wildcards: true,
        ..Admission::default()
    };
    let open = || domains(&[], &[]);
    let long = "a".repeat(64);
    for (rules, host, expected) in [
        (open(), "h.test", ""),
        (open(), "H.Test", ""),
        (open(), "a-b.c-d.test", ""),
        (open(), "1.2.3.4", ""),
        (open(), "single", ""),
        (open(), "", "NoHostValue"),
        (open(), "h.test.", "InvalidHost"),
        (open(), ".h.test", "InvalidHost"),
        (open(), "h..test", "InvalidHost"),
        (open(), "-h.test", "InvalidHost"),
        (open(), "h_.test", "InvalidHost"),
        (open(), "*.test", "InvalidHost"),
        (open(), "[fd00::1]", "InvalidHost"),
        (open(), "h.test:80", "InvalidHost"),
        (open(), &long, "InvalidHost"),
        (domains(&["apps.test"], &[]), "h.apps.test", ""),
        (domains(&["apps.test"], &[]), "apps.test", ""),
        (domains(&["apps.test"], &[]), "badapps.test", "RouteNotAdmitted"),
        (domains(&["apps.test"], &[]), "other.test", "RouteNotAdmitted"),
        (domains(&["apps.test", "web.test"], &[]), "h.web.test", ""),
        (domains(&[], &["deny.test"]), "h.deny.test", "RouteNotAdmitted"),
        (domains(&[], &["deny.test"]), "DENY.test", "RouteNotAdmitted"),
        (domains(&[], &["deny.test"]), "h.test", ""),
        (domains(&["apps.test"], &["deny.apps.test"]), "x.deny.apps.test", "RouteNotAdmitted"),
        (domains(&["deny.test"], &["deny.test"]), "h.deny.test", "RouteNotAdmitted"),
    ] {
        for policy in ["None", "Subdomain"] {
            let mut cluster = Cluster::default();
            let key = cluster.put_route("a", "r", 1, json!({"host": host, "wildcardPolicy": policy}));
            let found = reason(&cluster.model(rules.clone()), &key);
            // There is nothing below a name without a domain.
            let single = policy == "Subdomain" && host == "single";
            let expected = if single { "ExtendedValidationFailed" } else { expected };
            assert_eq!(found, expected, "{host} {policy} {:?} {:?}", rules.allowed_domains, rules.denied_domains);
        }
    }
}

/// A host's claims are elected anew when one of them changes, and everything that follows comes in one step.
#[test]
fn claims_that_change_are_elected_anew() {
    let mut cluster = Cluster::default();
    let claim = |path: &str| json!({"host": "h.test", "path": path});
    let keys =
        [("one", 1), ("two", 2), ("three", 3)].map(|(name, born)| cluster.put_route("a", name, born, claim("/x")));
    let mut model = cluster.model(Admission::default());
    let served = |model: &Model| keys.each_ref().map(|key| reason(model, key).is_empty());
    assert_eq!(served(&model), [true, false, false]);
    for (name, change, expected) in [
        ("the oldest goes to another path", ("one", 1, claim("/y")), [true, true, false]),
        ("the second follows it", ("two", 2, claim("/y")), [true, false, true]),
        ("the second comes back", ("two", 2, claim("/x")), [true, true, false]),
        (
            "the oldest goes to another host",
            ("one", 1, json!({"host": "other.test", "path": "/x"})),
            [true, true, false],
        ),
        ("the oldest comes back", ("one", 1, claim("/x")), [true, false, false]),
        ("the oldest is refused", ("one", 1, claim("/x y")), [false, true, false]),
    ] {
        let key = cluster.put_route("a", change.0, change.1, change.2);
        model.object_changed(Source::Route, key);
        let before = served(&model);
        let delta = model.settle(&cluster);
        assert_eq!(served(&model), expected, "{name}");
        for (at, key) in keys.iter().enumerate() {
            let reported = delta.objects.contains(&(Source::Route, key.clone()));
            assert!(reported || before[at] == expected[at], "{name}: {key} is told");
        }
    }
}

/// Of the same second the smaller UID is the older one, whatever the names and namespaces are.
#[test]
fn ages_are_compared_by_time_then_uid() {
    for (first, second, expected) in [
        ((1, "b"), (2, "a"), [true, false]),
        ((2, "a"), (1, "b"), [false, true]),
        ((1, "a"), (1, "b"), [true, false]),
        ((1, "b"), (1, "a"), [false, true]),
    ] {
        for namespaces in [["a", "a"], ["a", "b"], ["b", "a"]] {
            let mut cluster = Cluster::default();
            let mut put = |at: usize, (born, uid): (u32, &str)| {
                let key = cluster.put_route(namespaces[at], &format!("r{at}"), born, json!({"host": "h.test"}));
                let mut route = (*cluster.routes[&key]).clone();
                route.metadata.uid = Some(uid.to_owned());
                cluster.routes.insert(key.clone(), std::sync::Arc::new(route));
                key
            };
            let keys = [put(0, first), put(1, second)];
            let model = cluster.model(Admission::default());
            let found = keys.each_ref().map(|key| reason(&model, key).is_empty());
            assert_eq!(found, expected, "{first:?} {second:?} {namespaces:?}");
        }
    }
}

#[test]
fn spellings_of_a_path_are_one_claim() {
    let mut cluster = Cluster::default();
    let first = cluster.put_route("a", "r1", 1, json!({"host": "h.test", "path": "/foo"}));
    let second = cluster.put_route("a", "r2", 2, json!({"host": "h.test", "path": "//%66oo"}));
    let third = cluster.put_route("a", "r3", 3, json!({"host": "h.test", "path": "/x/../foo"}));
    let model = cluster.model(Admission::default());
    assert_eq!(reason(&model, &first), "");
    assert_eq!(reason(&model, &second), "HostAlreadyClaimed");
    assert_eq!(reason(&model, &third), "ExtendedValidationFailed");
}

#[test]
fn all_mistakes_are_named_at_once() {
    let mut cluster = Cluster::default();
    let key = cluster.put_route(
        "a",
        "r",
        1,
        json!({"host": "not a host", "path": "no-slash", "port": {"targetPort": 0}, "tls": {"termination": "edge", "caCertificate": "x", "certificate": "y", "key": "z"},
            "annotations": {"haproxy.router.openshift.io/ip_allowlist": "{", "haproxy.router.openshift.io/timeout": "soon"}}),
    );
    let refusal = cluster.model(Default::default()).verdicts(Source::Route, &key).unwrap().remove(0).unwrap_err();
    for field in ["ip_allowlist]: ", "spec.host: ", "spec.path: ", "spec.port.targetPort: ", "spec.tls.certificate: "] {
        assert!(refusal.message.contains(field), "{field} is not in {}", refusal.message);
    }
}

#[test]
fn a_wish_that_cannot_be_read_is_named_and_the_rest_is_served() {
    let mut cluster = Cluster::default();
    let haproxy = |name: &str| format!("haproxy.router.openshift.io/{name}");
    for (name, served) in [
        ("balance", true),
        ("timeout", true),
        ("disable_cookies", true),
        ("hsts_header", true),
        ("rewrite-target", true),
        ("rate-limit-connections", false),
        ("rate-limit-connections.rate-http", false),
        ("pod-concurrent-connections", false),
    ] {
        let key = cluster.put_route("a", "r", 1, json!({"host": "a.test", "annotations": {haproxy(name): "?"}}));
        let model = cluster.model(Default::default());
        assert_eq!(reason(&model, &key).is_empty(), served, "{name}");
        let expected = usize::from(served);
        assert_eq!(model.ignored(Source::Route, &key).len(), expected, "{name}");
    }
}
