//! What the ROUTER_* environment says, read once at the start. Names and defaults are those of the OpenShift router.

mod read;
#[cfg(test)]
mod tests;

use super::{model::HeaderRule, select::Selector};
use net::{Cidr, DualStack, Family, HasFamily};
use read::Reader;
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

/// Everything the environment decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// ROUTER_SERVICE_NAME: under which name this router writes status.
    pub name: String,
    /// ROUTER_CANONICAL_HOSTNAME: what aliases in DNS should point to.
    pub canonical_hostname: String,
    /// ROUTER_UPDATE_STATUS.
    pub update_status: bool,
    /// Which Routes and Ingresses are this router's.
    pub admission: Admission,
    /// Where it listens.
    pub listen: Listen,
    /// TLS towards clients and pods.
    pub tls: Tls,
    /// Times, as HAProxy writes them.
    pub timeouts: Timeouts,
    /// HTTP towards clients and pods.
    pub http: Http,
    /// Sizes and algorithms.
    pub resources: Resources,
    /// Access logs, if any.
    pub log: Option<AccessLog>,
    /// When and how HAProxy is replaced.
    pub reload: Reload,
    /// Who may read metrics.
    pub stats: Stats,
}

/// Which objects a router takes.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// ROUTER_DOMAIN: below it Routes without a host get one.
    pub domain: String,
    /// ROUTE_LABELS.
    pub routes: Selector,
    /// NAMESPACE_LABELS.
    pub namespaces: Selector,
    /// ROUTER_ALLOWED_DOMAINS; empty is all.
    pub allowed_domains: Vec<String>,
    /// ROUTER_DENIED_DOMAINS.
    pub denied_domains: Vec<String>,
    /// ROUTER_ALLOW_WILDCARD_ROUTES.
    pub wildcards: bool,
    /// ROUTER_DISABLE_NAMESPACE_OWNERSHIP_CHECK: paths of a host may belong to different namespaces.
    pub shared_hosts: bool,
    /// Names of IngressClasses that are this router's whatever their controller (ROUTER_INGRESS_CLASSES).
    pub ingress_classes: Vec<String>,
}

impl Admission {
    /// Whether a rule without a host may be served: it asks for every host that nobody has claimed, so every host must be to be
    /// had.
    pub fn hostless(&self) -> bool {
        self.wildcards && self.allowed_domains.is_empty() && self.denied_domains.is_empty()
    }
}

/// ROUTER_IP_V4_V6_MODE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpMode {
    /// IPv4 alone.
    #[default]
    V4,
    /// IPv6 alone.
    V6,
    /// Both, on a socket each.
    V4V6,
}

impl IpMode {
    /// The families to listen on.
    pub fn families(self) -> &'static [Family] {
        match self {
            Self::V4 => &[Family::V4],
            Self::V6 => &[Family::V6],
            Self::V4V6 => &[Family::V4, Family::V6],
        }
    }
}

/// Who sends the PROXY protocol on the traffic ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Nobody.
    #[default]
    Off,
    /// Everybody; connections without it are refused.
    Everybody,
    /// Senders in these blocks; everybody else is served as without the protocol.
    From(Vec<Cidr>),
}

impl ProxyProtocol {
    /// Whether this sender has to begin with the header.
    pub fn expected_from(&self, sender: IpAddr) -> bool {
        match self {
            Self::Off => false,
            Self::Everybody => true,
            Self::From(blocks) => blocks.iter().any(|block| block.contains(sender)),
        }
    }
}

/// Where it listens.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Which families.
    pub mode: IpMode,
    /// ROUTER_LISTEN_ADDRESSES: at most one of each family, for all ports; every address of the machine when not given.
    pub only: Option<DualStack<IpAddr>>,
    /// ROUTER_SERVICE_HTTP_PORT.
    pub http: u16,
    /// ROUTER_SERVICE_HTTPS_PORT.
    pub https: u16,
    /// STATS_PORT: health and metrics; never speaks the PROXY protocol.
    pub stats: u16,
    /// ROUTER_USE_PROXY_PROTOCOL and ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS.
    pub proxy_protocol: ProxyProtocol,
    /// ROUTER_PROXY_PROTOCOL_SPLIT_HEADERS: whether the header may arrive in pieces.
    pub split_headers: bool,
}

impl Listen {
    /// An address of each family that there is.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.mode.families().iter().filter_map(|family| match &self.only {
            Some(only) => only.iter().find(|address| address.family() == *family).copied(),
            None => Some(family.unspecified()),
        })
    }
}

/// TLS towards clients and pods.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// DEFAULT_CERTIFICATE: PEM of certificate and key.
    pub default_pem: Option<runtime::secret::Secret<String>>,
    /// DEFAULT_CERTIFICATE_PATH: a file with both.
    pub default_path: Option<PathBuf>,
    /// DEFAULT_CERTIFICATE_DIR: a folder with tls.crt and tls.key.
    pub default_folder: Option<PathBuf>,
    /// DEFAULT_DESTINATION_CA_PATH: what pods are checked against when a Route does not say.
    pub destination_ca: Option<PathBuf>,
    /// ROUTER_CIPHERS, as OpenSSL has them.
    pub ciphers: String,
    /// ROUTER_CIPHERSUITES, for TLS 1.3.
    pub ciphersuites: String,
    /// ROUTER_CURVES.
    pub curves: String,
    /// SSL_MIN_VERSION.
    pub min_version: String,
    /// SSL_MAX_VERSION.
    pub max_version: String,
    /// ROUTER_STRICT_SNI: no default certificate for unknown names.
    pub strict_sni: bool,
    /// Unless ROUTER_DISABLE_HTTP2.
    pub http2: bool,
    /// ROUTER_MUTUAL_TLS_AUTH: `required`, `optional` or nothing.
    pub client_auth: String,
    /// ROUTER_MUTUAL_TLS_AUTH_CA.
    pub client_ca: Option<PathBuf>,
    /// ROUTER_MUTUAL_TLS_AUTH_CRL.
    pub client_crl: Option<PathBuf>,
    /// ROUTER_MUTUAL_TLS_AUTH_FILTER: a regular expression for subjects; others are refused.
    pub client_subjects: Option<String>,
}

/// Times, as HAProxy writes them.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// ROUTER_DEFAULT_CONNECT_TIMEOUT.
    pub connect: String,
    /// ROUTER_DEFAULT_CLIENT_TIMEOUT.
    pub client: String,
    /// ROUTER_CLIENT_FIN_TIMEOUT.
    pub client_fin: String,
    /// ROUTER_DEFAULT_SERVER_TIMEOUT.
    pub server: String,
    /// ROUTER_DEFAULT_SERVER_FIN_TIMEOUT.
    pub server_fin: String,
    /// ROUTER_DEFAULT_TUNNEL_TIMEOUT.
    pub tunnel: String,
    /// ROUTER_SLOWLORIS_TIMEOUT: for a request's headers.
    pub request: String,
    /// ROUTER_SLOWLORIS_HTTP_KEEPALIVE.
    pub keep_alive: String,
    /// ROUTER_INSPECT_DELAY: for the beginning of TLS.
    pub inspect: String,
    /// ROUTER_BACKEND_CHECK_INTERVAL.
    pub check: String,
    /// ROUTER_HARD_STOP_AFTER: how long a replaced HAProxy may finish; for ever when not given.
    pub hard_stop: Option<String>,
}

/// ROUTER_SET_FORWARDED_HEADERS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarded {
    /// Adds to what is there.
    #[default]
    Append,
    /// Replaces what is there.
    Replace,
    /// Only where nothing is there.
    IfNone,
    /// Leaves everything as it is.
    Never,
}

/// HTTP towards clients and pods.
#[derive(Clone, Debug, Default)]
pub struct Http {
    /// What X-Forwarded-* and Forwarded say.
    pub forwarded: Forwarded,
    /// ROUTER_COOKIE_NAME.
    pub cookie_name: Option<String>,
    /// ROUTER_UNIQUE_ID_HEADER_NAME.
    pub unique_id_header: Option<String>,
    /// ROUTER_UNIQUE_ID_FORMAT, in HAProxy's log format.
    pub unique_id_format: String,
    /// ROUTER_H1_CASE_ADJUST: names of headers as clients that cannot read lower case have them.
    pub case_adjust: Vec<String>,
    /// ROUTER_ENABLE_COMPRESSION with ROUTER_COMPRESSION_MIME.
    pub compression: Option<Vec<String>>,
    /// ROUTER_ERRORFILE_503.
    pub error_503: Option<PathBuf>,
    /// ROUTER_ERRORFILE_404.
    pub error_404: Option<PathBuf>,
    /// ROUTER_HTTP_IGNORE_PROBES.
    pub ignore_probes: bool,
    /// ROUTER_IDLE_CLOSE_ON_RESPONSE: when HAProxy is replaced, connections that wait for a request are served one more.
    pub idle_close_on_response: bool,
    /// ROUTER_ABORT_ON_CLOSE.
    pub abort_on_close: bool,
    /// ROUTER_HTTP_REQUEST_HEADERS.
    pub request_headers: Vec<HeaderRule>,
    /// ROUTER_HTTP_RESPONSE_HEADERS.
    pub response_headers: Vec<HeaderRule>,
    /// What logs show besides: ROUTER_CAPTURE_HTTP_REQUEST_HEADERS, _RESPONSE_HEADERS and _COOKIE, in HAProxy's words.
    pub captures: Vec<String>,
}

/// Sizes and algorithms.
#[derive(Clone, Debug)]
pub struct Resources {
    /// ROUTER_MAX_CONNECTIONS; none leaves it to HAProxy.
    pub max_connections: Option<u32>,
    /// How many files the machine lets HAProxy open; none without a limit.
    pub open_files: Option<u64>,
    /// ROUTER_THREADS.
    pub threads: u16,
    /// ROUTER_BUF_SIZE.
    pub buffer: u32,
    /// ROUTER_MAX_REWRITE_SIZE.
    pub rewrite: u32,
    /// ROUTER_LOAD_BALANCE_ALGORITHM.
    pub balance: String,
    /// ROUTER_TCP_BALANCE_SCHEME.
    pub tcp_balance: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// ROUTER_SYSLOG_ADDRESS.
    pub to: LogTo,
    /// ROUTER_LOG_FACILITY.
    pub facility: String,
    /// ROUTER_LOG_LEVEL.
    pub level: String,
    /// ROUTER_LOG_MAX_LENGTH.
    pub max_length: u32,
    /// ROUTER_SYSLOG_FORMAT; HAProxy's own format for HTTP when not given.
    pub format: Option<String>,
    /// ROUTER_DONT_LOG_NULL.
    pub not_empty: bool,
}

impl AccessLog {
    /// Whether lines come to the router first: for its own output, and for a socket that HAProxy does not see.
    pub fn goes_through_router(&self, jailed: bool) -> bool {
        match &self.to {
            LogTo::Stdout => true,
            LogTo::Syslog(address) => jailed && address.starts_with('/'),
        }
    }
}

/// Where access logs go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTo {
    /// This process's standard output.
    Stdout,
    /// A syslog server: address with port, or a socket's path.
    Syslog(String),
}

/// When and how HAProxy is replaced.
#[derive(Clone, Debug)]
pub struct Reload {
    /// RELOAD_INTERVAL: shortest time between two.
    pub interval: Duration,
    /// ROUTER_BLUEPRINT_ROUTE_POOL_SIZE: spare backends of each sort that take new Routes without one.
    pub pool: usize,
    /// ROUTER_GRACEFUL_SHUTDOWN_DELAY: how long it goes on serving, not ready, after being told to stop.
    pub shutdown_delay: Duration,
    /// HAPROXY_MAX_SHUTDOWN_TIMEOUT: how long connections may finish after that.
    pub shutdown_limit: Duration,
}

/// Who may read metrics.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// STATS_USERNAME or STATS_USERNAME_FILE.
    pub username: Option<String>,
    /// STATS_PASSWORD or STATS_PASSWORD_FILE.
    pub password: Option<runtime::secret::Secret<String>>,
}

/// A variable that ends the router at its start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct Mistake {
    /// Its name, with a number in brackets where it is one of a list.
    pub variable: String,
    /// Its value and what is accepted.
    pub problem: String,
}

impl Settings {
    /// Reads the environment. Every mistake is told, with the variable, its value and what is accepted.
    pub fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, Vec<Mistake>> {
        let variables: BTreeMap<String, String> = variables.into_iter().collect();
        let mut reader = Reader::new(variables);
        let settings = read::settings(&mut reader);
        let mistakes = reader.into_mistakes();
        if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
    }
}
