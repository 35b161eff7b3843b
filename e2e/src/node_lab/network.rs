//! Namespaces of a cluster: the hub, which routes between all others, the nodes, and somebody outside.

use crate::Process;
use kernel::netns::Namespace;
use std::path::Path;

/// Addresses of both families: the hub, where the API is, and whoever is outside.
pub(super) const HUB: [&str; 2] = ["192.168.78.254", "fd78::fe"];
pub(super) const OUTSIDE: [&str; 2] = ["192.168.79.1", "fd79::1"];
const OUTSIDE_GATE: [&str; 2] = ["192.168.79.254", "fd79::fe"];

/// The namespaces.
pub struct Network {
    hub: Namespace,
    nodes: Vec<Namespace>,
    outside: Namespace,
}

/// Somebody who is not in the cluster.
pub struct Outside;

impl Outside {
    pub const ADDRESSES: [&'static str; 2] = OUTSIDE;
}

/// The addresses of a node.
pub(super) fn node_addresses(number: usize) -> [String; 2] {
    [format!("192.168.78.{}", number + 1), format!("fd78::{}", number + 1)]
}

/// Whether this machine lets us.
pub(super) fn possible() -> bool {
    Namespace::new("probe").is_ok_and(|space| space.run("nft", &["list", "ruleset"], "").is_ok())
}

fn ip(space: &Namespace, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    space.run("ip", &words, "").unwrap_or_else(|error| panic!("ip {words:?}: {error}"));
}

impl Network {
    pub(super) fn new(nodes: usize) -> Self {
        let space = |part: &str| Namespace::new(part).expect("a namespace");
        let network = Self {
            hub: space("hub"),
            nodes: (0..nodes).map(|number| space(&format!("n{number}"))).collect(),
            outside: space("outside"),
        };
        let hub = &network.hub;
        hub.run("sh", &["-c", "cd /proc/sys/net; echo 1 > ipv4/ip_forward; echo 1 > ipv6/conf/all/forwarding"], "")
            .expect("forwarding can be switched on");
        ip(hub, "link add lan type bridge");
        ip(hub, "link set lan up");
        address(hub, "lan", &HUB);
        for (number, node) in network.nodes.iter().enumerate() {
            ip(hub, &format!("link add n{number} type veth peer name eth0 netns {}", node.name()));
            ip(hub, &format!("link set n{number} master lan up"));
            ip(node, "link set eth0 up");
            let own = node_addresses(number);
            address(node, "eth0", &[&own[0], &own[1]]);
            for gate in HUB {
                ip(node, &format!("route add default via {gate}"));
            }
        }
        ip(hub, &format!("link add outside type veth peer name eth0 netns {}", network.outside.name()));
        ip(hub, "link set outside up");
        ip(&network.outside, "link set eth0 up");
        address(hub, "outside", &OUTSIDE_GATE);
        address(&network.outside, "eth0", &OUTSIDE);
        // Whoever is outside knows the nodes, and nothing of Pods.
        ip(&network.outside, "route add 192.168.78.0/24 via 192.168.79.254");
        ip(&network.outside, "route add fd78::/64 via fd79::fe");
        network
    }

    pub fn hub(&self) -> &Namespace {
        &self.hub
    }

    pub fn node(&self, number: usize) -> &Namespace {
        &self.nodes[number]
    }

    pub fn outside(&self) -> &Namespace {
        &self.outside
    }

    /// Lets a node know which Pods are behind another.
    pub fn route(&self, node: usize, range: &str, to: usize) {
        let gates = node_addresses(to);
        let gate = if range.contains(':') { &gates[1] } else { &gates[0] };
        ip(&self.nodes[node], &format!("route replace {range} via {gate}"));
    }

    /// Starts a program in the hub.
    pub fn hub_process(&self, words: &[&str], log: &Path) -> Process {
        start(&self.hub, words, log)
    }

    /// Starts a program on a node.
    pub fn node_process(&self, number: usize, words: &[&str], log: &Path) -> Process {
        start(&self.nodes[number], words, log)
    }
}

fn address(space: &Namespace, device: &str, pair: &[&str; 2]) {
    ip(space, &format!("addr add {}/24 dev {device}", pair[0]));
    ip(space, &format!("addr add {}/64 dev {device} nodad", pair[1]));
}

/// Starts a program in a namespace's network and in everything else of this machine: `ip netns exec` would give it mounts of its own.
pub(super) fn start(space: &Namespace, words: &[&str], log: &Path) -> Process {
    let network = format!("--net=/run/netns/{}", space.name());
    let mut all = vec![network.as_str(), "--"];
    all.extend(words);
    Process::start("nsenter", &all, log)
}
