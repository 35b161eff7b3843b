//! Namespaces and the cables between them.

use kernel::netns::Namespace;
use std::{net::IpAddr, sync::Arc};

/// Addresses of both families that mean the same thing.
pub type Pair = [&'static str; 2];

pub const NODE: Pair = ["192.168.77.1", "fd77::1"];
/// Somebody outside of the cluster.
pub const CLIENT: Pair = ["192.168.77.2", "fd77::2"];
/// Two pods on the node, one elsewhere.
pub const PODS: [Pair; 3] = [["10.244.1.2", "fd44:1::2"], ["10.244.2.2", "fd44:2::2"], ["10.244.3.2", "fd44:3::2"]];
/// The node's side of the pods' cables: what a pod sees of a client that is masqueraded.
pub const GATES: [Pair; 3] = [["10.244.1.1", "fd44:1::1"], ["10.244.2.1", "fd44:2::1"], ["10.244.3.1", "fd44:3::1"]];
/// Addresses that only rules know; packets to them must get as far as the rules.
const VIRTUAL: [&str; 5] = ["10.96.0.0/16", "fd00:10:96::/112", "198.18.0.0/15", "198.51.100.0/24", "2001:db8::/32"];

/// An address that is known to be one.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Whether this machine lets us.
pub(super) fn possible() -> bool {
    Namespace::new("probe").is_ok_and(|space| space.run("nft", &["list", "ruleset"], "").is_ok())
}

/// The client, the node and the pods.
pub(super) fn make() -> (Namespace, Namespace, Vec<Arc<Namespace>>) {
    let space = |part| Namespace::new(part).expect("a namespace");
    let (client, node) = (space("client"), space("node"));
    let pods: Vec<Arc<Namespace>> = PODS.iter().map(|_| Arc::new(space("pod"))).collect();
    cable(&node, &client, "client", NODE, CLIENT);
    for (at, pod) in pods.iter().enumerate() {
        cable(&node, pod, &format!("pod{at}"), GATES[at], PODS[at]);
    }
    // The kernel sends few ICMP errors per second, in all namespaces together; tests ask more often than clients do. What is not in the mask
    // has no limit.
    let switches = "cd /proc/sys/net; echo 1 > ipv4/ip_forward; echo 1 > ipv6/conf/all/forwarding; \
                    echo 0 > ipv4/icmp_ratemask; echo 127 > ipv6/icmp/ratemask";
    node.run("sh", &["-c", switches], "").expect("forwarding can be switched on");
    for range in VIRTUAL {
        node.run("ip", &["route", "add", range, "dev", "client"], "").expect("a route");
    }
    (client, node, pods)
}

/// A cable between the node and another namespace; the other end routes everything to the node.
pub fn cable(node: &Namespace, other: &Namespace, name: &str, near: Pair, far: Pair) {
    let ip = |space: &Namespace, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        space.run("ip", &words, "").expect("ip does it");
    };
    ip(node, &format!("link add {name} type veth peer name eth0 netns {}", other.name()));
    ip(node, &format!("link set {name} up"));
    ip(other, "link set eth0 up");
    for (bits, near, far) in [(24, near[0], far[0]), (64, near[1], far[1])] {
        let nodad = if bits == 64 { " nodad" } else { "" };
        ip(node, &format!("addr add {near}/{bits} dev {name}{nodad}"));
        ip(other, &format!("addr add {far}/{bits} dev eth0{nodad}"));
        ip(other, &format!("route add default via {near}"));
    }
}
