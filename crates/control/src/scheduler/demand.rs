//! What a pod takes of a node and what a node has: resources, places for pods, host ports.

use k8s_openapi::{
    api::core::v1::{Container, Node, Pod, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use std::collections::BTreeMap;

/// Amounts in billionths, by the resource's name.
pub(super) type Amounts = BTreeMap<String, i128>;

/// The resource whose amount is the number of pods.
pub(super) const PODS: &str = "pods";

/// A port of a node: protocol, address, number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    protocol: String,
    address: String,
    port: i32,
}

/// What one pod takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) amounts: Amounts,
    pub(super) ports: Vec<HostPort>,
}

/// What a pod asks for: all containers that run together, or the hungriest that runs before them, plus overhead.
pub(super) fn of(pod: &Pod) -> Demand {
    let Some(spec) = &pod.spec else { return Demand::default() };
    let mut together = Amounts::new();
    for container in &spec.containers {
        add(&mut together, &requests(container));
    }
    let mut sidecars = Amounts::new();
    let mut most = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &requests(container));
            raise(&mut most, &sidecars);
        } else {
            let mut alone = sidecars.clone();
            add(&mut alone, &requests(container));
            raise(&mut most, &alone);
        }
    }
    add(&mut together, &sidecars);
    raise(&mut together, &most);
    for (name, amount) in spec.resources.iter().flat_map(|resources| resources.requests.iter().flatten()) {
        together.insert(name.clone(), nanos(amount));
    }
    add(&mut together, &spec.overhead.iter().flatten().map(|(name, amount)| (name.clone(), nanos(amount))).collect());
    together.insert(PODS.to_owned(), 1_000_000_000);
    Demand { amounts: together, ports: ports(spec) }
}

/// What a node can give.
pub(super) fn capacity(node: &Node) -> Amounts {
    let status = node.status.as_ref();
    let given = status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    given.into_iter().flatten().map(|(name, amount)| (name.clone(), nanos(amount))).collect()
}

/// Whether two ports cannot be on one node. All addresses of a family or of both are one wildcard.
pub(super) fn clash(one: &HostPort, other: &HostPort) -> bool {
    let any = |port: &HostPort| matches!(port.address.as_str(), "" | "0.0.0.0" | "::");
    one.port == other.port && one.protocol == other.protocol && (any(one) || any(other) || one.address == other.address)
}

pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *sum.entry(name.clone()).or_default() += amount;
    }
}

pub(super) fn subtract(sum: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        *sum.entry(name.clone()).or_default() -= amount;
    }
}

fn raise(sum: &mut Amounts, at_least: &Amounts) {
    for (name, amount) in at_least {
        let own = sum.entry(name.clone()).or_default();
        *own = (*own).max(*amount);
    }
}

fn requests(container: &Container) -> Amounts {
    let requests = container.resources.iter().flat_map(|resources| resources.requests.iter().flatten());
    requests.map(|(name, amount)| (name.clone(), nanos(amount))).collect()
}

fn nanos(amount: &Quantity) -> i128 {
    api::kinds::quantity::nanos(&amount.0).unwrap_or_default()
}

fn ports(spec: &PodSpec) -> Vec<HostPort> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports
        .filter(|port| port.host_port.unwrap_or_default() > 0)
        .map(|port| HostPort {
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            address: port.host_ip.clone().unwrap_or_default(),
            port: port.host_port.unwrap_or_default(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_hungriest_moment_counts() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let pod: Pod = from_value(json!({"spec": {
            "initContainers": [
                {"name": "first", "resources": cpu("900m")},
                {"name": "sidecar", "restartPolicy": "Always", "resources": cpu("200m")},
                {"name": "second", "resources": cpu("800m")}],
            "containers": [{"name": "a", "resources": cpu("300m")}, {"name": "b", "resources": cpu("100m")}],
            "overhead": {"cpu": "50m"}}}))
        .unwrap();
        // Sidecar and second: 1000m, more than first (900m) and all that run together (600m).
        assert_eq!(of(&pod).amounts["cpu"], 1_050_000_000);
        assert_eq!(of(&pod).amounts[PODS], 1_000_000_000);
    }

    #[test]
    fn ports_clash_per_protocol_and_address() {
        let port = |protocol: &str, address: &str, port: i32| HostPort {
            protocol: protocol.into(),
            address: address.into(),
            port,
        };
        for (one, other, expected) in [
            (port("TCP", "", 80), port("TCP", "", 80), true),
            (port("TCP", "", 80), port("UDP", "", 80), false),
            (port("TCP", "", 80), port("TCP", "", 81), false),
            (port("TCP", "127.0.0.1", 80), port("TCP", "", 80), true),
            (port("TCP", "::1", 80), port("TCP", "::", 80), true),
            (port("TCP", "::1", 80), port("TCP", "127.0.0.1", 80), false),
        ] {
            assert_eq!(clash(&one, &other), expected, "{one:?} {other:?}");
        }
    }
}
