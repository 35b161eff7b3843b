//! The addresses of hollow nodes and of their pods.
//!
//! A pod has the same place in each of its node's pod CIDRs. Places go round, so that one that has just become free is
//! not given away again at once.

use k8s_openapi::api::core::v1::Pod;
use net::{Cidr, Families, Family};
use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The network itself and the node's own address in it.
const RESERVED: u128 = 2;

/// The addresses of a node: of ranges that are meant for tests and documentation, and routed nowhere.
pub(super) fn of_node(index: u32, families: Families) -> Vec<IpAddr> {
    let address = |family| match family {
        // 198.18.0.0/15 has 131,072 addresses; hollow clusters are smaller.
        Family::V4 => IpAddr::V4(Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + (index + 1) % 0x2_0000)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(
            u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0)) + u128::from(index) + 1,
        )),
    };
    families.iter().map(address).collect()
}

/// The places that pods have in their nodes' CIDRs.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_pod: HashMap<String, (String, u128)>,
    by_node: HashMap<String, (HashSet<u128>, u128)>,
}

impl Places {
    /// The pod has these addresses already.
    pub(super) fn note(&mut self, pod: &Pod, node: &str, cidrs: &[Cidr]) {
        let Some(uid) = pod.metadata.uid.as_ref().filter(|uid| !self.by_pod.contains_key(*uid)) else { return };
        let ips = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
        let mut offsets =
            ips.filter_map(|ip| ip.ip.parse().ok()).filter_map(|ip| cidrs.iter().find_map(|cidr| cidr.offset(ip)));
        if let Some(offset) = offsets.next() {
            self.by_pod.insert(uid.clone(), (node.to_owned(), offset));
            let (taken, next) = self.by_node.entry(node.to_owned()).or_default();
            taken.insert(offset);
            *next = (*next).max(offset + 1);
        }
    }

    /// Addresses for a pod, one per CIDR; the same each time it is asked. None when the node is full.
    pub(super) fn take(&mut self, uid: &str, node: &str, cidrs: &[Cidr]) -> Option<Vec<IpAddr>> {
        let offset = match self.by_pod.get(uid) {
            Some((_, offset)) => *offset,
            None => {
                // The last address of an IPv4 network is its broadcast address.
                let end = cidrs.iter().map(Cidr::size).min()?.saturating_sub(1);
                let (taken, next) = self.by_node.entry(node.to_owned()).or_default();
                let start = (*next).clamp(RESERVED, end.max(RESERVED));
                let offset = (start..end).chain(RESERVED..start).find(|offset| !taken.contains(offset))?;
                taken.insert(offset);
                *next = offset + 1;
                self.by_pod.insert(uid.to_owned(), (node.to_owned(), offset));
                offset
            }
        };
        cidrs.iter().map(|cidr| cidr.nth(offset)).collect()
    }

    /// The pod is gone.
    pub(super) fn free(&mut self, uid: &str) {
        if let Some((node, offset)) = self.by_pod.remove(uid)
            && let Some((taken, _)) = self.by_node.get_mut(&node)
        {
            taken.remove(&offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn cidrs(texts: &[&str]) -> Vec<Cidr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn texts(ips: Option<Vec<IpAddr>>) -> Vec<String> {
        ips.into_iter().flatten().map(|ip| ip.to_string()).collect()
    }

    #[test]
    fn pods_have_one_address_per_family_in_the_nodes_order() {
        for (given, expected) in [
            (vec!["10.0.1.0/24"], vec!["10.0.1.2"]),
            (vec!["fd00:1::/64"], vec!["fd00:1::2"]),
            (vec!["10.0.1.0/24", "fd00:1::/64"], vec!["10.0.1.2", "fd00:1::2"]),
            (vec!["fd00:1::/64", "10.0.1.0/24"], vec!["fd00:1::2", "10.0.1.2"]),
        ] {
            assert_eq!(texts(Places::default().take("pod", "n", &cidrs(&given))), expected);
        }
        assert_eq!(Places::default().take("pod", "n", &[]), None);
    }

    #[test]
    fn places_go_round_and_are_never_given_twice() {
        let small = cidrs(&["10.0.1.0/29", "fd00:1::/64"]);
        let mut places = Places::default();
        let given: Vec<String> =
            (0..5).flat_map(|n| texts(places.take(&n.to_string(), "n", &small)).into_iter().take(1)).collect();
        assert_eq!(given, ["10.0.1.2", "10.0.1.3", "10.0.1.4", "10.0.1.5", "10.0.1.6"]);
        assert_eq!(places.take("late", "n", &small), None, "the last one is the broadcast address");
        places.free("1");
        assert_eq!(texts(places.take("late", "n", &small))[0], "10.0.1.3");
        assert_eq!(texts(places.take("late", "n", &small))[0], "10.0.1.3", "asked again");
    }

    #[test]
    fn what_pods_have_is_respected_after_a_restart() {
        let net = cidrs(&["10.0.1.0/24", "fd00:1::/64"]);
        let old: Pod = from_value(
            json!({"metadata": {"uid": "old"}, "status": {"podIPs": [{"ip": "10.0.1.2"}, {"ip": "fd00:1::2"}]}}),
        )
        .unwrap();
        let mut places = Places::default();
        places.note(&old, "n", &net);
        assert_eq!(texts(places.take("new", "n", &net)), ["10.0.1.3", "fd00:1::3"]);
        assert_eq!(texts(places.take("old", "n", &net)), ["10.0.1.2", "fd00:1::2"]);
    }

    #[test]
    fn nodes_have_addresses_of_their_own() {
        assert_eq!(
            of_node(0, Families::both(Family::V6)).iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["2001:db8:0:1::1", "198.18.0.1"]
        );
        assert_eq!(of_node(999, Families::one(Family::V4)), ["198.18.3.232".parse::<IpAddr>().unwrap()]);
    }
}
