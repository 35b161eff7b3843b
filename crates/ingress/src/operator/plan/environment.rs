//! The environment of a router: `ROUTER_*` and its like, upstream's names. What is not needed is absent, never "false".

use super::{Input, live, proxy_protocol::UnknownPlatform, tls};
use crate::{
    operator::{names, strategy},
    router::settings::{Mistake, Settings},
};
use api::config::{LoadBalancerKind, PublishingKind, ingress_controller::Selector};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::Value;
use std::collections::BTreeMap;

/// Names and values.
pub type Environment = BTreeMap<String, String>;

/// Where a router finds the authority of clients' certificates, and the file's name.
pub const CLIENT_CA: &str = "/etc/pki/tls/client-ca";
/// See [`CLIENT_CA`]; also the key in the ConfigMap.
pub const CLIENT_CA_FILE: &str = "ca-bundle.pem";
/// Where a router finds pages for errors.
pub const ERROR_PAGES: &str = "/var/lib/haproxy/errorfiles";
/// The variables for them, and the files' names, which are also the keys in the ConfigMap.
pub const ERROR_FILES: [(&str, &str); 2] =
    [("ROUTER_ERRORFILE_503", "error-page-503.http"), ("ROUTER_ERRORFILE_404", "error-page-404.http")];

/// The ports that routers listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Plain HTTP.
    pub http: u16,
    /// TLS.
    pub https: u16,
    /// Health, metrics and statistics.
    pub stats: u16,
}

/// 80, 443 and 1936 but where the host's ports are used.
pub fn ports(input: Input<'_>) -> Ports {
    let strategy = &input.admission.strategy;
    let host = strategy.host_network.as_ref().filter(|_| strategy.kind == PublishingKind::HostNetwork);
    let port = |given: Option<u16>, default| given.filter(|port| *port != 0).unwrap_or(default);
    Ports {
        http: port(host.and_then(|host| host.http_port), 80),
        https: port(host.and_then(|host| host.https_port), 443),
        stats: port(host.and_then(|host| host.stats_port), 1936),
    }
}

/// Lengths of time among the tuning options, and their variables.
const TIMES: [(&str, &str); 9] = [
    ("clientTimeout", "ROUTER_DEFAULT_CLIENT_TIMEOUT"),
    ("clientFinTimeout", "ROUTER_CLIENT_FIN_TIMEOUT"),
    ("serverTimeout", "ROUTER_DEFAULT_SERVER_TIMEOUT"),
    ("serverFinTimeout", "ROUTER_DEFAULT_SERVER_FIN_TIMEOUT"),
    ("tunnelTimeout", "ROUTER_DEFAULT_TUNNEL_TIMEOUT"),
    ("connectTimeout", "ROUTER_DEFAULT_CONNECT_TIMEOUT"),
    ("httpKeepAliveTimeout", "ROUTER_SLOWLORIS_HTTP_KEEPALIVE"),
    ("tlsInspectDelay", "ROUTER_INSPECT_DELAY"),
    ("healthCheckInterval", "ROUTER_BACKEND_CHECK_INTERVAL"),
];

/// Where the other variables whose values a router may refuse come from.
const FIELDS: [(&str, &str); 25] = [
    ("ROUTER_DOMAIN", "spec.domain"),
    ("ROUTER_CANONICAL_HOSTNAME", "spec.domain"),
    ("NAMESPACE_LABELS", "spec.namespaceSelector"),
    ("ROUTE_LABELS", "spec.routeSelector"),
    ("ROUTER_CIPHERS", "spec.tlsSecurityProfile.custom.ciphers"),
    ("ROUTER_CIPHERSUITES", "spec.tlsSecurityProfile.custom.ciphers"),
    ("ROUTER_CURVES", "spec.tlsSecurityProfile.custom.groups"),
    ("ROUTER_MUTUAL_TLS_AUTH_FILTER", "spec.clientTLS.allowedSubjectPatterns"),
    ("ROUTER_UNIQUE_ID_HEADER_NAME", "spec.httpHeaders.uniqueId.name"),
    ("ROUTER_UNIQUE_ID_FORMAT", "spec.httpHeaders.uniqueId.format"),
    ("ROUTER_H1_CASE_ADJUST", "spec.httpHeaders.headerNameCaseAdjustments"),
    ("ROUTER_HTTP_REQUEST_HEADERS", "spec.httpHeaders.actions.request"),
    ("ROUTER_HTTP_RESPONSE_HEADERS", "spec.httpHeaders.actions.response"),
    ("ROUTER_COMPRESSION_MIME", "spec.httpCompression.mimeTypes"),
    ("ROUTER_SYSLOG_ADDRESS", "spec.logging.access.destination.syslog.address"),
    ("ROUTER_SYSLOG_FORMAT", "spec.logging.access.httpLogFormat"),
    ("ROUTER_LOG_FACILITY", "spec.logging.access.destination.syslog.facility"),
    ("ROUTER_LOG_MAX_LENGTH", "spec.logging.access.destination: maxLength"),
    ("ROUTER_CAPTURE_HTTP_REQUEST_HEADERS", "spec.logging.access.httpCaptureHeaders.request"),
    ("ROUTER_CAPTURE_HTTP_RESPONSE_HEADERS", "spec.logging.access.httpCaptureHeaders.response"),
    ("ROUTER_CAPTURE_HTTP_COOKIE", "spec.logging.access.httpCaptureCookies"),
    ("ROUTER_THREADS", "spec.tuningOptions.threadCount"),
    ("ROUTER_BUF_SIZE", "spec.tuningOptions.headerBufferBytes"),
    ("ROUTER_MAX_REWRITE_SIZE", "spec.tuningOptions.headerBufferMaxRewriteBytes"),
    ("ROUTER_MAX_CONNECTIONS", "spec.tuningOptions.maxConnections"),
];

/// The field that a variable comes from.
fn field(input: Input<'_>, variable: &str) -> String {
    let (name, number) =
        variable.split_once('[').map_or((variable, String::new()), |(name, rest)| (name, format!("[{rest}")));
    let tuned = TIMES.iter().find(|(_, other)| *other == name).map(|(field, _)| format!("spec.tuningOptions.{field}"));
    let listed = || FIELDS.iter().find(|(other, _)| *other == name).map(|(_, field)| (*field).to_owned());
    let annotated = || {
        let own = |key: &str| input.controller.annotations().contains_key(key);
        match name {
            "ROUTER_HARD_STOP_AFTER" if own(names::HARD_STOP_AFTER) => {
                Some(format!("metadata.annotations[{}]", names::HARD_STOP_AFTER))
            }
            "ROUTER_HARD_STOP_AFTER" => {
                Some(format!("Ingress configuration \"cluster\", metadata.annotations[{}]", names::HARD_STOP_AFTER))
            }
            "ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS" => Some(format!("metadata.annotations[{}]", names::PROXY_SENDERS)),
            _ => None,
        }
    };
    tuned.or_else(listed).or_else(annotated).unwrap_or_else(|| name.to_owned()) + &number
}

/// What a router would refuse to start with, by the field that it comes from: the router's own reading decides, so that the two never
/// differ. While the platform is not known no router is told anything.
pub fn mistakes(input: Input<'_>) -> Vec<String> {
    let refused = environment(input, None).ok().and_then(|all| Settings::from_environment(all).err());
    // Ports that clash are told by their own fields.
    let is_new = |mistake: &Mistake| !mistake.variable.starts_with("ROUTER_SERVICE_HTTP_PORT,");
    let line = |mistake: Mistake| format!("{}: {}", field(input, &mistake.variable), mistake.problem);
    refused.into_iter().flatten().filter(is_new).map(line).collect()
}

/// What the spec asks for and routers do not do, one sentence each.
pub fn without_effect(input: Input<'_>) -> Vec<String> {
    let spec = &input.controller.spec;
    let mut all = Vec::new();
    let rest = |field: &str| spec.rest.get(field).and_then(Value::as_str).unwrap_or_default();
    let version = rest("haproxyVersion");
    if !version.is_empty() {
        all.push(format!("spec.haproxyVersion {version:?} has no effect: routers run the HAProxy of their image"));
    }
    let tuning = spec.tuning_options.clone().unwrap_or_default();
    let word = |field: &str| tuning.rest.get(field).and_then(Value::as_str);
    if word("configurationManagement") == Some("ForkAndReload") {
        all.push(
            "spec.tuningOptions.configurationManagement \"ForkAndReload\" has no effect: what can change without a reload does"
                .to_owned(),
        );
    }
    for field in TIMES.iter().map(|(field, _)| *field).chain(["reloadInterval"]) {
        let Some(text) = word(field) else { continue };
        let used = match strategy::milliseconds(text) {
            None => "the default",
            Some(1..1000) if field == "reloadInterval" => "1s",
            Some(120_001..) if field == "reloadInterval" => "2m",
            Some(_) => continue,
        };
        all.push(format!("spec.tuningOptions.{field} {text:?} has no effect: {used} is used"));
    }
    let overrides = spec.rest.get("unsupportedConfigOverrides").and_then(Value::as_object);
    for (name, value) in overrides.into_iter().flatten() {
        let known = name == "loadBalancingAlgorithm" && (value == "leastconn" || value == "random");
        // Everything is changed while routers run, as this asks for.
        let usual = name == "dynamicConfigManager" && value == "true";
        if !known && !usual {
            all.push(format!("spec.unsupportedConfigOverrides.{name} {value} has no effect"));
        }
    }
    let senders = input.controller.annotations().contains_key(names::PROXY_SENDERS);
    if senders && super::proxy_protocol::needed(input, None) == Ok(false) {
        all.push(format!("metadata.annotations[{}] has no effect without the PROXY protocol", names::PROXY_SENDERS));
    }
    all
}

pub fn environment(input: Input<'_>, live: Option<&Service>) -> Result<Environment, UnknownPlatform> {
    let mut all = Environment::new();
    let mut put = |name: &str, value: &str| {
        all.insert(name.to_owned(), value.to_owned());
    };
    let (spec, cluster, ports) = (&input.controller.spec, input.cluster, ports(input));
    let domain = &input.admission.domain;
    put("ROUTER_SERVICE_NAMESPACE", names::OPERAND_NAMESPACE);
    put("ROUTER_SERVICE_NAME", &input.names.controller);
    put("ROUTER_DOMAIN", domain);
    put("ROUTER_CANONICAL_HOSTNAME", &format!("router-{}.{domain}", input.names.controller));
    put("STATS_PORT", &ports.stats.to_string());
    put("ROUTER_METRICS_TYPE", "haproxy");
    put("ROUTER_TCP_BALANCE_SCHEME", "source");
    put("ROUTER_ENABLE_EXTERNAL_CERTIFICATE", "true");
    let annotation = |key: &str| input.controller.annotations().get(key).filter(|value| !value.is_empty());
    if super::proxy_protocol::needed(input, live)? {
        put("ROUTER_USE_PROXY_PROTOCOL", "true");
        if let Some(senders) = annotation(names::PROXY_SENDERS) {
            put("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", senders);
        }
    }
    if let Some(mode) = cluster.ip_mode() {
        put("ROUTER_IP_V4_V6_MODE", mode);
    }
    if input.admission.strategy.kind == PublishingKind::HostNetwork {
        put("ROUTER_SERVICE_HTTP_PORT", &ports.http.to_string());
        put("ROUTER_SERVICE_HTTPS_PORT", &ports.https.to_string());
    }
    for (name, selector) in [("NAMESPACE_LABELS", &spec.namespace_selector), ("ROUTE_LABELS", &spec.route_selector)] {
        if let Some(text) = selector.as_ref().map(selector_text).filter(|text| !text.is_empty()) {
            put(name, &text);
        }
    }
    let admission = spec.route_admission.clone().unwrap_or_default();
    let allowed = |given: &str, word: &str| if given == word { "true" } else { "false" };
    let across = allowed(&admission.namespace_ownership, "InterNamespaceAllowed");
    put("ROUTER_DISABLE_NAMESPACE_OWNERSHIP_CHECK", across);
    put("ROUTER_ALLOW_WILDCARD_ROUTES", allowed(&admission.wildcard_policy, "WildcardsAllowed"));
    // What the IngressController says comes before what the Ingress configuration says for all of them.
    let http2 = annotation(names::HTTP2).or(cluster.http2.as_ref()).is_some_and(|value| value == "true");
    put("ROUTER_DISABLE_HTTP2", if http2 { "false" } else { "true" });
    if let Some(after) = annotation(names::HARD_STOP_AFTER).or(cluster.hard_stop_after.as_ref()) {
        put("ROUTER_HARD_STOP_AFTER", after);
    }
    let overrides = spec.rest.get("unsupportedConfigOverrides").unwrap_or(&Value::Null);
    let balance = overrides["loadBalancingAlgorithm"].as_str().filter(|word| *word == "leastconn");
    put("ROUTER_LOAD_BALANCE_ALGORITHM", balance.unwrap_or("random"));
    tls_words(input, &mut put);
    headers(input, &mut put);
    logging(input, &mut put);
    tuning(input, live, &mut put);
    Ok(all)
}

fn tls_words(input: Input<'_>, put: &mut impl FnMut(&str, &str)) {
    let spec = &input.controller.spec;
    let tls = tls::resolve(tls::profile(input));
    for (name, list) in
        [("ROUTER_CIPHERS", &tls.ciphers), ("ROUTER_CIPHERSUITES", &tls.suites), ("ROUTER_CURVES", &tls.groups)]
    {
        if !list.is_empty() {
            put(name, &list.join(":"));
        }
    }
    put("SSL_MIN_VERSION", tls.min_version);
    let Some(client) = spec.client_tls.as_ref() else { return };
    let policy = match client.client_certificate_policy.as_str() {
        "Required" => "required",
        "Optional" => "optional",
        _ => return,
    };
    put("ROUTER_MUTUAL_TLS_AUTH", policy);
    put("ROUTER_MUTUAL_TLS_AUTH_CA", &format!("{CLIENT_CA}/{CLIENT_CA_FILE}"));
    if !client.allowed_subject_patterns.is_empty() {
        let patterns: Vec<String> = client.allowed_subject_patterns.iter().map(|one| format!("(?:{one})")).collect();
        put("ROUTER_MUTUAL_TLS_AUTH_FILTER", &patterns.join("|"));
    }
}

fn headers(input: Input<'_>, put: &mut impl FnMut(&str, &str)) {
    let spec = &input.controller.spec;
    let headers = spec.http_headers.clone().unwrap_or_default();
    put(
        "ROUTER_SET_FORWARDED_HEADERS",
        match headers.forwarded_header_policy.as_str() {
            "Replace" => "replace",
            "IfNone" => "if-none",
            "Never" => "never",
            _ => "append",
        },
    );
    if let Some(unique) = headers.unique_id.filter(|unique| !unique.name.is_empty()) {
        put("ROUTER_UNIQUE_ID_HEADER_NAME", &unique.name);
        let form = if unique.format.is_empty() { "%{+X}o\\ %ci:%cp_%fi:%fp_%Ts_%rt:%pid" } else { &unique.format };
        put("ROUTER_UNIQUE_ID_FORMAT", form);
    }
    if !headers.header_name_case_adjustments.is_empty() {
        put("ROUTER_H1_CASE_ADJUST", &headers.header_name_case_adjustments.join(","));
    }
    for (name, side) in [("ROUTER_HTTP_REQUEST_HEADERS", "request"), ("ROUTER_HTTP_RESPONSE_HEADERS", "response")] {
        let actions = headers.rest.get("actions").and_then(|actions| actions[side].as_array());
        let words: Vec<String> = actions.into_iter().flatten().map(action).collect();
        if !words.is_empty() {
            put(name, &words.join(","));
        }
    }
    let types = spec.http_compression.clone().unwrap_or_default().mime_types;
    if !types.is_empty() {
        put("ROUTER_ENABLE_COMPRESSION", "true");
        let quoted = |one: &String| if one.contains(' ') { format!("\"{one}\"") } else { one.clone() };
        put("ROUTER_COMPRESSION_MIME", &types.iter().map(quoted).collect::<Vec<_>>().join(" "));
    }
    if spec.http_error_code_pages.as_ref().is_some_and(|pages| !pages.name.is_empty()) {
        for (name, file) in ERROR_FILES {
            put(name, &format!("{ERROR_PAGES}/{file}"));
        }
    }
    let word = |field: &str| spec.rest.get(field).and_then(Value::as_str).unwrap_or_default();
    if word("httpEmptyRequestsPolicy") == "Ignore" {
        put("ROUTER_HTTP_IGNORE_PROBES", "true");
    }
    if word("idleConnectionTerminationPolicy") == "Deferred" {
        put("ROUTER_IDLE_CLOSE_ON_RESPONSE", "true");
    }
    if word("closedClientConnectionPolicy") == "Abort" {
        put("ROUTER_ABORT_ON_CLOSE", "true");
    }
}

/// `name:value:Set` or `name:Delete`, with what could be taken for a separator escaped.
fn action(action: &Value) -> String {
    let text = |value: &Value| escaped(value.as_str().unwrap_or_default());
    match action["action"]["type"].as_str() {
        Some("Set") => format!("{}:{}:Set", text(&action["name"]), text(&action["action"]["set"]["value"])),
        _ => format!("{}:Delete", text(&action["name"])),
    }
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn logging(input: Input<'_>, put: &mut impl FnMut(&str, &str)) {
    let Some(access) = input.controller.spec.logging.as_ref().and_then(|logging| logging.access.as_ref()) else {
        return;
    };
    let (address, longest, facility) = match (&access.destination.syslog, access.destination.kind.as_str()) {
        (Some(syslog), "Syslog") => {
            let host = match syslog.address.contains(':') {
                true => format!("[{}]", syslog.address),
                false => syslog.address.clone(),
            };
            (format!("{host}:{}", syslog.port), syslog.max_length, syslog.facility.clone())
        }
        _ => {
            let container = access.destination.container.clone().unwrap_or_default();
            // The router's own output is the container's.
            ("stdout".to_owned(), container.max_length, String::new())
        }
    };
    put("ROUTER_SYSLOG_ADDRESS", &address);
    put("ROUTER_LOG_LEVEL", "info");
    if let Some(longest) = longest {
        put("ROUTER_LOG_MAX_LENGTH", &longest.to_string());
    }
    if !facility.is_empty() {
        put("ROUTER_LOG_FACILITY", &facility);
    }
    if !access.http_log_format.is_empty() {
        put("ROUTER_SYSLOG_FORMAT", &format!("{:?}", access.http_log_format));
    }
    if access.log_empty_requests == "Ignore" {
        put("ROUTER_DONT_LOG_NULL", "true");
    }
    for (name, side) in
        [("ROUTER_CAPTURE_HTTP_REQUEST_HEADERS", "request"), ("ROUTER_CAPTURE_HTTP_RESPONSE_HEADERS", "response")]
    {
        let list = access.rest.get("httpCaptureHeaders").and_then(|some| some[side].as_array());
        let word = |one: &Value| format!("{}:{}", one["name"].as_str().unwrap_or_default(), one["maxLength"]);
        let words: Vec<String> = list.into_iter().flatten().map(word).collect();
        if !words.is_empty() {
            put(name, &words.join(","));
        }
    }
    if let Some(cookie) = access.rest.get("httpCaptureCookies").and_then(|list| list.get(0)) {
        let name = match cookie["matchType"].as_str() {
            Some("Exact") => format!("{}=", cookie["name"].as_str().unwrap_or_default()),
            _ => cookie["namePrefix"].as_str().unwrap_or_default().to_owned(),
        };
        put("ROUTER_CAPTURE_HTTP_COOKIE", &format!("{name}:{}", cookie["maxLength"]));
    }
}

/// Times, sizes and counts; what is absent is the router's own default.
fn tuning(input: Input<'_>, live: Option<&Service>, put: &mut impl FnMut(&str, &str)) {
    let tuning = input.controller.spec.tuning_options.clone().unwrap_or_default();
    let length = |field: &str| {
        let text = tuning.rest.get(field).and_then(Value::as_str)?;
        strategy::milliseconds(text).filter(|length| *length > 0)
    };
    for (field, name) in TIMES {
        if let Some(length) = length(field) {
            put(name, &haproxy_time(length));
        } else if field == "tunnelTimeout" && live::effective_kind(input, live) == Some(LoadBalancerKind::Nlb) {
            // A network load balancer forgets a silent connection after 350 s; the router must be first.
            put(name, "349s");
        }
    }
    let reload = length("reloadInterval").map_or(5000, |length| length.clamp(1000, 120_000));
    put("RELOAD_INTERVAL", &haproxy_time(reload));
    put("ROUTER_THREADS", &tuning.thread_count.filter(|count| *count > 0).unwrap_or(4).to_string());
    for (name, size) in [
        ("ROUTER_BUF_SIZE", tuning.header_buffer_bytes),
        ("ROUTER_MAX_REWRITE_SIZE", tuning.header_buffer_max_rewrite_bytes),
    ] {
        if let Some(size) = size.filter(|size| *size != 0) {
            put(name, &size.to_string());
        }
    }
    match tuning.max_connections {
        None | Some(0) => {}
        Some(-1) => put("ROUTER_MAX_CONNECTIONS", "auto"),
        Some(count) => put("ROUTER_MAX_CONNECTIONS", &count.to_string()),
    }
}

/// HAProxy knows no fractions.
fn haproxy_time(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1000) { format!("{}s", milliseconds / 1000) } else { format!("{milliseconds}ms") }
}

/// As `kubectl -l` takes it.
pub fn selector_text(selector: &Selector) -> String {
    serde_json::to_value(selector).map(|selector| api::kinds::selector::text(&selector)).unwrap_or_default()
}
