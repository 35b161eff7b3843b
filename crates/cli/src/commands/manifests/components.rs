//! The components that have manifests: where each lives, what it may do, and on which nodes it runs.

use super::super::{Command, cloud_config, cloud_controller_manager, dns_operator, ingress_operator, proxy};
use api::rights::{self, Rights};

/// One component.
pub(super) struct Component {
    /// Its name here; also that of its account and workload.
    pub(super) name: &'static str,
    pub(super) command: &'static Command,
    pub(super) namespace: &'static str,
    /// Name of its ClusterRole.
    pub(super) role: &'static str,
    pub(super) access: Access,
    pub(super) placement: Placement,
    /// Where it tells its health.
    pub(super) health: fn() -> u16,
    /// The flag that names the image of what it runs, which is its own.
    pub(super) image_flag: Option<&'static str>,
    pub(super) needs_server: bool,
}

/// Where its rights come from.
#[derive(Clone, Copy)]
pub(super) enum Access {
    Own(fn() -> Rights),
    /// Every cluster has the role.
    OfCluster,
}

/// Which nodes it runs on, and in whose network.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// Once, on any node, with addresses of its own.
    Anywhere,
    /// On each node of the control plane, in the node's network: nodes may not have pod addresses before it has worked.
    ControlPlane,
    /// On each node, in the node's network and with its kernel.
    EveryNode,
}

/// Flags that name files: a Pod sees none of them.
pub(super) const ON_DISK: [&str; 4] = ["kubeconfig", "config", "tls-cert-file", "tls-private-key-file"];

const ALL: &[Component] = &[
    Component {
        name: "cloud-controller-manager",
        command: &cloud_controller_manager::COMMAND,
        namespace: rights::SYSTEM_NAMESPACE,
        role: "system:cloud-controller-manager",
        access: Access::Own(rights::cloud_controller_manager),
        placement: Placement::ControlPlane,
        health: || cloud_controller_manager::OWN.port(),
        image_flag: None,
        needs_server: false,
    },
    Component {
        name: "cloud-config-sync",
        command: &cloud_config::sync::COMMAND,
        namespace: rights::SYSTEM_NAMESPACE,
        role: "cloud-config-sync",
        access: Access::Own(rights::cloud_config_sync),
        placement: Placement::Anywhere,
        health: || cloud_config::sync::OWN.port(),
        image_flag: None,
        needs_server: false,
    },
    Component {
        name: "dns-operator",
        command: &dns_operator::COMMAND,
        namespace: rights::DNS_OPERATOR_NAMESPACE,
        role: "openshift-dns-operator",
        access: Access::Own(rights::dns_operator),
        placement: Placement::Anywhere,
        health: || dns_operator::OWN.port(),
        image_flag: Some(dns_operator::DNS_IMAGE.flag().name),
        needs_server: false,
    },
    Component {
        name: "ingress-operator",
        command: &ingress_operator::COMMAND,
        namespace: rights::INGRESS_OPERATOR_NAMESPACE,
        role: "openshift-ingress-operator",
        access: Access::Own(rights::ingress_operator),
        placement: Placement::Anywhere,
        health: || ingress_operator::OWN.port(),
        image_flag: Some(ingress_operator::ROUTER_IMAGE.flag().name),
        needs_server: false,
    },
    Component {
        name: "proxy",
        command: &proxy::COMMAND,
        namespace: rights::SYSTEM_NAMESPACE,
        role: "system:node-proxier",
        access: Access::OfCluster,
        placement: Placement::EveryNode,
        health: proxy::health_port,
        image_flag: None,
        needs_server: true,
    },
];

fn names() -> String {
    ALL.iter().map(|component| component.name).collect::<Vec<_>>().join(", ")
}

pub(super) fn named(name: &str) -> Result<&'static Component, String> {
    ALL.iter()
        .find(|component| component.name == name)
        .ok_or_else(|| format!("has no manifests; accepted: {}", names()))
}
