//! Generated configurations, checked by HAProxy itself, and hostile objects that must not get into them.

use super::*;
use crate::router::{
    model::{
        Certificate, Model, Source,
        testing::{self, Cluster},
    },
    settings::{Admission, Settings},
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

const TRUSTED: (&str, &str) = ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "10.0.0.0/8,fd00::/8");
const PROXY: (&str, &str) = ("ROUTER_USE_PROXY_PROTOCOL", "true");
const WHOLE: (&str, &str) = ("ROUTER_PROXY_PROTOCOL_SPLIT_HEADERS", "false");

/// The lines of a section that say who may come, for port 80 whatever the port is.
fn arrivals(written: &Written, section: &str, port: &str) -> Vec<String> {
    let list = written.folder.path().join("generation-1/proxy-senders.list").display().to_string();
    let folder = written.folder.path().display().to_string();
    let is_arrival = |line: &&str| line.starts_with("bind") || line.contains("LIST") || line.contains("expect-proxy");
    let lines = written.section(section).into_iter().filter(|line| is_arrival(line) || line.contains(&list));
    lines.map(|line| line.replace(&list, "LIST").replace(&folder, "F").replace(port, ":80")).collect()
}

#[test]
fn binds_follow_the_mode_and_the_proxy_protocol() {
    for (variables, expected) in [
        (&[][..], &["bind 0.0.0.0:80"][..]),
        (&[("ROUTER_IP_V4_V6_MODE", "v6")], &["bind [::]:80 v6only"]),
        (&[("ROUTER_IP_V4_V6_MODE", "v4v6")], &["bind 0.0.0.0:80", "bind [::]:80 v6only"]),
        (
            &[("ROUTER_IP_V4_V6_MODE", "v4v6"), PROXY, WHOLE],
            &["bind 0.0.0.0:80 accept-proxy", "bind [::]:80 v6only accept-proxy"],
        ),
        (&[("ROUTER_IP_V4_V6_MODE", "v6"), PROXY, WHOLE], &["bind [::]:80 v6only accept-proxy"]),
        (
            &[PROXY, WHOLE, TRUSTED],
            &["bind 0.0.0.0:80", "tcp-request connection expect-proxy layer4 if { src -f LIST }"],
        ),
        (&[TRUSTED], &["bind 0.0.0.0:80"]),
    ] {
        let written = Written::new(&settings(variables), &cluster().model(Default::default()));
        for (section, port) in [("frontend public from", ":80"), ("frontend public_ssl ", ":443")] {
            assert_eq!(arrivals(&written, section, port), expected, "{variables:?} {section}");
        }
        assert!(!written.config.contains("1936"), "the health port is not HAProxy's");
        assert!(!written.config.contains("lua"), "nothing waits");
        written.check();
    }
}

#[test]
fn it_listens_where_it_is_told_to() {
    let both = ("ROUTER_IP_V4_V6_MODE", "v4v6");
    for (variables, expected) in [
        (&[both, ("ROUTER_LISTEN_ADDRESSES", "127.0.0.1,::1")][..], &["bind 127.0.0.1:80", "bind [::1]:80 v6only"][..]),
        (&[both, ("ROUTER_LISTEN_ADDRESSES", "::1,127.0.0.1")], &["bind 127.0.0.1:80", "bind [::1]:80 v6only"]),
        (&[both, ("ROUTER_LISTEN_ADDRESSES", "2001:db8::1")], &["bind [2001:db8::1]:80 v6only"]),
        (&[("ROUTER_LISTEN_ADDRESSES", "127.0.0.1,::1")], &["bind 127.0.0.1:80"]),
    ] {
        let written = Written::new(&settings(variables), &cluster().model(Default::default()));
        for (section, port) in [("frontend public from", ":80"), ("frontend public_ssl ", ":443")] {
            assert_eq!(arrivals(&written, section, port), expected, "{variables:?} {section}");
        }
    }
}

/// In a folder of its own HAProxy finds its sockets, and nothing else, under other names.
#[test]
fn a_user_of_its_own_sees_its_sockets_and_nothing_else() {
    let settings = settings(&[PROXY, ("ROUTER_SYSLOG_ADDRESS", "/dev/log")]);
    let folder = tempfile::tempdir().unwrap();
    let places = Places::new(folder.path()).unwrap().with_jail(Some(Jail { uid: 1234, gid: 5678 }));
    let files = Files { settings: &settings, places: &places, default_certificate: &default_certificate() };
    write(files, 1, &cluster().model(Default::default())).unwrap();
    let text = fs::read_to_string(places.config(1)).unwrap().replace(&folder.path().display().to_string(), "F");
    let global: Vec<&str> = text.lines().skip(2).take(3).map(str::trim).collect();
    assert_eq!(global, ["chroot F/run", "uid 1234", "gid 5678"]);
    for (name, bound, seen) in [
        (
            "behind the header",
            "bind unix@F/run/public.sock mode 600 uid 1234 gid 5678 accept-proxy",
            "unix@/public.sock",
        ),
        (
            "ends TLS",
            "bind unix@F/run/tls.sock mode 600 uid 1234 gid 5678 accept-proxy ssl",
            "unix@/tls.sock send-proxy-v2",
        ),
        ("logs", "stats socket F/admin.sock mode 600 level admin", "log /log.sock len"),
    ] {
        assert!(text.contains(bound), "{name}: {bound}\n{text}");
        assert!(text.contains(seen), "{name}: {seen}\n{text}");
    }
    let mode = |path: &std::path::Path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777;
    assert_eq!(mode(&folder.path().join("run")), 0o711);
}

#[test]
fn a_frontend_in_front_waits_for_the_whole_header() {
    for (variables, expected) in [
        (&[PROXY][..], &["bind 0.0.0.0:80"][..]),
        (&[("ROUTER_IP_V4_V6_MODE", "v6"), PROXY], &["bind [::]:80 v6only"]),
        (&[("ROUTER_IP_V4_V6_MODE", "v4v6"), PROXY], &["bind 0.0.0.0:80", "bind [::]:80 v6only"]),
        (
            &[("ROUTER_IP_V4_V6_MODE", "v4v6"), PROXY, TRUSTED],
            &[
                "bind 0.0.0.0:80",
                "bind [::]:80 v6only",
                "tcp-request content set-var(sess.own_address) int(1) unless { src -f LIST }",
                "tcp-request content accept unless { src -f LIST }",
            ],
        ),
    ] {
        let written = Written::new(&settings(variables), &cluster().model(Default::default()));
        for (name, port) in [("public", ":80"), ("public_ssl", ":443")] {
            let in_front = arrivals(&written, &format!("frontend header_{name} "), port);
            assert_eq!(in_front, expected, "{variables:?} {name}");
            let behind = arrivals(&written, &format!("frontend {name} "), port);
            assert_eq!(behind, [format!("bind unix@F/run/{name}.sock mode 600 accept-proxy")], "{variables:?} {name}");
        }
        assert!(written.section("global").contains(&"maxconn 100000"), "each connection is two");
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
        (
            "the cookie of a path is limited to it",
            json!({"path": "/x%20y"}),
            vec![
                "cookie router-server insert",
                r"http-after-response replace-header Set-Cookie '^(router\-server=[^;]*; path=)/(.*)$' '\1/x%%20y\2'",
            ],
        ),
        (
            "a path that no cookie can name",
            json!({"path": "/a/b;c"}),
            vec![r"http-after-response replace-header Set-Cookie '^(router\-server=[^;]*; path=)/(.*)$' '\1/a/\2'"],
        ),
        ("whole hosts have no such limit", json!({"path": "/"}), vec!["!http-after-response"]),
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
            "several Services, of which one sleeps",
            json!({"alternateBackends": [{"kind": "Service", "name": "t", "weight": 0}]}),
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

/// What pods are told, by the router's own setting and by a Route's.
#[test]
fn forwarded_headers_follow_the_route_then_the_router() {
    let annotation = |value: &str| json!({"haproxy.router.openshift.io/set-forwarded-headers": value});
    for (router, route, expected) in [
        ("", json!(null), "web-append"),
        ("append", json!(null), "web-append"),
        ("replace", json!(null), "web-replace"),
        ("if-none", json!(null), "web-if-none"),
        ("never", json!(null), "web-never"),
        ("never", annotation("append"), "web-append"),
        ("append", annotation("replace"), "web-replace"),
        ("append", annotation("if-none"), "web-if-none"),
        ("replace", annotation("never"), "web-never"),
    ] {
        let mut cluster = cluster();
        cluster.put_route("a", "r", 1, json!({"host": "h.test", "annotations": route}));
        let settings = settings(&[("ROUTER_SET_FORWARDED_HEADERS", router)]);
        let written = Written::new(&settings, &cluster.model(Default::default()));
        assert!(written.config.contains(&format!("backend be_http:a:r from {expected}\n")), "{router:?} {route}");
        written.check();
    }
    let written = Written::new(&settings(&[]), &cluster().model(Default::default()));
    for (section, wanted) in [
        ("defaults web-append ", "http-request add-header X-Forwarded-Proto %[var(txn.proto)]"),
        ("defaults web-append ", "option forwardfor"),
        ("defaults web-replace ", "http-request set-header X-Forwarded-For %[src]"),
        ("defaults web-if-none ", "option forwardfor if-none"),
        (
            "defaults web-if-none ",
            "http-request set-header X-Forwarded-Host %[req.hdr(host)] if !{ req.hdr(X-Forwarded-Host) -m found }",
        ),
    ] {
        assert!(written.section(section).contains(&wanted), "{section}: {wanted}");
    }
    assert_eq!(written.section("defaults web-never "), [""; 0]);
}

#[test]
fn long_allow_lists_of_both_families_keep_every_entry() {
    let entries: Vec<String> =
        (1..=100).flat_map(|at| [format!("10.0.{at}.0/24"), format!("2001:db8:{at:x}::/48")]).collect();
    let mut cluster = cluster();
    let annotations = json!({"haproxy.router.openshift.io/ip_allowlist": entries.join(" ")});
    cluster.put_route("a", "r", 1, json!({"host": "h.test", "annotations": annotations}));
    let written = Written::new(&settings(&[]), &cluster.model(Default::default()));
    let lines = written.section("backend be_http:a:r");
    let found: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("acl allowed src "))
        .flat_map(|rest| rest.split(' '))
        .collect();
    assert_eq!(found.len(), entries.len());
    assert!(entries.iter().all(|entry| found.contains(&entry.as_str())));
    written.check();
}

/// The port of the request is not the port of https.
#[test]
fn redirects_leave_the_port_out() {
    let written = Written::new(&settings(&[]), &cluster().model(Default::default()));
    let host = "http-request set-var(txn.host) var(txn.host),host_only,rtrim(.)";
    assert!(written.section("frontend public ").contains(&host));
    let redirect = "http-request redirect code 302 location https://%[var(txn.host)]%[pathq]";
    assert_eq!(written.section("backend to_https "), [redirect]);
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

/// Every text of a Route that a user chooses, with the field that a refusal names; a question mark before the field: or is
/// taken literally.
fn hostile_routes(text: &str) -> Vec<(String, Value)> {
    let pair = testing::certificate("h.test");
    let header = |way: &str, name: &str, value: &str| json!({"httpHeaders": {"actions": {way: [{"name": name, "action": {"type": "Set", "set": {"value": value}}}]}}});
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

/// A verdict on a hostile text: refused with its field in one line, or, where that is allowed, taken. True when taken.
fn is_taken(field: &str, text: &str, verdict: Result<(), crate::router::model::Refusal>) -> bool {
    let (field, may_be_taken) = field.strip_prefix('?').map_or((field, false), |field| (field, true));
    match verdict {
        Ok(()) => assert!(may_be_taken, "{field} takes {text:?}"),
        Err(refusal) => {
            assert!(refusal.message.starts_with(&format!("{field}: ")), "{field} {text:?}: {}", refusal.message);
            assert!(crate::router::text::is_printable(&refusal.message), "{field}: {:?}", refusal.message);
            return false;
        }
    }
    true
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
            if is_taken(&field, text, model.verdicts(Source::Route, &key).unwrap().remove(0)) {
                served.put_route("a", &format!("r{number}"), 1, full);
                number += 1;
            }
        }
        // The API refuses such names itself.
        let key = cluster_with_route_named(text);
        assert!(!is_taken("metadata.name", text, key));
    }
    assert!(number > 10, "some values are taken literally");
    has_known_sections_only(&served);
}

fn cluster_with_route_named(name: &str) -> Result<(), crate::router::model::Refusal> {
    let mut cluster = cluster();
    let key = cluster.put_route("a", name, 1, json!({"host": "h.test"}));
    cluster.model(Default::default()).verdicts(Source::Route, &key).unwrap().remove(0)
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
    use runtime::controller::Key;
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
            let verdict = cluster.model(rules).verdicts(Source::Ingress, &key).unwrap().remove(0);
            if is_taken(&field, text, verdict) {
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

/// A folder whose name would need quotes is refused at the start.
#[test]
fn places_need_no_quotes() {
    assert!(Places::new("/var/lib/router".as_ref()).is_ok());
    for bad in ["relative", "/a b", "/a'b", "/a\nb", "/a\"b"] {
        assert!(Places::new(bad.as_ref()).is_err(), "{bad:?}");
    }
}

/// Which claims are served without a reload, and by which sort of spare.
#[test]
fn claims_fit_spares() {
    use spare::Pool::{Edge, Http, SplitEdge, SplitHttp, SplitTcp, Tcp, TunedEdge, TunedHttp};
    let settings = Arc::new(settings(&[]));
    let haproxy = |name: &str, value: &str| json!({format!("haproxy.router.openshift.io/{name}"): value});
    let edge = json!({"termination": "edge"});
    let more = json!([{"kind": "Service", "name": "t", "weight": 0}]);
    for (spec, pools) in [
        (json!({}), &[Http, TunedHttp][..]),
        (json!({"tls": edge}), &[Edge, TunedEdge]),
        (json!({"tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Redirect"}}), &[Edge, TunedEdge]),
        (json!({"tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Allow"}}), &[Http, TunedHttp]),
        (json!({"tls": {"termination": "reencrypt"}}), &[Edge, TunedEdge]),
        (json!({"tls": {"termination": "passthrough"}}), &[Tcp]),
        (json!({"path": "/x"}), &[TunedHttp]),
        (json!({"path": "/x", "tls": edge}), &[TunedEdge]),
        (json!({"annotations": haproxy("timeout", "1s")}), &[TunedHttp]),
        (json!({"annotations": haproxy("timeout", "0")}), &[]),
        (json!({"annotations": haproxy("timeout-tunnel", "1h")}), &[TunedHttp]),
        (json!({"annotations": haproxy("ip_allowlist", "10.0.0.1 fd00::1")}), &[TunedHttp]),
        (json!({"annotations": haproxy("ip_allowlist", "nobody"), "tls": edge}), &[TunedEdge]),
        (json!({"annotations": haproxy("pod-concurrent-connections", "7")}), &[Http, TunedHttp]),
        (json!({"alternateBackends": more}), &[SplitHttp]),
        (json!({"alternateBackends": more, "path": "/x"}), &[SplitHttp]),
        (json!({"alternateBackends": more, "tls": edge}), &[SplitEdge]),
        (json!({"alternateBackends": more, "tls": {"termination": "passthrough"}}), &[SplitTcp]),
        (json!({"annotations": haproxy("ip_allowlist", "10.0.0.1"), "tls": {"termination": "passthrough"}}), &[]),
        (json!({"annotations": haproxy("balance", "leastconn")}), &[]),
        (json!({"annotations": haproxy("rewrite-target", "/")}), &[]),
        (json!({"annotations": haproxy("disable_cookies", "true")}), &[]),
        (json!({"annotations": haproxy("hsts_header", "max-age=1"), "tls": edge}), &[]),
        (json!({"annotations": haproxy("set-forwarded-headers", "never")}), &[]),
    ] {
        let mut cluster = cluster();
        let mut full = json!({"host": "h.test"});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let key = cluster.put_route("a", "r", 1, full);
        let model = cluster.model(Default::default());
        let claim = &model.backend(&crate::router::model::Id::route(key)).unwrap().claim;
        assert_eq!(spare::fitting(claim, &settings).0, pools, "{spec}");
    }
}
