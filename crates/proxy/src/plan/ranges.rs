//! Who may use the load balancer addresses of a Service.

use super::route::Sources;
use crate::track::{Node, Service};
use net::{Cidr, Family, HasFamily};
use std::net::IpAddr;

/// The ranges of a family. A list without a range of this family lets nobody of it in (upstream lets everyone in).
pub(super) fn sources(service: &Service, family: Family, _node: &Node) -> Sources {
    let Some(ranges) = &service.source_ranges else { return Sources::Everyone };
    let mut own: Vec<Cidr> = ranges.iter().copied().filter(|cidr| cidr.family() == family).collect();
    if own.iter().any(|cidr| cidr.prefix() == 0) {
        return Sources::Everyone;
    }
    simplify(&mut own);
    Sources::Only(own)
}

/// Drops blocks that lie in another one: the kernel's interval sets take no overlaps.
fn simplify(list: &mut Vec<Cidr>) {
    // A block sorts before those inside it.
    list.sort_unstable();
    let mut kept: Vec<Cidr> = Vec::with_capacity(list.len());
    for cidr in list.drain(..) {
        if !kept.last().is_some_and(|last| last.contains_cidr(&cidr)) {
            kept.push(cidr);
        }
    }
    *list = kept;
}

impl Sources {
    /// Where the load balancer's address is also an address of the node, the node's own programs connect from it: they
    /// may if the node may.
    pub(super) fn with_own_address(self, ip: IpAddr, node: &Node) -> Self {
        let Self::Only(mut ranges) = self else { return self };
        let node_may = node.addresses.iter().any(|address| ranges.iter().any(|range| range.contains(*address)));
        if node_may {
            ranges.extend(Cidr::host(ip));
            simplify(&mut ranges);
        }
        Self::Only(ranges)
    }
}
