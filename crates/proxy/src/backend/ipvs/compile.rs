//! A plan as things in the kernel: entries of sets, addresses, virtual servers, destinations.

use super::sets::SetName;
use crate::{
    plan::{Frontend, NodePortMatch, Pool, Route, ServicePlan, Sources, To},
    track::Protocol,
};
use kernel::{
    ipset::Entry,
    ipvs::{self, ServerKey},
};
use net::Cidr;
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

/// One thing in the kernel. Added in this order and removed in the other: what leads somewhere comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Item {
    Entry(SetName, Entry),
    /// At the interface.
    Address(IpAddr),
    /// A virtual server, and for how many seconds a client stays with its destination.
    Server(ServerKey, u32),
    /// A destination that takes new connections.
    Destination(ServerKey, SocketAddr),
    /// A UDP destination that keeps its flows and takes no new ones.
    Draining(ServerKey, SocketAddr),
}

/// What a plan needs besides itself.
pub(super) struct NodeAddresses<'a> {
    /// Addresses of this machine at other interfaces than ours.
    pub(super) own: &'a BTreeSet<IpAddr>,
    /// Where node ports are open.
    pub(super) node_ports: &'a NodePortMatch,
    /// Where virtual servers belong to somebody else.
    pub(super) excluded: &'a [Cidr],
}

/// A Service in one family.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    /// What each frontend needs.
    pub(super) frontends: Vec<(Frontend, Vec<Item>)>,
    /// What the Service needs besides.
    pub(super) own: Vec<Item>,
}

pub(super) fn compile(plan: &ServicePlan, node: &NodeAddresses<'_>) -> Compiled {
    let frontends = plan.routes.iter().map(|route| (route.frontend, needs(route, node))).collect();
    let mut own: Vec<Item> = plan.cluster_ips.iter().flat_map(|ip| address(*ip, node)).collect();
    own.extend(hairpins(plan));
    Compiled { frontends, own }
}

/// A pod that is sent to itself. Each pair once, however many frontends lead there.
fn hairpins(plan: &ServicePlan) -> impl Iterator<Item = Item> {
    let mut pairs = BTreeSet::new();
    for route in &plan.routes {
        let protocol = transport(route.frontend.protocol());
        let endpoints = pool(&route.to).into_iter().flat_map(|pool| pool.endpoints.iter());
        for endpoint in endpoints.filter(|endpoint| plan.hairpins.contains(&endpoint.ip())) {
            pairs.insert(Item::Entry(SetName::Hairpins, Entry::IpPortIp(protocol, *endpoint, endpoint.ip())));
        }
    }
    pairs.into_iter()
}

fn needs(route: &Route, node: &NodeAddresses<'_>) -> Vec<Item> {
    let protocol = transport(route.frontend.protocol());
    let mut items = BTreeSet::new();
    for at in listeners(route.frontend, node) {
        if node.excluded.iter().any(|block| block.contains(at.ip())) {
            tracing::warn!(frontend = %route.frontend, address = %at.ip(), "in a block of --ipvs-exclude-cidrs; left alone");
            continue;
        }
        if matches!(route.frontend, Frontend::Address { .. }) {
            items.extend(address(at.ip(), node));
        }
        at_one(route, ServerKey { protocol, at }, &mut items);
    }
    items.into_iter().collect()
}

/// The sets that a frontend is in.
pub(super) fn sets(to: &To) -> &'static [SetName] {
    match to {
        To::Drop => &[SetName::Dropped],
        // A server without destinations refuses.
        To::Reject => &[SetName::Servers],
        To::Inside(_) => &[SetName::Servers, SetName::ClusterIps],
        To::Outside(_) => &[SetName::Servers, SetName::Outside],
        To::OutsideLocal { others, .. } if others.endpoints.is_empty() => {
            &[SetName::Servers, SetName::Local, SetName::OwnOnly]
        }
        To::OutsideLocal { .. } => &[SetName::Servers, SetName::Local],
    }
}

/// Everything for a frontend at one address.
fn at_one(route: &Route, key: ServerKey, items: &mut BTreeSet<Item>) {
    let entry = |set| Item::Entry(set, Entry::IpPort(key.protocol, key.at));
    items.extend(sets(&route.to).iter().copied().map(entry));
    if matches!(route.to, To::Drop) {
        return;
    }
    if let (Sources::Only(sources), false) = (&route.sources, matches!(route.to, To::Reject)) {
        items.insert(entry(SetName::Guarded));
        let allowed = sources.iter().map(|source| Entry::IpPortNet(key.protocol, key.at, *source));
        items.extend(allowed.map(|allowed| Item::Entry(SetName::AllowedSources, allowed)));
    }
    let pool = pool(&route.to);
    let stays = pool.and_then(|pool| pool.affinity).map_or(0, |affinity| affinity.seconds);
    items.insert(Item::Server(key, stays));
    let endpoints = pool.map(|pool| &*pool.endpoints).unwrap_or_default();
    items.extend(endpoints.iter().map(|endpoint| Item::Destination(key, *endpoint)));
    let others = route.serving.iter().filter(|serving| !endpoints.contains(serving));
    items.extend(others.map(|endpoint| Item::Draining(key, *endpoint)));
}

/// Where a frontend leads. A virtual server has one list for everyone: under the policy Local that is the endpoints here;
/// if there are none, this node and its pods (a rule keeps others out) go to any.
fn pool(to: &To) -> Option<&Pool> {
    match to {
        To::Reject | To::Drop => None,
        To::Inside(pool) | To::Outside(pool) => Some(pool),
        To::OutsideLocal { own, others } => Some(if others.endpoints.is_empty() { own } else { others }),
    }
}

/// The addresses and ports of a frontend on this machine.
fn listeners(frontend: Frontend, node: &NodeAddresses<'_>) -> Vec<SocketAddr> {
    match frontend {
        Frontend::Address { ip, port, .. } => vec![SocketAddr::new(ip, port)],
        Frontend::NodePort { port, .. } => {
            let open = |ip: &&IpAddr| match node.node_ports {
                NodePortMatch::All => true,
                NodePortMatch::In(blocks) => blocks.iter().any(|block| block.contains(**ip)),
            };
            // The kernel routes nothing away from loopback addresses.
            node.own.iter().filter(|ip| !ip.is_loopback()).filter(open).map(|ip| SocketAddr::new(*ip, port)).collect()
        }
    }
}

/// An address of a Service; one that the machine has anyway stays as it is, with all its ports.
fn address(ip: IpAddr, node: &NodeAddresses<'_>) -> impl Iterator<Item = Item> {
    let new = !node.own.contains(&ip) && !node.excluded.iter().any(|block| block.contains(ip));
    [Item::Entry(SetName::Addresses, Entry::Ip(ip)), Item::Address(ip)].into_iter().filter(move |_| new)
}

fn transport(protocol: Protocol) -> ipvs::Protocol {
    match protocol {
        Protocol::Tcp => ipvs::Protocol::Tcp,
        Protocol::Udp => ipvs::Protocol::Udp,
        Protocol::Sctp => ipvs::Protocol::Sctp,
    }
}
