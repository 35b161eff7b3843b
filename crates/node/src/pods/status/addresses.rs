//! Which of the runtime's addresses are the Pod's, and in which order: one of each family, the node's primary family first.

use net::{Family, HasFamily};
use std::net::IpAddr;

/// The first address of the node's primary family, then the first of the other; in the runtime's order while the node has no address.
#[must_use]
pub(crate) fn of_pod(found: &[IpAddr], node: &[IpAddr]) -> Vec<IpAddr> {
    let primary = node.first().or_else(|| found.first()).map(HasFamily::family);
    let Some(primary) = primary else { return Vec::new() };
    let first = |family: Family| found.iter().copied().find(|ip| ip.family() == family);
    [primary, primary.other()].into_iter().filter_map(first).collect()
}

/// Addresses of a Pod on the node's network: once told, the first stays, and another may only join it.
#[must_use]
pub(crate) fn of_host(told: &[IpAddr], node: &[IpAddr]) -> Vec<IpAddr> {
    let Some(first) = told.first() else { return node.to_vec() };
    let second = node.iter().find(|ip| ip.family() != first.family());
    let second = told.get(1).or(second);
    std::iter::once(first).chain(second).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_nodes_primary_family_comes_first_and_each_family_once() {
        for (found, node, wanted) in [
            (vec!["10.0.0.2"], vec!["192.0.2.1"], vec!["10.0.0.2"]),
            (vec!["fd00::2"], vec!["2001:db8::1"], vec!["fd00::2"]),
            (vec!["10.0.0.2", "fd00::2"], vec!["192.0.2.1", "2001:db8::1"], vec!["10.0.0.2", "fd00::2"]),
            (vec!["10.0.0.2", "fd00::2"], vec!["2001:db8::1", "192.0.2.1"], vec!["fd00::2", "10.0.0.2"]),
            (vec!["fd00::2", "fd00::3", "10.0.0.2", "10.0.0.3"], vec!["192.0.2.1"], vec!["10.0.0.2", "fd00::2"]),
            (vec!["fd00::2", "10.0.0.2"], vec![], vec!["fd00::2", "10.0.0.2"]),
            (vec!["10.0.0.2"], vec!["2001:db8::1"], vec!["10.0.0.2"]),
        ] {
            assert_eq!(of_pod(&ips(&found), &ips(&node)), ips(&wanted), "{found:?} {node:?}");
        }
    }

    #[test]
    fn on_the_nodes_network_a_second_address_may_come_and_the_first_stays() {
        let node = ips(&["192.0.2.1", "2001:db8::1"]);
        assert_eq!(of_host(&[], &node), node);
        assert_eq!(of_host(&ips(&["192.0.2.9"]), &node), ips(&["192.0.2.9", "2001:db8::1"]));
        assert_eq!(of_host(&ips(&["2001:db8::1"]), &node), ips(&["2001:db8::1", "192.0.2.1"]));
    }
}
