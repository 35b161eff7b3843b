//! Who has which address in a lab. Pure.

use net::{Cidr, DualStack, Family, HasFamily};
use std::net::IpAddr;

/// The first node's place in the block of the lab; before it are the machine and room for others.
const FIRST_NODE: u128 = 11;
/// What a block must have room for: nodes below its middle, load balancers above it.
const MOST_NODES: usize = 50;
const LONGEST: [u8; 2] = [25, 110];

/// The blocks that a cluster is made of, all of the same families in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// The network that nodes and the machine share, and load balancers above its middle.
    pub lab: DualStack<Cidr>,
    pub pods: DualStack<Cidr>,
    pub services: DualStack<Cidr>,
}

/// Blocks that make no lab. Somebody has to choose others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("has no {0}, which Services have; give one CIDR of each family of --service-cluster-ip-range")]
    Family(Family),
    #[error("{cidr} is too small; accepted: a prefix of at most {most}")]
    Small { cidr: Cidr, most: u8 },
    #[error("{cidr} overlaps {other}, which is {whose}")]
    Overlap { cidr: Cidr, other: Cidr, whose: &'static str },
    #[error("{0} nodes have no room; accepted: up to {MOST_NODES}")]
    Nodes(usize),
}

/// The addresses of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub ranges: Ranges,
    /// The machine's own, at the lab's interface: where nodes reach the API.
    pub machine: DualStack<IpAddr>,
    pub nodes: Vec<NodeLayout>,
}

/// A node's name and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    pub name: String,
    pub addresses: DualStack<IpAddr>,
}

impl Layout {
    /// Addresses for so many nodes. `lab` may have a family that Services do not have: it is left out.
    pub fn new(
        lab: &[Cidr],
        pods: DualStack<Cidr>,
        services: DualStack<Cidr>,
        nodes: usize,
    ) -> Result<Self, LayoutError> {
        let lab = services.try_map(|family, _| {
            lab.iter().copied().find(|cidr| cidr.family() == family).ok_or(LayoutError::Family(family))
        })?;
        if nodes > MOST_NODES {
            return Err(LayoutError::Nodes(nodes));
        }
        for cidr in lab.iter() {
            let most = LONGEST[usize::from(cidr.family() == Family::V6)];
            if cidr.prefix() > most {
                return Err(LayoutError::Small { cidr: *cidr, most });
            }
            for (others, whose) in [(pods, "for Pods"), (services, "for Services")] {
                if let Some(other) = others.iter().copied().find(|other| other.overlaps(cidr)) {
                    return Err(LayoutError::Overlap { cidr: *cidr, other, whose });
                }
            }
        }
        let at = |n: u128| lab.map(|_, cidr| cidr.nth(n).unwrap_or_else(|| cidr.first()));
        let node = |number: usize| NodeLayout {
            name: format!("node-{}", number + 1),
            addresses: at(FIRST_NODE + number as u128),
        };
        Ok(Self { ranges: Ranges { lab, pods, services }, machine: at(1), nodes: (0..nodes).map(node).collect() })
    }

    /// Where load balancers get their addresses unless somebody says otherwise: the upper half of the IPv4 block, and as many as a pool
    /// has room for of the IPv6 block.
    #[must_use]
    pub fn balancers(&self) -> DualStack<Cidr> {
        self.ranges.lab.map(|_, cidr| balancers(cidr))
    }
}

/// The same of one block.
#[must_use]
pub fn balancers(cidr: Cidr) -> Cidr {
    let prefix = if cidr.family() == Family::V4 { cidr.prefix() + 1 } else { cidr.prefix().max(111) + 1 };
    cidr.subnet(prefix, 1).unwrap_or(cidr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn ranges(first: &str, second: Option<&str>) -> DualStack<Cidr> {
        match second {
            Some(second) => DualStack::pair(cidr(first), cidr(second)).unwrap(),
            None => DualStack::one(cidr(first)),
        }
    }

    const LAB: [&str; 2] = ["198.18.0.0/24", "fd00:10:18::/64"];

    #[test]
    fn every_shape_of_cluster_has_addresses_in_its_order() {
        let pods = ["10.244.0.0/16", "fd00:10:244::/56"];
        let services = ["10.96.0.0/16", "fd00:10:96::/112"];
        for (order, machine, node, balancers) in [
            (&[0][..], "198.18.0.1", "198.18.0.12", "198.18.0.128/25"),
            (&[1], "fd00:10:18::1", "fd00:10:18::c", "fd00:10:18::1:0/112"),
            (&[0, 1], "198.18.0.1,fd00:10:18::1", "198.18.0.12,fd00:10:18::c", "198.18.0.128/25,fd00:10:18::1:0/112"),
            (&[1, 0], "fd00:10:18::1,198.18.0.1", "fd00:10:18::c,198.18.0.12", "fd00:10:18::1:0/112,198.18.0.128/25"),
        ] {
            let of = |pair: [&str; 2]| ranges(pair[order[0]], order.get(1).map(|second| pair[*second]));
            let layout = Layout::new(&LAB.map(cidr), of(pods), of(services), 2).unwrap();
            let text = |list: Vec<String>| list.join(",");
            assert_eq!(text(layout.machine.iter().map(ToString::to_string).collect()), machine);
            assert_eq!(layout.nodes[1].name, "node-2");
            assert_eq!(text(layout.nodes[1].addresses.iter().map(ToString::to_string).collect()), node);
            assert_eq!(text(layout.balancers().iter().map(ToString::to_string).collect()), balancers);
        }
    }

    #[test]
    fn blocks_that_make_no_lab_are_refused_with_the_reason() {
        let pods = ranges("10.244.0.0/16", Some("fd00:10:244::/56"));
        let services = ranges("10.96.0.0/16", Some("fd00:10:96::/112"));
        for (lab, nodes, expected) in [
            (
                &["198.18.0.0/24"][..],
                2,
                "has no IPv6, which Services have; give one CIDR of each family of --service-cluster-ip-range",
            ),
            (&["198.18.0.0/28", LAB[1]], 2, "198.18.0.0/28 is too small; accepted: a prefix of at most 25"),
            (&["10.244.7.0/24", LAB[1]], 2, "10.244.7.0/24 overlaps 10.244.0.0/16, which is for Pods"),
            (&LAB, 51, "51 nodes have no room; accepted: up to 50"),
        ] {
            let lab: Vec<Cidr> = lab.iter().map(|text| cidr(text)).collect();
            let error = Layout::new(&lab, pods, services, nodes).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
