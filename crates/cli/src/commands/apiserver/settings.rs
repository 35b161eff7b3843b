//! The flags of the API server, and what they say as `apiserver::launch::ApiServerOptions`; every mistake in them is noted before anything
//! happens.

use crate::{
    flag::{
        DefaultFlag, Flag, addresses, count, duration, file, flags, folder, hosts, port, switch, text, word, words,
    },
    read,
};
use access::{
    Mode,
    authn::{Anonymous, RequestHeader},
};
use apiserver::{
    admission::{AdmissionConfiguration, Plugins},
    audit::Target,
    delegated::{FailurePolicy, Oidc, TokenWebhookSettings, WebhookSettings},
    kubelet::settings::{AddressTypes, Settings as Kubelets},
    launch::{
        ApiServerOptions, Audit, AuthorizationMode, AuthorizationSource, EndpointReconciler, FrontProxyOptions,
        IssuerSource, Tokens,
    },
    services::{KubernetesService, RuleSet},
};
use net::{DualStack, HasFamily, PortRange, ServiceRange};
use runtime::{
    config::Settings,
    http::Limits,
    listen::Hosts,
    pki::{Bundle, Identity},
};
use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};
use store::{AsItIs, EtcdConfig, EtcdTls, Retention};

flags! {
    pub(crate) FLAGS:
    DATA_DIR: Flag<PathBuf> = folder("data-dir", "where state, certificates and admin.kubeconfig are kept; beside --etcd-servers and --cert-dir it may be left out");
    BIND_ADDRESS: DefaultFlag<Hosts> = hosts("bind-address", "where to listen: one address, one of each family, or :: for both").or("::");
    SECURE_PORT: DefaultFlag<u16> = port("secure-port", "port for HTTPS; 0 takes a free one").or("6443");
    ADVERTISE_ADDRESS: Flag<DualStack<IpAddr>> = addresses("advertise-address", "where other machines reach this server, one address or one of each family, that of the first service range first; found out from the machine when not given").accepted("addresses that other machines reach");
    ENDPOINT_RECONCILER_TYPE: DefaultFlag<EndpointReconciler> = Flag::new("endpoint-reconciler-type", "TYPE", "lease, none", endpoint_reconciler, "who writes the endpoints of the kubernetes Service: every server that is alive (lease), or nobody (none)").or("lease");
    // Two ranges that no one routes; IPv4 first, as most clusters have it.
    SERVICE_CLUSTER_IP_RANGE: DefaultFlag<DualStack<ServiceRange>> = Flag::new("service-cluster-ip-range", "CIDR[,CIDR]", "", service_ranges, "addresses for Services, one range or one of each family; the first is the default family").or("10.96.0.0/16,fd00:10:96::/112");
    SERVICE_NODE_PORT_RANGE: DefaultFlag<Option<PortRange>> = Flag::new("service-node-port-range", "FIRST-LAST", "", node_ports, "ports for Services on every node, both families alike").or_shown(|| Some(PortRange::NODE_PORTS), |range| range.map(|range| range.to_string()).unwrap_or_default());
    SERVICE_FAMILY_RULES: DefaultFlag<RuleSet> = Flag::new("service-family-rules", "RULES", "seed, upstream", read::parsed, "what a Service may leave out: seed (two families mean both, clusterIPs alone will do) or upstream (as kube-apiserver)").or("seed");
    DUAL_STACK_KUBERNETES_SERVICE: DefaultFlag<bool> = switch("dual-stack-kubernetes-service", "give the kubernetes Service an address of each family that Services have").or("false");
    ETCD_SERVERS: Flag<Vec<String>> = words("etcd-servers", "URL,...", "URLs such as https://[::1]:2379", "keep state in etcd instead of the data folder");
    ETCD_PREFIX: DefaultFlag<String> = text("etcd-prefix", "PREFIX", "a prefix", "where in etcd").or("/registry");
    ETCD_CAFILE: Flag<Vec<u8>> = bytes("etcd-cafile", "who signs etcd's certificates");
    ETCD_CERTFILE: Flag<Vec<u8>> = bytes("etcd-certfile", "certificate to show to etcd");
    ETCD_KEYFILE: Flag<Vec<u8>> = bytes("etcd-keyfile", "its key");
    ENCRYPTION_PROVIDER_CONFIG: Flag<PathBuf> = file("encryption-provider-config", "EncryptionConfiguration: which values are encrypted at rest, by which keys");
    CERT_DIR: Flag<PathBuf> = folder("cert-dir", "where certificates are kept; pki in the data folder when not given");
    TLS_CERT_FILE: Flag<PathBuf> = file("tls-cert-file", "certificate to show to clients; made when not given");
    TLS_PRIVATE_KEY_FILE: Flag<PathBuf> = file("tls-private-key-file", "its key");
    CLIENT_CA_FILE: Flag<PathBuf> = file("client-ca-file", "who signs clients' certificates, beside the server's own authority");
    PROXY_CLIENT_CERT_FILE: Flag<PathBuf> = file("proxy-client-cert-file", "certificate to show to aggregated API servers; made when not given");
    PROXY_CLIENT_KEY_FILE: Flag<PathBuf> = file("proxy-client-key-file", "its key");
    REQUESTHEADER_CLIENT_CA_FILE: Flag<PathBuf> = file("requestheader-client-ca-file", "who signs the certificates of front proxies, whose X-Remote-* headers are believed");
    REQUESTHEADER_ALLOWED_NAMES: DefaultFlag<Vec<String>> = words("requestheader-allowed-names", "NAME,...", "names", "common names of those certificates; all when not given").or("");
    REQUESTHEADER_USERNAME_HEADERS: DefaultFlag<Vec<String>> = words("requestheader-username-headers", "NAME,...", "names of headers", "headers that name the user").or("X-Remote-User");
    REQUESTHEADER_UID_HEADERS: DefaultFlag<Vec<String>> = words("requestheader-uid-headers", "NAME,...", "names of headers", "headers that name the user's uid").or("X-Remote-Uid");
    REQUESTHEADER_GROUP_HEADERS: DefaultFlag<Vec<String>> = words("requestheader-group-headers", "NAME,...", "names of headers", "headers that name the user's groups").or("X-Remote-Group");
    REQUESTHEADER_EXTRA_HEADERS_PREFIX: DefaultFlag<Vec<String>> = words("requestheader-extra-headers-prefix", "PREFIX,...", "prefixes of headers", "headers with anything else of the user").or("X-Remote-Extra-");
    AUTHENTICATION_CONFIG: Flag<PathBuf> = file("authentication-config", "AuthenticationConfiguration: issuers of JSON Web Tokens, and where nobody needs credentials; followed when it changes");
    OIDC_ISSUER_URL: Flag<String> = word("oidc-issuer-url", "URL", "an https URL", "an issuer of JSON Web Tokens whose users are known here");
    OIDC_CLIENT_ID: DefaultFlag<String> = text("oidc-client-id", "NAME", "a name", "whom its tokens must be for").or("");
    OIDC_CA_FILE: Flag<PathBuf> = file("oidc-ca-file", "who signs its certificate; whom the machine trusts when not given");
    OIDC_USERNAME_CLAIM: DefaultFlag<String> = text("oidc-username-claim", "CLAIM", "a claim", "the claim that is the user's name").or("sub");
    OIDC_USERNAME_PREFIX: DefaultFlag<String> = text("oidc-username-prefix", "PREFIX", "a prefix", "what stands before it; the issuer's URL when not given and the claim is not email, - for nothing").or("");
    OIDC_GROUPS_CLAIM: DefaultFlag<String> = text("oidc-groups-claim", "CLAIM", "a claim", "the claim that lists the user's groups").or("");
    OIDC_GROUPS_PREFIX: DefaultFlag<String> = text("oidc-groups-prefix", "PREFIX", "a prefix", "what stands before each").or("");
    OIDC_REQUIRED_CLAIM: DefaultFlag<Vec<(String, String)>> = Flag::new("oidc-required-claim", "CLAIM=VALUE,...", "claims with their values", required_claims, "claims that every token must have").or("");
    OIDC_SIGNING_ALGS: DefaultFlag<Vec<String>> = words("oidc-signing-algs", "NAME,...", "RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512", "how its tokens may be signed").or("RS256");
    AUTHENTICATION_TOKEN_WEBHOOK_CONFIG_FILE: Flag<PathBuf> = file("authentication-token-webhook-config-file", "kubeconfig of a webhook that knows tokens");
    AUTHENTICATION_TOKEN_WEBHOOK_VERSION: DefaultFlag<String> = Flag::new("authentication-token-webhook-version", "VERSION", "v1, v1beta1", review_version, "version of TokenReview that it is asked with").or("v1beta1");
    AUTHENTICATION_TOKEN_WEBHOOK_CACHE_TTL: DefaultFlag<Duration> = duration("authentication-token-webhook-cache-ttl", "how long its answers are kept").or("2m0s");
    AUTHORIZATION_CONFIG: Flag<PathBuf> = file("authorization-config", "AuthorizationConfiguration: authorizers in their order, webhooks among them; in place of --authorization-mode");
    AUTHORIZATION_WEBHOOK_CONFIG_FILE: Flag<PathBuf> = file("authorization-webhook-config-file", "kubeconfig of a webhook that says who may what, for the mode Webhook");
    AUTHORIZATION_WEBHOOK_VERSION: DefaultFlag<String> = Flag::new("authorization-webhook-version", "VERSION", "v1, v1beta1", review_version, "version of SubjectAccessReview that it is asked with").or("v1beta1");
    AUTHORIZATION_WEBHOOK_CACHE_AUTHORIZED_TTL: DefaultFlag<Duration> = duration("authorization-webhook-cache-authorized-ttl", "how long it counts that it allowed something").or("5m0s");
    AUTHORIZATION_WEBHOOK_CACHE_UNAUTHORIZED_TTL: DefaultFlag<Duration> = duration("authorization-webhook-cache-unauthorized-ttl", "how long it counts that it did not").or("30s");
    TOKEN_AUTH_FILE: Flag<PathBuf> = file("token-auth-file", "CSV of token,user,uid,\"group,...\"");
    ENABLE_BOOTSTRAP_TOKEN_AUTH: DefaultFlag<bool> = switch("enable-bootstrap-token-auth", "let machines in that show the token of a Secret of type bootstrap.kubernetes.io/token in kube-system").or("false");
    ANONYMOUS_AUTH: Flag<bool> = switch("anonymous-auth", "whether requests without credentials are let in (as system:anonymous): true everywhere, false nowhere; only to health and version when not given");
    AUTHORIZATION_MODE: Flag<Vec<Option<Mode>>> = Flag::new("authorization-mode", "MODE,...", "Node, RBAC, Webhook, AlwaysAllow, AlwaysDeny", modes, "who decides, in this order: Node, RBAC, Webhook, AlwaysAllow, AlwaysDeny").otherwise("Node,RBAC");
    ENABLE_ADMISSION_PLUGINS: DefaultFlag<Vec<String>> = words("enable-admission-plugins", "NAME,...", "names of plugins", "plugins to switch on beside those that are: DenyServiceExternalIPs can be").or("");
    DISABLE_ADMISSION_PLUGINS: DefaultFlag<Vec<String>> = words("disable-admission-plugins", "NAME,...", "names of plugins", "plugins to switch off: ServiceAccount, PodSecurity, MutatingAdmissionWebhook, ValidatingAdmissionWebhook, MutatingAdmissionPolicy and ValidatingAdmissionPolicy can be").or("");
    ALLOW_PRIVILEGED: DefaultFlag<bool> = switch("allow-privileged", "whether there may be privileged containers, in any namespace; labels of namespaces say more").or("true");
    ADMISSION_CONTROL_CONFIG_FILE: Flag<AdmissionConfiguration> = Flag::new("admission-control-config-file", "FILE", "a file with an AdmissionConfiguration", |path| AdmissionConfiguration::load(path.as_ref()).map_err(|error| error.to_string()), "AdmissionConfiguration: defaults and exemptions of PodSecurity, what webhooks are shown");
    SERVICE_ACCOUNT_ISSUER: DefaultFlag<(String, Vec<String>)> = Flag::new("service-account-issuer", "URL,...", "URLs", issuers, "issuer of service account tokens; the first signs, all are believed").or("https://kubernetes.default.svc.cluster.local");
    SERVICE_ACCOUNT_SIGNING_KEY_FILE: Flag<PathBuf> = file("service-account-signing-key-file", "key that signs them; made when not given");
    SERVICE_ACCOUNT_KEY_FILE: DefaultFlag<Vec<PathBuf>> = Flag::new("service-account-key-file", "FILE,...", "files", read::paths, "further keys that are believed").or("");
    SERVICE_ACCOUNT_MAX_TOKEN_EXPIRATION: Flag<Duration> = duration("service-account-max-token-expiration", "longest life of a token");
    SERVICE_ACCOUNT_EXTEND_TOKEN_EXPIRATION: DefaultFlag<bool> = switch("service-account-extend-token-expiration", "let the tokens of Pods live on for a year where the Pod asked for an hour, while clients learn to renew them").or("true");
    API_AUDIENCES: DefaultFlag<Vec<String>> = words("api-audiences", "NAME,...", "names", "whom tokens for this API must be for; the issuer when not given").or("");
    AUDIT_LOG_PATH: Flag<Target> = Flag::new("audit-log-path", "FILE", "a file, or -", |text| Ok(Target::from_flag(text)), "write what was asked by whom as JSON lines; - is standard output");
    AUDIT_POLICY_FILE: Flag<PathBuf> = file("audit-policy-file", "what to write; metadata of everything when not given");
    AUDIT_LOG_MAXSIZE: Flag<u64> = Flag::new("audit-log-maxsize", "MEGABYTES", "a number", read::parsed, "rotate the file before it grows past this");
    AUDIT_LOG_MAXBACKUP: DefaultFlag<usize> = count("audit-log-maxbackup", "older files to keep").or_else("", || 0);
    MAX_REQUESTS_INFLIGHT: DefaultFlag<usize> = count("max-requests-inflight", "reads served at a time; together with the next the seats that priority levels share; both 0 is no limit").or("400");
    MAX_MUTATING_REQUESTS_INFLIGHT: DefaultFlag<usize> = count("max-mutating-requests-inflight", "writes served at a time").or("200");
    ENABLE_PRIORITY_AND_FAIRNESS: DefaultFlag<bool> = switch("enable-priority-and-fairness", "obey FlowSchemas and PriorityLevelConfigurations; false leaves the two limits above").or("true");
    MAX_CONNECTIONS: DefaultFlag<usize> = connections("max-connections", "connections at a time; at the limit idle ones make room").or_of(|| Limits::default().connections);
    MAX_CONNECTIONS_PER_SOURCE: DefaultFlag<usize> = connections("max-connections-per-source", "of them from one IPv4 address or IPv6 /64").or_of(|| Limits::default().connections_per_source);
    REQUEST_TIMEOUT: DefaultFlag<Duration> = duration("request-timeout", "time for a request that is no watch and no connection to a node").or("1m0s");
    EVENT_TTL: DefaultFlag<Duration> = duration("event-ttl", "how long Events are kept").or("1h0m0s");
    KUBELET_CERTIFICATE_AUTHORITY: Flag<Bundle> = Flag::new("kubelet-certificate-authority", "FILE", "a file with certificates", |path| Bundle::load(path.as_ref()).map_err(|error| error.to_string()), "who signs kubelets' serving certificates");
    KUBELET_CLIENT_CERTIFICATE: Flag<PathBuf> = file("kubelet-client-certificate", "certificate to show to kubelets");
    KUBELET_CLIENT_KEY: Flag<PathBuf> = file("kubelet-client-key", "its key");
    KUBELET_PREFERRED_ADDRESS_TYPES: DefaultFlag<AddressTypes> = Flag::new("kubelet-preferred-address-types", "TYPE,...", "Hostname, InternalDNS, InternalIP, ExternalDNS, ExternalIP", read::parsed, "which address of a node to use, in this order").or_of(AddressTypes::default);
}

/// What is in a file.
const fn bytes(name: &'static str, help: &'static str) -> Flag<Vec<u8>> {
    Flag::new(name, "FILE", "a readable file", read::bytes, help)
}

/// Without any, nobody could be served.
const fn connections(name: &'static str, help: &'static str) -> Flag<usize> {
    Flag::new(
        name,
        "COUNT",
        "a number from 1 on",
        |text| read::parsed::<std::num::NonZeroUsize>(text).map(usize::from),
        help,
    )
}

fn service_ranges(text: &str) -> Result<DualStack<ServiceRange>, String> {
    net::flags::service_ranges(text).map_err(|mistakes| mistakes.to_string())
}

fn node_ports(text: &str) -> Result<Option<PortRange>, String> {
    net::flags::node_port_range(text).map_err(|mistakes| mistakes.to_string())
}

fn endpoint_reconciler(text: &str) -> Result<EndpointReconciler, String> {
    match text {
        "lease" => Ok(EndpointReconciler::Lease),
        "none" => Ok(EndpointReconciler::None),
        "master-count" => Err("counts servers that are gone; lease does not".to_owned()),
        _ => Err("is no way to write endpoints".to_owned()),
    }
}

/// The first, and the others.
fn issuers(text: &str) -> Result<(String, Vec<String>), String> {
    let mut words = read::words(text)?.into_iter();
    words.next().map(|first| (first, words.collect())).ok_or_else(|| "names nobody".to_owned())
}

/// Reads them all.
pub(crate) fn read(given: &mut Settings) -> Option<ApiServerOptions> {
    let (etcd, cert_dir) = (etcd(given), given.optional(&CERT_DIR));
    let data_dir = given.optional(&DATA_DIR);
    let writes_kubeconfig = data_dir.is_some();
    let data_dir = match (data_dir, &etcd, &cert_dir) {
        (None, Some(_), Some(folder)) => Some(folder.clone()),
        (None, ..) => given.required(&DATA_DIR),
        (folder, ..) => folder,
    };
    let service_ranges = given.get(&SERVICE_CLUSTER_IP_RANGE);
    let advertise = given
        .refined(&ADVERTISE_ADDRESS, |text| net::flags::advertise_address(text, service_ranges.primary().family()));
    let options = ApiServerOptions {
        etcd,
        hosts: given.get(&BIND_ADDRESS),
        also: None,
        port: given.get(&SECURE_PORT),
        advertise,
        endpoint_reconciler: given.get(&ENDPOINT_RECONCILER_TYPE),
        cert_dir,
        serving: pair(given, &TLS_CERT_FILE, &TLS_PRIVATE_KEY_FILE),
        client_ca: given.optional(&CLIENT_CA_FILE),
        front_proxy: front_proxy(given),
        token_file: given.optional(&TOKEN_AUTH_FILE),
        bootstrap_tokens: given.get(&ENABLE_BOOTSTRAP_TOKEN_AUTH),
        anonymous: Anonymous::from_flag(given.optional(&ANONYMOUS_AUTH)),
        issuers: issuers_of_tokens(given),
        token_webhook: token_webhook(given),
        authorization: authorization(given),
        allow_privileged: given.get(&ALLOW_PRIVILEGED),
        tokens: tokens(given),
        admission: admission(given),
        node_ports: given.get(&SERVICE_NODE_PORT_RANGE),
        service_family_rules: given.get(&SERVICE_FAMILY_RULES),
        kubernetes_service: match given.get(&DUAL_STACK_KUBERNETES_SERVICE) {
            true => KubernetesService::Both,
            false => KubernetesService::Primary,
        },
        audit: audit(given),
        limits: Limits {
            connections: given.get(&MAX_CONNECTIONS),
            connections_per_source: given.get(&MAX_CONNECTIONS_PER_SOURCE),
            ..Limits::default()
        },
        priority_and_fairness: given.get(&ENABLE_PRIORITY_AND_FAIRNESS),
        max_requests: given.get(&MAX_REQUESTS_INFLIGHT),
        max_mutating_requests: given.get(&MAX_MUTATING_REQUESTS_INFLIGHT),
        request_timeout: given.get(&REQUEST_TIMEOUT),
        event_ttl: given.get(&EVENT_TTL),
        kubelets: kubelets(given),
        encryption: given.optional(&ENCRYPTION_PROVIDER_CONFIG),
        writes_kubeconfig,
        data_dir: data_dir?,
        service_ranges,
    };
    Some(options)
}

/// None stands for the webhook.
fn modes(text: &str) -> Result<Vec<Option<Mode>>, String> {
    let modes = text.split(',').map(|word| match word.trim() {
        "Node" => Ok(Some(Mode::Node)),
        "RBAC" => Ok(Some(Mode::Rbac)),
        "Webhook" => Ok(None),
        "AlwaysAllow" => Ok(Some(Mode::AlwaysAllow)),
        "AlwaysDeny" => Ok(Some(Mode::AlwaysDeny)),
        other => Err(format!("there is no mode {other:?} here")),
    });
    modes.collect()
}

/// Two files that only make sense together.
fn pair<T>(given: &mut Settings, first: &Flag<T>, second: &Flag<T>) -> Option<(T, T)> {
    match (given.optional(first), given.optional(second)) {
        (Some(one), Some(other)) => Some((one, other)),
        (Some(_), None) => {
            given.reject(first.name, format!("needs --{} beside it", second.name));
            None
        }
        (None, Some(_)) => {
            given.reject(second.name, format!("needs --{} beside it", first.name));
            None
        }
        (None, None) => None,
    }
}

fn required_claims(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = read::words(text)?.into_iter().map(|word| match word.split_once('=') {
        Some((claim, value)) => Ok((claim.to_owned(), value.to_owned())),
        None => Err(format!("{word:?} has no value")),
    });
    pairs.collect()
}

fn review_version(text: &str) -> Result<String, String> {
    match text {
        "v1" | "v1beta1" => Ok(text.to_owned()),
        _ => Err("is no version of reviews".to_owned()),
    }
}

fn issuers_of_tokens(given: &mut Settings) -> Option<IssuerSource> {
    let file = given.optional(&AUTHENTICATION_CONFIG);
    let url = given.optional(&OIDC_ISSUER_URL);
    let settings = Oidc {
        issuer_url: url.clone().unwrap_or_default(),
        client_id: given.get(&OIDC_CLIENT_ID),
        ca_file: given.optional(&OIDC_CA_FILE),
        username_claim: given.get(&OIDC_USERNAME_CLAIM),
        username_prefix: given.get(&OIDC_USERNAME_PREFIX),
        groups_claim: given.get(&OIDC_GROUPS_CLAIM),
        groups_prefix: given.get(&OIDC_GROUPS_PREFIX),
        required_claims: given.get(&OIDC_REQUIRED_CLAIM),
        signing_algs: given.get(&OIDC_SIGNING_ALGS),
    };
    match (file, url) {
        (Some(_), Some(_)) => {
            given.reject(OIDC_ISSUER_URL.name, format!("cannot stand beside --{}", AUTHENTICATION_CONFIG.name));
            None
        }
        (Some(file), None) => Some(IssuerSource::File(file)),
        (None, Some(_)) => Some(IssuerSource::Flags(settings)),
        (None, None) => None,
    }
}

fn token_webhook(given: &mut Settings) -> Option<TokenWebhookSettings> {
    let version = given.get(&AUTHENTICATION_TOKEN_WEBHOOK_VERSION);
    let cache_ttl = given.get(&AUTHENTICATION_TOKEN_WEBHOOK_CACHE_TTL);
    let config = given.optional(&AUTHENTICATION_TOKEN_WEBHOOK_CONFIG_FILE)?;
    Some(TokenWebhookSettings { config, version, cache_ttl })
}

fn authorization(given: &mut Settings) -> AuthorizationSource {
    let settings = WebhookSettings {
        // Upstream's for the one that flags describe.
        name: "default".to_owned(),
        config: given.optional(&AUTHORIZATION_WEBHOOK_CONFIG_FILE).unwrap_or_default(),
        version: given.get(&AUTHORIZATION_WEBHOOK_VERSION),
        authorized_ttl: given.get(&AUTHORIZATION_WEBHOOK_CACHE_AUTHORIZED_TTL),
        unauthorized_ttl: given.get(&AUTHORIZATION_WEBHOOK_CACHE_UNAUTHORIZED_TTL),
        // Upstream's, and its policy where only flags are given.
        timeout: Duration::from_secs(30),
        failure_policy: FailurePolicy::NoOpinion,
        conditions: Vec::new(),
    };
    let modes = given.optional(&AUTHORIZATION_MODE);
    match (given.optional(&AUTHORIZATION_CONFIG), modes) {
        (Some(_), Some(_)) => {
            given.reject(AUTHORIZATION_MODE.name, format!("cannot stand beside --{}", AUTHORIZATION_CONFIG.name));
            vec![Mode::Node, Mode::Rbac].into()
        }
        (Some(file), None) => AuthorizationSource::File(file),
        (None, None) => vec![Mode::Node, Mode::Rbac].into(),
        (None, Some(modes)) => {
            if modes.contains(&None) && settings.config.as_os_str().is_empty() {
                let needs = format!("Webhook needs --{} beside it", AUTHORIZATION_WEBHOOK_CONFIG_FILE.name);
                given.reject(AUTHORIZATION_MODE.name, needs);
            }
            let modes = modes.into_iter().map(|mode| match mode {
                Some(mode) => AuthorizationMode::Own(mode),
                None => AuthorizationMode::Webhook(settings.clone()),
            });
            AuthorizationSource::Modes(modes.collect())
        }
    }
}

fn front_proxy(given: &mut Settings) -> FrontProxyOptions {
    FrontProxyOptions {
        identity: pair(given, &PROXY_CLIENT_CERT_FILE, &PROXY_CLIENT_KEY_FILE),
        authority: given.optional(&REQUESTHEADER_CLIENT_CA_FILE),
        headers: RequestHeader {
            username: given.get(&REQUESTHEADER_USERNAME_HEADERS),
            uid: given.get(&REQUESTHEADER_UID_HEADERS),
            group: given.get(&REQUESTHEADER_GROUP_HEADERS),
            extra_prefix: given.get(&REQUESTHEADER_EXTRA_HEADERS_PREFIX),
            allowed_names: given.get(&REQUESTHEADER_ALLOWED_NAMES),
        },
    }
}

fn etcd(given: &mut Settings) -> Option<EtcdConfig> {
    let endpoints = given.optional(&ETCD_SERVERS);
    let prefix = given.get(&ETCD_PREFIX);
    let ca = given.optional(&ETCD_CAFILE);
    let identity = pair(given, &ETCD_CERTFILE, &ETCD_KEYFILE);
    let tls = ca.map(|ca| EtcdTls { ca, identity });
    endpoints.map(|endpoints| EtcdConfig {
        endpoints,
        prefix,
        tls,
        retention: Retention::default(),
        // Replaced by the server, which reads the file of --encryption-provider-config.
        transform: Arc::new(AsItIs),
        form: apiserver::stored::laid_out,
    })
}

fn tokens(given: &mut Settings) -> Tokens {
    let (issuer, other_issuers) = given.get(&SERVICE_ACCOUNT_ISSUER);
    Tokens {
        issuer,
        other_issuers,
        signing_key: given.optional(&SERVICE_ACCOUNT_SIGNING_KEY_FILE),
        key_files: given.get(&SERVICE_ACCOUNT_KEY_FILE),
        audiences: given.get(&API_AUDIENCES),
        max_expiration: given.optional(&SERVICE_ACCOUNT_MAX_TOKEN_EXPIRATION),
        extend_expiration: given.get(&SERVICE_ACCOUNT_EXTEND_TOKEN_EXPIRATION),
    }
}

/// Which plugins run, and the configuration of those that have one.
fn admission(given: &mut Settings) -> Plugins {
    let enable = given.get(&ENABLE_ADMISSION_PLUGINS);
    let disable = given.get(&DISABLE_ADMISSION_PLUGINS);
    let mut plugins = Plugins::choose(&enable, &disable).unwrap_or_else(|mistakes| {
        for (flag, mistake) in mistakes {
            given.reject(flag, mistake.to_string());
        }
        Plugins::default()
    });
    if let Some(configuration) = given.optional(&ADMISSION_CONTROL_CONFIG_FILE) {
        plugins.configure(configuration);
    }
    plugins
}

fn audit(given: &mut Settings) -> Option<Audit> {
    let policy = given.optional(&AUDIT_POLICY_FILE);
    let megabytes = given.optional(&AUDIT_LOG_MAXSIZE);
    let backups = given.get(&AUDIT_LOG_MAXBACKUP);
    let target = given.optional(&AUDIT_LOG_PATH);
    if policy.is_some() && target.is_none() {
        given.reject(AUDIT_POLICY_FILE.name, "needs --audit-log-path beside it");
    }
    let target = match target? {
        Target::File { path, .. } => {
            Target::File { path, max_bytes: megabytes.map(|size| size.saturating_mul(1 << 20)), backups }
        }
        stdout => stdout,
    };
    Some(Audit { policy, target })
}

fn kubelets(given: &mut Settings) -> Kubelets {
    let authorities = given.optional(&KUBELET_CERTIFICATE_AUTHORITY);
    let shown = pair(given, &KUBELET_CLIENT_CERTIFICATE, &KUBELET_CLIENT_KEY);
    let identity = shown.and_then(|(certificate, key)| match Identity::load_pair(&certificate, &key) {
        Ok(identity) => Some(identity),
        Err(error) => {
            given.reject(KUBELET_CLIENT_CERTIFICATE.name, error.to_string());
            None
        }
    });
    let address_types = given.get(&KUBELET_PREFERRED_ADDRESS_TYPES);
    Kubelets { authorities, identity, address_types, ..Kubelets::default() }
}
