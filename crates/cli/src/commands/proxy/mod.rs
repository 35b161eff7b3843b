//! `twinstack proxy`: Services in the kernel of a node, both families.

mod conntrack;
mod dry_run;
pub(crate) mod explain;
pub(crate) mod file;

use super::{Command, proxy_ipvs};
use crate::{
    component::{self, Log},
    flag::{DefaultFlag, Flag, KUBECONFIG, LOG_LEVEL, addresses, cidrs, duration, file, flags, period, switch, text},
    gates, read,
};
use anyhow::Context;
use kernel::{
    conntrack::RealConntrack,
    iptables::{self, RealIptables},
    nft::RealNft,
};
use net::{Cidr, DualStack, Family};
use proxy::{
    alone::Alone,
    backend::{
        self, Backend,
        iptables::{IptablesBackend, IptablesOptions},
        nft::NftBackend,
    },
    health::ProxyHealth,
    metrics::ProxyMetrics,
    plan::{DetectLocal, NodePortAddresses},
    run::{Kernel, Proxy},
    settings::{self, Settings as ProxySettings},
    track::Tracker,
};
use runtime::{
    admin::Admin,
    client,
    config::Settings,
    http::{Limits, Server},
    listen::{self, Hosts},
    task::Tasks,
    watch::report,
};
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

pub(super) const COMMAND: Command = Command {
    name: "proxy",
    about: "make Services work on a node",
    more: "Programs nftables (or iptables, or IPVS) so that cluster IPs, node ports, external and load balancer addresses lead to endpoints, IPv4 and \
           IPv6 side by side. Needs root (CAP_NET_ADMIN) and the program nft, or iptables and ip6tables. Rules stay when it stops; the next start takes \
           them over without a gap, and --cleanup removes them. Flags are those of kube-proxy where it has them; every one can \
           also stand in the file of --config, or in the environment as TWINSTACK_PROXY_ and its name in capitals.",
    example: "twinstack proxy --kubeconfig ./node.kubeconfig --cluster-cidr 10.244.0.0/16,fd00:10:244::/56\n\
              twinstack proxy --kubeconfig ./node.kubeconfig --dry-run | less\n\
              twinstack proxy --cleanup",
    flags: &[&[&KUBECONFIG], FLAGS, conntrack::FLAGS, ONCE, gates::FLAGS],
    positional: None,
    long_running: true,
    check: |given| {
        gates::idle(given);
        options(given);
        Some(())
    },
    run,
};

flags! {
    pub(super) FLAGS:
    HOSTNAME_OVERRIDE: Flag<String> = text("hostname-override", "NAME", "the name of a Node", "name of this node's Node; the host's name when not given");
    BIND_ADDRESS: Flag<DualStack<IpAddr>> = addresses("bind-address", "this node's address, or one of each family, where the Node object does not say; nothing listens there");
    PROXY_MODE: DefaultFlag<Mode> = Flag::new("proxy-mode", "MODE", "nftables, iptables, ipvs", mode, "how to program the kernel: nftables, iptables, ipvs").or("nftables");
    CLUSTER_CIDR: Flag<DualStack<Cidr>> = cidrs("cluster-cidr", "the pods' addresses, one block or one of each family; others are masqueraded on their way to cluster IPs");
    DETECT_LOCAL_MODE: DefaultFlag<DetectLocalMode> = Flag::new("detect-local-mode", "MODE", "ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix", detect_local_mode, "how pods are told from others: ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix").or("ClusterCIDR");
    POD_BRIDGE_INTERFACE: Flag<String> = Flag::new("pod-bridge-interface", "NAME", "the name of an interface", interface, "the pods' bridge, for BridgeInterface");
    POD_INTERFACE_NAME_PREFIX: Flag<String> = Flag::new("pod-interface-name-prefix", "PREFIX", "the beginning of a name", interface, "how the names of the pods' interfaces begin, for InterfaceNamePrefix");
    NODEPORT_ADDRESSES: Flag<NodePortAddresses> = Flag::new("nodeport-addresses", "CIDR,...", "CIDRs, primary, all", read::parsed, "where node ports are open: blocks, primary (the Node's first address of each family) or all (the default with iptables and ipvs); a family without a block has none").otherwise(Mode::Nftables.node_port_addresses());
    IPTABLES_LOCALHOST_NODEPORTS: DefaultFlag<bool> = switch("iptables-localhost-nodeports", "with iptables: node ports are open at 127.0.0.1 too, where they are open at all addresses").or("true");
    MASQUERADE_ALL: DefaultFlag<bool> = switch("masquerade-all", "masquerade everything to cluster IPs").or("false");
    IPTABLES_MASQUERADE_BIT: DefaultFlag<u32> = Flag::new("iptables-masquerade-bit", "BIT", "a number from 0 to 31", bit, "bit of a packet's mark that asks for masquerading, 0 to 31").or("14");
    IPTABLES_SYNC_PERIOD: DefaultFlag<Duration> = period("iptables-sync-period", "how often the rules are looked after when nothing happens").or("30s");
    IPTABLES_MIN_SYNC_PERIOD: DefaultFlag<Duration> = duration("iptables-min-sync-period", "shortest time between two changes of the rules").or("0s");
    IPVS_SCHEDULER: DefaultFlag<String> = Flag::new("ipvs-scheduler", "NAME", "", proxy_ipvs::scheduler, "with ipvs: how endpoints are chosen, such as rr, lc, sh").or("rr");
    IPVS_SYNC_PERIOD: DefaultFlag<Duration> = period("ipvs-sync-period", "with ipvs: how often everything is looked after when nothing happens").or("30s");
    IPVS_MIN_SYNC_PERIOD: DefaultFlag<Duration> = duration("ipvs-min-sync-period", "with ipvs: shortest time between two changes").or("0s");
    IPVS_STRICT_ARP: DefaultFlag<bool> = switch("ipvs-strict-arp", "with ipvs: interfaces answer ARP for their own addresses alone").or("false");
    IPVS_EXCLUDE_CIDRS: DefaultFlag<Vec<Cidr>> = Flag::new("ipvs-exclude-cidrs", "CIDR,...", "CIDRs, separated by commas", proxy_ipvs::excluded, "with ipvs: virtual servers in these blocks are not touched").or("");
    IPVS_TCP_TIMEOUT: DefaultFlag<Duration> = duration("ipvs-tcp-timeout", "with ipvs: how long idle TCP connections are remembered; 0s for the kernel's own").or("0s");
    IPVS_TCPFIN_TIMEOUT: DefaultFlag<Duration> = duration("ipvs-tcpfin-timeout", "with ipvs: how long ended TCP connections are remembered; 0s for the kernel's own").or("0s");
    IPVS_UDP_TIMEOUT: DefaultFlag<Duration> = duration("ipvs-udp-timeout", "with ipvs: how long UDP flows are remembered; 0s for the kernel's own").or("0s");
    HEALTHZ_BIND_ADDRESS: DefaultFlag<Option<SocketAddr>> = Flag::new("healthz-bind-address", "ADDRESS:PORT", SERVED_AT, |text| served_at(text, HEALTHZ), "where /healthz and /livez are served; empty for nowhere").or(HEALTHZ);
    METRICS_BIND_ADDRESS: DefaultFlag<Option<SocketAddr>> = Flag::new("metrics-bind-address", "ADDRESS:PORT", SERVED_AT, |text| served_at(text, METRICS), "where /metrics and /proxyMode are served; empty for nowhere").or(METRICS);
}

flags! {
    /// What does something once instead of serving.
    pub(super) ONCE:
    CLEANUP: DefaultFlag<bool> = switch("cleanup", "remove all rules of this program and end").or("false");
    DRY_RUN: DefaultFlag<bool> = switch("dry-run", "read the API once, print the rules, change nothing and end; needs no root").or("false");
    WRITE_CONFIG_TO: Flag<PathBuf> = file("write-config-to", "write these settings as a KubeProxyConfiguration and end");
}

const HEALTHZ: &str = "[::]:10256";
const METRICS: &str = "127.0.0.1:10249";
const SERVED_AT: &str = "ADDRESS:PORT such as [::]:10256, an address alone, or nothing";

/// Everything the flags say.
struct ProxyOptions {
    kubeconfig: Option<PathBuf>,
    healthz: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    cleanup: bool,
    dry_run: bool,
    /// Where to write it, and what.
    write_config: Option<(PathBuf, serde_json::Value)>,
    conntrack: conntrack::ConntrackOptions,
    mode: Mode,
    ipvs: proxy_ipvs::IpvsOptions,
    proxy: ProxySettings,
}

/// How the kernel is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Nftables,
    Iptables,
    Ipvs,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Nftables, Self::Iptables, Self::Ipvs];

    const fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
        }
    }

    /// Where node ports are open unless somebody says: kube-proxy's own choice for each mode.
    const fn node_port_addresses(self) -> &'static str {
        match self {
            Self::Nftables => "primary",
            Self::Iptables | Self::Ipvs => "all",
        }
    }

    /// What makes the rules of a family, once it is sure that this machine can.
    fn rules(self, proxy: &ProxySettings, ipvs: &proxy_ipvs::IpvsOptions) -> anyhow::Result<Rules> {
        match self {
            Self::Ipvs => proxy_ipvs::rules(proxy, ipvs),
            Self::Nftables => {
                let nft = RealNft::default();
                nft.probe()?;
                let nft = Arc::new(nft);
                Ok(Arc::new(move |family| Box::new(NftBackend::new(family, nft.clone()))))
            }
            Self::Iptables => {
                let programs = RealIptables::new(iptables::detect());
                proxy.families.iter().try_for_each(|family| programs.probe(*family))?;
                let options = IptablesOptions::of_machine(proxy.localhost_node_ports);
                Ok(Arc::new(move |family| Box::new(IptablesBackend::new(family, Arc::new(programs), options))))
            }
        }
    }

    /// Removes what this program made in this mode; says for which families there was something.
    fn remove(self) -> anyhow::Result<Vec<Family>> {
        match self {
            Self::Ipvs => proxy_ipvs::remove(),
            Self::Nftables => Ok(backend::nft::remove(&RealNft::default())?),
            Self::Iptables => {
                let mut removed = Vec::new();
                for variant in iptables::installed() {
                    removed.extend(backend::iptables::remove(&RealIptables::new(variant))?);
                }
                Ok(removed)
            }
        }
    }
}

pub(super) type Rules = Arc<dyn Fn(Family) -> Box<dyn Backend> + Send + Sync>;

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, remarks, options) =
        settings.read(|given| Some((component::log(given), gates::idle(given), options(given))))?;
    component::remark(&remarks);
    if let Some((path, document)) = &options.write_config {
        return std::fs::write(path, format!("{document:#}\n"))
            .with_context(|| format!("cannot write {}", path.display()));
    }
    if options.cleanup {
        return clean_up();
    }
    if options.dry_run {
        return dry_run::run(&options);
    }
    let rules = options.mode.rules(&options.proxy, &options.ipvs)?;
    serve(&log, options, rules)
}

fn clean_up() -> anyhow::Result<()> {
    let mut nothing = true;
    for mode in Mode::ALL {
        for family in mode.remove()? {
            nothing = false;
            anstream::println!("removed the {family} rules of {}", mode.name());
        }
    }
    if nothing {
        anstream::println!("there were no rules");
    }
    Ok(())
}

/// What the API says now, once.
fn snapshot(options: &ProxyOptions) -> anyhow::Result<Tracker> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(async {
        let client = client::connect(options.kubeconfig.as_deref(), "twinstack-proxy").await?;
        Ok(proxy::run::snapshot(&client, &options.proxy).await?)
    })
}

/// Rules of two modes would both act on packets.
fn remove_other_modes(mode: Mode) {
    for other in Mode::ALL.into_iter().filter(|other| *other != mode) {
        match other.remove() {
            Ok(families) if families.is_empty() => {}
            Ok(_) => tracing::info!(mode = other.name(), "removed the rules of the mode that ran before"),
            Err(error) => tracing::warn!(mode = other.name(), %error, "cannot look for rules of another mode"),
        }
    }
}

fn serve(log: &Log, options: ProxyOptions, rules: Rules) -> anyhow::Result<()> {
    let ProxyOptions {
        kubeconfig,
        healthz,
        metrics,
        cleanup: _,
        dry_run: _,
        write_config: _,
        conntrack,
        mode,
        ipvs: _,
        proxy,
    } = options;
    component::run(log, async |admin, tasks| {
        let alone = Alone::take()?;
        remove_other_modes(mode);
        conntrack::apply(&conntrack);
        let client = client::connect(kubeconfig.as_deref(), "twinstack-proxy").await?;
        component::report(client.clone(), "proxy", report::NAMESPACE.to_owned(), &tasks);
        let health = ProxyHealth::new(&proxy.families, proxy.sync_period * 2);
        let counters = ProxyMetrics::new(&admin.metrics, mode.name());
        serve_health(healthz, &health, &counters, &tasks)?;
        serve_metrics(metrics, admin, mode, &tasks)?;
        tracing::info!(node = proxy.node_name, families = ?proxy.families, mode = mode.name(), "proxy starts");
        let proxy = Proxy::new(proxy, Kernel { rules, conntrack: Arc::new(RealConntrack) }, health, counters, &tasks);
        tasks.once("proxy", |stop| async move {
            proxy.run(client, stop).await;
            drop(alone);
            Ok::<_, std::convert::Infallible>(())
        });
        Ok(())
    })
}

fn serve_health(
    at: Option<SocketAddr>,
    health: &ProxyHealth,
    counters: &ProxyMetrics,
    tasks: &Tasks,
) -> anyhow::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let listeners = listen::tcp(HEALTHZ_BIND_ADDRESS.name, &hosts(at.ip())?, at.port())?;
    let server = Server { listeners, tls: None, limits: Limits::default() };
    let counters = counters.clone();
    let service = health.clone().service(move |path, status| counters.health_answered(path, status));
    tasks.serve("healthz", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

fn serve_metrics(at: Option<SocketAddr>, admin: Admin, mode: Mode, tasks: &Tasks) -> anyhow::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let listeners = listen::tcp(METRICS_BIND_ADDRESS.name, &hosts(at.ip())?, at.port())?;
    let server = Server { listeners, tls: None, limits: Limits::default() };
    let service = proxy::metrics::with_mode(admin, mode.name());
    tasks.serve("metrics", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

fn hosts(ip: IpAddr) -> anyhow::Result<Hosts> {
    Ok(Hosts::from_str(&ip.to_string())?)
}

fn options(given: &mut Settings) -> ProxyOptions {
    let node_name = given.optional(&HOSTNAME_OVERRIDE).or_else(host_name);
    if node_name.is_none() {
        given.reject(HOSTNAME_OVERRIDE.name, "must be given: this machine does not know its own name");
    }
    let own = given.optional(&BIND_ADDRESS);
    let mode = given.get(&PROXY_MODE);
    let ipvs = proxy_ipvs::options(given);
    let mut proxy = ProxySettings {
        node_name: node_name.unwrap_or_default(),
        // 0.0.0.0 and :: mean: as the Node says.
        own_addresses: own.into_iter().flatten().filter(|ip| !ip.is_unspecified()).collect(),
        detect_local: detect_local(given),
        node_port_addresses: match given.optional(&NODEPORT_ADDRESSES) {
            Some(addresses) => addresses,
            None => NODEPORT_ADDRESSES.or(mode.node_port_addresses()).default(),
        },
        localhost_node_ports: given.get(&IPTABLES_LOCALHOST_NODEPORTS),
        masquerade_mark: 1 << given.get(&IPTABLES_MASQUERADE_BIT),
        masquerade_all: given.get(&MASQUERADE_ALL),
        sync_period: given.get(&IPTABLES_SYNC_PERIOD),
        min_sync_period: given.get(&IPTABLES_MIN_SYNC_PERIOD),
        families: settings::families_of_machine(),
    };
    if mode == Mode::Ipvs {
        (proxy.sync_period, proxy.min_sync_period) = (ipvs.sync_period, ipvs.min_sync_period);
    }
    ProxyOptions {
        kubeconfig: given.optional(&KUBECONFIG),
        healthz: given.get(&HEALTHZ_BIND_ADDRESS),
        metrics: given.get(&METRICS_BIND_ADDRESS),
        cleanup: given.get(&CLEANUP),
        dry_run: given.get(&DRY_RUN),
        conntrack: conntrack::options(given),
        write_config: given.optional(&WRITE_CONFIG_TO).map(|path| (path, configuration(mode, given))),
        mode,
        ipvs,
        proxy,
    }
}

/// These settings as a KubeProxyConfiguration, defaults and all.
fn configuration(mode: Mode, given: &Settings) -> serde_json::Value {
    let default = |flag: &str| match flag == NODEPORT_ADDRESSES.name {
        true => Some(mode.node_port_addresses().to_owned()),
        false => {
            COMMAND.flags.iter().copied().flatten().find(|known| known.name() == flag).map(|one| one.default_text())
        }
    };
    proxy::config::write(mode.name(), |flag| {
        let text = match given.text(flag) {
            Some(level) if flag == LOG_LEVEL.name => verbosity(&level),
            Some(text) => Some(text),
            None => default(flag),
        };
        text.filter(|text| !text.is_empty())
    })
}

/// Such a file has a number, which says less than our words.
fn verbosity(level: &str) -> Option<String> {
    let number = match level {
        "off" | "error" | "warn" | "info" => "0",
        "debug" => "4",
        "trace" => "6",
        number => number,
    };
    number.parse::<u8>().ok().map(|number| number.to_string())
}

fn mode(text: &str) -> Result<Mode, String> {
    let known = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    known.ok_or_else(|| format!("there is no mode {text:?} here"))
}

fn bit(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bit) if bit < 32 => Ok(bit),
        _ => Err("is no bit of a mark".to_owned()),
    }
}

/// How pods are told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DetectLocalMode {
    ClusterCidr,
    NodeCidr,
    BridgeInterface,
    InterfaceNamePrefix,
}

fn detect_local_mode(text: &str) -> Result<DetectLocalMode, String> {
    match text {
        "ClusterCIDR" => Ok(DetectLocalMode::ClusterCidr),
        "NodeCIDR" => Ok(DetectLocalMode::NodeCidr),
        "BridgeInterface" => Ok(DetectLocalMode::BridgeInterface),
        "InterfaceNamePrefix" => Ok(DetectLocalMode::InterfaceNamePrefix),
        _ => Err(format!("there is no mode {text:?}")),
    }
}

fn detect_local(given: &mut Settings) -> DetectLocal {
    let cidr = given.optional(&CLUSTER_CIDR);
    let bridge = given.optional(&POD_BRIDGE_INTERFACE);
    let prefix = given.optional(&POD_INTERFACE_NAME_PREFIX);
    let (found, missing) = match given.get(&DETECT_LOCAL_MODE) {
        DetectLocalMode::NodeCidr => return DetectLocal::NodeCidr,
        // Without blocks everything counts as from elsewhere, as upstream has it.
        DetectLocalMode::ClusterCidr => return cidr.map_or(DetectLocal::Off, DetectLocal::ClusterCidr),
        DetectLocalMode::BridgeInterface => (bridge.map(DetectLocal::Bridge), POD_BRIDGE_INTERFACE.name),
        DetectLocalMode::InterfaceNamePrefix => {
            (prefix.map(DetectLocal::InterfacePrefix), POD_INTERFACE_NAME_PREFIX.name)
        }
    };
    found.unwrap_or_else(|| {
        given.reject(DETECT_LOCAL_MODE.name, format!("needs --{missing} beside it"));
        DetectLocal::Off
    })
}

/// What the kernel takes as a name of an interface, and nft without escapes.
fn interface(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    match (1..=15).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("is no name of an interface: 1 to 15 letters, digits, dots, dashes or underscores".to_owned()),
    }
}

/// Where health is told unless somebody says otherwise.
pub(super) fn health_port() -> u16 {
    HEALTHZ_BIND_ADDRESS.default().map_or(0, |at| at.port())
}

/// An address alone has the port of the flag's default.
fn served_at(text: &str, default: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let port = default.parse::<SocketAddr>().map_or(0, |at| at.port());
    let alone = || net::parse_ip(text).map(|ip| SocketAddr::new(ip, port));
    text.parse::<SocketAddr>().or_else(|_| alone()).map(Some).map_err(|error| error.to_string())
}

/// As the kernel has it; Kubernetes writes it in small letters.
pub(crate) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim().to_lowercase();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_says_what_holds() {
        for mode in Mode::ALL {
            let flags = [("proxy-mode", mode.name()), ("log-level", "debug"), ("hostname-override", "node-1")];
            let settings = || {
                let flags = flags.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
                Settings::new("proxy").flags(flags)
            };
            let document = configuration(mode, &settings());
            assert_eq!(document["conntrack"]["maxPerCore"], 32_768, "{document:#}");
            assert_eq!(document["logging"]["verbosity"], 4, "{document:#}");
            let read = proxy::config::read(document.to_string().as_bytes()).unwrap();
            assert_eq!((&read.problems[..], &read.idle[..]), (&[][..], &[][..]));
            let values = read.values.into_iter().map(|given| (given.flag.to_owned(), given.text));
            let again = Settings::new("proxy").flags(values);
            let again = again.read(|given| Some((component::log(given), options(given)))).unwrap().1;
            let before = settings().read(|given| Some((component::log(given), options(given)))).unwrap().1;
            assert_eq!(format!("{:?}", again.proxy), format!("{:?}", before.proxy), "{}", mode.name());
        }
    }
}
