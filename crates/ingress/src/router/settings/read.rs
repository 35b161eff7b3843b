//! From variables to settings, collecting every mistake.

use super::{
    AccessLog, Admission, Forwarded, Http, IpMode, Listen, LogTo, Mistake, ProxyProtocol, Reload, Resources, Settings,
    Stats, Timeouts, Tls,
};
use crate::router::{
    log_format::{self, Place},
    model::{Direction, HeaderRule, header_rule},
    text,
};
use net::{Cidr, Family, HasFamily};
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

/// The variables, and what is wrong with them so far.
pub(super) struct Reader {
    variables: BTreeMap<String, String>,
    mistakes: Vec<Mistake>,
}

/// Intermediate compatibility, as Mozilla publishes it and OpenShift uses it by default.
const INTERMEDIATE: &str = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:\
DHE-RSA-AES256-GCM-SHA384";
const SUITES: &str = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
/// Upstream's form of a unique id: client, frontend, time, number of the request, process.
const UNIQUE_ID: &str = "%{+X}o %ci:%cp_%fi:%fp_%Ts_%rt:%pid";
const ALGORITHMS: &str = "random, roundrobin, leastconn, source";

impl Reader {
    pub(super) fn new(variables: BTreeMap<String, String>) -> Self {
        Self { variables, mistakes: Vec::new() }
    }

    pub(super) fn into_mistakes(self) -> Vec<Mistake> {
        self.mistakes
    }

    fn mistake(&mut self, variable: &str, problem: String) {
        self.mistakes.push(Mistake { variable: variable.to_owned(), problem });
    }

    fn unusable(&mut self, variable: &str, value: &str, accepted: &str) {
        self.mistake(variable, format!("{value:?} cannot be used; accepted: {accepted}"));
    }

    fn get(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn parsed<T>(&mut self, name: &str, accepted: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = self.get(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.unusable(name, &value, accepted);
        }
        parsed
    }

    fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    fn path(&mut self, name: &str) -> Option<PathBuf> {
        let plain = |value: &str| text::is_plain_file(value).then(|| PathBuf::from(value));
        self.parsed(name, "an absolute path of letters, digits and /-._+@=,", plain)
    }

    /// As Go reads it, with `true` and `TRUE` among others.
    fn flag(&mut self, name: &str, default: bool) -> bool {
        let read = |value: &str| match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        };
        self.parsed(name, "true, false", read).unwrap_or(default)
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str, default: T, accepted: &str, good: fn(&T) -> bool) -> T {
        self.parsed(name, accepted, |value| value.parse().ok().filter(good)).unwrap_or(default)
    }

    fn time(&mut self, name: &str, default: &str) -> String {
        self.parsed(name, "a time such as 30s or 500ms", text::haproxy_time).unwrap_or_else(|| default.to_owned())
    }

    fn duration(&mut self, name: &str, default: u64) -> Duration {
        let read = |value: &str| {
            let (number, unit) =
                value.split_at(value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len());
            let number: u64 = number.parse().ok()?;
            Some(match unit {
                "ms" => Duration::from_millis(number),
                "" | "s" => Duration::from_secs(number),
                "m" => Duration::from_secs(number.checked_mul(60)?),
                "h" => Duration::from_secs(number.checked_mul(3600)?),
                _ => return None,
            })
        };
        self.parsed(name, "a time such as 5s or 1m", read).unwrap_or_else(|| Duration::from_secs(default))
    }

    /// Words of letters, digits and a few signs: what names of ciphers, versions and types consist of.
    fn words(&mut self, name: &str, default: &str, extra: &'static [u8]) -> String {
        let plain = |value: &str| value.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b));
        let accepted = "letters, digits and the signs that such names have";
        self.parsed(name, accepted, |value| plain(value).then(|| value.to_owned()))
            .unwrap_or_else(|| default.to_owned())
    }

    fn one_of(&mut self, name: &str, default: &str, accepted: &str) -> String {
        let known = |value: &str| accepted.split(", ").any(|one| one == value).then(|| value.to_owned());
        self.parsed(name, accepted, known).unwrap_or_else(|| default.to_owned())
    }

    /// A text in HAProxy's log format. It may come as it stands in a configuration file, with a backslash before spaces.
    fn log_format(&mut self, name: &str, place: Place) -> Option<String> {
        let read =
            |value: &str| Some(unquoted(value).replace("\\ ", " ")).filter(|text| log_format::is_usable(text, place));
        self.parsed(name, place.accepted(), read)
    }

    fn list(&self, name: &str) -> Vec<String> {
        let words = self.text(name);
        words.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    }

    fn domains(&mut self, name: &str) -> Vec<String> {
        let domains = self.list(name);
        let bad = domains.iter().find(|domain| !text::is_host(domain)).cloned();
        if let Some(bad) = bad {
            self.unusable(name, &bad, "domains between commas");
        }
        domains.into_iter().map(|domain| domain.to_ascii_lowercase()).collect()
    }

    /// A file's content wins over the variable itself.
    fn or_file(&mut self, name: &str) -> Option<String> {
        let file = format!("{name}_FILE");
        let Some(path) = self.path(&file) else { return self.get(name) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Err(error) => {
                self.mistake(&file, format!("{} cannot be read: {error}", path.display()));
                None
            }
        }
    }
}

pub(super) fn settings(reader: &mut Reader) -> Settings {
    let host = |reader: &mut Reader, name| {
        reader.parsed(name, "a host name", |value| text::is_host(value).then(|| value.to_owned())).unwrap_or_default()
    };
    Settings {
        name: reader.get("ROUTER_SERVICE_NAME").unwrap_or_else(|| "default".to_owned()),
        canonical_hostname: host(reader, "ROUTER_CANONICAL_HOSTNAME"),
        update_status: reader.flag("ROUTER_UPDATE_STATUS", true),
        admission: admission(reader),
        listen: listen(reader),
        tls: tls(reader),
        timeouts: timeouts(reader),
        http: http(reader),
        resources: resources(reader),
        log: access_log(reader),
        reload: Reload {
            interval: reader.duration("RELOAD_INTERVAL", 5).clamp(Duration::from_millis(100), Duration::from_secs(120)),
            pool: reader.number("ROUTER_BLUEPRINT_ROUTE_POOL_SIZE", 50, "a number up to 10000", |n| *n <= 10_000),
            shutdown_delay: reader.duration("ROUTER_GRACEFUL_SHUTDOWN_DELAY", 45),
            shutdown_limit: reader.duration("HAPROXY_MAX_SHUTDOWN_TIMEOUT", 30),
        },
        stats: stats(reader),
    }
}

fn admission(reader: &mut Reader) -> Admission {
    let selector = |reader: &mut Reader, name| {
        reader.parsed(name, "a label selector such as a=b,c in (d,e)", |text| text.parse().ok()).unwrap_or_default()
    };
    let domain = reader.parsed("ROUTER_DOMAIN", "a domain", |value| text::is_host(value).then(|| value.to_owned()));
    Admission {
        domain: domain.unwrap_or_default().to_ascii_lowercase(),
        routes: selector(reader, "ROUTE_LABELS"),
        namespaces: selector(reader, "NAMESPACE_LABELS"),
        allowed_domains: reader.domains("ROUTER_ALLOWED_DOMAINS"),
        denied_domains: reader.domains("ROUTER_DENIED_DOMAINS"),
        wildcards: reader.flag("ROUTER_ALLOW_WILDCARD_ROUTES", false),
        shared_hosts: reader.flag("ROUTER_DISABLE_NAMESPACE_OWNERSHIP_CHECK", false),
        ingress_classes: reader.list("ROUTER_INGRESS_CLASSES"),
    }
}

fn listen(reader: &mut Reader) -> Listen {
    let mode = |value: &str| match value {
        "v4" => Some(IpMode::V4),
        "v6" => Some(IpMode::V6),
        "v4v6" => Some(IpMode::V4V6),
        _ => None,
    };
    let port = |reader: &mut Reader, name, default| reader.number(name, default, "a port", |port: &u16| *port != 0);
    let (http, https) = (port(reader, "ROUTER_SERVICE_HTTP_PORT", 80), port(reader, "ROUTER_SERVICE_HTTPS_PORT", 443));
    let stats = port(reader, "STATS_PORT", 1936);
    if http == https || http == stats || https == stats {
        let all = "ROUTER_SERVICE_HTTP_PORT, ROUTER_SERVICE_HTTPS_PORT, STATS_PORT";
        reader.mistake(all, format!("{http}, {https}, {stats} must differ"));
    }
    let blocks = |text: &str| {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let blocks: Option<Vec<Cidr>> = words.map(|word| word.parse::<Cidr>().ok()).collect();
        blocks.filter(|blocks| !blocks.is_empty())
    };
    let trusted = reader.parsed("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "CIDRs of both families between commas", blocks);
    let proxy_protocol = match (reader.flag("ROUTER_USE_PROXY_PROTOCOL", false), trusted) {
        (false, _) => ProxyProtocol::Off,
        (true, None) => ProxyProtocol::Everybody,
        (true, Some(trusted)) => ProxyProtocol::From(trusted),
    };
    let mode = reader.parsed("ROUTER_IP_V4_V6_MODE", "v4, v6, v4v6", mode).unwrap_or_default();
    let split_headers = reader.flag("ROUTER_PROXY_PROTOCOL_SPLIT_HEADERS", true);
    let only = reader.parsed("ROUTER_LISTEN_ADDRESSES", "an address, or one of each family between commas", |text| {
        net::flags::one_or_pair::<IpAddr>("ROUTER_LISTEN_ADDRESSES", text).ok()
    });
    let given = |family: &Family| only.as_ref().is_none_or(|only| only.iter().any(|ip| ip.family() == *family));
    if !mode.families().iter().any(given) {
        let text = reader.text("ROUTER_LISTEN_ADDRESSES");
        reader
            .mistake("ROUTER_LISTEN_ADDRESSES", format!("{text:?} has no address of a family of ROUTER_IP_V4_V6_MODE"));
    }
    Listen { mode, only, http, https, stats, proxy_protocol, split_headers }
}

fn tls(reader: &mut Reader) -> Tls {
    let ciphers = match reader.text("ROUTER_CIPHERS").as_str() {
        "" | "intermediate" => INTERMEDIATE.to_owned(),
        "modern" => INTERMEDIATE.split(':').filter(|name| name.starts_with("ECDHE")).collect::<Vec<_>>().join(":"),
        "old" => format!(
            "{INTERMEDIATE}:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256:AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA256"
        ),
        _ => reader.words("ROUTER_CIPHERS", INTERMEDIATE, b":-_+!@=."),
    };
    const VERSIONS: &str = "TLSv1.0, TLSv1.1, TLSv1.2, TLSv1.3";
    let client_auth = reader.one_of("ROUTER_MUTUAL_TLS_AUTH", "", "required, optional, none");
    let client_ca = reader.path("ROUTER_MUTUAL_TLS_AUTH_CA");
    if !matches!(client_auth.as_str(), "" | "none") && client_ca.is_none() {
        reader.mistake("ROUTER_MUTUAL_TLS_AUTH", format!("{client_auth:?} needs ROUTER_MUTUAL_TLS_AUTH_CA"));
    }
    Tls {
        default_pem: reader.get("DEFAULT_CERTIFICATE").map(runtime::secret::Secret::new),
        default_path: reader.path("DEFAULT_CERTIFICATE_PATH"),
        default_folder: reader.path("DEFAULT_CERTIFICATE_DIR"),
        destination_ca: reader.path("DEFAULT_DESTINATION_CA_PATH"),
        ciphers,
        ciphersuites: reader.words("ROUTER_CIPHERSUITES", SUITES, b":_"),
        curves: reader.words("ROUTER_CURVES", "", b":-_"),
        min_version: reader.one_of("SSL_MIN_VERSION", "TLSv1.2", VERSIONS),
        max_version: reader.one_of("SSL_MAX_VERSION", "", VERSIONS),
        strict_sni: reader.flag("ROUTER_STRICT_SNI", false),
        http2: !reader.flag("ROUTER_DISABLE_HTTP2", false),
        client_auth,
        client_ca,
        client_crl: reader.path("ROUTER_MUTUAL_TLS_AUTH_CRL"),
        client_subjects: reader.parsed("ROUTER_MUTUAL_TLS_AUTH_FILTER", "a regular expression in one line", |value| {
            text::is_printable(value).then(|| value.to_owned())
        }),
    }
}

fn timeouts(reader: &mut Reader) -> Timeouts {
    Timeouts {
        connect: reader.time("ROUTER_DEFAULT_CONNECT_TIMEOUT", "5s"),
        client: reader.time("ROUTER_DEFAULT_CLIENT_TIMEOUT", "30s"),
        client_fin: reader.time("ROUTER_CLIENT_FIN_TIMEOUT", "1s"),
        server: reader.time("ROUTER_DEFAULT_SERVER_TIMEOUT", "30s"),
        server_fin: reader.time("ROUTER_DEFAULT_SERVER_FIN_TIMEOUT", "1s"),
        tunnel: reader.time("ROUTER_DEFAULT_TUNNEL_TIMEOUT", "1h"),
        request: reader.time("ROUTER_SLOWLORIS_TIMEOUT", "10s"),
        keep_alive: reader.time("ROUTER_SLOWLORIS_HTTP_KEEPALIVE", "300s"),
        inspect: reader.time("ROUTER_INSPECT_DELAY", "5s"),
        check: reader.time("ROUTER_BACKEND_CHECK_INTERVAL", "5000ms"),
        hard_stop: reader.parsed("ROUTER_HARD_STOP_AFTER", "a time such as 1h", text::haproxy_time),
    }
}

fn http(reader: &mut Reader) -> Http {
    let forwarded = |value: &str| Forwarded::named(value);
    let token = |value: &str| text::is_token(value).then(|| value.to_owned());
    let mime = reader.words("ROUTER_COMPRESSION_MIME", "text/html text/plain text/css", b" /+-.*;=\"");
    let compression = reader.flag("ROUTER_ENABLE_COMPRESSION", false);
    Http {
        forwarded: reader
            .parsed("ROUTER_SET_FORWARDED_HEADERS", "append, replace, if-none, never", forwarded)
            .unwrap_or_default(),
        cookie_name: reader.parsed("ROUTER_COOKIE_NAME", "a cookie's name", token),
        unique_id_header: reader.parsed("ROUTER_UNIQUE_ID_HEADER_NAME", "a header's name", token),
        unique_id_format: reader
            .log_format("ROUTER_UNIQUE_ID_FORMAT", Place::UniqueId)
            .unwrap_or_else(|| UNIQUE_ID.to_owned()),
        case_adjust: case_adjust(reader),
        compression: compression.then(|| media_types(&mime)),
        error_503: reader.path("ROUTER_ERRORFILE_503"),
        error_404: reader.path("ROUTER_ERRORFILE_404"),
        ignore_probes: reader.flag("ROUTER_HTTP_IGNORE_PROBES", false),
        idle_close_on_response: reader.flag("ROUTER_IDLE_CLOSE_ON_RESPONSE", false),
        abort_on_close: reader.flag("ROUTER_ABORT_ON_CLOSE", false),
        request_headers: header_rules(reader, "ROUTER_HTTP_REQUEST_HEADERS", Direction::Request),
        response_headers: header_rules(reader, "ROUTER_HTTP_RESPONSE_HEADERS", Direction::Response),
        captures: captures(reader),
    }
}

/// Names of headers, each in one spelling.
fn case_adjust(reader: &mut Reader) -> Vec<String> {
    let name = "ROUTER_H1_CASE_ADJUST";
    let mut adjusted: BTreeMap<String, String> = BTreeMap::new();
    for (at, word) in reader.list(name).iter().enumerate() {
        let known = adjusted.entry(word.to_ascii_lowercase()).or_insert_with(|| word.clone()).clone();
        if !text::is_token(word) || known != *word {
            reader.unusable(&format!("{name}[{at}]"), word, "names of headers, each in one spelling");
        }
    }
    adjusted.into_values().collect()
}

/// `NAME:VALUE:Set` and `NAME:Delete` between commas, with everything else that could be a separator escaped as in URLs.
fn header_rules(reader: &mut Reader, name: &str, direction: Direction) -> Vec<HeaderRule> {
    let rule = |word: &str| match word.split(':').collect::<Vec<_>>()[..] {
        [name, value, "Set"] => header_rule(&decoded(name)?, Some(&decoded(value)?), direction),
        [name, "Delete"] => header_rule(&decoded(name)?, None, direction),
        _ => None,
    };
    let mut rules = Vec::new();
    for (at, word) in reader.text(name).split(',').filter(|word| !word.is_empty()).enumerate() {
        match rule(word) {
            Some(rule) => rules.push(rule),
            None => {
                let accepted = format!(
                    "NAME:VALUE:Set and NAME:Delete, escaped as in URLs; a name other than host, cookie, set-cookie, proxy and \
                     strict-transport-security; a value of {}",
                    direction.place().accepted()
                );
                let shown = decoded(word).unwrap_or_else(|| word.to_owned());
                reader.unusable(&format!("{name}[{at}]"), &shown, &accepted);
            }
        }
    }
    rules
}

/// Undoes percent signs.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match byte {
            b'%' => bytes.push(u8::try_from(digit(rest.next())? << 4 | digit(rest.next())?).ok()?),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Headers and the cookie that logs show, each `NAME:LENGTH`.
fn captures(reader: &mut Reader) -> Vec<String> {
    let one = |word: &str, what: &str, ending: &str| {
        let (name, length) = word.rsplit_once(':')?;
        let length: u32 = length.parse().ok().filter(|length| (1..=65_535).contains(length))?;
        text::is_token(name.trim_end_matches(ending)).then(|| format!("capture {what} {name} len {length}"))
    };
    let accepted = "NAME:LENGTH between commas";
    let mut all = Vec::new();
    for (name, what) in [
        ("ROUTER_CAPTURE_HTTP_REQUEST_HEADERS", "request header"),
        ("ROUTER_CAPTURE_HTTP_RESPONSE_HEADERS", "response header"),
    ] {
        let read: Option<Vec<String>> =
            reader.parsed(name, accepted, |text| text.split(',').map(|word| one(word, what, ":")).collect());
        all.extend(read.unwrap_or_default());
    }
    all.extend(reader.parsed("ROUTER_CAPTURE_HTTP_COOKIE", "NAME:LENGTH", |word| one(word, "cookie", "=")));
    all
}

/// Media types between spaces; some stand in quotes and have parameters, which HAProxy does not compare.
fn media_types(text: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches('"').split(';').next().unwrap_or_default().trim_matches('"').to_owned();
    text.split(' ').map(bare).filter(|word| word.contains('/')).collect()
}

/// Without the quotes and escapes that a text has in a configuration file, if it has them.
fn unquoted(text: &str) -> String {
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => text.to_owned(),
    }
}

impl Forwarded {
    /// As the variable and the annotation have it.
    pub(crate) fn named(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "append" => Self::Append,
            "replace" => Self::Replace,
            "if-none" => Self::IfNone,
            "never" => Self::Never,
            _ => return None,
        })
    }
}

fn resources(reader: &mut Reader) -> Resources {
    let connections = |value: &str| match value {
        "auto" | "0" => Some(None),
        number => number.parse().ok().filter(|number| (100..=2_000_000).contains(number)).map(Some),
    };
    Resources {
        max_connections: reader
            .parsed("ROUTER_MAX_CONNECTIONS", "a number from 100 to 2000000, or auto", connections)
            .unwrap_or(Some(50_000)),
        open_files: None,
        threads: reader.number("ROUTER_THREADS", 4, "a number from 1 to 64", |threads| (1..=64).contains(threads)),
        buffer: reader
            .number("ROUTER_BUF_SIZE", 32_768, "a number from 16384 to 1048576", |n| (16_384..=1 << 20).contains(n)),
        rewrite: reader.number("ROUTER_MAX_REWRITE_SIZE", 8_192, "a number from 4096 to 524288", |n| {
            (4_096..=1 << 19).contains(n)
        }),
        balance: reader.one_of("ROUTER_LOAD_BALANCE_ALGORITHM", "random", ALGORITHMS),
        tcp_balance: reader.one_of("ROUTER_TCP_BALANCE_SCHEME", "source", ALGORITHMS),
    }
}

fn access_log(reader: &mut Reader) -> Option<AccessLog> {
    let to = |value: &str| match value {
        "stdout" => Some(LogTo::Stdout),
        socket if socket.starts_with('/') => text::is_plain_file(socket).then(|| LogTo::Syslog(socket.to_owned())),
        other => {
            let (host, port) = other.rsplit_once(':')?;
            let address = host.trim_start_matches('[').trim_end_matches(']');
            let known = net::parse_ip(address).is_ok() || text::is_host(address);
            (known && port.parse::<u16>().is_ok()).then(|| LogTo::Syslog(other.replace(['[', ']'], "")))
        }
    };
    let to = reader.parsed("ROUTER_SYSLOG_ADDRESS", "ADDRESS:PORT, a socket's path, or stdout", to);
    const LEVELS: &str = "emerg, alert, crit, err, warning, notice, info, debug";
    const FACILITIES: &str = "kern, user, mail, daemon, auth, syslog, lpr, news, uucp, cron, auth2, ftp, ntp, audit, alert, cron2, local0, local1, local2, local3, local4, local5, local6, local7";
    let log = AccessLog {
        facility: reader.one_of("ROUTER_LOG_FACILITY", "local1", FACILITIES),
        level: reader.one_of("ROUTER_LOG_LEVEL", "info", LEVELS),
        max_length: reader
            .number("ROUTER_LOG_MAX_LENGTH", 1024, "a number from 80 to 65535", |n| (80..=65_535).contains(n)),
        format: reader.log_format("ROUTER_SYSLOG_FORMAT", Place::AccessLog),
        not_empty: reader.flag("ROUTER_DONT_LOG_NULL", false),
        to: to.clone().unwrap_or(LogTo::Stdout),
    };
    to.map(|_| log)
}

fn stats(reader: &mut Reader) -> Stats {
    Stats {
        username: reader.or_file("STATS_USERNAME"),
        password: reader.or_file("STATS_PASSWORD").map(runtime::secret::Secret::new),
    }
}
