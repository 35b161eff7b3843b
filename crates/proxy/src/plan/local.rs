//! How traffic from this node's or this cluster's pods is told from all other: `--detect-local-mode`.

use crate::track::Node;
use net::{Cidr, DualStack, Family, HasFamily};

/// The mode, with what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DetectLocal {
    /// By nothing: no traffic is known to be a pod's.
    #[default]
    Off,
    /// By the cluster's pod addresses.
    ClusterCidr(DualStack<Cidr>),
    /// By the pod addresses that the Node object names.
    NodeCidr,
    /// By the bridge it comes from.
    Bridge(String),
    /// By how the name of its interface begins.
    InterfacePrefix(String),
}

/// What it comes to in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalPods {
    /// Cannot be told.
    Unknown,
    /// By the sender's address.
    Within(Cidr),
    Interface(String),
    /// By the beginning of the interface's name.
    InterfacePrefix(String),
}

impl DetectLocal {
    /// For one family, with what the Node says now.
    #[must_use]
    pub fn in_family(&self, family: Family, node: &Node) -> LocalPods {
        let within = |cidr: Option<Cidr>| cidr.map_or(LocalPods::Unknown, LocalPods::Within);
        match self {
            Self::Off => LocalPods::Unknown,
            Self::ClusterCidr(cidrs) => within(cidrs.get(family).copied()),
            Self::NodeCidr => within(node.pod_cidrs.iter().copied().find(|cidr| cidr.family() == family)),
            Self::Bridge(name) => LocalPods::Interface(name.clone()),
            Self::InterfacePrefix(prefix) => LocalPods::InterfacePrefix(prefix.clone()),
        }
    }
}
