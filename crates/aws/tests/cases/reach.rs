//! Who reaches which node through a load balancer, as AWS decides it: listener, groups, targets, health checks.

use aws::{
    account::{IpAddressType, Peer, Protocol, Rule, SecurityGroup, Subnet},
    memory::State,
};
use net::{Cidr, Family, HasFamily};
use std::{collections::BTreeSet, net::IpAddr};

/// Somebody connects to a port and comes to an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reached {
    pub(crate) client: IpAddr,
    pub(crate) port: u16,
    pub(crate) udp: bool,
    pub(crate) instance: String,
}

/// One of each range that the cases let in, and one of none.
const CLIENTS: [&str; 4] = ["192.0.2.7", "198.51.100.7", "203.0.113.7", "2001:db8:ffff::7"];

struct Path<'a> {
    state: &'a State,
    /// Groups of the load balancer.
    groups: &'a BTreeSet<String>,
    /// Addresses that it sends from, of both families.
    own: Vec<IpAddr>,
}

/// Everything that is reached now.
pub(crate) fn reached(state: &State) -> BTreeSet<Reached> {
    let mut all = BTreeSet::new();
    for client in CLIENTS.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
        network(state, client, &mut all);
        if client.is_ipv4() {
            classic(state, client, &mut all);
        }
    }
    all
}

fn network(state: &State, client: IpAddr, all: &mut BTreeSet<Reached>) {
    for (arn, held) in &state.load_balancers {
        let balancer = &held.load_balancer;
        if client.is_ipv6() && balancer.ip_address_type == IpAddressType::Ipv4 {
            continue;
        }
        let path = Path::new(state, &balancer.security_groups, &balancer.subnets);
        for listener in state.listeners.values().filter(|held| held.load_balancer == *arn) {
            let settings = &listener.listener.settings;
            let Some(group) = state.target_groups.get(&settings.target_group) else { continue };
            let family = group.group.family;
            let preserved = group.attributes.get("preserve_client_ip.enabled").is_none_or(|value| value == "true");
            let sources = if preserved && client.family() == family { vec![client] } else { path.of(family) };
            for udp in [false, true].into_iter().filter(|udp| speaks(&settings.protocol, *udp)) {
                if !path.enters(client, udp, settings.port) {
                    continue;
                }
                for target in &group.targets {
                    let check = group.group.health_check.port.parse().unwrap_or(target.port);
                    let healthy = path.arrives(&path.of(family), false, &target.instance, check, family);
                    if healthy && path.arrives(&sources, udp, &target.instance, target.port, family) {
                        let (port, instance) = (settings.port, target.instance.clone());
                        all.insert(Reached { client, port, udp, instance });
                    }
                }
            }
        }
    }
}

fn classic(state: &State, client: IpAddr, all: &mut BTreeSet<Reached>) {
    for held in state.classic.values() {
        let balancer = &held.load_balancer;
        let path = Path::new(state, &balancer.security_groups, &balancer.subnets);
        for (port, listener) in &balancer.listeners {
            let arrives = |instance: &&String| {
                path.arrives(&path.of(Family::V4), false, instance, listener.instance_port, Family::V4)
            };
            if path.enters(client, false, *port) {
                let instances = balancer.instances.iter().filter(arrives).cloned();
                all.extend(instances.map(|instance| Reached { client, port: *port, udp: false, instance }));
            }
        }
    }
}

fn speaks(protocol: &str, udp: bool) -> bool {
    match protocol {
        "TCP_UDP" => true,
        "UDP" => udp,
        _ => !udp,
    }
}

fn lets(rule: &Rule, udp: bool, port: u16) -> bool {
    match rule.protocol {
        Protocol::All => true,
        Protocol::Tcp { from, to } => !udp && (from..=to).contains(&port),
        Protocol::Udp { from, to } => udp && (from..=to).contains(&port),
        _ => false,
    }
}

/// Groups that others bring have their own rules, which the example account leaves empty.
fn is_ours(group: &SecurityGroup) -> bool {
    !group.tags.is_empty()
}

fn is_in(peer: &Peer, ip: IpAddr) -> bool {
    matches!(peer, Peer::Cidr(cidr) if cidr.family() == ip.family() && cidr.contains(ip))
}

impl<'a> Path<'a> {
    fn new(state: &'a State, groups: &'a BTreeSet<String>, subnets: &BTreeSet<String>) -> Self {
        let first = |cidr: &Cidr| cidr.first();
        let addresses = |subnet: &Subnet| subnet.ipv4.iter().chain(&subnet.ipv6).map(first).collect::<Vec<_>>();
        let of_it = state.subnets.iter().filter(|subnet| subnets.contains(&subnet.id));
        Self { state, groups, own: of_it.flat_map(addresses).collect() }
    }

    fn of(&self, family: Family) -> Vec<IpAddr> {
        self.own.iter().copied().filter(|ip| ip.family() == family).collect()
    }

    fn worn(&self) -> impl Iterator<Item = &'a SecurityGroup> {
        let (state, groups) = (self.state, self.groups);
        groups.iter().filter_map(|id| state.groups.get(id))
    }

    /// The load balancer lets the client in.
    fn enters(&self, client: IpAddr, udp: bool, port: u16) -> bool {
        self.groups.is_empty()
            || self.worn().any(|group| {
                let lets_in = |rule: &Rule| lets(rule, udp, port) && is_in(&rule.peer, client);
                !is_ours(group) || group.ingress.iter().any(lets_in)
            })
    }

    /// Packets from each of these come to the instance.
    fn arrives(&self, sources: &[IpAddr], udp: bool, instance: &str, port: u16, family: Family) -> bool {
        let Some(instance) = self.state.instances.get(instance) else { return false };
        let Some(interface) = instance.interfaces.iter().min_by_key(|interface| interface.device_index) else {
            return false;
        };
        let address = match family {
            Family::V4 => interface.ipv4.first().map(|ip| IpAddr::V4(*ip)),
            Family::V6 => interface.ipv6.first().map(|ip| IpAddr::V6(*ip)),
        };
        let Some(address) = address else { return false };
        let leaves = self.groups.is_empty()
            || self.worn().any(|group| {
                !is_ours(group) || group.egress.iter().any(|rule| lets(rule, udp, port) && is_in(&rule.peer, address))
            });
        let rules: Vec<&Rule> = interface
            .security_groups
            .iter()
            .filter_map(|id| self.state.groups.get(id))
            .flat_map(|group| group.ingress.iter().filter(|rule| lets(rule, udp, port)))
            .collect();
        let by_group = rules.iter().any(|rule| matches!(&rule.peer, Peer::Group(id) if self.groups.contains(id)));
        leaves && (by_group || sources.iter().all(|ip| rules.iter().any(|rule| is_in(&rule.peer, *ip))))
    }
}
