//! Ingresses as claims.

use super::*;

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
