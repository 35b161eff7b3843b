//! Tables over what the model decides.

use super::testing::{Cluster, read, reason, servers};
use super::*;
use crate::router::settings::Admission;
use runtime::controller::Key;
use serde_json::{Value, json};
use std::net::IpAddr;

fn wild() -> Admission {
    Admission { wildcards: true, ..Admission::default() }
}

fn shared() -> Admission {
    Admission { shared_hosts: true, ..Admission::default() }
}

/// All entries of the maps, as `map key -> where`.
fn maps(model: &Model) -> Vec<String> {
    let leads = |leads: &Leads| match leads {
        Leads::To(id) => id.to_string(),
        Leads::ToHttps => "https".to_owned(),
        Leads::Nowhere => "nowhere".to_owned(),
    };
    let mut lines: Vec<String> = model
        .hosts()
        .flat_map(|(_, entries)| entries)
        .map(|((map, key), to)| format!("{map:?} {key} -> {}", leads(to)))
        .collect();
    lines.sort();
    lines
}

#[test]
fn paths_become_keys() {
    let to = |keys: &[&str]| keys.iter().map(|key| format!("{key} -> a:r")).collect::<Vec<_>>();
    for (path, expected) in [
        ("", to(&["HttpPrefix h.test/"])),
        ("/", to(&["HttpPrefix h.test/"])),
        ("/foo", to(&["HttpExact h.test/foo", "HttpPrefix h.test/foo/"])),
        ("/foo/", to(&["HttpPrefix h.test/foo/"])),
        ("/foo/bar", to(&["HttpExact h.test/foo/bar", "HttpPrefix h.test/foo/bar/"])),
        ("/%66oo//b;r", to(&["HttpExact h.test/foo/b%3Br", "HttpPrefix h.test/foo/b%3Br/"])),
    ] {
        let mut cluster = Cluster::default();
        cluster.put_route("a", "r", 1, json!({"host": "H.test", "path": path}));
        assert_eq!(maps(&cluster.model(Admission::default())), expected, "{path:?}");
    }
}

#[test]
fn terminations_decide_which_maps_hold_a_route() {
    for (tls, expected) in [
        (json!(null), &["HttpPrefix h.test/ -> a:r"][..]),
        (json!({"termination": "edge"}), &["TlsPrefix h.test/ -> a:r"]),
        (
            json!({"termination": "edge", "insecureEdgeTerminationPolicy": "Allow"}),
            &["HttpPrefix h.test/ -> a:r", "TlsPrefix h.test/ -> a:r"],
        ),
        (
            json!({"termination": "reencrypt", "insecureEdgeTerminationPolicy": "Redirect"}),
            &["HttpPrefix h.test/ -> https", "TlsPrefix h.test/ -> a:r"],
        ),
        (json!({"termination": "passthrough"}), &["Sni h.test -> a:r"]),
        (
            json!({"termination": "passthrough", "insecureEdgeTerminationPolicy": "Redirect"}),
            &["HttpPrefix h.test/ -> https", "Sni h.test -> a:r"],
        ),
    ] {
        let mut cluster = Cluster::default();
        cluster.put_route("a", "r", 1, json!({"host": "h.test", "tls": tls}));
        assert_eq!(maps(&cluster.model(Admission::default())), expected, "{tls}");
    }
}

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

#[test]
fn domains_labels_and_generated_hosts() {
    let rules = Admission {
        domain: "apps.test".to_owned(),
        allowed_domains: vec!["apps.test".to_owned()],
        denied_domains: vec!["deny.apps.test".to_owned()],
        routes: "shard=a".parse().unwrap(),
        namespaces: "tier in (web)".parse().unwrap(),
        ..Admission::default()
    };
    let labels = json!({"shard": "a"});
    let mut cluster = Cluster::default();
    cluster.namespaces.insert("web".to_owned(), [("tier".to_owned(), "web".to_owned())].into());
    cluster.put_route("web", "r", 1, json!({"labels": labels}));
    cluster.put_route("web", "sub", 1, json!({"labels": labels, "subdomain": "x.y"}));
    let denied = cluster.put_route("web", "denied", 1, json!({"labels": labels, "host": "a.deny.apps.test"}));
    let outside = cluster.put_route("web", "outside", 1, json!({"labels": labels, "host": "badapps.test"}));
    let other = cluster.put_route("web", "other", 1, json!({"host": "other.apps.test"}));
    let foreign = cluster.put_route("db", "r", 1, json!({"labels": labels, "host": "db.apps.test"}));
    let mut model = cluster.model(rules);
    assert_eq!(maps(&model), ["HttpPrefix r-web.apps.test/ -> web:r", "HttpPrefix x.y.apps.test/ -> web:sub"]);
    assert_eq!([reason(&model, &denied), reason(&model, &outside)], ["RouteNotAdmitted", "RouteNotAdmitted"]);
    assert!(model.verdicts(Source::Route, &other).is_none() && model.verdicts(Source::Route, &foreign).is_none());
    // A namespace gets the label.
    cluster.namespaces.insert("db".to_owned(), [("tier".to_owned(), "web".to_owned())].into());
    model.object_changed(Source::Route, foreign.clone());
    let delta = model.settle(&cluster);
    assert!(delta.objects.contains(&(Source::Route, foreign.clone())) && reason(&model, &foreign).is_empty());
}

#[test]
fn a_dual_stack_pod_is_one_server_of_the_services_first_family() {
    for (families, expected, without_first) in [
        (&["IPv4"][..], "10.1.0.1:8080", "10.1.0.1:8080"),
        (&["IPv6"], "[fd01::1]:8080", "[fd01::1]:8080"),
        (&["IPv4", "IPv6"], "10.1.0.1:8080", "[fd01::1]:8080"),
        (&["IPv6", "IPv4"], "[fd01::1]:8080", "10.1.0.1:8080"),
    ] {
        let mut cluster = Cluster::default();
        cluster.put_service("a", "s", families, 1);
        let key = cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
        let mut model = cluster.model(Admission::default());
        assert_eq!(servers(&model, &key), [(expected.to_owned(), 1)], "{families:?}");
        let name = |model: &Model| model.backend(&Id::route(key.clone())).unwrap().servers[0].name.clone();
        let before = name(&model);
        cluster.cut_off.insert(expected.parse::<std::net::SocketAddr>().unwrap().ip());
        model.reach_changed();
        model.settle(&cluster);
        assert_eq!(servers(&model, &key), [(without_first.to_owned(), 1)], "{families:?} without a way to the first");
        assert_eq!(name(&model), before, "the same pod keeps its name");
    }
}

#[test]
fn endpoints_are_taken_as_they_are_meant() {
    let slice = |change: Value| {
        let mut slice = json!({"metadata": {"name": "x", "namespace": "a"}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.1.0.1"]}]});
        slice.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        slice
    };
    for (name, change, port, expected) in [
        ("ready is what nobody denies", json!({}), json!(null), vec!["10.1.0.1:8080"]),
        (
            "not ready",
            json!({"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": false}}]}),
            json!(null),
            vec![],
        ),
        (
            "names of hosts are not followed",
            json!({"addressType": "FQDN", "endpoints": [{"addresses": ["x.test"]}]}),
            json!(null),
            vec![],
        ),
        ("an address of the other family", json!({"endpoints": [{"addresses": ["fd01::1"]}]}), json!(null), vec![]),
        (
            "another sort of address",
            json!({"addressType": "Pigeon", "endpoints": [{"addresses": ["10.1.0.1"]}]}),
            json!(null),
            vec![],
        ),
        (
            "not ready yet, but nobody says so",
            json!({"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"serving": false}}]}),
            json!(null),
            vec!["10.1.0.1:8080"],
        ),
        (
            "ready while it ends",
            json!({"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true, "terminating": true}}]}),
            json!(null),
            vec!["10.1.0.1:8080"],
        ),
        ("no address", json!({"endpoints": [{"addresses": []}]}), json!(null), vec![]),
        ("no text that is an address", json!({"endpoints": [{"addresses": ["10.1.0.256"]}]}), json!(null), vec![]),
        ("no port", json!({"ports": []}), json!(null), vec![]),
        ("port 0", json!({"ports": [{"name": "http", "port": 0}]}), json!(null), vec![]),
        ("SCTP", json!({"ports": [{"name": "x", "port": 1, "protocol": "SCTP"}]}), json!(null), vec![]),
        ("loopback", json!({"endpoints": [{"addresses": ["127.0.0.1"]}]}), json!(null), vec![]),
        ("UDP", json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}), json!(null), vec![]),
        (
            "the same twice",
            json!({"endpoints": [{"addresses": ["10.1.0.1"]}, {"addresses": ["10.1.0.1"]}]}),
            json!(null),
            vec!["10.1.0.1:8080"],
        ),
        ("port by name", json!({}), json!("http"), vec!["10.1.0.1:8080"]),
        ("port by another name", json!({}), json!("web"), vec![]),
        ("port of the pod", json!({}), json!(8080), vec!["10.1.0.1:8080"]),
        ("port of the Service", json!({}), json!(80), vec!["10.1.0.1:8080"]),
        ("no such port", json!({}), json!(81), vec![]),
        (
            "all ports",
            json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}),
            json!(null),
            vec!["10.1.0.1:1", "10.1.0.1:2"],
        ),
    ] {
        let mut cluster = Cluster::default();
        let service = cluster.put_service("a", "s", &["IPv4"], 0);
        cluster.slices.insert(service, vec![read(slice(change))]);
        let key = cluster.put_route("a", "r", 1, json!({"host": "h.test", "port": {"targetPort": port}}));
        let found: Vec<String> =
            servers(&cluster.model(Admission::default()), &key).into_iter().map(|(at, _)| at).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// Slices of one Service are read together: they come, change and go, and one pod in several of them is one server.
#[test]
fn slices_of_a_service_are_merged() {
    let slice = |name: &str, family: &str, pods: &[u8]| {
        let address = |pod: &u8| if family == "IPv4" { format!("10.1.0.{pod}") } else { format!("fd01::{pod:x}") };
        let endpoint =
            |pod: &u8| json!({"addresses": [address(pod)], "targetRef": {"kind": "Pod", "name": format!("p{pod}")}});
        read(
            json!({"metadata": {"name": name, "namespace": "a"}, "addressType": family, "ports": [{"name": "http", "port": 8080}],
            "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>()}),
        )
    };
    let mut cluster = Cluster::default();
    let service = cluster.put_service("a", "s", &["IPv4", "IPv6"], 0);
    let key = cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
    let mut model = cluster.model(Admission::default());
    for (name, slices, expected) in [
        ("none", vec![], vec![]),
        ("the first", vec![slice("x", "IPv4", &[1])], vec!["10.1.0.1:8080"]),
        (
            "a second of the same family",
            vec![slice("x", "IPv4", &[1]), slice("y", "IPv4", &[2])],
            vec!["10.1.0.1:8080", "10.1.0.2:8080"],
        ),
        ("the same pod in both", vec![slice("x", "IPv4", &[1]), slice("y", "IPv4", &[1])], vec!["10.1.0.1:8080"]),
        (
            "the other family of the same pods",
            vec![slice("x", "IPv4", &[1, 2]), slice("z", "IPv6", &[1, 2])],
            vec!["10.1.0.1:8080", "10.1.0.2:8080"],
        ),
        (
            "a pod that has only the second family",
            vec![slice("x", "IPv4", &[1]), slice("z", "IPv6", &[1, 3])],
            vec!["10.1.0.1:8080", "[fd01::3]:8080"],
        ),
        ("the first family goes", vec![slice("z", "IPv6", &[1, 3])], vec!["[fd01::1]:8080", "[fd01::3]:8080"]),
        ("all gone", vec![], vec![]),
    ] {
        cluster.slices.insert(service.clone(), slices);
        model.service_changed(service.clone());
        model.settle(&cluster);
        let found: Vec<String> = servers(&model, &key).into_iter().map(|(at, _)| at).collect();
        assert_eq!(found, expected, "{name}");
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
            let told = delta.objects.contains(&(Source::Route, key.clone()));
            assert!(told || before[at] == expected[at], "{name}: {key} is told");
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
fn traffic_is_not_sent_to_places_that_are_not_pods() {
    for (address, usable) in [
        ("10.0.0.1", true),
        ("192.168.1.1", true),
        ("100.64.0.1", true),
        ("172.16.0.1", true),
        ("203.0.113.7", true),
        ("8.8.8.8", true),
        ("fd00::1", true),
        ("2001:db8::1", true),
        ("fc00::1", true),
        ("2600::1", true),
        ("fd00:ec2::253", true),
        ("64:ff9b::1", true),
        ("0.0.0.0", false),
        ("127.0.0.1", false),
        ("127.255.255.254", false),
        ("169.254.0.1", false),
        ("169.254.169.254", false),
        ("224.0.0.1", false),
        ("239.255.255.255", false),
        ("255.255.255.255", false),
        ("168.63.129.16", false),
        ("::", false),
        ("::1", false),
        ("fe80::1", false),
        ("febf::1", false),
        ("ff02::1", false),
        ("ff0e::1", false),
        ("fd00:ec2::254", false),
        ("::ffff:127.0.0.1", false),
        ("::ffff:169.254.169.254", false),
        ("::ffff:168.63.129.16", false),
        ("::ffff:0.0.0.0", false),
        ("::127.0.0.1", false),
        ("::169.254.169.254", false),
        ("::ffff:10.0.0.1", true),
        ("::ffff:224.0.0.1", false),
        ("10.255.255.254", true),
        ("169.253.255.255", true),
        ("169.255.0.0", true),
        ("168.63.129.15", true),
        ("fec0::1", true),
        ("fd00:ec2::255", true),
        ("::ffff:255.255.255.255", false),
        ("::ffff:127.255.0.1", false),
        ("::0.0.0.0", false),
        ("::168.63.129.16", false),
        ("ff01::1", false),
    ] {
        assert_eq!(is_usable(address.parse::<IpAddr>().unwrap()), usable, "{address}");
    }
}

#[test]
fn shares_of_several_services() {
    for (termination, expected) in [
        (json!(null), vec![("10.1.0.1:8080", 0), ("10.1.0.1:8080", 256), ("10.1.0.2:8080", 128)]),
        (json!({"termination": "passthrough"}), vec![("10.1.0.1:8080", 256), ("10.1.0.2:8080", 128)]),
    ] {
        let mut cluster = Cluster::default();
        for (name, pods) in [("one", 1), ("two", 2), ("off", 1)] {
            cluster.put_service("a", name, &["IPv4"], pods);
        }
        let more =
            json!([{"kind": "Service", "name": "two", "weight": 10}, {"kind": "Service", "name": "off", "weight": 0}]);
        let spec = json!({"host": "h.test", "tls": termination, "to": {"kind": "Service", "name": "one", "weight": 10}, "alternateBackends": more});
        let key = cluster.put_route("a", "r", 1, spec);
        let mut found = servers(&cluster.model(Admission::default()), &key);
        found.sort();
        found.dedup();
        let expected: Vec<(String, u16)> = expected.into_iter().map(|(at, weight)| (at.to_owned(), weight)).collect();
        assert_eq!(found.iter().filter(|found| expected.contains(found)).count(), expected.len(), "{found:?}");
    }
}

#[test]
fn an_idled_service_is_reached_at_its_own_address_by_the_family_that_works() {
    for (ips, cut_off, expected) in [
        (json!(["10.96.0.1", "fd96::1"]), "", "10.96.0.1:80"),
        (json!(["fd96::1", "10.96.0.1"]), "", "[fd96::1]:80"),
        (json!(["10.96.0.1", "fd96::1"]), "10.96.0.1", "[fd96::1]:80"),
    ] {
        let mut cluster = Cluster::default();
        let service = cluster.put_service("a", "s", &["IPv4"], 0);
        let idled = json!({"metadata": {"name": "s", "namespace": "a", "annotations": {"idling.alpha.openshift.io/idled-at": "x"}},
            "spec": {"clusterIPs": ips, "clusterIP": ips[0], "ports": [{"name": "http", "port": 80}]}});
        cluster.services.insert(service, read(idled));
        cluster.cut_off.extend(cut_off.parse::<IpAddr>().ok());
        let key = cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
        assert_eq!(servers(&cluster.model(Admission::default()), &key), [(expected.to_owned(), 1)]);
    }
}

#[test]
fn an_ingress_is_one_claim_for_each_path() {
    let (chain, key) = testing::certificate("i.test");
    let encoded = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let mut cluster = Cluster::default();
    cluster.put_service("a", "s", &["IPv6", "IPv4"], 1);
    let secret = json!({"metadata": {"name": "t", "namespace": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": encoded(&chain), "tls.key": encoded(&key)}});
    cluster.secrets.insert(Key::new("a", "t"), read(secret));
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {
        "tls": [{"hosts": ["i.test"], "secretName": "t"}],
        "defaultBackend": backend,
        "rules": [
            {"host": "i.test", "http": {"paths": [
                {"path": "/foo", "pathType": "Exact", "backend": backend},
                {"path": "/foo", "pathType": "Prefix", "backend": backend}]}},
            {"host": "*.w.test", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}},
            {"host": "p.test", "http": {"paths": [{"path": "/a b", "pathType": "Prefix", "backend": backend}]}}]}});
    cluster.ingresses.insert(Key::new("a", "i"), read(ingress));
    let model = cluster.model(wild());
    assert_eq!(
        maps(&model),
        [
            "Claimed .w.test -> nowhere",
            "Claimed i.test -> nowhere",
            "Claimed p.test -> nowhere",
            "HttpExact i.test/foo -> https",
            "HttpPrefix */ -> a:i:6",
            "HttpPrefix .w.test/ -> a:i:2",
            "HttpPrefix i.test/ -> https",
            "HttpPrefix i.test/foo/ -> https",
            "HttpPrefix p.test/ -> a:i:5",
            "TlsExact i.test/foo -> a:i:0",
            "TlsPrefix i.test/ -> a:i:4",
            "TlsPrefix i.test/foo/ -> a:i:1",
        ]
    );
    assert_eq!(model.certificates().len(), 1);
    let verdicts = model.verdicts(Source::Ingress, &Key::new("a", "i")).unwrap();
    let refusal = verdicts[3].as_ref().unwrap_err();
    assert!(refusal.message.starts_with("spec.rules[2].http.paths[0].path: "), "{}", refusal.message);
    // Without the Secret its host is not served with somebody else's certificate.
    cluster.secrets.clear();
    let mut model = model;
    model.secret_changed(&Key::new("a", "t"));
    model.settle(&cluster);
    assert!(model.certificates().is_empty() && maps(&model).iter().all(|line| !line.contains("i.test")));
}

/// What an Ingress of namespace `b` asks for without a host, and how it ends.
#[test]
fn a_rule_without_a_host_obeys_the_policy_and_takes_only_what_nobody_claimed() {
    let list = |domains: &[&str]| domains.iter().map(|domain| (*domain).to_owned()).collect::<Vec<_>>();
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let path = |path: &str| json!({"path": path, "pathType": "Prefix", "backend": backend});
    let hostless = json!({"rules": [{"http": {"paths": [path("/")]}}]});
    let default_only = json!({"defaultBackend": backend});
    for (name, rules, admitted) in [
        ("no wildcards", Admission::default(), false),
        ("wildcards", wild(), true),
        ("shared hosts", shared(), false),
        ("allowed domains", Admission { allowed_domains: list(&["apps.test"]), ..wild() }, false),
        ("denied domains", Admission { denied_domains: list(&["other.test"]), ..wild() }, false),
    ] {
        for spec in [&hostless, &default_only] {
            let mut cluster = Cluster::default();
            cluster.put_route(
                "a",
                "r",
                5,
                json!({"host": "h.apps.test", "path": "/x", "tls": {"termination": "edge"}}),
            );
            let meta = json!({"name": "i", "namespace": "b", "creationTimestamp": "2020-01-01T00:00:00Z"});
            cluster.ingresses.insert(Key::new("b", "i"), read(json!({"metadata": meta, "spec": spec})));
            let model = cluster.model(rules.clone());
            let verdicts = model.verdicts(Source::Ingress, &Key::new("b", "i")).unwrap();
            let refused: Vec<&str> =
                verdicts.iter().filter_map(|verdict| verdict.as_ref().err()).map(|refusal| refusal.reason).collect();
            assert_eq!(refused, if admitted { &[][..] } else { &["RouteNotAdmitted"] }, "{name} {spec}");
            let own = ["TlsExact h.apps.test/x -> a:r", "TlsPrefix h.apps.test/x/ -> a:r"];
            let expected = match admitted {
                // Also over plain HTTP and for other paths the name is not everybody's, though its own claim is younger.
                true => ["Claimed h.apps.test -> nowhere", "HttpPrefix */ -> b:i:0"].into_iter().chain(own).collect(),
                false => own.to_vec(),
            };
            assert_eq!(maps(&model), expected, "{name} {spec}");
        }
    }
}

/// Only what the router's own objects name is asked for, and only while they do.
#[test]
fn secrets_are_named_by_the_objects_that_are_served() {
    let external =
        |name: &str| json!({"host": "h.test", "tls": {"termination": "edge", "externalCertificate": {"name": name}}});
    let mut cluster = Cluster::default();
    let labelled = Admission { routes: "mine=yes".parse().unwrap(), ..Admission::default() };
    let mut spec = external("mine");
    spec["labels"] = json!({"mine": "yes"});
    let key = cluster.put_route("a", "r1", 1, spec);
    cluster.put_route("a", "r2", 2, external("other"));
    let mut model = cluster.model(labelled);
    assert_eq!(model.take_named_secrets().unwrap().into_iter().collect::<Vec<_>>(), [Key::new("a", "mine")]);
    assert_eq!(model.take_named_secrets(), None, "nothing changed");
    // A name that would be more than a name is none.
    let mut spec = external("mine,metadata.namespace!=a");
    spec["labels"] = json!({"mine": "yes"});
    cluster.put_route("a", "r1", 1, spec);
    model.object_changed(Source::Route, key.clone());
    model.settle(&cluster);
    assert_eq!(model.take_named_secrets().map(|named| named.len()), Some(0));
    assert_eq!(reason(&model, &key), "ExtendedValidationFailed");
}

#[test]
fn a_secret_of_another_type_is_no_certificate() {
    let (chain, key) = testing::certificate("h.test");
    let encoded = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    for (kind, reason_expected) in [("kubernetes.io/tls", ""), ("Opaque", "ExtendedValidationFailed")] {
        let mut cluster = Cluster::default();
        let data = json!({"tls.crt": encoded(&chain), "tls.key": encoded(&key)});
        let secret = json!({"metadata": {"name": "t", "namespace": "a"}, "type": kind, "data": data});
        cluster.secrets.insert(Key::new("a", "t"), read(secret));
        let spec = json!({"host": "h.test", "tls": {"termination": "edge", "externalCertificate": {"name": "t"}}});
        let route = cluster.put_route("a", "r", 1, spec);
        assert_eq!(reason(&cluster.model(Admission::default()), &route), reason_expected, "{kind}");
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

/// Whatever order things come and go in, the outcome is that of reading everything at once.
#[test]
fn step_by_step_is_the_same_as_all_at_once() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for rules in [Admission::default(), shared(), wild()] {
        let mut cluster = Cluster::default();
        let mut model = cluster.model(rules.clone());
        for step in 0..400_u32 {
            let namespace = ["a", "b"][random(2) as usize];
            let name = format!("r{}", random(12));
            match random(5) {
                0 => {
                    let key = Key::new(namespace, name);
                    cluster.routes.remove(&key);
                    model.object_changed(Source::Route, key);
                }
                1 => {
                    let families: &[&str] =
                        [&["IPv4"][..], &["IPv6"], &["IPv4", "IPv6"], &["IPv6", "IPv4"]][random(4) as usize];
                    let key = cluster.put_service(namespace, "s", families, random(3) as u8);
                    model.service_changed(key);
                }
                _ => {
                    let path = ["", "/x", "/x/"][random(3) as usize];
                    let mut spec = json!({"host": format!("h{}.apps.test", random(3)), "path": path});
                    if random(4) == 0 {
                        spec["tls"] = json!({"termination": "passthrough"});
                        spec["path"] = "".into();
                    }
                    if random(6) == 0 {
                        spec["wildcardPolicy"] = "Subdomain".into();
                    }
                    let key = cluster.put_route(namespace, &name, random(100) as u32, spec);
                    model.object_changed(Source::Route, key);
                }
            }
            model.settle(&cluster);
            if step % 20 == 0 {
                let fresh = cluster.model(rules.clone());
                assert_eq!(maps(&model), maps(&fresh), "step {step}");
                let all = |model: &Model| {
                    model
                        .backends()
                        .map(|(id, backend)| (id.clone(), backend.clone()))
                        .collect::<std::collections::BTreeMap<_, _>>()
                };
                assert_eq!(all(&model), all(&fresh), "step {step}");
                for key in cluster.routes.keys() {
                    assert_eq!(
                        model.verdicts(Source::Route, key),
                        fresh.verdicts(Source::Route, key),
                        "step {step} {key}"
                    );
                }
            }
        }
    }
}
