//! Which endpoints of a Service port may be used from this node.

use crate::track::{Endpoint, Entry, Node, Port, Protocol};
use net::Family;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The nft backend numbers endpoints with 16 bits.
const MOST: usize = 65_536;

/// Endpoints sorted by use.
pub(super) struct Usable {
    /// For the policy Cluster: what topology leaves of the ready ones; if there are none, those that still serve.
    pub(super) cluster: Arc<[SocketAddr]>,
    /// For the policy Local: the same on this node, without topology.
    pub(super) local: Arc<[SocketAddr]>,
    /// UDP: all that serve, whatever policy and topology say.
    pub(super) serving: Arc<[SocketAddr]>,
    /// There is one somewhere in the cluster.
    pub(super) anywhere: bool,
    /// Those of `cluster` and `local` that are on this node.
    pub(super) on_this_node: Vec<IpAddr>,
}

pub(super) fn usable(family: Family, entry: &Entry, port: &Port, node: &Node) -> Usable {
    let all = of_port(family, entry, port);
    let topology = topology(&all, node);
    let ready = |endpoint: &Endpoint| endpoint.ready;
    let still_serving = |endpoint: &Endpoint| endpoint.serving && endpoint.terminating;

    let near: Vec<_> = all.iter().filter(|(e, _)| ready(e) && topology.allows(e, node)).collect();
    let cluster = or_else(near, || all.iter().filter(|(e, _)| still_serving(e)).collect());
    let here: Vec<_> = all.iter().filter(|(e, _)| e.local && ready(e)).collect();
    let local = or_else(here, || all.iter().filter(|(e, _)| e.local && still_serving(e)).collect());

    let on_this_node = cluster.iter().chain(&local).filter(|(e, _)| e.local).map(|(e, _)| e.ip).collect();
    let serving: Vec<_> = match port.protocol {
        Protocol::Udp => all.iter().filter(|(e, _)| e.ready || e.serving).collect(),
        Protocol::Tcp | Protocol::Sctp => Vec::new(),
    };
    Usable {
        anywhere: !cluster.is_empty(),
        cluster: addresses(&cluster),
        local: addresses(&local),
        serving: addresses(&serving),
        on_this_node,
    }
}

type Found<'a> = (&'a Endpoint, u16);

/// Endpoints of all slices of the family that have this port.
fn of_port<'a>(family: Family, entry: &'a Entry, port: &Port) -> Vec<Found<'a>> {
    let slices = entry.slices.values().filter(|slice| slice.family == family);
    let mut all = Vec::new();
    for slice in slices {
        let numbers = slice.ports.iter().filter(|p| p.name == port.name && p.protocol == port.protocol);
        for number in numbers.map(|p| p.port) {
            all.extend(slice.endpoints.iter().map(|endpoint| (endpoint, number)));
        }
    }
    all
}

fn or_else<'a>(first: Vec<&'a Found<'a>>, second: impl FnOnce() -> Vec<&'a Found<'a>>) -> Vec<&'a Found<'a>> {
    if first.is_empty() { second() } else { first }
}

/// While an endpoint moves from slice to slice it is in both.
fn addresses(found: &[&Found<'_>]) -> Arc<[SocketAddr]> {
    let mut list: Vec<SocketAddr> = found.iter().map(|(endpoint, port)| SocketAddr::new(endpoint.ip, *port)).collect();
    list.sort_unstable();
    list.dedup();
    list.truncate(MOST);
    list.into()
}

/// What the hints ask for. They count only if every ready endpoint has one and one of them means this node or zone.
enum Topology {
    Node,
    Zone,
    None,
}

impl Topology {
    fn allows(&self, endpoint: &Endpoint, node: &Node) -> bool {
        match self {
            Self::None => true,
            Self::Node => endpoint.nodes.contains(&node.name),
            Self::Zone => node.zone.as_ref().is_some_and(|zone| endpoint.zones.contains(zone)),
        }
    }
}

fn topology(all: &[Found<'_>], node: &Node) -> Topology {
    let ready = || all.iter().map(|(endpoint, _)| *endpoint).filter(|endpoint| endpoint.ready);
    for candidate in [Topology::Node, Topology::Zone] {
        let hinted = |endpoint: &Endpoint| match candidate {
            Topology::Node => !endpoint.nodes.is_empty(),
            _ => !endpoint.zones.is_empty(),
        };
        if ready().all(hinted) && ready().any(|endpoint| candidate.allows(endpoint, node)) {
            return candidate;
        }
    }
    Topology::None
}
