//! What an administrator decides about Services: `--service-cluster-ip-range` and its companions.

use api::families::{Cluster, RuleSet};
use net::{DualStack, PortRange, ServiceRange, flags};
use std::net::IpAddr;

/// The settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--service-cluster-ip-range`: the first is the cluster's default family.
    pub ranges: DualStack<ServiceRange>,
    /// `--service-node-port-range`; none means that there are no node ports.
    pub node_ports: Option<PortRange>,
    /// `--service-family-rules`.
    pub rules: RuleSet,
    /// `--dual-stack-kubernetes-service`.
    pub kubernetes_service: KubernetesService,
    /// `--advertise-address` and the secure port; none serves no endpoints of the `kubernetes` Service.
    pub advertised: Option<Advertised>,
}

/// In which families the `kubernetes` Service has an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubernetesService {
    /// In the first, as kube-apiserver has it.
    #[default]
    Primary,
    /// In all that the cluster has.
    Both,
}

/// Where other machines reach this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// One address, or one of each family; the first of the family that Services have first.
    pub addresses: DualStack<IpAddr>,
    /// The secure port.
    pub port: u16,
}

impl Settings {
    /// What the family rules need to know.
    pub fn cluster(&self) -> Cluster {
        Cluster { families: self.ranges.families(), rules: self.rules }
    }
}

/// A dual-stack cluster, IPv4 first, that nobody reaches from outside: for tests.
impl Default for Settings {
    fn default() -> Self {
        Self {
            ranges: flags::service_ranges("10.96.0.0/16,fd00:96::/108").expect("two ranges of different families"),
            node_ports: Some(PortRange::NODE_PORTS),
            rules: RuleSet::default(),
            kubernetes_service: KubernetesService::default(),
            advertised: None,
        }
    }
}
