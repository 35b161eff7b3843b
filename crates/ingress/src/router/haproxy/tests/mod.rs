//! Generated configurations, checked by HAProxy itself, and hostile objects that must not get into them.

mod frontends;
mod hostile;

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
        let layout = Layout::new(folder.path()).unwrap();
        let service_ca = testing::certificate("ca.test").0;
        let files =
            Files { settings, layout: &layout, default_certificate: &default_certificate(), service_ca: &service_ca };
        write(files, 1, model).unwrap();
        let config = fs::read_to_string(layout.config(1)).unwrap();
        Self { folder, config }
    }

    /// Whether HAProxy takes it. Where there is no HAProxy, the end-to-end tests say so.
    fn check(&self) {
        let layout = Layout::new(self.folder.path()).unwrap();
        match Process::new("haproxy", layout).check(1) {
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

/// The port of the request is not the port of https; who asks the router itself, on a port that is not the usual one, is led to its other one.
#[test]
fn redirects_lead_to_the_port_of_https() {
    let written = Written::new(&settings(&[]), &cluster().model(Default::default()));
    let host = "http-request set-var(txn.host) var(txn.host),host_only,rtrim(.)";
    assert!(written.section("frontend public ").contains(&host));
    let redirect = "http-request redirect code 302 location https://%[var(txn.host)]%[pathq]";
    assert_eq!(written.section("backend to_https "), [redirect]);
    let own = settings(&[("ROUTER_SERVICE_HTTP_PORT", "10080"), ("ROUTER_SERVICE_HTTPS_PORT", "10443")]);
    let written = Written::new(&own, &cluster().model(Default::default()));
    let direct = "http-request redirect code 302 location https://%[var(txn.host)]:10443%[pathq] if { req.fhdr(Host) -m end :10080 }";
    assert_eq!(written.section("backend to_https "), [direct, redirect]);
    written.check();
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
    // The default one is first, and under no name that somebody might ask for.
    assert!(list.lines().next().is_some_and(|line| line.ends_with(".pem default.invalid")), "{list}");
    let alpn: Vec<(bool, bool, bool)> = list
        .lines()
        .skip(1)
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
            ("ROUTER_UNIQUE_ID_FORMAT", "\"%{+X}o\\\\ %ci it's %[uuid]\""),
            ("ROUTER_H1_CASE_ADJUST", "X-Odd,Content-Length"),
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
    let service_ca = written.folder.path().join("certificates/service-ca.pem");
    assert!(written.config.contains(&format!("verify required ca-file {} verifyhost s.a.svc", service_ca.display())));
    for wanted in [
        r"http-request set-header 'X-A' 'it'\''s'",
        "http-request del-header 'X-B'",
        "http-response set-header 'X-C' 'a b'",
        "capture request header Referer len 10",
        "capture cookie session= len 9",
        r"unique-id-format '%{+X}o %ci it'\''s %[uuid]'",
        "option h1-case-adjust-bogus-client",
    ] {
        assert!(written.section("frontend fe_tls").contains(&wanted), "{wanted}");
    }
    assert!(written.config.contains(r"acl subject_allowed ssl_c_s_dn -m reg '^/CN=(a|it'\''s)$'"));
    written.check();
}

/// A folder whose name would need quotes is refused at the start.
#[test]
fn places_need_no_quotes() {
    assert!(Layout::new("/var/lib/router".as_ref()).is_ok());
    for bad in ["relative", "/a b", "/a'b", "/a\nb", "/a\"b"] {
        assert!(Layout::new(bad.as_ref()).is_err(), "{bad:?}");
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
