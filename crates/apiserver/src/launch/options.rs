//! What an administrator decides about an API server. Filled in by the command line, one field per flag or group of flags.

use crate::{
    admission::Plugins,
    audit::Target,
    delegated::{Oidc, TokenWebhookSettings, WebhookSettings},
    kubelet,
    services::{KubernetesService, RuleSet},
};
use access::{
    Mode,
    authn::{Anonymous, RequestHeader, service_account::Settings},
};
use net::{DualStack, PortRange, ServiceRange};
use runtime::{http::Limits, listen::Hosts};
use std::{net::IpAddr, path::PathBuf, time::Duration};
use store::EtcdConfig;

/// Everything `twinstack apiserver` can be told.
#[derive(Clone, Debug)]
pub struct ApiServerOptions {
    /// `--data-dir`: state, certificates and the administrator's kubeconfig.
    pub data_dir: PathBuf,
    /// Whether the administrator's kubeconfig is written there: not where `--data-dir` is left out and nothing but certificates is kept.
    pub writes_kubeconfig: bool,
    /// `--etcd-servers` and its kin; without them state is kept in the data folder.
    pub etcd: Option<EtcdConfig>,
    /// `--encryption-provider-config`.
    pub encryption: Option<PathBuf>,
    /// `--bind-address`.
    pub hosts: Hosts,
    /// Where it listens besides, on the same port: at the interface of a lab, whose nodes do not see the machine's loopback.
    pub also: Option<DualStack<IpAddr>>,
    /// `--secure-port`; 0 takes a free one.
    pub port: u16,
    /// `--advertise-address`: where other machines reach this server; found out from the machine's addresses when not given.
    pub advertise: Option<DualStack<IpAddr>>,
    /// `--endpoint-reconciler-type`.
    pub endpoint_reconciler: EndpointReconciler,
    /// `--cert-dir`; `pki` in the data folder when not given.
    pub cert_dir: Option<PathBuf>,
    /// `--tls-cert-file` and `--tls-private-key-file`.
    pub serving: Option<(PathBuf, PathBuf)>,
    /// `--client-ca-file`: who else signs client certificates.
    pub client_ca: Option<PathBuf>,
    /// `--requestheader-*` and `--proxy-client-*`.
    pub front_proxy: FrontProxyOptions,
    /// `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// `--enable-bootstrap-token-auth`.
    pub bootstrap_tokens: bool,
    /// `--anonymous-auth`.
    pub anonymous: Anonymous,
    /// `--authentication-config` or `--oidc-*`.
    pub issuers: Option<IssuerSource>,
    /// `--authentication-token-webhook-*`.
    pub token_webhook: Option<TokenWebhookSettings>,
    /// `--authorization-mode`, or what `--authorization-config` says.
    pub authorization: AuthorizationSource,
    /// `--service-account-*` and `--api-audiences`.
    pub tokens: Tokens,
    /// `--enable-admission-plugins`, `--disable-admission-plugins` and `--admission-control-config-file`.
    pub admission: Plugins,
    /// `--allow-privileged`.
    pub allow_privileged: bool,
    /// `--service-cluster-ip-range`; the first is the default family.
    pub service_ranges: DualStack<ServiceRange>,
    /// `--service-node-port-range`; none means that no Service gets one.
    pub node_ports: Option<PortRange>,
    /// `--service-family-rules`.
    pub service_family_rules: RuleSet,
    /// `--dual-stack-kubernetes-service`.
    pub kubernetes_service: KubernetesService,
    /// `--audit-log-path` and its kin.
    pub audit: Option<Audit>,
    /// `--max-connections` and `--max-connections-per-source`, and how patient the sockets are.
    pub limits: Limits,
    /// `--enable-priority-and-fairness`.
    pub priority_and_fairness: bool,
    /// `--max-requests-inflight`.
    pub max_requests: usize,
    /// `--max-mutating-requests-inflight`.
    pub max_mutating_requests: usize,
    /// `--request-timeout`, for requests that do not last by their nature.
    pub request_timeout: Duration,
    /// `--event-ttl`.
    pub event_ttl: Duration,
    /// `--kubelet-*`.
    pub kubelets: kubelet::settings::Settings,
}

/// How users are vouched for, by this server towards others and by others towards it.
#[derive(Clone, Debug, Default)]
pub struct FrontProxyOptions {
    /// `--proxy-client-cert-file` and `--proxy-client-key-file`.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// `--requestheader-client-ca-file`: who signs the certificates of front proxies.
    pub authority: Option<PathBuf>,
    /// `--requestheader-*-headers*` and `--requestheader-allowed-names`.
    pub headers: RequestHeader,
}

/// Who else issues tokens.
#[derive(Clone, Debug)]
pub enum IssuerSource {
    File(PathBuf),
    Flags(Oidc),
}

/// Who says who may what.
#[derive(Clone, Debug)]
pub enum AuthorizationSource {
    /// In this order; where `Webhook` stands in it, the webhook of the flags is asked.
    Modes(Vec<AuthorizationMode>),
    File(PathBuf),
}

/// One word of `--authorization-mode`.
#[derive(Clone, Debug)]
pub enum AuthorizationMode {
    Own(Mode),
    Webhook(WebhookSettings),
}

impl From<Vec<Mode>> for AuthorizationSource {
    fn from(modes: Vec<Mode>) -> Self {
        Self::Modes(modes.into_iter().map(AuthorizationMode::Own).collect())
    }
}

/// Who writes the endpoints of the `kubernetes` Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointReconciler {
    /// Every server, for all that hold a lease.
    Lease,
    /// Nobody.
    None,
}

/// Service account tokens.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// `--service-account-issuer`: who signs.
    pub issuer: String,
    /// The others of that list, who are believed too.
    pub other_issuers: Vec<String>,
    /// `--service-account-signing-key-file`; one is made in the certificate folder when not given.
    pub signing_key: Option<PathBuf>,
    /// `--service-account-key-file`: further keys that are believed.
    pub key_files: Vec<PathBuf>,
    /// `--api-audiences`.
    pub audiences: Vec<String>,
    /// `--service-account-max-token-expiration`.
    pub max_expiration: Option<Duration>,
    /// `--service-account-extend-token-expiration`.
    pub extend_expiration: bool,
}

impl Tokens {
    /// The same for whoever signs and checks them.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new(&self.issuer);
        settings.other_issuers.clone_from(&self.other_issuers);
        if !self.audiences.is_empty() {
            settings.audiences = self.audiences.clone();
        }
        settings.extend_expiration = self.extend_expiration;
        settings.max_expiration = self.max_expiration.and_then(|limit| i64::try_from(limit.as_secs()).ok());
        settings
    }
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    /// `--audit-policy-file`; metadata of everything without it.
    pub policy: Option<PathBuf>,
    /// `--audit-log-path`, `--audit-log-maxsize`, `--audit-log-maxbackup`.
    pub target: Target,
}
