//! The table as it is without any Service: sets, hooks and the rules that all Services share.
//!
//! A new connection passes a gate (may it?), then `services` (where to?), then `masquerading` (under which address?).

use super::{Fixed, chains::At};
use crate::{
    plan::{LocalPods, NodePortMatch},
    track::Protocol,
};
use kernel::nft::{SetKind, word};
use net::{Cidr, Family, HasFamily};

/// Name of the table in both families.
pub const TABLE: &str = "twinstack-proxy";

pub(super) const SERVICES: &str = "services";
pub(super) const OWN: &str = "services-own";
pub(super) const OTHERS: &str = "services-others";
pub(super) const GATE: &str = "gates";
pub(super) const NODE_PORTS: &str = "node-ports";
pub(super) const NODE_OWN: &str = "node-ports-own";
pub(super) const NODE_OTHERS: &str = "node-ports-others";
pub(super) const NODE_GATE: &str = "node-port-gates";
/// Chains for node ports that are refused or dropped: they make sure that the packet is for the node.
pub(super) const NODE_REFUSE: &str = "node-port-refuse";
pub(super) const NODE_DROP: &str = "node-port-drop";
pub(super) const ALLOWED: &str = "allowed-sources";
pub(super) const CLUSTER_IPS: &str = "cluster-ips";
pub(super) const HAIRPINS: &str = "hairpins";
pub(super) const NODE_ADDRESSES: &str = "node-port-addresses";
/// Which client is with which endpoint. The only thing that packets write; it is kept when the rest is replaced.
pub(super) const AFFINITY: &str = "affinity";

/// Kind, name and definition of every set.
pub(super) fn sets(family: Family) -> Vec<(SetKind, &'static str, String)> {
    let ip = word(family);
    let address = format!("typeof {ip} daddr . meta l4proto . th dport");
    let node_port = "typeof meta l4proto . th dport";
    let map = |name, definition: String| (SetKind::Map, name, definition);
    let set = |name, definition: String| (SetKind::Set, name, definition);
    let mut sets = vec![
        map(SERVICES, format!("{address} : verdict")),
        map(OWN, format!("{address} : verdict")),
        map(OTHERS, format!("{address} : verdict")),
        map(GATE, format!("{address} : verdict")),
        map(NODE_PORTS, format!("{node_port} : verdict")),
        map(NODE_OWN, format!("{node_port} : verdict")),
        map(NODE_OTHERS, format!("{node_port} : verdict")),
        map(NODE_GATE, format!("{node_port} : verdict")),
        set(ALLOWED, format!("{address} . {ip} saddr; flags interval")),
        set(CLUSTER_IPS, format!("typeof {ip} daddr")),
        set(HAIRPINS, format!("typeof {ip} saddr . {ip} daddr")),
        set(NODE_ADDRESSES, format!("typeof {ip} daddr; flags interval")),
        set(AFFINITY, format!("typeof {ip} saddr . numgen random mod 2; size 1048576; flags dynamic,timeout")),
    ];
    for protocol in Protocol::ALL {
        let endpoint = format!("numgen random mod 2 : {ip} daddr . {protocol} dport");
        sets.push(map(endpoints(At::Address, protocol), format!("{address} . {endpoint}")));
        sets.push(map(endpoints(At::NodePort, protocol), format!("{node_port} . {endpoint}")));
    }
    sets
}

/// The map with the endpoints of frontends. One for each transport: nft (1.0.6) takes a rule that translates ports by a map of
/// another process only if rule and map name the same transport.
pub(super) const fn endpoints(at: At, protocol: Protocol) -> &'static str {
    match (at, protocol) {
        (At::Address, Protocol::Tcp) => "endpoints-tcp",
        (At::Address, Protocol::Udp) => "endpoints-udp",
        (At::Address, Protocol::Sctp) => "endpoints-sctp",
        (At::NodePort, Protocol::Tcp) => "node-port-endpoints-tcp",
        (At::NodePort, Protocol::Udp) => "node-port-endpoints-udp",
        (At::NodePort, Protocol::Sctp) => "node-port-endpoints-sctp",
    }
}

/// Chains that the kernel calls. `gate` is before the destination changes; `-late` is after it.
pub(super) const HOOKS: &[(&str, &str)] = &[
    ("prerouting-gate", "type filter hook prerouting priority -110"),
    ("output-gate", "type filter hook output priority -110"),
    ("prerouting", "type nat hook prerouting priority -100"),
    ("output", "type nat hook output priority -100"),
    ("forward-late", "type filter hook forward priority 0"),
    ("output-late", "type filter hook output priority 0"),
    ("postrouting", "type nat hook postrouting priority 100"),
];

/// Chain and rule, in order.
pub(super) fn rules(family: Family, fixed: &Fixed) -> Vec<(&'static str, String)> {
    let ip = word(family);
    let address = format!("{ip} daddr . meta l4proto . th dport");
    let node_port = "meta l4proto . th dport";
    let mark = mark(fixed);
    let mask = fixed.masquerade_mark;
    // The kernel routes nothing away from loopback addresses: who is sent to a pod from there would wait for ever.
    let loopback = if family == Family::V4 { "127.0.0.0/8" } else { "::1" };
    let to_node = match &fixed.node_ports {
        NodePortMatch::All => format!("{ip} daddr != {loopback} fib daddr type local"),
        NodePortMatch::In(_) => format!("{ip} daddr != {loopback} {ip} daddr @{NODE_ADDRESSES} fib daddr type local"),
    };
    let (gate, node_gate) = (format!("{address} vmap @{GATE}"), format!("{node_port} vmap @{NODE_GATE}"));
    let mut rules = vec![
        ("prerouting-gate", format!("ct state new {gate}")),
        // The port first: whether an address is the node's own costs more to find out than all the rest, and few ports are
        // refused.
        ("prerouting-gate", format!("ct state new {node_gate}")),
        ("output-gate", format!("ct state new {gate}")),
        // A datagram that is stopped here gives its sender EPERM. One to the node itself comes by `prerouting-gate` next, where it
        // is refused as if it came from elsewhere.
        ("output-gate", format!("ct state new meta l4proto tcp {node_gate}")),
        (NODE_REFUSE, format!("{to_node} goto refuse")),
        (NODE_DROP, format!("{to_node} drop")),
        // A reset is not rate-limited as ICMP is: every client of a Service without endpoints hears it at once.
        ("refuse", "meta l4proto tcp reject with tcp reset".to_owned()),
        ("refuse", "reject".to_owned()),
        ("check-source", format!("{address} . {ip} saddr @{ALLOWED} accept")),
        ("check-source", "drop".to_owned()),
        ("prerouting", "jump services".to_owned()),
        ("output", "jump services".to_owned()),
    ];
    rules.extend(
        not_a_pod(ip, fixed).map(|not_a_pod| ("services", format!("{not_a_pod}{ip} daddr @{CLUSTER_IPS} {mark}"))),
    );
    rules.push(("services", format!("{address} vmap @{SERVICES}")));
    rules.push(("services", format!("{to_node} {node_port} vmap @{NODE_PORTS}")));
    for (chain, key, own, others) in
        [("local", address.as_str(), OWN, OTHERS), ("local-node-port", node_port, NODE_OWN, NODE_OTHERS)]
    {
        rules.extend(a_pod(ip, fixed).map(|a_pod| (chain, format!("{a_pod} {key} vmap @{own}"))));
        rules.push((chain, format!("fib saddr type local {mark}")));
        rules.push((chain, format!("fib saddr type local {key} vmap @{own}")));
        rules.push((chain, format!("{key} vmap @{others}")));
    }
    // What still has a cluster IP as its destination has no such port.
    for chain in ["forward-late", "output-late"] {
        rules.push((chain, format!("ct state new {ip} daddr @{CLUSTER_IPS} goto refuse")));
        // An address that no Service has must not wander off to some router.
        rules.extend(fixed.service_cidrs.iter().map(|cidr| (chain, format!("ct state new {ip} daddr {cidr} drop"))));
    }
    rules.push((
        "postrouting",
        format!("meta mark and {mask:#x} != 0 meta mark set meta mark xor {mask:#x} masquerade fully-random"),
    ));
    rules.push(("postrouting", format!("ct status dnat {ip} saddr . {ip} daddr @{HAIRPINS} masquerade fully-random")));
    rules
}

/// Asks for masquerading.
pub(super) fn mark(fixed: &Fixed) -> String {
    format!("meta mark set meta mark or {:#x}", fixed.masquerade_mark)
}

/// Matches what is to be masqueraded on its way to a cluster IP; `None` when nothing is.
fn not_a_pod(ip: &str, fixed: &Fixed) -> Option<String> {
    if fixed.masquerade_all {
        return Some(String::new());
    }
    match &fixed.local {
        LocalPods::Unknown => None,
        LocalPods::Within(cidr) => Some(format!("{ip} saddr != {cidr} ")),
        LocalPods::Interface(name) => Some(format!("iifname != \"{name}\" ")),
        LocalPods::InterfacePrefix(prefix) => Some(format!("iifname != \"{prefix}*\" ")),
    }
}

fn a_pod(ip: &str, fixed: &Fixed) -> Option<String> {
    match &fixed.local {
        LocalPods::Unknown => None,
        LocalPods::Within(cidr) => Some(format!("{ip} saddr {cidr}")),
        LocalPods::Interface(name) => Some(format!("iifname \"{name}\"")),
        LocalPods::InterfacePrefix(prefix) => Some(format!("iifname \"{prefix}*\"")),
    }
}

/// Elements that come from settings and the Node.
pub(super) fn node_addresses(family: Family, fixed: &Fixed) -> Vec<Cidr> {
    match &fixed.node_ports {
        NodePortMatch::All => Vec::new(),
        NodePortMatch::In(cidrs) => cidrs.iter().copied().filter(|cidr| cidr.family() == family).collect(),
    }
}
