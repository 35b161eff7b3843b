//! The flags of the API server, and what they say as `apiserver::launch::ApiServerOptions`; every mistake in them is noted before anything
//! happens.

use crate::{
    flag::{
        BOOL, DefaultFlag, Flag, addresses, count, duration, file, flags, folder, hosts, port, switch, text, words,
    },
    read,
};
use access::{Mode, authn::Anonymous};
use apiserver::{
    admission::{AdmissionConfiguration, Plugins},
    audit::Target,
    kubelet::settings::{AddressTypes, Settings as Kubelets},
    launch::{ApiServerOptions, Audit, Tokens},
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
    ADVERTISE_ADDRESS: Flag<DualStack<IpAddr>> = addresses("advertise-address", "where other machines reach this server; the first in the family of the first service range").accepted("addresses that other machines reach");
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
    TOKEN_AUTH_FILE: Flag<PathBuf> = file("token-auth-file", "CSV of token,user,uid,\"group,...\"");
    ANONYMOUS_AUTH: Flag<bool> = switch("anonymous-auth", "whether requests without credentials are let in (as system:anonymous): true everywhere, false nowhere; only to health and version when not given");
    AUTHORIZATION_MODE: DefaultFlag<Vec<Mode>> = Flag::new("authorization-mode", "MODE,...", "Node, RBAC, AlwaysAllow", modes, "who decides, in this order: Node, RBAC, AlwaysAllow").or("Node,RBAC");
    ENABLE_ADMISSION_PLUGINS: DefaultFlag<Vec<String>> = words("enable-admission-plugins", "NAME,...", "names of plugins", "plugins to switch on beside those that are: DenyServiceExternalIPs can be").or("");
    DISABLE_ADMISSION_PLUGINS: DefaultFlag<Vec<String>> = words("disable-admission-plugins", "NAME,...", "names of plugins", "plugins to switch off: ServiceAccount, PodSecurity, MutatingAdmissionWebhook, ValidatingAdmissionWebhook and ValidatingAdmissionPolicy can be").or("");
    ALLOW_PRIVILEGED: DefaultFlag<bool> = Flag::new("allow-privileged", BOOL, "true; what Pods may do is for the labels of their namespaces, or --admission-control-config-file", privileged, "whether there may be privileged containers").or("true");
    ADMISSION_CONTROL_CONFIG_FILE: Flag<AdmissionConfiguration> = Flag::new("admission-control-config-file", "FILE", "a file with an AdmissionConfiguration", |path| AdmissionConfiguration::load(path.as_ref()).map_err(|error| error.to_string()), "AdmissionConfiguration: defaults and exemptions of PodSecurity");
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

/// The first, and the others.
fn issuers(text: &str) -> Result<(String, Vec<String>), String> {
    let mut words = read::words(text)?.into_iter();
    words.next().map(|first| (first, words.collect())).ok_or_else(|| "names nobody".to_owned())
}

/// There is no switch that forbids them: Pod Security does, by namespace.
fn privileged(text: &str) -> Result<bool, String> {
    match read::parsed(text)? {
        true => Ok(true),
        false => Err("is not built here".to_owned()),
    }
}

/// Reads them all.
pub(crate) fn read(given: &mut Settings) -> Option<ApiServerOptions> {
    let (etcd, cert_dir) = (etcd(given), given.optional(&CERT_DIR));
    let data_dir = match (given.optional(&DATA_DIR), &etcd, &cert_dir) {
        (None, Some(_), Some(folder)) => Some(folder.clone()),
        (None, ..) => given.required(&DATA_DIR),
        (folder, ..) => folder,
    };
    given.get(&ALLOW_PRIVILEGED);
    let service_ranges = given.get(&SERVICE_CLUSTER_IP_RANGE);
    let advertise = given
        .refined(&ADVERTISE_ADDRESS, |text| net::flags::advertise_address(text, service_ranges.primary().family()));
    let options = ApiServerOptions {
        etcd,
        hosts: given.get(&BIND_ADDRESS),
        port: given.get(&SECURE_PORT),
        advertise,
        cert_dir,
        serving: pair(given, &TLS_CERT_FILE, &TLS_PRIVATE_KEY_FILE),
        client_ca: given.optional(&CLIENT_CA_FILE),
        token_file: given.optional(&TOKEN_AUTH_FILE),
        anonymous: Anonymous::from_flag(given.optional(&ANONYMOUS_AUTH)),
        authorization: given.get(&AUTHORIZATION_MODE),
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
        data_dir: data_dir?,
        service_ranges,
    };
    Some(options)
}

fn modes(text: &str) -> Result<Vec<Mode>, String> {
    let modes = text.split(',').map(|word| match word.trim() {
        "Node" => Ok(Mode::Node),
        "RBAC" => Ok(Mode::Rbac),
        "AlwaysAllow" => Ok(Mode::AlwaysAllow),
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
    let configuration = given.optional(&ADMISSION_CONTROL_CONFIG_FILE);
    if let Some(config) = configuration.and_then(|configuration| configuration.pod_security) {
        plugins.configure(config);
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
