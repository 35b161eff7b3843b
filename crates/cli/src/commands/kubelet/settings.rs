//! The flags of `twinstack kubelet`, upstream's where it has them.

use crate::{
    flag::{
        CLUSTER_DOMAIN, DefaultFlag, Flag, KUBECONFIG, cidrs, count, duration, file, flags, folder, hosts, period,
        port, positive, switch, text, words,
    },
    read,
};
use net::{Cidr, DualStack, Family};
use node::{
    certificates::Bootstrap,
    cni::{CniOptions, Plugin},
    kubelet::{
        KubeletOptions,
        addresses::{NodeIps, unfit},
        garbage::ImageLimits,
        machine::Reserved,
        pressure::{Threshold, Thresholds},
        register::NodeOptions,
    },
    pods::logs::LogLimits,
    server::Authorization,
};
use runtime::{config::Settings, listen::Hosts};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

flags! {
    pub(super) FLAGS:
    CONFIG_DIR: Flag<PathBuf> = folder("config-dir", "folder of KubeletConfigurations (*.conf) that change the one of --config, in the order of their names");
    BOOTSTRAP_KUBECONFIG: Flag<PathBuf> = file("bootstrap-kubeconfig", "how to ask for the node's first certificate; the answer goes into --kubeconfig");
    ROTATE_CERTIFICATES: DefaultFlag<bool> = switch("rotate-certificates", "ask for another certificate before the node's runs out").or("false");
    ROTATE_SERVER_CERTIFICATES: DefaultFlag<bool> = switch("rotate-server-certificates", "ask the cluster for the certificate of the node's server, and again before it runs out").or("false");
    HOSTNAME_OVERRIDE: Flag<String> = text("hostname-override", "NAME", "the name of a Node", "name of this node's Node; the host's name when not given");
    NODE_IP: Flag<NodeIp> = Flag::new("node-ip", "ADDRESS[,ADDRESS]", "one address of this machine, one of each family, or 0.0.0.0 or :: to find them with that family first", node_ip, "addresses of this node, primary family first; those that the machine sends from when not given");
    NODE_LABELS: DefaultFlag<BTreeMap<String, String>> = Flag::new("node-labels", "NAME=VALUE,...", "labels such as zone=a,disk=ssd", pairs, "labels of the Node").or("");
    REGISTER_NODE: DefaultFlag<bool> = switch("register-node", "make the Node if there is none").or("true");
    REGISTER_WITH_TAINTS: DefaultFlag<Vec<Taint>> = Flag::new("register-with-taints", "KEY=VALUE:EFFECT,...", "taints such as dedicated=db:NoSchedule", taints, "taints of a new Node").or("");
    PROVIDER_ID: Flag<String> = text("provider-id", "ID", "an id", "the machine's id at a cloud");
    CONTAINER_RUNTIME_ENDPOINT: DefaultFlag<String> = Flag::new("container-runtime-endpoint", "SOCKET", "a unix socket such as unix:///run/containerd/containerd.sock", read::word, "the container runtime's socket").or("unix:///run/containerd/containerd.sock");
    ROOT_DIR: DefaultFlag<PathBuf> = folder("root-dir", "where volumes and files of Pods are").or("/var/lib/kubelet");
    POD_LOGS_DIR: DefaultFlag<PathBuf> = folder("pod-logs-dir", "where logs of containers are").or("/var/log/pods");
    CGROUP_ROOT: DefaultFlag<String> = text("cgroup-root", "CGROUP", "the path of a cgroup", "the cgroup that Pods are below").or("/");
    POD_MANIFEST_PATH: Flag<PathBuf> = folder("pod-manifest-path", "folder with Pods that this node runs whatever the API says");
    FILE_CHECK_FREQUENCY: DefaultFlag<Duration> = period("file-check-frequency", "how often that folder is read").or("20s");
    CLUSTER_DNS: DefaultFlag<Vec<IpAddr>> = Flag::new("cluster-dns", "ADDRESS,...", "addresses between commas", ips, "name servers of Pods that use the cluster's, of both families").or("");
    CLUSTER_DOMAIN_FLAG: DefaultFlag<String> = text("cluster-domain", "DOMAIN", "a domain", "the cluster's domain, which Pods look for names in").or(CLUSTER_DOMAIN);
    RESOLV_CONF: DefaultFlag<PathBuf> = file("resolv-conf", "the host's name servers, for Pods that use those").or("/etc/resolv.conf");
    SECCOMP_DEFAULT: DefaultFlag<bool> = switch("seccomp-default", "use the runtime's seccomp profile for containers that name none").or("false");
    ALLOWED_UNSAFE_SYSCTLS: DefaultFlag<Vec<String>> = words("allowed-unsafe-sysctls", "NAME,...", "names of sysctls, or beginnings followed by *", "sysctls that Pods may set beside those that harm nobody").or("");
    POD_CIDR: Flag<DualStack<Cidr>> = cidrs("pod-cidr", "addresses of this node's Pods, one block or one of each family; the Node's podCIDRs when not given");
    CLUSTER_CIDR: Flag<DualStack<Cidr>> = cidrs("cluster-cidr", "addresses of all Pods: what goes there keeps its sender's address; the node's own block when not given");
    CNI: DefaultFlag<Plugin> = Flag::new("cni", "bridge|ptp|none", "bridge, ptp, none", read::parsed, "how Pods are connected: bridge, ptp, or none where somebody else does it").or("bridge");
    CNI_CONF_DIR: DefaultFlag<PathBuf> = folder("cni-conf-dir", "where the runtime looks for CNI configurations").or("/etc/cni/net.d");
    CNI_MTU: Flag<u32> = count("cni-mtu", "longest packet of Pods, where it is not found by the plugin");
    IMAGE_DIR: Flag<PathBuf> = folder("image-dir", "folder of OCI archives that are looked into before any registry");
    MAX_PODS: DefaultFlag<u32> = count("max-pods", "how many Pods this node runs").or("110");
    NODE_STATUS_UPDATE_FREQUENCY: DefaultFlag<Duration> = period("node-status-update-frequency", "how often the node's state is looked at").or("10s");
    NODE_STATUS_REPORT_FREQUENCY: DefaultFlag<Duration> = period("node-status-report-frequency", "how often it is told although nothing changed").or("5m");
    NODE_LEASE_DURATION: DefaultFlag<Duration> = duration("node-lease-duration", "how long the node counts as alive after its last word").or("40s");
    HEALTHZ_BIND_ADDRESS: DefaultFlag<Hosts> = hosts("healthz-bind-address", "where /healthz and /metrics of this program are served").or("127.0.0.1");
    HEALTHZ_PORT: DefaultFlag<u16> = port("healthz-port", "port of /healthz; 0 for none").or("10248");
    ADDRESS: DefaultFlag<Hosts> = hosts("address", "where exec, logs and metrics of this node are served").or("0.0.0.0,::");
    PORT: DefaultFlag<u16> = port("port", "where exec, logs and metrics of this node are served; 0 for nowhere").or("10250");
    TLS_CERT_FILE: Flag<PathBuf> = file("tls-cert-file", "certificate of that server; made in --cert-dir when not given");
    TLS_PRIVATE_KEY_FILE: Flag<PathBuf> = file("tls-private-key-file", "key of that certificate");
    CERT_DIR: Flag<PathBuf> = folder("cert-dir", "where certificates of this node are kept; pki in --root-dir when not given");
    CLIENT_CA_FILE: Flag<PathBuf> = file("client-ca-file", "whose certificates prove who asks that server; the authority in --kubeconfig when not given");
    ANONYMOUS_AUTH: DefaultFlag<bool> = switch("anonymous-auth", "let those ask who do not say who they are, judged like everybody").or("false");
    AUTHORIZATION_MODE: DefaultFlag<Authorization> = Flag::new("authorization-mode", "MODE", "Webhook, AlwaysAllow", authorization, "who may ask: those whom the API lets (Webhook), or all (AlwaysAllow)").or("Webhook");
    CONTAINER_LOG_MAX_SIZE: DefaultFlag<u64> = Flag::new("container-log-max-size", "AMOUNT", "an amount such as 10Mi", bytes, "how long a container's log gets before the next is begun").or("10Mi");
    CONTAINER_LOG_MAX_FILES: DefaultFlag<usize> = positive("container-log-max-files", "how many logs of a container are kept").or("5");
    IMAGE_GC_HIGH_THRESHOLD: DefaultFlag<u64> = percent("image-gc-high-threshold", "percent of the disk in use at which unused images are removed").or("85");
    IMAGE_GC_LOW_THRESHOLD: DefaultFlag<u64> = percent("image-gc-low-threshold", "percent of the disk in use down to which they are").or("80");
    MINIMUM_IMAGE_TTL_DURATION: DefaultFlag<Duration> = duration("minimum-image-ttl-duration", "how long an image is kept at least").or("2m");
    POD_INFRA_CONTAINER_IMAGE: DefaultFlag<String> = text("pod-infra-container-image", "IMAGE", "an image", "the runtime's image of sandboxes, which is never removed").or("localhost/twinstack-pause:latest");
    EVICTION_HARD: DefaultFlag<Thresholds> = Flag::new("eviction-hard", "SIGNAL<AMOUNT,...", "memory.available, nodefs.available, nodefs.inodesFree, pid.available, imagefs.available, each with < and an amount or a share", eviction, "how little may be left before Pods are ended").or("memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%");
    SYSTEM_RESERVED: DefaultFlag<Amounts> = Flag::new("system-reserved", "NAME=AMOUNT,...", "amounts such as cpu=200m,memory=500Mi", amounts, "what is not for Pods: the system's part").or("");
    KUBE_RESERVED: DefaultFlag<Amounts> = Flag::new("kube-reserved", "NAME=AMOUNT,...", "amounts such as cpu=200m,memory=500Mi", amounts, "what is not for Pods: Kubernetes' own part").or("");
}

/// Everything that the flags say.
pub(super) struct Read {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) joining: Joining,
    pub(super) healthz: Option<(Hosts, u16)>,
    pub(super) serving: Option<Serving>,
    pub(super) kubelet: KubeletOptions,
}

/// How the node gets its certificate.
pub(super) struct Joining {
    pub(super) bootstrap: Option<Bootstrap>,
    pub(super) cert_dir: PathBuf,
    pub(super) rotate: bool,
}

/// How exec, logs and metrics are served.
pub(super) struct Serving {
    pub(super) hosts: Hosts,
    pub(super) port: u16,
    pub(super) pair: Option<(PathBuf, PathBuf)>,
    /// Whether the cluster signs what it shows.
    pub(super) requested: bool,
    pub(super) cert_dir: PathBuf,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) anonymous: bool,
    pub(super) authorization: Authorization,
}

fn authorization(text: &str) -> Result<Authorization, String> {
    match text {
        "Webhook" => Ok(Authorization::Webhook),
        "AlwaysAllow" => Ok(Authorization::AlwaysAllow),
        _ => Err("is no mode".to_owned()),
    }
}

fn serving(given: &mut Settings, cert_dir: &Path, port: u16) -> Option<Serving> {
    let pair = match (given.optional(&TLS_CERT_FILE), given.optional(&TLS_PRIVATE_KEY_FILE)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            given.reject(TLS_CERT_FILE.name, "needs --tls-private-key-file beside it, and the other way round");
            None
        }
    };
    let serving = Serving {
        hosts: given.get(&ADDRESS),
        port,
        pair,
        requested: given.get(&ROTATE_SERVER_CERTIFICATES),
        cert_dir: cert_dir.to_owned(),
        client_ca: given.optional(&CLIENT_CA_FILE),
        anonymous: given.get(&ANONYMOUS_AUTH),
        authorization: given.get(&AUTHORIZATION_MODE),
    };
    (port > 0).then_some(serving)
}

fn joining(given: &mut Settings, kubeconfig: Option<&Path>, cert_dir: PathBuf, node: &str) -> Joining {
    let asked = given.optional(&BOOTSTRAP_KUBECONFIG);
    let rotate = given.get(&ROTATE_CERTIFICATES);
    for (flag, needs) in [(BOOTSTRAP_KUBECONFIG.name, asked.is_some()), (ROTATE_CERTIFICATES.flag().name, rotate)] {
        if needs && kubeconfig.is_none() {
            given.reject(flag, "needs --kubeconfig beside it, which names the node's own file");
        }
    }
    let bootstrap = asked.zip(kubeconfig).map(|(bootstrap, kubeconfig)| Bootstrap {
        kubeconfig: kubeconfig.to_owned(),
        bootstrap,
        cert_dir: cert_dir.clone(),
        node: node.to_owned(),
    });
    Joining { bootstrap, cert_dir, rotate: rotate && kubeconfig.is_some() }
}

pub(super) type Taint = (String, String, String);
pub(super) type Amounts = BTreeMap<String, i128>;

/// What `--node-ip` says, as it is written and as it is meant.
#[derive(Clone, Debug)]
pub(super) struct NodeIp {
    text: String,
    ips: NodeIps,
}

/// The name of this machine, as upstream's programs spell it.
fn host_name() -> Option<String> {
    super::super::proxy::host_name()
}

pub(super) fn read(given: &mut Settings) -> Option<Read> {
    let name = given.optional(&HOSTNAME_OVERRIDE).map(|name| name.to_lowercase()).or_else(host_name);
    if name.is_none() {
        given.reject(HOSTNAME_OVERRIDE.name, "must be given: this machine does not know its own name");
    }
    let name = name.unwrap_or_default();
    let node_ip = given.optional(&NODE_IP);
    let root = given.get(&ROOT_DIR);
    let port = given.get(&PORT);
    let cert_dir = given.optional(&CERT_DIR).unwrap_or_else(|| root.join("pki"));
    let serving = serving(given, &cert_dir, port);
    let kubeconfig = given.optional(&KUBECONFIG);
    let joining = joining(given, kubeconfig.as_deref(), cert_dir, &name);
    given.optional(&CONFIG_DIR);
    let node = NodeOptions {
        hostname: name.clone(),
        name,
        ips: node_ip.as_ref().map_or(NodeIps::Detect(Family::V4), |one| one.ips.clone()),
        provided_ips: node_ip.map(|one| one.text),
        labels: given.get(&NODE_LABELS),
        taints: given.get(&REGISTER_WITH_TAINTS).into_iter().map(node::kubelet::register::taint).collect(),
        provider_id: given.optional(&PROVIDER_ID),
        max_pods: given.get(&MAX_PODS),
        port,
        lease: given.get(&NODE_LEASE_DURATION),
        update: given.get(&NODE_STATUS_UPDATE_FREQUENCY),
        report: given.get(&NODE_STATUS_REPORT_FREQUENCY),
        register: given.get(&REGISTER_NODE),
    };
    let kubelet = KubeletOptions {
        node,
        runtime_endpoint: given.get(&CONTAINER_RUNTIME_ENDPOINT),
        pod_logs: given.get(&POD_LOGS_DIR),
        cgroup_root: given.get(&CGROUP_ROOT),
        static_pods: given.optional(&POD_MANIFEST_PATH),
        file_check: given.get(&FILE_CHECK_FREQUENCY),
        cluster_dns: given.get(&CLUSTER_DNS),
        cluster_domain: given.get(&CLUSTER_DOMAIN_FLAG),
        resolv_conf: given.get(&RESOLV_CONF),
        seccomp_default: given.get(&SECCOMP_DEFAULT),
        allowed_sysctls: given.get(&ALLOWED_UNSAFE_SYSCTLS),
        pod_cidrs: given.optional(&POD_CIDR),
        cni: CniOptions {
            plugin: given.get(&CNI),
            folder: given.get(&CNI_CONF_DIR),
            data: root.join("cni"),
            cluster: given.optional(&CLUSTER_CIDR),
            mtu: given.optional(&CNI_MTU),
        },
        image_dir: given.optional(&IMAGE_DIR),
        images: ImageLimits {
            high: given.get(&IMAGE_GC_HIGH_THRESHOLD),
            low: given.get(&IMAGE_GC_LOW_THRESHOLD),
            min_age: given.get(&MINIMUM_IMAGE_TTL_DURATION),
            sandbox: given.get(&POD_INFRA_CONTAINER_IMAGE),
        },
        eviction: given.get(&EVICTION_HARD),
        logs: LogLimits { size: given.get(&CONTAINER_LOG_MAX_SIZE), files: given.get(&CONTAINER_LOG_MAX_FILES) },
        reserved: reserved(&[given.get(&SYSTEM_RESERVED), given.get(&KUBE_RESERVED)]),
        root,
    };
    let (address, health_port) = (given.get(&HEALTHZ_BIND_ADDRESS), given.get(&HEALTHZ_PORT));
    Some(Read { kubeconfig, joining, healthz: (health_port > 0).then_some((address, health_port)), serving, kubelet })
}

fn reserved(all: &[Amounts]) -> Reserved {
    let sum = |name: &str| all.iter().filter_map(|one| one.get(name)).sum::<i128>();
    let scaled = |name: &str, unit: i128| i64::try_from(sum(name) / unit).unwrap_or(i64::MAX);
    Reserved {
        cpu_millis: scaled("cpu", 1_000_000),
        memory: scaled("memory", 1_000_000_000),
        ephemeral_storage: scaled("ephemeral-storage", 1_000_000_000),
    }
}

fn node_ip(text: &str) -> Result<NodeIp, String> {
    let ips: DualStack<IpAddr> = read::one_or_pair("node-ip", text)?;
    if let Some((ip, problem)) = ips.iter().find_map(|ip| Some((*ip, unfit(*ip)?))) {
        return Err(format!("{ip} {problem}"));
    }
    let unspecified = ips.iter().any(|ip| ip.is_unspecified());
    if unspecified && ips.is_dual() {
        return Err("has an address that means any, beside another".to_owned());
    }
    let ips = if unspecified { NodeIps::Detect(ips.families().primary()) } else { NodeIps::Given(ips) };
    Ok(NodeIp { text: text.to_owned(), ips })
}

fn ips(text: &str) -> Result<Vec<IpAddr>, String> {
    read::words(text)?.iter().map(|word| word.parse().map_err(|_| format!("{word} is no address"))).collect()
}

fn pairs(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pair = |word: String| {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} has no ="))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    read::words(text)?.into_iter().map(pair).collect()
}

const fn percent(name: &'static str, help: &'static str) -> Flag<u64> {
    let read: fn(&str) -> Result<u64, String> = |text| match text.parse() {
        Ok(percent) if percent <= 100 => Ok(percent),
        _ => Err("is not from 0 to 100".to_owned()),
    };
    Flag::new(name, "PERCENT", "a number from 0 to 100", read, help)
}

/// `memory.available<100Mi,nodefs.available<10%`
fn eviction(text: &str) -> Result<Thresholds, String> {
    let mut all = Thresholds::default();
    for word in read::words(text)? {
        let (signal, amount) = word.split_once('<').ok_or_else(|| format!("{word} has no <"))?;
        let threshold = match amount.strip_suffix('%') {
            Some(share) => Threshold::Percent(share.parse().map_err(|_| format!("{amount} is no share"))?),
            None => Threshold::Bytes(bytes(amount).map_err(|problem| format!("{amount} {problem}"))?),
        };
        match signal {
            "memory.available" => all.memory = threshold,
            "nodefs.available" => all.disk = threshold,
            "nodefs.inodesFree" => all.inodes = threshold,
            "pid.available" => all.pids = threshold,
            // Unused images go before the disk is short of anything.
            "imagefs.available" | "imagefs.inodesFree" => {}
            other => return Err(format!("{other} is no signal")),
        }
    }
    Ok(all)
}

fn bytes(text: &str) -> Result<u64, String> {
    let nanos = api::kinds::quantity::nanos(text).ok_or_else(|| "is no amount".to_owned())?;
    u64::try_from(nanos / 1_000_000_000).map_err(|_| "is out of range".to_owned())
}

fn amounts(text: &str) -> Result<Amounts, String> {
    let amount = |(name, text): (String, String)| match api::kinds::quantity::nanos(&text) {
        Some(nanos) => Ok((name, nanos)),
        None => Err(format!("{text} is no amount")),
    };
    pairs(text)?.into_iter().map(amount).collect()
}

fn taints(text: &str) -> Result<Vec<Taint>, String> {
    let taint = |word: String| {
        let (rest, effect) = word.rsplit_once(':').ok_or_else(|| format!("{word} has no effect after :"))?;
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(format!("{effect} is no effect; accepted: NoSchedule, PreferNoSchedule, NoExecute"));
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        Ok((key.to_owned(), value.to_owned(), effect.to_owned()))
    };
    read::words(text)?.into_iter().map(taint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_node_are_given_or_found() {
        assert_eq!(node_ip("192.0.2.1").unwrap().ips, NodeIps::Given(DualStack::one("192.0.2.1".parse().unwrap())));
        assert_eq!(node_ip("::").unwrap().ips, NodeIps::Detect(Family::V6));
        assert!(matches!(node_ip("2001:db8::1,192.0.2.1").unwrap().ips, NodeIps::Given(_)));
        for text in ["127.0.0.1", "::,192.0.2.1", "192.0.2.1,192.0.2.2", "fe80::1", "x"] {
            assert!(node_ip(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_of_the_command_line_are_read() {
        assert_eq!(taints("a=b:NoSchedule,c:NoExecute").unwrap().len(), 2);
        assert!(taints("a=b").is_err() && taints("a:Never").is_err());
        assert_eq!(
            reserved(&[amounts("cpu=200m,memory=1Gi").unwrap()]),
            Reserved { cpu_millis: 200, memory: 1 << 30, ephemeral_storage: 0 }
        );
        assert!(amounts("cpu=x").is_err());
    }
}
