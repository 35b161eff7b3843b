//! `twinstack proxy`: Services in the kernel of a node, both families.

mod conntrack;
mod dry_run;
pub(crate) mod explain;
pub(crate) mod file;

use super::{Command, proxy_ipvs};
use crate::{
    component::{self, Log},
    flag::{Flag, flag},
    kubeconfig, read,
};
use anyhow::Context;
use kernel::{
    conntrack::RealConntrack,
    iptables::{self, RealIptables},
    nft::RealNft,
};
use net::{Cidr, DualStack, Family, flags};
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
    flags: &[&[kubeconfig::FLAG], FLAGS, conntrack::FLAGS, ONCE],
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("hostname-override", "NAME", "", "name of this node's Node; the host's name when not given"),
    flag("bind-address", "ADDRESS[,ADDRESS]", "", "this node's address, or one of each family, where the Node object does not say; nothing listens there"),
    flag("proxy-mode", "MODE", "nftables", "how to program the kernel: nftables, iptables, ipvs"),
    flag("cluster-cidr", "CIDR[,CIDR]", "", "the pods' addresses, one block or one of each family; others are masqueraded on their way to cluster IPs"),
    flag("detect-local-mode", "MODE", "ClusterCIDR", "how pods are told from others: ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix"),
    flag("pod-bridge-interface", "NAME", "", "the pods' bridge, for BridgeInterface"),
    flag("pod-interface-name-prefix", "PREFIX", "", "how the names of the pods' interfaces begin, for InterfaceNamePrefix"),
    flag("nodeport-addresses", "CIDR,...", "primary", "where node ports are open: blocks, primary (the Node's first address of each family) or all (the default with iptables and ipvs); a family without a block has none"),
    flag("iptables-localhost-nodeports", "BOOL", "true", "with iptables: node ports are open at 127.0.0.1 too, where they are open at all addresses"),
    flag("masquerade-all", "BOOL", "false", "masquerade everything to cluster IPs"),
    flag("iptables-masquerade-bit", "BIT", "14", "bit of a packet's mark that asks for masquerading, 0 to 31"),
    flag("iptables-sync-period", "DURATION", "30s", "how often the rules are looked after when nothing happens"),
    flag("iptables-min-sync-period", "DURATION", "0s", "shortest time between two changes of the rules"),
    flag("ipvs-scheduler", "NAME", "rr", "with ipvs: how endpoints are chosen, such as rr, lc, sh"),
    flag("ipvs-sync-period", "DURATION", "30s", "with ipvs: how often everything is looked after when nothing happens"),
    flag("ipvs-min-sync-period", "DURATION", "0s", "with ipvs: shortest time between two changes"),
    flag("ipvs-strict-arp", "BOOL", "false", "with ipvs: interfaces answer ARP for their own addresses alone"),
    flag("ipvs-exclude-cidrs", "CIDR,...", "", "with ipvs: virtual servers in these blocks are not touched"),
    flag("ipvs-tcp-timeout", "DURATION", "0s", "with ipvs: how long idle TCP connections are remembered; 0s for the kernel's own"),
    flag("ipvs-tcpfin-timeout", "DURATION", "0s", "with ipvs: how long ended TCP connections are remembered; 0s for the kernel's own"),
    flag("ipvs-udp-timeout", "DURATION", "0s", "with ipvs: how long UDP flows are remembered; 0s for the kernel's own"),
    flag("healthz-bind-address", "ADDRESS:PORT", "[::]:10256", "where /healthz and /livez are served; empty for nowhere"),
    flag("metrics-bind-address", "ADDRESS:PORT", "127.0.0.1:10249", "where /metrics and /proxyMode are served; empty for nowhere"),
];

/// What does something once instead of serving.
#[rustfmt::skip]
const ONCE: &[Flag] = &[
    flag("cleanup", "BOOL", "false", "remove all rules of this program and end"),
    flag("dry-run", "BOOL", "false", "read the API once, print the rules, change nothing and end; needs no root"),
    flag("write-config-to", "FILE", "", "write these settings as a KubeProxyConfiguration and end"),
];

/// Everything the flags say.
struct Options {
    kubeconfig: Option<PathBuf>,
    healthz: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    cleanup: bool,
    dry_run: bool,
    /// Where to write it, and what.
    write_config: Option<(PathBuf, serde_json::Value)>,
    conntrack: conntrack::Options,
    mode: Mode,
    ipvs: proxy_ipvs::Options,
    proxy: ProxySettings,
}

/// How the kernel is programmed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
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

    /// What makes the rules of a family, once it is sure that this machine can.
    fn rules(self, proxy: &ProxySettings, ipvs: &proxy_ipvs::Options) -> anyhow::Result<Rules> {
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
    let (log, options) = settings.read(|given| Some((component::log(given), options(given))))?;
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
fn snapshot(options: &Options) -> anyhow::Result<Tracker> {
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

fn serve(log: &Log, options: Options, rules: Rules) -> anyhow::Result<()> {
    let Options {
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
    let listeners = listen::tcp("healthz-bind-address", &hosts(at.ip())?, at.port())?;
    let server = Server { listeners, tls: None, limits: Limits::default() };
    let counters = counters.clone();
    let service = health.clone().service(move |path, status| counters.health_answered(path, status));
    tasks.serve("healthz", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

fn serve_metrics(at: Option<SocketAddr>, admin: Admin, mode: Mode, tasks: &Tasks) -> anyhow::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let listeners = listen::tcp("metrics-bind-address", &hosts(at.ip())?, at.port())?;
    let server = Server { listeners, tls: None, limits: Limits::default() };
    let service = proxy::metrics::with_mode(admin, mode.name());
    tasks.serve("metrics", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

fn hosts(ip: IpAddr) -> anyhow::Result<Hosts> {
    Ok(Hosts::from_str(&ip.to_string())?)
}

/// Reads the flags as [`run`] does, and nothing else.
pub(super) fn check(given: &mut Settings) -> Option<()> {
    component::log(given);
    options(given);
    Some(())
}

fn options(given: &mut Settings) -> Options {
    const ADDRESS: &str = "ADDRESS:PORT such as [::]:10256, an address alone, or nothing";
    let text = |text: &str| Ok::<_, String>(text.to_owned());
    let node_name = given.optional("hostname-override", "the name of a Node", text).or_else(host_name);
    if node_name.is_none() {
        given.reject("hostname-override", "must be given: this machine does not know its own name");
    }
    let own = given.optional("bind-address", "one address, or one of each family", |text| {
        flags::one_or_pair::<IpAddr>("bind-address", text)
    });
    let mode = given.or("proxy-mode", Mode::Nftables, "nftables, iptables, ipvs", |text| {
        let known = Mode::ALL.into_iter().find(|mode| mode.name() == text);
        known.ok_or_else(|| format!("there is no mode {text:?} here"))
    });
    let node_ports = if mode == Mode::Nftables { NodePortAddresses::Primary } else { NodePortAddresses::All };
    let bit = given.or("iptables-masquerade-bit", 14, "a number from 0 to 31", |text| match text.parse::<u32>() {
        Ok(bit) if bit < 32 => Ok(bit),
        _ => Err("is no bit of a mark"),
    });
    let ipvs = proxy_ipvs::options(given);
    let mut proxy = ProxySettings {
        node_name: node_name.unwrap_or_default(),
        // 0.0.0.0 and :: mean: as the Node says.
        own_addresses: own.into_iter().flatten().filter(|ip| !ip.is_unspecified()).collect(),
        detect_local: detect_local(given),
        node_port_addresses: given.or(
            "nodeport-addresses",
            node_ports,
            "CIDRs, primary, all",
            NodePortAddresses::from_str,
        ),
        localhost_node_ports: given.or("iptables-localhost-nodeports", true, "true, false", str::parse::<bool>),
        masquerade_mark: 1 << bit,
        masquerade_all: given.or("masquerade-all", false, "true, false", str::parse::<bool>),
        sync_period: given.or("iptables-sync-period", Duration::from_secs(30), read::DURATION, |text| {
            read::duration(text).and_then(|time| if time.is_zero() { Err("must be longer than 0") } else { Ok(time) })
        }),
        min_sync_period: given.or("iptables-min-sync-period", Duration::ZERO, read::DURATION, read::duration),
        families: settings::families_of_machine(),
    };
    if mode == Mode::Ipvs {
        (proxy.sync_period, proxy.min_sync_period) = (ipvs.sync_period, ipvs.min_sync_period);
    }
    Options {
        kubeconfig: kubeconfig::read(given),
        healthz: given.or("healthz-bind-address", "[::]:10256".parse().ok(), ADDRESS, |text| place(text, 10256)),
        metrics: given.or("metrics-bind-address", "127.0.0.1:10249".parse().ok(), ADDRESS, |text| place(text, 10249)),
        cleanup: given.or("cleanup", false, "true, false", str::parse::<bool>),
        dry_run: given.or("dry-run", false, "true, false", str::parse::<bool>),
        conntrack: conntrack::options(given),
        write_config: given.optional("write-config-to", "a file", read::path).map(|path| {
            let document = proxy::config::write(mode.name(), |flag| {
                let text = given.optional(flag, "", |text| Ok::<_, String>(text.to_owned()));
                let default = FLAGS.iter().find(|known| known.name == flag).map(|known| known.default.to_owned());
                text.or(default).filter(|text| !text.is_empty())
            });
            (path, document)
        }),
        mode,
        ipvs,
        proxy,
    }
}

fn detect_local(given: &mut Settings) -> DetectLocal {
    let cidr: Option<DualStack<Cidr>> = given.optional("cluster-cidr", "one CIDR, or one of each family", |text| {
        flags::one_or_pair::<Cidr>("cluster-cidr", text)
    });
    let bridge = given.optional("pod-bridge-interface", "the name of an interface", interface);
    let prefix = given.optional("pod-interface-name-prefix", "the beginning of a name", interface);
    let modes = "ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix";
    let mode = given.or("detect-local-mode", "ClusterCIDR".to_owned(), modes, |mode| {
        let known = modes.split(", ").any(|known| known == mode);
        if known { Ok(mode.to_owned()) } else { Err(format!("there is no mode {mode:?}")) }
    });
    match (mode.as_str(), cidr, bridge, prefix) {
        ("ClusterCIDR", Some(cidr), ..) => DetectLocal::ClusterCidr(cidr),
        ("NodeCIDR", ..) => DetectLocal::NodeCidr,
        ("BridgeInterface", _, Some(bridge), _) => DetectLocal::Bridge(bridge),
        ("InterfaceNamePrefix", _, _, Some(prefix)) => DetectLocal::InterfacePrefix(prefix),
        ("BridgeInterface", ..) => {
            given.reject("detect-local-mode", "needs --pod-bridge-interface beside it");
            DetectLocal::Off
        }
        ("InterfaceNamePrefix", ..) => {
            given.reject("detect-local-mode", "needs --pod-interface-name-prefix beside it");
            DetectLocal::Off
        }
        _ => DetectLocal::Off,
    }
}

/// What the kernel takes as a name of an interface, and nft without escapes.
fn interface(text: &str) -> Result<String, &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    match (1..=15).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("is no name of an interface: 1 to 15 letters, digits, dots, dashes or underscores"),
    }
}

fn place(text: &str, port: u16) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let alone = || net::parse_ip(text).map(|ip| SocketAddr::new(ip, port));
    text.parse::<SocketAddr>().or_else(|_| alone()).map(Some).map_err(|error| error.to_string())
}

/// As the kernel has it; Kubernetes writes it in small letters.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim().to_lowercase();
    (!name.is_empty()).then_some(name)
}
