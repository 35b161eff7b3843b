//! What a Pod is to a Service: an endpoint of a family, behind ports that may be named.

use k8s_openapi::{
    api::{
        core::v1::{ContainerPort, Node, ObjectReference, Pod, PodSpec, Service, ServicePort},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use net::{Family, HasFamily, legacy::parse_stored_ip};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Whether the Pod's condition Ready is true.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready")
        .is_some_and(|condition| condition.status == "True")
}

/// Whether it is on its way out.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether it can be an endpoint at all: it has not ended for good, and it has an address.
pub fn has_endpoints(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let ended = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    !ended
        && (status.pod_ip.as_ref().is_some_and(|ip| !ip.is_empty()) || status.pod_ips.iter().flatten().next().is_some())
}

/// The Pod's addresses of a family, spelled canonically.
pub fn addresses(pod: &Pod, family: Family) -> Vec<String> {
    let ips = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
    let parsed = ips.filter_map(|ip| parse_stored_ip(&ip.ip).ok());
    parsed.filter(|ip| ip.family() == family).map(|ip| ip.to_string()).collect()
}

/// The node's zone, if it says one.
pub fn zone(node: &Node) -> Option<&str> {
    let zone = node.metadata.labels.as_ref()?.get(ZONE)?;
    (!zone.is_empty()).then_some(zone)
}

/// The Pod's name inside the Service's DNS domain: its hostname, if its subdomain is the Service.
pub fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.as_deref().filter(|hostname| !hostname.is_empty())?;
    let inside = spec.subdomain.is_some()
        && spec.subdomain == service.metadata.name
        && pod.metadata.namespace == service.metadata.namespace;
    inside.then_some(hostname)
}

/// How an endpoint refers to its Pod.
pub fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The endpoint of a family, or nothing if the Pod has no address of it.
pub fn endpoint(pod: &Pod, node: Option<&Node>, service: &Service, family: Family) -> Option<Endpoint> {
    let addresses = addresses(pod, family);
    if addresses.is_empty() {
        return None;
    }
    let publish = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false);
    let (serving, terminating) = (is_ready(pod), is_terminating(pod));
    let conditions = EndpointConditions {
        ready: Some(publish || (serving && !terminating)),
        serving: Some(serving),
        terminating: Some(terminating),
    };
    Some(Endpoint {
        addresses,
        conditions: Some(conditions),
        hostname: hostname(pod, service).map(str::to_owned),
        node_name: node_name(pod).map(str::to_owned),
        target_ref: Some(target(pod)),
        zone: node.and_then(zone).map(str::to_owned),
        ..Endpoint::default()
    })
}

/// The node that the Pod is bound to.
pub fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// The Service's ports as this Pod has them. A named port that the Pod does not have is left out.
pub fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let found = ports.filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(container_port(port, pod)?),
            protocol: Some(protocol(port.protocol.as_deref()).to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
    });
    found.collect()
}

/// The number behind a Service port: its target port, looked up by name in the Pod's containers, then in its sidecars.
pub fn container_port(port: &ServicePort, pod: &Pod) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        // What a Service without a target port is stored as by very old servers.
        Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let wanted = protocol(port.protocol.as_deref());
    let all = pod.spec.iter().flat_map(container_ports);
    all.into_iter()
        .find(|found| found.name.as_ref() == Some(name) && protocol(found.protocol.as_deref()) == wanted)
        .map(|found| found.container_port)
}

fn container_ports(spec: &PodSpec) -> impl Iterator<Item = &ContainerPort> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten())
}

fn protocol(given: Option<&str>) -> &str {
    given.filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}

/// Whether a change of a Pod can change endpoints of Services that picked it before and still do.
pub fn endpoint_differs(old: &Pod, new: &Pod) -> bool {
    let named = |pod: &Pod| pod.spec.as_ref().map(|spec| (spec.hostname.clone(), spec.subdomain.clone()));
    let ips = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ips.clone());
    is_terminating(old) != is_terminating(new)
        || is_ready(old) != is_ready(new)
        || has_endpoints(old) != has_endpoints(new)
        || node_name(old) != node_name(new)
        || ips(old) != ips(new)
        || old.metadata.uid != new.metadata.uid
        || named(old) != named(new)
}
