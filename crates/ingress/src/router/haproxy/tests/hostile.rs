//! Objects whose texts try to break out of the configuration.

use super::*;
use runtime::controller::Key;

/// Texts that would break out of a word, a quote, a line, a section or an expression.
const HOSTILE: [&str; 16] = [
    "x\n  http-request return status 200",
    "x\r\nbackend evil",
    "x\nglobal\n  user root",
    "\"; x \"",
    "' x '",
    "'\\'' x",
    "{ always_true }",
    "x } { x",
    "%[env(HOME)]",
    "%[src,map(/etc/passwd)]",
    "# x",
    "x\\",
    "$HOME ${HOME}",
    "x y",
    "x;show info",
    "\u{2028}x\u{0}",
];

/// Every text of a Route that a user chooses, with the field that a refusal names; a question mark before the field: or is
/// taken literally.
fn hostile_routes(text: &str) -> Vec<(String, Value)> {
    let pair = testing::certificate("h.test");
    let header = |direction: &str, name: &str, value: &str| json!({"httpHeaders": {"actions": {direction: [{"name": name, "action": {"type": "Set", "set": {"value": value}}}]}}});
    let tls = |field: &str| json!({"tls": {"termination": "reencrypt", field: text}});
    let fields: Vec<(&str, Value)> = vec![
        ("spec.host", json!({"host": text})),
        ("spec.host", json!({"host": "", "subdomain": text})),
        ("spec.path", json!({"path": format!("/{text}")})),
        ("spec.to.name", json!({"to": {"kind": "Service", "name": text}})),
        ("spec.to.kind", json!({"to": {"kind": text, "name": "s"}})),
        ("spec.alternateBackends[0].name", json!({"alternateBackends": [{"kind": "Service", "name": text}]})),
        ("spec.alternateBackends[0].kind", json!({"alternateBackends": [{"kind": text, "name": "s"}]})),
        ("spec.port.targetPort", json!({"port": {"targetPort": text}})),
        ("spec.wildcardPolicy", json!({"wildcardPolicy": text})),
        ("spec.tls.termination", json!({"tls": {"termination": text}})),
        ("spec.tls.insecureEdgeTerminationPolicy", tls("insecureEdgeTerminationPolicy")),
        ("spec.tls.certificate", tls("certificate")),
        ("spec.tls.certificate", tls("key")),
        ("spec.tls.destinationCACertificate", tls("destinationCACertificate")),
        (
            "spec.tls.externalCertificate",
            json!({"tls": {"termination": "edge", "externalCertificate": {"name": text}}}),
        ),
        (
            "spec.httpHeaders.actions.request[0].action.type",
            json!({"httpHeaders": {"actions": {"request": [{"name": "X-A", "action": {"type": text}}]}}}),
        ),
        ("spec.httpHeaders.actions.request[0].name", header("request", text, "x")),
        ("spec.httpHeaders.actions.response[0].name", header("response", text, "x")),
        // These may hold quotes and the like, and then hold them literally; certificates are written anew.
        (
            "?spec.tls.certificate",
            json!({"tls": {"termination": "edge", "certificate": pair.0, "key": pair.1, "caCertificate": text}}),
        ),
        ("?spec.httpHeaders.actions.request[0].action.set.value", header("request", "X-A", text)),
        ("?spec.httpHeaders.actions.response[0].action.set.value", header("response", "X-A", text)),
    ];
    let mut routes: Vec<(String, Value)> = fields.into_iter().map(|(field, spec)| (field.to_owned(), spec)).collect();
    routes.extend(hostile_annotations(text).map(|(field, annotations)| (field, json!({"annotations": annotations}))));
    routes
}

/// Every annotation that the router reads.
fn hostile_annotations(text: &str) -> impl Iterator<Item = (String, Value)> {
    let haproxy = |name: &str| format!("haproxy.router.openshift.io/{name}");
    let names = [
        haproxy("balance"),
        haproxy("timeout"),
        haproxy("timeout-tunnel"),
        haproxy("disable_cookies"),
        haproxy("hsts_header"),
        haproxy("rewrite-target"),
        haproxy("set-forwarded-headers"),
        haproxy("pod-concurrent-connections"),
        haproxy("rate-limit-connections"),
        haproxy("rate-limit-connections.concurrent-tcp"),
        haproxy("rate-limit-connections.rate-tcp"),
        haproxy("rate-limit-connections.rate-http"),
        "router.openshift.io/cookie_name".to_owned(),
        "router.openshift.io/cookie-same-site".to_owned(),
        "router.openshift.io/haproxy.health.check.interval".to_owned(),
    ];
    // A list may hold words that are no address; they let nobody in.
    let lists = [haproxy("ip_allowlist"), haproxy("ip_whitelist")];
    let strict = names.into_iter().map(|name| (format!("metadata.annotations[{name}]"), name));
    let lenient = lists.into_iter().map(|name| (format!("?metadata.annotations[{name}]"), name));
    strict.chain(lenient).map(move |(field, name)| (field, json!({name: text})))
}

/// A verdict on a hostile text: refused or ignored with its field in one line, or, where that is allowed, taken. True when the object
/// is served.
fn is_served(field: &str, text: &str, model: &Model, source: Source, key: &Key) -> bool {
    let (field, may_be_taken) = field.strip_prefix('?').map_or((field, false), |field| (field, true));
    let refusal = model.verdicts(source, key).unwrap().remove(0).err().map(|refusal| refusal.message);
    let messages: Vec<String> = refusal.iter().cloned().chain(model.ignored(source, key)).collect();
    assert!(may_be_taken || !messages.is_empty(), "{field} takes {text:?}");
    for message in messages {
        assert!(message.starts_with(&format!("{field}: ")), "{field} {text:?}: {message}");
        assert!(crate::router::text::is_printable(&message), "{field}: {message:?}");
    }
    refusal.is_none()
}

/// What was taken is one line each, and HAProxy reads it as such.
fn has_known_sections_only(cluster: &Cluster) {
    let written = Written::new(&settings(&[]), &cluster.model(Default::default()));
    let sections = written.config.lines().filter(|line| !line.starts_with(' ') && !line.is_empty());
    let known = [
        "global",
        "defaults ",
        "frontend public from ",
        "frontend public_ssl from ",
        "frontend fe_tls from ",
        "backend be_",
        "backend spare_",
        "backend to_https",
        "backend ending_tls",
        "backend openshift_default",
        "# Written",
    ];
    let stray: Vec<&str> = sections.filter(|line| !known.iter().any(|known| line.starts_with(known))).collect();
    assert_eq!(stray, [""; 0]);
    written.check();
}

#[test]
fn hostile_texts_are_refused_with_their_field() {
    let mut served = cluster();
    let mut number = 0;
    for text in HOSTILE {
        for (field, spec) in hostile_routes(text) {
            let mut cluster = cluster();
            let mut full = json!({"host": format!("h{number}.test")});
            full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            let rules = Admission { domain: "apps.test".to_owned(), ..Default::default() };
            let key = cluster.put_route("a", "r", 1, full.clone());
            let model = cluster.model(rules);
            if is_served(&field, text, &model, Source::Route, &key) {
                served.put_route("a", &format!("r{number}"), 1, full);
                number += 1;
            }
        }
        // The API refuses such names itself.
        let mut cluster = cluster();
        let key = cluster.put_route("a", text, 1, json!({"host": "h.test"}));
        let model = cluster.model(Default::default());
        assert!(!is_served("metadata.name", text, &model, Source::Route, &key));
    }
    assert!(number > 10, "some values are taken literally");
    has_known_sections_only(&served);
}

/// Every text of an Ingress that a user chooses.
fn hostile_ingresses(text: &str) -> Vec<(String, Value, Value)> {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let at = "spec.rules[0].http.paths[0]";
    let path = |path: Value| json!({"rules": [{"host": "i.test", "http": {"paths": [path]}}]});
    let good = || path(json!({"path": "/", "pathType": "Prefix", "backend": backend}));
    let with = |more: Value| {
        let mut spec = good();
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let named = json!({"service": {"name": text, "port": {"number": 80}}});
    let port = json!({"service": {"name": "s", "port": {"name": text}}});
    let mut all = vec![
        (
            "spec.rules[0].host".to_owned(),
            json!({"rules": [{"host": text, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]}),
            json!({}),
        ),
        (
            format!("{at}.path"),
            path(json!({"path": format!("/{text}"), "pathType": "Prefix", "backend": backend})),
            json!({}),
        ),
        (format!("{at}.pathType"), path(json!({"path": "/", "pathType": text, "backend": backend})), json!({})),
        (
            format!("{at}.backend.service.name"),
            path(json!({"path": "/", "pathType": "Exact", "backend": named})),
            json!({}),
        ),
        (
            format!("{at}.backend.service.port"),
            path(json!({"path": "/", "pathType": "Exact", "backend": port})),
            json!({}),
        ),
        ("spec.defaultBackend.service.name".to_owned(), json!({"defaultBackend": named}), json!({})),
        ("spec.defaultBackend.service.port".to_owned(), json!({"defaultBackend": port}), json!({})),
        (
            format!("{at}.backend.resource"),
            path(json!({"path": "/", "pathType": "Exact", "backend": {"resource": {"kind": text, "name": text}}})),
            json!({}),
        ),
        ("spec.tls[0].secretName".to_owned(), with(json!({"tls": [{"secretName": text}]})), json!({})),
        // A name that is none of the rules' concerns nobody.
        ("?spec.tls[0].hosts".to_owned(), with(json!({"tls": [{"hosts": [text]}]})), json!({})),
        ("?spec.ingressClassName".to_owned(), with(json!({"ingressClassName": text})), json!({})),
    ];
    all.extend(hostile_annotations(text).map(|(field, annotations)| (field, good(), annotations)));
    all
}

#[test]
fn hostile_texts_of_ingresses_are_refused_with_their_field() {
    let mut served = cluster();
    let mut number = 0;
    for text in HOSTILE {
        for (field, mut spec, annotations) in hostile_ingresses(text) {
            let ingress = |name: &str, spec: &Value| {
                testing::read(
                    json!({"metadata": {"name": name, "namespace": "a", "annotations": annotations}, "spec": spec}),
                )
            };
            let key = Key::new("a", "i");
            let mut cluster = cluster();
            cluster.ingresses.insert(key.clone(), ingress("i", &spec));
            let rules = Admission { wildcards: true, ..Admission::default() };
            let model = cluster.model(rules);
            if is_served(&field, text, &model, Source::Ingress, &key) {
                number += 1;
                spec["rules"][0]["host"] = format!("i{number}.test").into();
                let name = format!("i{number}");
                served.ingresses.insert(Key::new("a", name.clone()), ingress(&name, &spec));
            }
        }
    }
    assert!(number > 10, "some values are taken literally");
    has_known_sections_only(&served);
}

/// Endpoints are written by whoever may write slices: their names must not matter.
#[test]
fn hostile_endpoints_cannot_name_themselves() {
    for text in HOSTILE {
        let mut cluster = Cluster::default();
        let service = cluster.put_service("a", "s", &["IPv4"], 1);
        let slice = json!({"metadata": {"name": "x", "namespace": "a"}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}, {"name": text, "port": 8081}],
            "endpoints": [{"addresses": ["10.1.0.1"], "targetRef": {"kind": "Pod", "name": text}}, {"addresses": [text]}]});
        cluster.slices.insert(service, vec![testing::read(slice)]);
        cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
        let written = Written::new(&settings(&[]), &cluster.model(Default::default()));
        let servers: Vec<&str> =
            written.section("backend be_http:a:r").into_iter().filter(|line| line.starts_with("server")).collect();
        assert_eq!(servers, ["server ept:s:http:10.1.0.1:8080 10.1.0.1:8080 weight 1"], "{text:?}");
    }
}
