//! Which families nodes, pods and Services have, and which the cluster as a whole.

use crate::Snapshot;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use net::{Cidr, Families, Family, HasFamily as _};
use std::net::IpAddr;

/// The families of addresses, in their order; none if there are none.
fn of_addresses<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Families> {
    of(texts.into_iter().filter_map(|text| text.parse::<IpAddr>().ok()).map(|address| address.family()))
}

/// The families of blocks, in their order.
pub(crate) fn of_blocks<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Families> {
    of(texts.into_iter().filter_map(|text| text.parse::<Cidr>().ok()).map(|block| block.family()))
}

fn of(families: impl Iterator<Item = Family>) -> Option<Families> {
    families.fold(None, |known, family| match known {
        None => Some(Families::one(family)),
        Some(known) if known.contains(family) => Some(known),
        Some(known) => Some(Families::both(known.primary())),
    })
}

/// The node's own addresses.
pub(crate) fn of_node(node: &Node) -> Option<Families> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    of_addresses(addresses.filter(|address| address.type_ == "InternalIP").map(|address| address.address.as_str()))
}

/// The addresses that its pods get.
pub(crate) fn of_pods_of(node: &Node) -> Option<Families> {
    let spec = node.spec.as_ref()?;
    of_blocks(spec.pod_cidrs.iter().flatten().map(String::as_str))
}

/// The pod's own addresses.
pub(crate) fn of_pod(pod: &Pod) -> Option<Families> {
    let addresses = pod.status.as_ref()?.pod_ips.iter().flatten();
    of_addresses(addresses.map(|address| address.ip.as_str()))
}

/// Those that the API gave to the Service.
pub(crate) fn of_service(service: &Service) -> Option<Families> {
    let names = service.spec.as_ref()?.ip_families.iter().flatten();
    of(names.filter_map(|name| name.parse::<Family>().ok()))
}

/// Those that Services can have: as the ranges say, else as some Service has.
pub(crate) fn of_services(snapshot: &Snapshot) -> Option<Families> {
    let named = |name: &str| snapshot.ranges.iter().find(move |range| range.metadata.name.as_deref() == Some(name));
    let first = named("kubernetes").and_then(|range| range.spec.as_ref()?.cidrs.as_ref()).into_iter().flatten();
    let all = snapshot.ranges.iter().filter_map(|range| range.spec.as_ref()?.cidrs.as_ref()).flatten();
    of_blocks(first.chain(all).map(String::as_str)).or_else(|| {
        let both = snapshot.services.iter().filter_map(of_service).find(|families| families.is_dual());
        both.or_else(|| snapshot.services.iter().find_map(of_service))
    })
}

/// Those that any pod, or any node's pods, have.
pub(crate) fn of_pods(snapshot: &Snapshot) -> Option<Families> {
    let nodes = snapshot.nodes.iter().filter_map(of_pods_of).chain(snapshot.nodes.iter().filter_map(of_node));
    of(nodes.flat_map(|families| families.iter().collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_nothing_counts_twice() {
        for (texts, expected) in [
            (vec![], None),
            (vec!["x"], None),
            (vec!["192.0.2.1", "192.0.2.2"], Some(Families::one(Family::V4))),
            (vec!["2001:db8::1"], Some(Families::one(Family::V6))),
            (vec!["192.0.2.1", "2001:db8::1"], Some(Families::both(Family::V4))),
            (vec!["2001:db8::1", "192.0.2.1", "192.0.2.2"], Some(Families::both(Family::V6))),
        ] {
            assert_eq!(of_addresses(texts.iter().copied()), expected, "{texts:?}");
        }
        assert_eq!(of_blocks(["fd00::/64", "10.0.0.0/24"]), Some(Families::both(Family::V6)));
    }
}
