//! The network of a lab: a bridge in a namespace of its own, a namespace for each node, and one interface of the machine, through which it
//! reaches nodes, Pods, Services and load balancers. Everything goes with the namespaces.

use crate::{Home, Layout};
use kernel::{netns, process, process::ProcessError};
use net::{Cidr, DualStack, Family, HasFamily};
use std::{io, net::IpAddr};

/// The namespace of the bridge, beside those of nodes.
pub(crate) const BRIDGE: &str = "bridge";
/// A node's only way to others.
pub(crate) const UPLINK: &str = "eth0";
/// The machine's end at the bridge.
pub(crate) const MACHINE: &str = "machine";

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Somebody has to choose other addresses.
    #[error("{range} ({flag}) overlaps {route}, where this machine has a route already; choose another with {flag}")]
    Taken { range: Cidr, flag: &'static str, route: String },
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("network namespace {name}: {source}")]
    Namespace { name: String, source: io::Error },
}

/// The network, once it is made.
#[derive(Clone, Debug)]
pub struct Network {
    pub home: Home,
    pub layout: Layout,
}

impl Network {
    /// Makes everything; nothing of it may be there ([`crate::sweep`]).
    pub fn make(home: Home, layout: Layout, balancers: &[Cidr]) -> Result<Self, NetworkError> {
        let network = Self { home, layout };
        network.look_for_room(balancers)?;
        let bridge = network.home.namespace(BRIDGE);
        network.namespace(&bridge)?;
        for node in &network.layout.nodes {
            network.namespace(&network.home.namespace(&node.name))?;
        }
        batch(Some(&bridge), &network.bridge_lines())?;
        for node in &network.layout.nodes {
            let mut lines = network.addresses(UPLINK, &node.addresses);
            // What a node itself sends to a Service needs a way before the proxy turns it to an endpoint.
            lines.extend(network.layout.ranges.services.iter().map(|range| format!("route add {range} dev {UPLINK}")));
            batch(Some(&network.home.namespace(&node.name)), &lines)?;
        }
        let interface = network.home.interface();
        batch(None, &[format!("link add {interface} type veth peer name {MACHINE} netns {bridge}")])?;
        batch(Some(&bridge), &[format!("link set {MACHINE} master lan up")])?;
        without_duplicate_detection(&interface);
        batch(None, &network.addresses(&interface, &network.layout.machine))?;
        if let Some(first) = network.layout.nodes.first() {
            network.lead(balancers, &first.addresses)?;
        }
        Ok(network)
    }

    fn namespace(&self, name: &str) -> Result<(), NetworkError> {
        netns::create(name)?;
        let quiet = netns::within(name, || without_duplicate_detection("default"));
        quiet.map_err(|source| NetworkError::Namespace { name: name.to_owned(), source })
    }

    fn bridge_lines(&self) -> Vec<String> {
        let mut lines =
            vec!["link add lan type bridge forward_delay 0 mcast_snooping 0".to_owned(), "link set lan up".to_owned()];
        for node in &self.layout.nodes {
            let space = self.home.namespace(&node.name);
            lines.push(format!("link add {} type veth peer name {UPLINK} netns {space}", node.name));
            lines.push(format!("link set {} master lan up", node.name));
        }
        lines
    }

    fn addresses(&self, device: &str, ips: &DualStack<IpAddr>) -> Vec<String> {
        let mut lines = vec![format!("link set {device} up")];
        for (ip, range) in ips.iter().zip(self.layout.ranges.lab.iter()) {
            let quiet = if ip.family() == Family::V6 { " nodad" } else { "" };
            lines.push(format!("addr add {ip}/{} dev {device}{quiet}", range.prefix()));
        }
        lines
    }

    /// What the machine sends to Services and load balancers goes through this node.
    pub(crate) fn lead(&self, balancers: &[Cidr], to: &DualStack<IpAddr>) -> Result<(), ProcessError> {
        let ranges = self.layout.ranges.services.iter().chain(balancers);
        let lines: Vec<String> = ranges.filter_map(|range| self.machine_route(range, to)).collect();
        batch(None, &lines)
    }

    /// The machine's way to a block, through a node that has an address of its family.
    pub(crate) fn machine_route(&self, range: &Cidr, to: &DualStack<IpAddr>) -> Option<String> {
        let via = to.get(range.family())?;
        Some(format!("route replace {range} via {via} dev {}", self.home.interface()))
    }

    /// The machine's routes must not lead elsewhere: neither its own network nor another lab is to be cut off.
    fn look_for_room(&self, balancers: &[Cidr]) -> Result<(), NetworkError> {
        let ranges = &self.layout.ranges;
        let wanted = [
            ("--lab-cidr", ranges.lab.iter().copied().collect::<Vec<_>>()),
            ("--cluster-cidr", ranges.pods.iter().copied().collect()),
            ("--service-cluster-ip-range", ranges.services.iter().copied().collect()),
            ("--load-balancer-ip-range", balancers.to_vec()),
        ];
        for family in Family::BOTH {
            let version = if family == Family::V4 { "-4" } else { "-6" };
            let printed = process::run("ip", &[version, "route", "show"], "")?;
            for route in printed.stdout.lines() {
                let Some(destination) = destination(route) else { continue };
                for (flag, blocks) in &wanted {
                    if let Some(range) = blocks.iter().find(|range| range.overlaps(&destination)) {
                        return Err(NetworkError::Taken { range: *range, flag, route: route.trim().to_owned() });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Where a line of `ip route` leads, unless it is everywhere.
fn destination(line: &str) -> Option<Cidr> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let kinds = ["unreachable", "blackhole", "prohibit", "throw", "local", "broadcast", "multicast", "unicast"];
    let word = if kinds.contains(&first) { words.next()? } else { first };
    word.parse().ok().or_else(|| Cidr::host(word.parse().ok()?)).filter(|cidr: &Cidr| cidr.prefix() > 0)
}

/// Addresses of a lab are nobody else's: waiting a second for an objection is a second lost. Machines without IPv6 have no such file.
fn without_duplicate_detection(interface: &str) {
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/accept_dad"), "0");
}

/// Runs lines of `ip`, in a namespace or on the machine.
pub(crate) fn batch(namespace: Option<&str>, lines: &[String]) -> Result<(), ProcessError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut words = Vec::new();
    if let Some(namespace) = namespace {
        words.extend(["-n", namespace]);
    }
    words.extend(["-batch", "-"]);
    process::run("ip", &words, &(lines.join("\n") + "\n")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_the_machine_are_read() {
        for (line, expected) in [
            ("default via 192.0.2.1 dev eth0", None),
            ("192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.7", Some("192.0.2.0/24")),
            ("198.18.0.7 via 192.0.2.1 dev eth0", Some("198.18.0.7/32")),
            ("unreachable fd00::/8 dev lo metric 1024", Some("fd00::/8")),
            ("fe80::/64 dev eth0 proto kernel metric 256", Some("fe80::/64")),
            ("", None),
        ] {
            assert_eq!(destination(line), expected.map(|text| text.parse().unwrap()), "{line}");
        }
    }
}
