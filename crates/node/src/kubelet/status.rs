//! What a node says of itself. Pure.

use super::machine::Machine;
use crate::environment::Allocatable;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};
use std::{collections::BTreeMap, net::IpAddr};

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    pub machine: &'a Machine,
    pub allocatable: &'a Allocatable,
    pub addresses: &'a [IpAddr],
    pub hostname: &'a str,
    pub max_pods: u32,
    /// Name and version of the runtime.
    pub runtime: &'a str,
    /// Why the node cannot run Pods.
    pub problem: Option<String>,
    pub pressure: Pressure,
    pub port: u16,
    pub images: Vec<ContainerImage>,
    pub now: Timestamp,
}

/// What the node runs short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pids: bool,
}

/// The status as it should be. Conditions of others are kept.
#[must_use]
pub fn status(node: &Node, facts: &Facts<'_>) -> NodeStatus {
    let mut status = node.status.clone().unwrap_or_default();
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let own = facts.addresses.iter().map(|ip| address("InternalIP", ip.to_string()));
    status.addresses = Some(own.chain([address("Hostname", facts.hostname.to_owned())]).collect());
    let Machine { cpus, memory, disk, .. } = facts.machine;
    status.capacity = Some(amounts(&[
        ("cpu", cpus.to_string()),
        ("memory", format!("{}Ki", memory / 1024)),
        ("ephemeral-storage", format!("{}Ki", disk / 1024)),
        ("pods", facts.max_pods.to_string()),
    ]));
    let Allocatable { cpu_millis, memory, ephemeral_storage } = facts.allocatable;
    let cpu = if cpu_millis % 1000 == 0 { (cpu_millis / 1000).to_string() } else { format!("{cpu_millis}m") };
    status.allocatable = Some(amounts(&[
        ("cpu", cpu),
        ("memory", format!("{}Ki", memory / 1024)),
        ("ephemeral-storage", ephemeral_storage.to_string()),
        ("pods", facts.max_pods.to_string()),
    ]));
    status.node_info = Some(facts.machine.info(facts.runtime));
    status.daemon_endpoints = Some(NodeDaemonEndpoints {
        kubelet_endpoint: (facts.port > 0).then(|| DaemonEndpoint { port: facts.port.into() }),
    });
    status.images = Some(facts.images.clone());
    let Pressure { memory, disk, pids } = facts.pressure;
    let mut conditions = status.conditions.take().unwrap_or_default();
    for (kind, short, yes, no, more, less) in [
        (
            "MemoryPressure",
            memory,
            "KubeletHasInsufficientMemory",
            "KubeletHasSufficientMemory",
            "kubelet has insufficient memory available",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            disk,
            "KubeletHasDiskPressure",
            "KubeletHasNoDiskPressure",
            "kubelet has disk pressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            pids,
            "KubeletHasInsufficientPID",
            "KubeletHasSufficientPID",
            "kubelet has insufficient PID available",
            "kubelet has sufficient PID available",
        ),
    ] {
        let (reason, message) = if short { (yes, more) } else { (no, less) };
        set(&mut conditions, kind, short, reason, message, facts.now);
    }
    match &facts.problem {
        None => set(&mut conditions, "Ready", true, "KubeletReady", "kubelet is posting ready status", facts.now),
        Some(problem) => set(&mut conditions, "Ready", false, "KubeletNotReady", problem, facts.now),
    }
    status.conditions = Some(conditions);
    status
}

fn amounts(list: &[(&str, String)]) -> BTreeMap<String, Quantity> {
    list.iter().map(|(name, text)| ((*name).to_owned(), Quantity(text.clone()))).collect()
}

fn set(list: &mut Vec<NodeCondition>, kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let at = list.iter().position(|one| one.type_ == kind);
    let mut condition = at.map_or_else(NodeCondition::default, |at| list[at].clone());
    if condition.status != status {
        condition.last_transition_time = Some(Time(now));
    }
    condition.type_ = kind.to_owned();
    condition.status = status.to_owned();
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message.to_owned());
    condition.last_heartbeat_time = Some(Time(now));
    match at {
        Some(at) => list[at] = condition,
        None => list.push(condition),
    }
}

/// Whether two statuses differ in nothing but the time of the last heartbeat.
#[must_use]
pub fn is_same(told: &NodeStatus, wanted: &NodeStatus) -> bool {
    let still = |status: &NodeStatus| {
        let mut status = status.clone();
        status.conditions.iter_mut().flatten().for_each(|one| one.last_heartbeat_time = None);
        status
    };
    still(told) == still(wanted)
}
