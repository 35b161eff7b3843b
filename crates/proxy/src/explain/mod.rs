//! The way of a packet to a Service, in words: `twinstack proxy explain`. Pure: it reads a plan and says what the rules will do.
//!
//! Called by the command, with what the API says now; the kernel is not asked, so it also tells what a proxy that is not running
//! would do.

mod show;

use crate::{
    backend::Fixed,
    plan::{Frontend, LocalPods, NodePortMatch, Pool, Route, ServicePlan, Sources, To},
    track::{Name, Service, Tracker},
};
use net::{Cidr, Family, HasFamily};
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

pub use show::{json, table};

use show::kind_words;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// A pod, as far as the proxy can tell one.
    Pods,
    /// A program on this node.
    Node,
    /// Everyone else.
    Outside,
}

impl From {
    pub const ALL: [Self; 3] = [Self::Pods, Self::Node, Self::Outside];
}

/// One Service in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub family: Family,
    /// Empty when the Service has no address of this family: then nothing of it is open in it.
    pub paths: Vec<PacketPath>,
    /// What it names and does not get, with the reason.
    pub unserved: Vec<String>,
}

/// What happens to a packet for a frontend, from some senders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPath {
    /// What it is sent to.
    pub frontend: Frontend,
    /// What that is to the Service.
    pub kind: Kind,
    /// Node ports: where on the node.
    pub at: Option<NodePortMatch>,
    /// By whom; the same happens to all of them.
    pub from: Vec<From>,
    /// Who of them may.
    pub sources: Sources,
    /// Where it ends.
    pub fate: Fate,
    /// The rules it passes, in the backend's words.
    pub through: Vec<String>,
}

/// What a frontend is to its Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of `spec.clusterIPs`.
    ClusterIp,
    /// Of `spec.externalIPs`.
    ExternalIp,
    /// Of `status.loadBalancer`.
    LoadBalancerIp,
    /// Of `spec.ports[].nodePort`.
    NodePort,
}

/// Where a packet ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The client is told at once that there are no endpoints.
    Refused,
    /// No answer: the policy wants an endpoint on this node, and there is none.
    Dropped,
    /// No answer: the source ranges let nobody of this family in.
    Barred,
    /// One of these endpoints.
    Delivered {
        /// Each with whether it is on this node.
        endpoints: Vec<(SocketAddr, bool)>,
        /// Whose address it sees.
        seen: SourceAddress,
        /// How long a client stays with its endpoint.
        affinity: Option<u32>,
    },
}

/// Whose address an endpoint sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceAddress {
    /// The client's. A pod that is sent to itself sees its node.
    Client,
    /// This node's: the answer must come back through it.
    Node,
}

/// Explains a plan. `through` gives the backend's words for the way of a route.
#[must_use]
pub fn explain(
    family: Family,
    service: &Service,
    plan: &ServicePlan,
    fixed: &Fixed,
    through: impl Fn(&Route, From) -> Vec<String>,
) -> Explained {
    let mut paths: Vec<PacketPath> = Vec::new();
    for route in &plan.routes {
        let first = paths.len();
        for from in From::ALL {
            let fate = fate(route, from, plan, fixed);
            let through = through(route, as_seen_by_rules(from, fixed));
            let same = paths[first..].iter_mut().find(|path| path.fate == fate && path.through == through);
            match same {
                Some(path) => path.from.push(from),
                None => paths.push(PacketPath {
                    frontend: route.frontend,
                    kind: kind(route.frontend, service),
                    at: matches!(route.frontend, Frontend::NodePort { .. }).then(|| fixed.node_ports.clone()),
                    from: vec![from],
                    sources: route.sources.clone(),
                    fate,
                    through,
                }),
            }
        }
    }
    Explained { family, paths, unserved: Vec::new() }
}

/// What a Service names in a family and does not get, with the reason.
#[must_use]
pub fn unserved(family: Family, name: &Name, tracker: &Tracker) -> Vec<String> {
    let Some(entry) = tracker.get(name) else { return Vec::new() };
    let Some(service) = &entry.service else { return Vec::new() };
    let refused = entry.refused.iter().filter(|(ip, _)| ip.family() == family);
    let mut list: Vec<String> = refused.map(|(ip, why)| format!("external IP {ip}: {why}")).collect();
    let ips: BTreeSet<IpAddr> = [&service.cluster_ips, &service.load_balancer_ips, &service.external_ips]
        .into_iter()
        .flatten()
        .copied()
        .collect();
    for port in &service.ports {
        let addresses = ips.iter().filter(|ip| ip.family() == family);
        let addresses = addresses.map(|ip| Frontend::Address { ip: *ip, protocol: port.protocol, port: port.port });
        let node_port = port.node_port.map(|number| Frontend::NodePort { protocol: port.protocol, port: number });
        for frontend in addresses.chain(node_port) {
            if let Some(owner) = tracker.owner(family, frontend).filter(|owner| *owner != name) {
                let what = match frontend {
                    Frontend::NodePort { .. } => frontend.to_string(),
                    Frontend::Address { .. } => format!("{} {frontend}", kind_words(kind(frontend, service))),
                };
                list.push(format!("{what}: it belongs to Service {owner}"));
            }
        }
    }
    list
}

fn kind(frontend: Frontend, service: &Service) -> Kind {
    let holds = |list: &[IpAddr], ip: IpAddr| list.contains(&ip);
    match frontend {
        Frontend::NodePort { .. } => Kind::NodePort,
        Frontend::Address { ip, .. } if holds(&service.cluster_ips, ip) => Kind::ClusterIp,
        Frontend::Address { ip, .. } if holds(&service.load_balancer_ips, ip) => Kind::LoadBalancerIp,
        Frontend::Address { .. } => Kind::ExternalIp,
    }
}

/// Where pods cannot be told from others, they are treated as others.
fn as_seen_by_rules(from: From, fixed: &Fixed) -> From {
    if from == From::Pods && fixed.local == LocalPods::Unknown { From::Outside } else { from }
}

fn fate(route: &Route, from: From, plan: &ServicePlan, fixed: &Fixed) -> Fate {
    let from = as_seen_by_rules(from, fixed);
    let delivered = |pool: &Pool, seen| {
        if pool.endpoints.is_empty() {
            return Fate::Dropped;
        }
        if route.sources == Sources::Only(Vec::new()) {
            return Fate::Barred;
        }
        let here = |endpoint: &SocketAddr| plan.hairpins.contains(&endpoint.ip());
        Fate::Delivered {
            endpoints: pool.endpoints.iter().map(|endpoint| (*endpoint, here(endpoint))).collect(),
            seen,
            affinity: pool.affinity.map(|affinity| affinity.seconds),
        }
    };
    match &route.to {
        To::Reject => Fate::Refused,
        To::Drop => Fate::Dropped,
        To::Inside(pool) => {
            let stranger = from != From::Pods && fixed.local != LocalPods::Unknown;
            delivered(pool, if fixed.masquerade_all || stranger { SourceAddress::Node } else { SourceAddress::Client })
        }
        To::Outside(pool) => delivered(pool, SourceAddress::Node),
        To::OutsideLocal { own, others } => match from {
            From::Pods => delivered(own, SourceAddress::Client),
            From::Node => delivered(own, SourceAddress::Node),
            From::Outside => delivered(others, SourceAddress::Client),
        },
    }
}

/// What the command prints.
#[derive(Clone, Debug)]
pub struct Report {
    pub service: Name,
    /// The node whose proxy is meant.
    pub node: String,
    /// How the kernel is programmed.
    pub mode: &'static str,
    /// One for each family that the machine has.
    pub families: Vec<Explained>,
}

pub(crate) fn blocks(list: &[Cidr]) -> String {
    list.iter().map(Cidr::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
