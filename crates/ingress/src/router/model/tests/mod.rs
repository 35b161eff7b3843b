//! Tables over what the model decides.

mod claims;
mod endpoints;
mod ingress;

use super::{
    testing::{Cluster, read, reason, servers},
    *,
};
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
