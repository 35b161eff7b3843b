//! Rules of security groups: on the load balancer's own group, and on the nodes'.

use super::request::{Port, Request};
use crate::account::{IpAddressType, Peer, Protocol, Rule};
use net::{Cidr, Family, HasFamily};
use std::collections::BTreeSet;

/// Stands for the load balancer's own group until its id is known.
pub const OWN_GROUP: &str = "@own";
/// Stands for the group that load balancers share towards the nodes, where its id is not known.
pub const BACKEND_GROUP: &str = "@backend";
/// How many rules a group has in each direction and family, unless AWS was asked for more.
pub const RULE_LIMIT: usize = 60;
/// Begins the description of every rule that is written on nodes' groups.
pub const NODE_RULE: &str = "kubernetes.io/rule/nlb/";

/// Description of a node rule for traffic.
pub fn client_description(load_balancer: &str) -> String {
    format!("{NODE_RULE}client={load_balancer}")
}

/// Description of a node rule for health checks.
pub fn health_description(load_balancer: &str) -> String {
    format!("{NODE_RULE}health={load_balancer}")
}

/// Description of the node rule of a classic load balancer.
pub fn classic_description(load_balancer: &str) -> String {
    format!("kubernetes.io/rule/elb/client={load_balancer}")
}

/// Whether a rule's description says that it was written for this load balancer.
pub fn is_of(description: &str, load_balancer: &str) -> bool {
    [client_description(load_balancer), health_description(load_balancer), classic_description(load_balancer)]
        .iter()
        .any(|ours| ours == description)
}

/// The load balancer that a rule was written for, by its description.
pub fn load_balancer_of(description: &str) -> Option<&str> {
    let prefixes = [client_description(""), health_description(""), classic_description("")];
    prefixes.iter().find_map(|prefix| description.strip_prefix(prefix.as_str()))
}

/// Whether a rule can be of one load balancer alone: traffic of a network load balancer goes to node ports, which no two Services share.
pub fn is_exclusive(description: &str) -> bool {
    description.starts_with(&client_description(""))
}

/// Whether a rule's description says that it was written for some load balancer of a cluster.
pub fn is_ours(description: &str) -> bool {
    description.starts_with(NODE_RULE) || description.starts_with("kubernetes.io/rule/elb/")
}

/// Whether a rule's description says that it is for all load balancers.
pub fn is_shared(description: &str) -> bool {
    [MTU_DESCRIPTION, BACKEND_DESCRIPTION].contains(&description)
}

const BACKEND_DESCRIPTION: &str = "kubernetes.io/rule/nlb/backend";

const MTU_DESCRIPTION: &str = "kubernetes.io/rule/nlb/mtu";

fn rule(protocol: Protocol, peer: Peer, description: &str) -> Rule {
    Rule { protocol, peer, description: description.to_owned() }
}

fn transport(udp: bool, port: u16) -> Protocol {
    if udp { Protocol::Udp { from: port, to: port } } else { Protocol::Tcp { from: port, to: port } }
}

/// "Packet too big", without which large packets vanish.
fn too_big(family: Family) -> Protocol {
    match family {
        Family::V4 => Protocol::Icmp { kind: 3, code: 4 },
        Family::V6 => Protocol::Icmpv6 { kind: 2, code: 0 },
    }
}

/// What may come in to the load balancer.
pub fn ingress(request: &Request) -> BTreeSet<Rule> {
    let mut rules = BTreeSet::new();
    for range in &request.ranges {
        let peer = || Peer::Cidr(*range);
        rules.extend(request.ports.iter().map(|port| rule(transport(port.udp, port.port), peer(), "")));
        rules.insert(rule(too_big(range.family()), peer(), ""));
    }
    rules
}

/// What may go out from the load balancer: to ports and health checks of the cluster's subnets, both families.
pub fn egress(request: &Request, check_port: Option<u16>, subnets: &[Cidr]) -> BTreeSet<Rule> {
    let protocols = node_protocols(&request.ports, check_port);
    subnets.iter().flat_map(|cidr| protocols.iter().map(|protocol| rule(*protocol, Peer::Cidr(*cidr), ""))).collect()
}

fn node_protocols(ports: &[Port], check_port: Option<u16>) -> BTreeSet<Protocol> {
    let traffic = ports.iter().map(|port| transport(port.udp, port.node_port));
    traffic.chain(checks(ports, check_port)).collect()
}

/// Health checks are TCP, on the port they name or on each node port.
fn checks(ports: &[Port], check_port: Option<u16>) -> BTreeSet<Protocol> {
    match check_port {
        Some(port) => [transport(false, port)].into(),
        None => ports.iter().map(|port| transport(false, port.node_port)).collect(),
    }
}

/// What nodes let in from members of groups.
pub fn node_rules_for_groups(request: &Request, check_port: Option<u16>, groups: &BTreeSet<String>) -> BTreeSet<Rule> {
    let name = request.owner.load_balancer();
    let mut rules = BTreeSet::new();
    for group in groups {
        let peer = || Peer::Group(group.clone());
        for port in &request.ports {
            rules.insert(rule(transport(port.udp, port.node_port), peer(), &client_description(&name)));
        }
        for check in checks(&request.ports, check_port) {
            let health = rule(check, peer(), &health_description(&name));
            if !rules.contains(&health) {
                rules.insert(health);
            }
        }
        rules.insert(rule(too_big(request.target_family), peer(), MTU_DESCRIPTION));
    }
    rules
}

/// What nodes let in from members of the group that all load balancers have: any port, since what a load balancer reaches is decided by its own group. The
/// same few rules for every Service, however many there are.
pub fn node_rules_for_backend(group: &str) -> BTreeSet<Rule> {
    let every = [Protocol::Tcp { from: 0, to: u16::MAX }, Protocol::Udp { from: 0, to: u16::MAX }];
    let protocols = every.into_iter().chain(Family::BOTH.map(too_big));
    protocols.map(|protocol| rule(protocol, Peer::Group(group.to_owned()), BACKEND_DESCRIPTION)).collect()
}

/// What nodes let in when the load balancer has no group to refer to: clients by their addresses, checks by the load balancer's.
///
/// Clients of the family that targets have not come from the load balancer's own addresses, as all do when addresses
/// are not preserved.
pub fn node_rules_for_ranges(request: &Request, check_port: Option<u16>, subnets: &[Cidr]) -> BTreeSet<Rule> {
    let name = request.owner.load_balancer();
    let family = request.target_family;
    let own: Vec<Cidr> = subnets.iter().copied().filter(|cidr| cidr.family() == family).collect();
    let mut clients: BTreeSet<Cidr> = BTreeSet::new();
    if request.preserves_clients() {
        clients.extend(request.ranges.iter().filter(|range| range.family() == family));
    }
    let other_may_connect = request.ip_address_type == IpAddressType::Dualstack
        && request.ranges.iter().any(|range| range.family() != family);
    if !request.preserves_clients() || other_may_connect {
        clients.extend(&own);
    }
    let mut rules = BTreeSet::new();
    for client in &clients {
        for port in &request.ports {
            rules.insert(rule(transport(port.udp, port.node_port), Peer::Cidr(*client), &client_description(&name)));
        }
        rules.insert(rule(too_big(family), Peer::Cidr(*client), MTU_DESCRIPTION));
    }
    let everyone = |check: &Protocol| {
        let all = clients.iter().filter(|client| client.prefix() == 0);
        all.clone().any(|client| rules.contains(&rule(*check, Peer::Cidr(*client), "")))
    };
    let health: Vec<Rule> = checks(&request.ports, check_port)
        .iter()
        .filter(|check| !everyone(check))
        .flat_map(|check| own.iter().map(|cidr| rule(*check, Peer::Cidr(*cidr), &health_description(&name))))
        .collect();
    for one in health {
        if !rules.contains(&one) {
            rules.insert(one);
        }
    }
    rules
}

/// How many rules of the fuller family there are: AWS counts families apart, and groups and lists in both.
pub fn fullness(rules: &BTreeSet<Rule>) -> usize {
    let of = |family: Family| {
        rules.iter().filter(|rule| !matches!(rule.peer, Peer::Cidr(cidr) if cidr.family() != family)).count()
    };
    Family::BOTH.into_iter().map(of).max().unwrap_or_default()
}
