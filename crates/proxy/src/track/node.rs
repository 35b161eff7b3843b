//! This node: its addresses, its pods' addresses, its zone, and whether it may be sent traffic.

use k8s_openapi::api::core::v1 as core;
use net::{Cidr, Family, HasFamily, legacy};
use std::net::IpAddr;

/// The taint by which the cluster autoscaler announces that a node goes away.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// What the data path wants to know of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name as endpoints and hints spell it.
    pub name: String,
    /// Internal addresses, then external ones, as the Node lists them.
    pub addresses: Vec<IpAddr>,
    /// Where its pods have their addresses.
    pub pod_cidrs: Vec<Cidr>,
    /// `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// It is there, and neither being deleted nor about to be.
    pub eligible: bool,
}

impl Node {
    pub(super) fn read(object: &core::Node) -> Self {
        let labels = object.metadata.labels.as_ref();
        let spec = object.spec.as_ref();
        let listed = object.status.as_ref().and_then(|status| status.addresses.as_ref());
        let of_type = |wanted: &'static str| {
            let addresses = listed.into_iter().flatten().filter(move |address| address.type_ == wanted);
            addresses.filter_map(|address| legacy::parse_stored_ip(&address.address).ok())
        };
        let cidrs = spec.and_then(|spec| spec.pod_cidrs.as_ref()).into_iter().flatten();
        let tainted = spec
            .and_then(|spec| spec.taints.as_ref())
            .is_some_and(|taints| taints.iter().any(|taint| taint.key == TO_BE_DELETED));
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            addresses: of_type("InternalIP").chain(of_type("ExternalIP")).collect(),
            pod_cidrs: cidrs.filter_map(|text| legacy::parse_stored_cidr(text).ok()).collect(),
            zone: labels.and_then(|labels| labels.get("topology.kubernetes.io/zone")).cloned(),
            eligible: object.metadata.deletion_timestamp.is_none() && !tainted,
        }
    }

    /// The first address of a family.
    #[must_use]
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|ip| ip.family() == family)
    }

    /// Whether rules for the one are rules for the other.
    pub(super) fn same_rules(&self, other: &Self) -> bool {
        let Self { name, addresses, pod_cidrs, zone, eligible: _ } = self;
        *name == other.name && *addresses == other.addresses && *pod_cidrs == other.pod_cidrs && *zone == other.zone
    }
}
