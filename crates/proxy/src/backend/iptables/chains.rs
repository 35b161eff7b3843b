//! The chains of one Service in the table nat: which endpoint a packet goes to, and whether it is masqueraded.
//!
//! Rules are in the words of `iptables-save`: a chain that is there as it should be is known by its text.

use super::{
    Fixed,
    group::Group,
    lines,
    names::{MARK, PortName},
};
use crate::plan::{Affinity, Frontend, LocalPods, Pool, Route, Sources, To};
use kernel::iptables::Chains;
use net::{Cidr, Family, HasFamily};
use std::net::SocketAddr;

/// All chains of a group.
pub(super) fn chains(fixed: &Fixed, group: &Group<'_>) -> Chains {
    let mut chains = Chains::new();
    let pools = [(group.port.cluster(), group.cluster()), (group.port.local(), group.local())];
    for (chain, pool) in pools {
        let Some(pool) = pool else { continue };
        let mut rules = Vec::new();
        if chain == group.inside_chain() {
            rules.extend(group.inside.iter().filter_map(|route| masquerade_strangers(fixed, route)));
        }
        rules.extend(choose(&group.port, pool));
        chains.insert(chain, rules);
        for endpoint in pool.endpoints.iter() {
            chains.insert(group.port.endpoint(*endpoint), to_endpoint(&group.port, *endpoint, pool));
        }
    }
    if let Some(route) = group.outside.first() {
        chains.insert(group.port.external(), from_outside(fixed, &group.port, &route.to));
    }
    for route in &group.outside {
        if let Some((chain, sources)) = firewall(&group.port, route) {
            let to = group.port.external();
            chains.insert(chain, sources.iter().map(|source| format!("-s {source} -j {to}")).collect());
        }
    }
    chains
}

/// The chain that lets only some clients on, and who they are.
pub(super) fn firewall<'a>(port: &PortName, route: &'a Route) -> Option<(String, &'a [Cidr])> {
    match (&route.sources, route.frontend) {
        (Sources::Only(sources), Frontend::Address { ip, port: number, .. }) => {
            Some((port.firewall(SocketAddr::new(ip, number)), sources))
        }
        _ => None,
    }
}

/// Who is not a pod is masqueraded on the way to a cluster IP. The chain may serve other frontends too.
fn masquerade_strangers(fixed: &Fixed, route: &Route) -> Option<String> {
    let Frontend::Address { ip, .. } = route.frontend else { return None };
    let (ip, port) = (lines::host(ip), lines::port(route.frontend));
    let to = match &fixed.local {
        _ if fixed.masquerade_all => format!("-d {ip}"),
        LocalPods::Unknown => return None,
        LocalPods::Within(cidr) => format!("! -s {cidr} -d {ip}"),
        LocalPods::Interface(name) => format!("-d {ip} ! -i {name}"),
        LocalPods::InterfacePrefix(prefix) => format!("-d {ip} ! -i {prefix}+"),
    };
    Some(format!("{to} {port} -j {MARK}"))
}

/// Where a client was before, or one at random: each rule takes its share of what the rules before it left.
fn choose(port: &PortName, pool: &Pool) -> Vec<String> {
    let mut rules = Vec::with_capacity(pool.endpoints.len());
    if let Some(Affinity { seconds, .. }) = pool.affinity {
        for endpoint in pool.endpoints.iter() {
            let chain = port.endpoint(*endpoint);
            let list = list_of(&chain, *endpoint);
            rules.push(format!("-m recent --rcheck --seconds {seconds} --reap {list} -j {chain}"));
        }
    }
    for (at, endpoint) in pool.endpoints.iter().enumerate() {
        let (left, chain) = (pool.endpoints.len() - at, port.endpoint(*endpoint));
        rules.push(match left {
            1 => format!("-j {chain}"),
            _ => format!("-m statistic --mode random --probability {:.11} -j {chain}", share(left)),
        });
    }
    rules
}

/// One of so many, as the kernel keeps it: in parts of 2^31.
fn share(of: usize) -> f64 {
    const WHOLE: f64 = 2_147_483_648.0;
    (WHOLE / of as f64).round() / WHOLE
}

/// The list of clients that an endpoint has.
fn list_of(chain: &str, endpoint: SocketAddr) -> String {
    let mask = match endpoint.ip().family() {
        Family::V4 => "255.255.255.255",
        Family::V6 => "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    };
    format!("--name {chain} --mask {mask} --rsource")
}

/// A pod that is sent to itself must not see its own address as the sender.
fn to_endpoint(port: &PortName, endpoint: SocketAddr, pool: &Pool) -> Vec<String> {
    let (ip, protocol) = (lines::host(endpoint.ip()), port.protocol);
    let note = |_| format!("-m recent --set {} ", list_of(&port.endpoint(endpoint), endpoint));
    let remember = pool.affinity.map(note).unwrap_or_default();
    vec![
        format!("-s {ip} -j {MARK}"),
        format!("-p {protocol} {remember}-m {protocol} -j DNAT --to-destination {endpoint}"),
    ]
}

/// Under the policy Local this node and its pods may go anywhere; all others go to endpoints here, with their own address.
fn from_outside(fixed: &Fixed, port: &PortName, to: &To) -> Vec<String> {
    let cluster = port.cluster();
    let To::OutsideLocal { others, .. } = to else {
        return vec![format!("-j {MARK}"), format!("-j {cluster}")];
    };
    let mut rules = Vec::new();
    match &fixed.local {
        LocalPods::Unknown => {}
        LocalPods::Within(cidr) => rules.push(format!("-s {cidr} -j {cluster}")),
        LocalPods::Interface(name) => rules.push(format!("-i {name} -j {cluster}")),
        LocalPods::InterfacePrefix(prefix) => rules.push(format!("-i {prefix}+ -j {cluster}")),
    }
    for chain in [MARK, &cluster] {
        rules.push(format!("-m addrtype --src-type LOCAL -j {chain}"));
    }
    if !others.endpoints.is_empty() {
        rules.push(format!("-j {}", port.local()));
    }
    rules
}
