//! The lines of a Service in the chains that all Services share.

use super::{
    chains,
    group::Group,
    names::{self, comment},
};
use crate::{
    plan::{Frontend, Route, ServicePlan, To},
    track::{Name, Protocol},
};
use kernel::iptables::Table;
use net::{Family, HasFamily};
use std::net::IpAddr;

/// A chain with lines of all Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SharedChain {
    /// nat: where addresses lead.
    Services,
    /// nat: where node ports lead.
    NodePorts,
    /// filter: cluster IPs that lead nowhere.
    ClosedInside,
    /// filter: other addresses that lead nowhere.
    Closed,
    /// filter: what arrives at the node's own ports. Health checks are let in, node ports that lead nowhere are closed.
    OwnPorts,
    /// filter: addresses for some clients only.
    Firewall,
}

impl SharedChain {
    pub(super) const ALL: [Self; 6] =
        [Self::Services, Self::NodePorts, Self::ClosedInside, Self::Closed, Self::OwnPorts, Self::Firewall];

    pub(super) const fn table(self) -> Table {
        match self {
            Self::Services | Self::NodePorts => Table::Nat,
            Self::ClosedInside | Self::Closed | Self::OwnPorts | Self::Firewall => Table::Filter,
        }
    }

    pub(super) const fn chain(self) -> &'static str {
        match self {
            Self::Services | Self::ClosedInside => names::SERVICES,
            Self::NodePorts | Self::OwnPorts => names::NODE_PORTS,
            Self::Closed => names::EXTERNAL,
            Self::Firewall => names::FIREWALL,
        }
    }
}

/// Matches packets that begin a connection.
pub(super) const NEW: &str = "-m conntrack --ctstate NEW";

/// A rule in a shared chain.
pub(super) type Line = (SharedChain, String);

/// All lines of a Service.
pub(super) fn lines(family: Family, service: &Name, plan: &ServicePlan, groups: &[Group<'_>]) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(port) = plan.health_check_port {
        // Whether there are endpoints here is for the answer to say.
        let what = comment(service, "health check");
        lines.push((SharedChain::OwnPorts, format!("-p tcp -m tcp --dport {port}{what} -j ACCEPT")));
    }
    for route in &plan.routes {
        let (why, verdict) = match &route.to {
            To::Reject => ("has no endpoints", reject(family, route)),
            To::Drop => ("has no endpoint here", "-j DROP"),
            To::OutsideLocal { others, .. } if others.endpoints.is_empty() => ("has no endpoint here", "-j DROP"),
            _ => continue,
        };
        let destination = destination(route.frontend);
        let (shared, packets) = match route.frontend {
            Frontend::Address { ip, .. } if plan.cluster_ips.contains(&ip) => (SharedChain::ClosedInside, destination),
            Frontend::Address { .. } => (SharedChain::Closed, destination),
            // Every packet passes here. Connections that a program of the node had at this port before go on.
            Frontend::NodePort { .. } => (SharedChain::OwnPorts, format!("{destination} {NEW}")),
        };
        lines.push((shared, format!("{packets}{} {verdict}", comment(service, why))));
    }
    for group in groups {
        let inside = group.inside_chain();
        for route in &group.inside {
            lines.push(open(service, route, &inside));
        }
        for route in &group.outside {
            let Some((chain, _)) = chains::firewall(&group.port, route) else {
                lines.push(open(service, route, &group.port.external()));
                continue;
            };
            lines.push(open(service, route, &chain));
            // Who was let on has another destination by now.
            let why = comment(service, "is not for everyone");
            lines.push((SharedChain::Firewall, format!("{}{why} -j DROP", destination(route.frontend))));
        }
    }
    lines
}

fn open(service: &Name, route: &Route, chain: &str) -> Line {
    let (shared, what) = match (route.frontend, &route.to) {
        (Frontend::NodePort { .. }, _) => (SharedChain::NodePorts, "node port"),
        (_, To::Inside(_)) => (SharedChain::Services, "cluster IP"),
        _ => (SharedChain::Services, "external IP"),
    };
    (shared, format!("{}{} -j {chain}", destination(route.frontend), comment(service, what)))
}

/// A reset is not rate-limited as ICMP is: every client of a Service without endpoints hears it at once.
fn reject(family: Family, route: &Route) -> &'static str {
    match (route.frontend.protocol(), family) {
        (Protocol::Tcp, _) => "-j REJECT --reject-with tcp-reset",
        (Protocol::Udp | Protocol::Sctp, Family::V4) => "-j REJECT --reject-with icmp-port-unreachable",
        (Protocol::Udp | Protocol::Sctp, Family::V6) => "-j REJECT --reject-with icmp6-port-unreachable",
    }
}

/// Matches packets for a frontend.
pub(super) fn destination(frontend: Frontend) -> String {
    match frontend {
        Frontend::Address { ip, .. } => format!("-d {} {}", host(ip), port(frontend)),
        Frontend::NodePort { .. } => port(frontend),
    }
}

/// Matches packets for the transport and port of a frontend.
pub(super) fn port(frontend: Frontend) -> String {
    let (Frontend::Address { port, .. } | Frontend::NodePort { port, .. }) = frontend;
    let protocol = frontend.protocol();
    format!("-p {protocol} -m {protocol} --dport {port}")
}

/// An address as a block of one.
pub(super) fn host(ip: IpAddr) -> String {
    match ip.family() {
        Family::V4 => format!("{ip}/32"),
        Family::V6 => format!("{ip}/128"),
    }
}
