//! `twinstack proxy`: Services in the kernel of a node, both families.

use super::Command;
use crate::{
    component::{self, Log},
    flag::{Flag, flag},
    read,
};
use kernel::{
    conntrack::RealConntrack,
    nft::{Nft, RealNft},
};
use net::{Cidr, DualStack, flags};
use proxy::{
    alone::Alone,
    backend::{self, Backend, nft::NftBackend},
    health::ProxyHealth,
    metrics::ProxyMetrics,
    plan::{DetectLocal, NodePortAddresses},
    run::{Kernel, Proxy},
    settings::{self, Settings as ProxySettings},
};
use runtime::{
    admin::Admin,
    client,
    config::Settings,
    http::{Limits, Server},
    listen::{self, Hosts},
    task::Tasks,
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
    more: "Programs nftables so that cluster IPs, node ports, external and load balancer addresses lead to endpoints, IPv4 and \
           IPv6 side by side. Needs root (CAP_NET_ADMIN) and the program nft. Rules stay when it stops; the next start takes \
           them over without a gap, and --cleanup removes them. Flags are those of kube-proxy where it has them; every one can \
           also stand in the file of --config, or in the environment as TWINSTACK_PROXY_ and its name in capitals.",
    example: "twinstack proxy --kubeconfig ./node.kubeconfig --cluster-cidr 10.244.0.0/16,fd00:10:244::/56\n\
              twinstack proxy --cleanup",
    flags: FLAGS,
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("kubeconfig", "FILE", "", "how to reach the API; the pod's service account when not given"),
    flag("hostname-override", "NAME", "", "name of this node's Node; the host's name when not given"),
    flag("bind-address", "ADDRESS[,ADDRESS]", "", "this node's address, or one of each family, where the Node object does not say; nothing listens there"),
    flag("proxy-mode", "MODE", "nftables", "how to program the kernel: nftables"),
    flag("cluster-cidr", "CIDR[,CIDR]", "", "the pods' addresses, one block or one of each family; others are masqueraded on their way to cluster IPs"),
    flag("detect-local-mode", "MODE", "ClusterCIDR", "how pods are told from others: ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix"),
    flag("pod-bridge-interface", "NAME", "", "the pods' bridge, for BridgeInterface"),
    flag("pod-interface-name-prefix", "PREFIX", "", "how the names of the pods' interfaces begin, for InterfaceNamePrefix"),
    flag("nodeport-addresses", "CIDR,...", "primary", "where node ports are open: blocks, primary (the Node's first address of each family) or all; a family without a block has none"),
    flag("masquerade-all", "BOOL", "false", "masquerade everything to cluster IPs"),
    flag("iptables-masquerade-bit", "BIT", "14", "bit of a packet's mark that asks for masquerading, 0 to 31"),
    flag("iptables-sync-period", "DURATION", "30s", "how often the rules are looked after when nothing happens"),
    flag("iptables-min-sync-period", "DURATION", "0s", "shortest time between two changes of the rules"),
    flag("healthz-bind-address", "ADDRESS:PORT", "[::]:10256", "where /healthz and /livez are served; empty for nowhere"),
    flag("metrics-bind-address", "ADDRESS:PORT", "127.0.0.1:10249", "where /metrics and /proxyMode are served; empty for nowhere"),
    flag("cleanup", "BOOL", "false", "remove all rules of this program and end"),
];

/// Everything the flags say.
struct Options {
    kubeconfig: Option<PathBuf>,
    healthz: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    cleanup: bool,
    proxy: ProxySettings,
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, options) = settings.read(|given| Some((component::log(given), options(given))))?;
    let nft = RealNft::default();
    nft.probe()?;
    if options.cleanup {
        return clean_up(&nft);
    }
    serve(&log, options, Arc::new(nft))
}

fn clean_up(nft: &dyn Nft) -> anyhow::Result<()> {
    let removed = backend::nft::remove(nft)?;
    if removed.is_empty() {
        anstream::println!("there were no rules");
    }
    for family in removed {
        anstream::println!("removed the {family} rules");
    }
    Ok(())
}

fn serve(log: &Log, options: Options, nft: Arc<dyn Nft>) -> anyhow::Result<()> {
    let Options { kubeconfig, healthz, metrics, cleanup: _, proxy } = options;
    component::run(log, async |admin, tasks| {
        let alone = Alone::take()?;
        let client = client::connect(kubeconfig.as_deref(), "twinstack-proxy").await?;
        let health = ProxyHealth::new(&proxy.families, proxy.sync_period * 2);
        let counters = ProxyMetrics::new(&admin.metrics);
        serve_health(healthz, &health, &counters, &tasks)?;
        serve_metrics(metrics, admin, &tasks)?;
        tracing::info!(node = proxy.node_name, families = ?proxy.families, "proxy starts");
        let rules = Arc::new(move |family| Box::new(NftBackend::new(family, Arc::clone(&nft))) as Box<dyn Backend>);
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

fn serve_metrics(at: Option<SocketAddr>, admin: Admin, tasks: &Tasks) -> anyhow::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let listeners = listen::tcp("metrics-bind-address", &hosts(at.ip())?, at.port())?;
    let server = Server { listeners, tls: None, limits: Limits::default() };
    let service = proxy::metrics::with_mode(admin);
    tasks.serve("metrics", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

fn hosts(ip: IpAddr) -> anyhow::Result<Hosts> {
    Ok(Hosts::from_str(&ip.to_string())?)
}

fn options(given: &mut Settings) -> Options {
    const DURATION: &str = "a length of time such as 90s or 1h30m";
    const ADDRESS: &str = "ADDRESS:PORT such as [::]:10256, an address alone, or nothing";
    let text = |text: &str| Ok::<_, String>(text.to_owned());
    let node_name = given.optional("hostname-override", "the name of a Node", text).or_else(host_name);
    if node_name.is_none() {
        given.reject("hostname-override", "must be given: this machine does not know its own name");
    }
    let own = given.optional("bind-address", "one address, or one of each family", |text| {
        flags::one_or_pair::<IpAddr>("bind-address", text)
    });
    given.optional("proxy-mode", "nftables", |mode| match mode {
        "nftables" => Ok(()),
        other => Err(format!("there is no mode {other:?} here")),
    });
    let bit = given.or("iptables-masquerade-bit", 14, "a number from 0 to 31", |text| match text.parse::<u32>() {
        Ok(bit) if bit < 32 => Ok(bit),
        _ => Err("is no bit of a mark"),
    });
    let proxy = ProxySettings {
        node_name: node_name.unwrap_or_default(),
        // 0.0.0.0 and :: mean: as the Node says.
        own_addresses: own.into_iter().flatten().filter(|ip| !ip.is_unspecified()).collect(),
        detect_local: detect_local(given),
        node_port_addresses: given.or(
            "nodeport-addresses",
            NodePortAddresses::default(),
            "CIDRs, primary, all",
            NodePortAddresses::from_str,
        ),
        masquerade_mark: 1 << bit,
        masquerade_all: given.or("masquerade-all", false, "true, false", str::parse::<bool>),
        sync_period: given.or("iptables-sync-period", Duration::from_secs(30), DURATION, |text| {
            read::duration(text).and_then(|time| if time.is_zero() { Err("must be longer than 0") } else { Ok(time) })
        }),
        min_sync_period: given.or("iptables-min-sync-period", Duration::ZERO, DURATION, read::duration),
        families: settings::families_of_machine(),
    };
    Options {
        kubeconfig: given.optional("kubeconfig", "a file", read::path),
        healthz: given.or("healthz-bind-address", "[::]:10256".parse().ok(), ADDRESS, |text| place(text, 10256)),
        metrics: given.or("metrics-bind-address", "127.0.0.1:10249".parse().ok(), ADDRESS, |text| place(text, 10249)),
        cleanup: given.or("cleanup", false, "true, false", str::parse::<bool>),
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
