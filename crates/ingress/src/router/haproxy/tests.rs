//! Generated configurations, checked by HAProxy itself, and hostile objects that must not get into them.

use super::*;
use crate::router::{
    model::{
        Certificate, Model, Source,
        testing::{self, Cluster},
    },
    settings::Settings,
};
use serde_json::{Value, json};
use std::{fs, sync::Arc};
use tempfile::TempDir;

fn settings(variables: &[(&str, &str)]) -> Settings {
    Settings::from_environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).unwrap()
}

fn default_certificate() -> Certificate {
    let (chain, key) = testing::certificate("router.test");
    Certificate::read(&chain, &key, "").unwrap()
}

struct Written {
    folder: TempDir,
    config: String,
}

impl Written {
    fn new(settings: &Settings, model: &Model) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(folder.path()).unwrap();
        let files = Files { settings, places: &places, default_certificate: &default_certificate() };
        write(files, 1, model).unwrap();
        let config = fs::read_to_string(places.config(1)).unwrap();
        Self { folder, config }
    }

    /// Whether HAProxy takes it. Where there is no HAProxy, the end-to-end tests say so.
    fn check(&self) {
        let places = Places::new(self.folder.path()).unwrap();
        match Process::new("haproxy", places).check(1) {
            Err(HaproxyError::Refused(kernel::process::ProcessError::Start { .. })) | Ok(()) => {}
            Err(error) => panic!("{error}\n{}", self.config),
        }
    }

    /// The lines of one section, without their indentation.
    fn section(&self, head: &str) -> Vec<&str> {
        let lines = self.config.lines().skip_while(|line| !line.starts_with(head)).skip(1);
        lines.take_while(|line| line.starts_with(' ')).map(str::trim).collect()
    }

    fn map(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join("generation-1").join(name)).unwrap()
    }
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.put_service("a", "s", &["IPv6", "IPv4"], 2);
    cluster
}

#[test]
fn binds_follow_the_mode_and_the_proxy_protocol() {
    let from = ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "10.0.0.0/8,fd00::/8");
    let on = ("ROUTER_USE_PROXY_PROTOCOL", "true");
    for (variables, expected) in [
        (&[][..], &["bind 0.0.0.0:80"][..]),
        (&[("ROUTER_IP_V4_V6_MODE", "v6")], &["bind [::]:80 v6only"]),
        (&[("ROUTER_IP_V4_V6_MODE", "v4v6")], &["bind 0.0.0.0:80", "bind [::]:80 v6only"]),
        (
            &[("ROUTER_IP_V4_V6_MODE", "v4v6"), on],
            &["bind 0.0.0.0:80 accept-proxy", "bind [::]:80 v6only accept-proxy"],
        ),
        (&[("ROUTER_IP_V4_V6_MODE", "v6"), on], &["bind [::]:80 v6only accept-proxy"]),
        (&[on, from], &["bind 0.0.0.0:80", "tcp-request connection expect-proxy layer4 if { src -f LIST }"]),
        (&[from], &["bind 0.0.0.0:80"]),
    ] {
        let written = Written::new(&settings(variables), &cluster().model(Default::default()));
        let list = written.folder.path().join("generation-1/proxy-senders.list").display().to_string();
        let is_bind = |line: &&str| line.starts_with("bind") || line.contains("expect-proxy");
        for (section, port) in [("frontend public from", ":80"), ("frontend public_ssl ", ":443")] {
            let found: Vec<String> = written
                .section(section)
                .into_iter()
                .filter(is_bind)
                .map(|line| line.replace(&list, "LIST").replace(port, ":80"))
                .collect();
            assert_eq!(found, expected, "{variables:?} {section}");
        }
        assert!(!written.config.contains("1936"), "the health port is not HAProxy's");
        written.check();
    }
}

#[test]
fn a_backend_is_what_its_route_asks_for() {
    let edge = json!({"termination": "edge"});
    let haproxy = |name: &str| format!("haproxy.router.openshift.io/{name}");
    for (name, spec, expected) in [
        ("plain", json!({}), vec!["balance random", "cookie router-server insert indirect nocache httponly dynamic"]),
        (
            "edge",
            json!({"tls": edge}),
            vec!["cookie router-server insert indirect nocache httponly dynamic secure attr SameSite=None"],
        ),
        ("a path has a cookie of its own", json!({"path": "/x"}), vec!["!cookie router-server"]),
        ("timeout", json!({"annotations": {haproxy("timeout"): "100d"}}), vec!["timeout server 2147483647ms"]),
        ("tunnel", json!({"annotations": {haproxy("timeout-tunnel"): "5m"}}), vec!["timeout tunnel 5m"]),
        ("no cookie", json!({"annotations": {haproxy("disable_cookies"): "true"}}), vec!["!cookie"]),
        (
            "cookie name",
            json!({"annotations": {"router.openshift.io/cookie_name": "mine"}}),
            vec!["cookie mine insert"],
        ),
        ("balance", json!({"annotations": {haproxy("balance"): "leastconn"}}), vec!["balance leastconn"]),
        (
            "several Services",
            json!({"alternateBackends": [{"kind": "Service", "name": "t", "weight": 1}]}),
            vec!["balance roundrobin"],
        ),
        (
            "allow list of both families",
            json!({"annotations": {haproxy("ip_allowlist"): "10.0.0.0/8 2001:db8::/32"}}),
            vec!["acl allowed src 10.0.0.0/8 2001:db8::/32", "http-request deny deny_status 403 unless allowed"],
        ),
        (
            "allow list without a valid entry",
            json!({"annotations": {haproxy("ip_whitelist"): "nobody"}}),
            vec!["http-request deny deny_status 403$"],
        ),
        (
            "allow list with passthrough",
            json!({"tls": {"termination": "passthrough"}, "annotations": {haproxy("ip_allowlist"): "10.0.0.1"}}),
            vec!["tcp-request content reject unless allowed"],
        ),
        (
            "HSTS",
            json!({"tls": edge, "annotations": {haproxy("hsts_header"): "max-age=1;preload"}}),
            vec!["http-response set-header Strict-Transport-Security 'max-age=1;preload'"],
        ),
        ("HSTS without TLS", json!({"annotations": {haproxy("hsts_header"): "max-age=1"}}), vec!["!http-response"]),
        (
            "rewrite",
            json!({"path": "/foo", "annotations": {haproxy("rewrite-target"): "/bar"}}),
            vec!["http-request replace-path '^/foo(.*)$' '/bar\\1'"],
        ),
        (
            "rewrite to the root",
            json!({"path": "/foo", "annotations": {haproxy("rewrite-target"): "/"}}),
            vec!["http-request replace-path '^/foo/?(.*)$' '/\\1'"],
        ),
        (
            "rewrite of everything",
            json!({"annotations": {haproxy("rewrite-target"): "/bar"}}),
            vec!["http-request replace-path '^/?(.*)$' '/bar/\\1'"],
        ),
        (
            "connections of a pod",
            json!({"annotations": {haproxy("pod-concurrent-connections"): "7"}}),
            vec!["maxconn 7"],
        ),
        (
            "rate limits",
            json!({"annotations": {haproxy("rate-limit-connections"): "true", haproxy("rate-limit-connections.rate-http"): "5"}}),
            vec!["stick-table type ipv6", "http-request deny deny_status 429 if { sc2_http_req_rate gt 5 }"],
        ),
        (
            "headers",
            json!({"httpHeaders": {"actions": {
                "request": [{"name": "X-A", "action": {"type": "Set", "set": {"value": "it's %[req.hdr(host),lower] 1%%"}}}],
                "response": [{"name": "Server", "action": {"type": "Delete"}}]}}}),
            vec![
                "http-request set-header 'X-A' 'it'\\''s %[req.hdr(host),lower] 1%%'",
                "http-response del-header 'Server'",
            ],
        ),
        ("reencrypt", json!({"tls": {"termination": "reencrypt"}}), vec!["ssl verify none alpn h2,http/1.1"]),
    ] {
        let mut cluster = cluster();
        let mut full = json!({"host": "h.test"});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let key = cluster.put_route("a", "r", 1, full);
        let model = cluster.model(Default::default());
        assert_eq!(testing::reason(&model, &key), "", "{name}");
        let written = Written::new(&settings(&[]), &model);
        let head = written.config.lines().find(|line| line.starts_with("backend be_")).unwrap();
        let lines = written.section(head);
        for wanted in expected {
            let found = |part: &str| {
                lines.iter().any(|line| match part.strip_suffix('$') {
                    Some(whole) => *line == whole,
                    None => line.contains(part),
                })
            };
            match wanted.strip_prefix('!') {
                Some(absent) => assert!(!found(absent), "{name}: {absent} in {lines:#?}"),
                None => assert!(found(wanted), "{name}: {wanted} not in {lines:#?}"),
            }
        }
        written.check();
    }
}

#[test]
fn one_server_for_a_dual_stack_pod() {
    let mut cluster = cluster();
    cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
    let written = Written::new(&settings(&[]), &cluster.model(Default::default()));
    let servers: Vec<&str> =
        written.section("backend be_http:a:r").into_iter().filter(|line| line.starts_with("server")).collect();
    assert_eq!(
        servers,
        [
            "server pod:s-1:s:http:8080 [fd01::1]:8080 weight 1 check inter 5000ms",
            "server pod:s-2:s:http:8080 [fd01::2]:8080 weight 1 check inter 5000ms",
        ]
    );
    assert_eq!(written.map("http-prefix.map"), "h.test/ be_http:a:r\n");
}

#[test]
fn certificates_are_listed_and_shared_ones_get_no_http2() {
    let (one, two) = (testing::certificate("one.test"), testing::certificate("two.test"));
    let mut cluster = cluster();
    for (name, pair) in [("one", &one), ("two", &two), ("three", &two)] {
        let tls = json!({"termination": "edge", "certificate": pair.0, "key": pair.1});
        cluster.put_route("a", name, 1, json!({"host": format!("{name}.test"), "tls": tls}));
    }
    let written = Written::new(&settings(&[]), &cluster.model(Default::default()));
    let list = written.map("certificates.list");
    let alpn: Vec<(bool, bool, bool)> = list
        .lines()
        .map(|line| (line.contains("alpn h2"), line.ends_with(" one.test"), line.contains("PRIVATE")))
        .collect();
    assert_eq!(alpn, [(true, true, false), (false, false, false), (false, false, false)], "{list}");
    written.check();
}

#[test]
fn the_whole_environment_makes_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, testing::certificate("ca.test").0).unwrap();
    let ca = ca.display().to_string();
    let mut cluster = cluster();
    cluster.put_route("a", "r", 1, json!({"host": "h.test", "tls": {"termination": "reencrypt"}}));
    let written = Written::new(
        &settings(&[
            ("ROUTER_IP_V4_V6_MODE", "v4v6"),
            ("ROUTER_SYSLOG_ADDRESS", "[fd00::1]:514"),
            ("ROUTER_SYSLOG_FORMAT", "%ci \"%r\" it's"),
            ("ROUTER_MAX_CONNECTIONS", "auto"),
            ("ROUTER_ENABLE_COMPRESSION", "true"),
            ("ROUTER_UNIQUE_ID_HEADER_NAME", "X-Id"),
            ("ROUTER_MUTUAL_TLS_AUTH", "optional"),
            ("ROUTER_MUTUAL_TLS_AUTH_CA", &ca),
            ("ROUTER_MUTUAL_TLS_AUTH_FILTER", "^/CN=(a|it's)$"),
            ("DEFAULT_DESTINATION_CA_PATH", &ca),
            ("ROUTER_CURVES", "X25519:P-256"),
            ("ROUTER_CIPHERS", "old"),
            ("ROUTER_STRICT_SNI", "true"),
            ("ROUTER_HARD_STOP_AFTER", "1h"),
            ("ROUTER_SET_FORWARDED_HEADERS", "if-none"),
            ("ROUTER_HTTP_IGNORE_PROBES", "true"),
            ("ROUTER_DONT_LOG_NULL", "true"),
            ("ROUTER_HTTP_REQUEST_HEADERS", "X-A:it%27s:Set,X-B:Delete"),
            ("ROUTER_HTTP_RESPONSE_HEADERS", "X-C:a%20b:Set"),
            ("ROUTER_CAPTURE_HTTP_REQUEST_HEADERS", "Referer:10"),
            ("ROUTER_CAPTURE_HTTP_COOKIE", "session=:9"),
        ]),
        &cluster.model(Default::default()),
    );
    assert!(written.config.contains(&format!("verify required ca-file {ca} verifyhost s.a.svc")));
    for wanted in [
        r"http-request set-header 'X-A' 'it'\''s'",
        "http-request del-header 'X-B'",
        "http-response set-header 'X-C' 'a b'",
        "capture request header Referer len 10",
        "capture cookie session= len 9",
    ] {
        assert!(written.section("frontend fe_tls").contains(&wanted), "{wanted}");
    }
    assert!(written.config.contains(r"acl subject_allowed ssl_c_s_dn -m reg '^/CN=(a|it'\''s)$'"));
    written.check();
}

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

/// Every text of a Route that a user chooses, with the field that a refusal names.
fn hostile_routes(text: &str) -> Vec<(&'static str, Value)> {
    let annotation = |name: &str| json!({"annotations": {name: text}});
    let header = |way: &str, name: &str, value: &str| json!({"httpHeaders": {"actions": {way: [{"name": name, "action": {"type": "Set", "set": {"value": value}}}]}}});
    let tls = |field: &str| json!({"tls": {"termination": "reencrypt", field: text}});
    vec![
        ("spec.host", json!({"host": text})),
        ("spec.host", json!({"host": "", "subdomain": text})),
        ("spec.path", json!({"path": format!("/{text}")})),
        ("spec.to.name", json!({"to": {"kind": "Service", "name": text}})),
        ("spec.to.kind", json!({"to": {"kind": text, "name": "s"}})),
        ("spec.alternateBackends[0].name", json!({"alternateBackends": [{"kind": "Service", "name": text}]})),
        ("spec.port.targetPort", json!({"port": {"targetPort": text}})),
        ("spec.wildcardPolicy", json!({"wildcardPolicy": text})),
        ("spec.tls.termination", json!({"tls": {"termination": text}})),
        ("spec.tls.insecureEdgeTerminationPolicy", tls("insecureEdgeTerminationPolicy")),
        ("spec.tls.certificate", tls("certificate")),
        ("spec.tls.certificate", tls("key")),
        ("spec.tls.destinationCACertificate", tls("destinationCACertificate")),
        (
            "metadata.annotations[haproxy.router.openshift.io/balance]",
            annotation("haproxy.router.openshift.io/balance"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/timeout]",
            annotation("haproxy.router.openshift.io/timeout"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/timeout-tunnel]",
            annotation("haproxy.router.openshift.io/timeout-tunnel"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/disable_cookies]",
            annotation("haproxy.router.openshift.io/disable_cookies"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/hsts_header]",
            annotation("haproxy.router.openshift.io/hsts_header"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/rewrite-target]",
            annotation("haproxy.router.openshift.io/rewrite-target"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/set-forwarded-headers]",
            annotation("haproxy.router.openshift.io/set-forwarded-headers"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/pod-concurrent-connections]",
            annotation("haproxy.router.openshift.io/pod-concurrent-connections"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/rate-limit-connections]",
            annotation("haproxy.router.openshift.io/rate-limit-connections"),
        ),
        (
            "metadata.annotations[haproxy.router.openshift.io/rate-limit-connections.rate-http]",
            annotation("haproxy.router.openshift.io/rate-limit-connections.rate-http"),
        ),
        ("metadata.annotations[router.openshift.io/cookie_name]", annotation("router.openshift.io/cookie_name")),
        (
            "metadata.annotations[router.openshift.io/cookie-same-site]",
            annotation("router.openshift.io/cookie-same-site"),
        ),
        (
            "metadata.annotations[router.openshift.io/haproxy.health.check.interval]",
            annotation("router.openshift.io/haproxy.health.check.interval"),
        ),
        ("spec.httpHeaders.actions.request[0].name", header("request", text, "x")),
        ("spec.httpHeaders.actions.response[0].name", header("response", text, "x")),
        // These two may hold quotes and the like, and then hold them literally.
        ("?spec.httpHeaders.actions.request[0].action.set.value", header("request", "X-A", text)),
        ("?spec.httpHeaders.actions.response[0].action.set.value", header("response", "X-A", text)),
        (
            "?metadata.annotations[haproxy.router.openshift.io/ip_allowlist]",
            annotation("haproxy.router.openshift.io/ip_allowlist"),
        ),
    ]
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
            let rules = crate::router::settings::Admission { domain: "apps.test".to_owned(), ..Default::default() };
            let key = cluster.put_route("a", "r", 1, full.clone());
            let model = cluster.model(rules);
            let verdict = model.verdicts(Source::Route, &key).unwrap().remove(0);
            match (field.strip_prefix('?'), verdict) {
                (None, Err(refusal)) => {
                    assert!(
                        refusal.message.starts_with(&format!("{field}: ")),
                        "{field} {text:?}: {}",
                        refusal.message
                    );
                    assert!(!refusal.message.contains('\n'), "{field}: {}", refusal.message);
                }
                (None, Ok(())) => panic!("{field} takes {text:?}"),
                (Some(field), Err(refusal)) => {
                    assert!(refusal.message.starts_with(&format!("{field}: ")), "{}", refusal.message)
                }
                (Some(_), Ok(())) => {
                    served.put_route("a", &format!("r{number}"), 1, full);
                    number += 1;
                }
            }
        }
    }
    assert!(number > 10, "some values are taken literally");
    // What was taken is one line each, and HAProxy reads it as such.
    let written = Written::new(&settings(&[]), &served.model(Default::default()));
    let sections = written.config.lines().filter(|line| !line.starts_with(' ') && !line.is_empty());
    let known = [
        "global",
        "defaults ",
        "frontend ",
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

/// A folder whose name would need quotes is refused at the start.
#[test]
fn places_need_no_quotes() {
    assert!(Places::new("/var/lib/router".as_ref()).is_ok());
    for bad in ["relative", "/a b", "/a'b", "/a\nb", "/a\"b"] {
        assert!(Places::new(bad.as_ref()).is_err(), "{bad:?}");
    }
}

/// The shape of a plain claim is that of a spare; anything special is not.
#[test]
fn plain_claims_fit_spares() {
    let settings = Arc::new(settings(&[]));
    for (spec, pool) in [
        (json!({}), Some(backend::Pool::Http)),
        (json!({"tls": {"termination": "edge"}}), Some(backend::Pool::Edge)),
        (
            json!({"tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Redirect"}}),
            Some(backend::Pool::Edge),
        ),
        (json!({"tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Allow"}}), Some(backend::Pool::Http)),
        (json!({"tls": {"termination": "passthrough"}}), Some(backend::Pool::Tcp)),
        (json!({"tls": {"termination": "reencrypt"}}), None),
        (json!({"path": "/x"}), None),
        (json!({"annotations": {"haproxy.router.openshift.io/timeout": "1s"}}), None),
    ] {
        let mut cluster = cluster();
        let mut full = json!({"host": "h.test"});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let key = cluster.put_route("a", "r", 1, full);
        let model = cluster.model(Default::default());
        let claim = &model.backend(&crate::router::model::Id::route(key)).unwrap().claim;
        let shape = backend::shape(claim, &settings);
        let found = backend::Pool::ALL.into_iter().find(|pool| backend::spare_shape(*pool, &settings) == shape);
        assert_eq!(found, pool, "{spec}");
    }
}
