//! To a Service: its name, its load balancer, node ports and cluster address, and the pods behind them.

use super::{Target, Trace, Walk};
use crate::{
    Snapshot,
    endpoints::{is_ready, service_of},
    families,
};
use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use net::{Cidr, Family, HasFamily as _};
use std::net::{IpAddr, SocketAddr};

pub(super) fn traces(snapshot: &Snapshot, target: Target<'_>) -> Option<Vec<Trace>> {
    let service = find(snapshot, target.namespace, target.name)?;
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        let name = spec.external_name.clone().unwrap_or_default();
        return Some(
            Family::BOTH
                .map(|family| {
                    let mut walk = Walk::new(family);
                    walk.pass(
                        "DNS",
                        format!("{}.{}.svc.{} CNAME {name}", target.name, target.namespace, target.domain),
                    );
                    walk.arrives()
                })
                .into(),
        );
    }
    Some(Family::BOTH.map(|family| trace_family(snapshot, service, spec, target, family)).into())
}

pub(super) fn find<'a>(snapshot: &'a Snapshot, namespace: &str, name: &str) -> Option<&'a Service> {
    snapshot.services.iter().find(|service| {
        service.metadata.namespace.as_deref() == Some(namespace) && service.metadata.name.as_deref() == Some(name)
    })
}

fn trace_family(
    snapshot: &Snapshot,
    service: &Service,
    spec: &ServiceSpec,
    target: Target<'_>,
    family: Family,
) -> Trace {
    let mut walk = Walk::new(family);
    let has = families::of_service(service);
    if has.is_some_and(|has| !has.contains(family)) {
        let policy = spec.ip_family_policy.as_deref().unwrap_or("SingleStack");
        return walk.ends(format!("the Service has {} only (ipFamilyPolicy {policy})", family.other()));
    }
    let record = if family == Family::V4 { "A" } else { "AAAA" };
    let name = format!("{}.{}.svc.{}", target.name, target.namespace, target.domain);
    let address = cluster_address(spec, family);
    let ready = endpoints(snapshot, target, family);
    match address {
        Some(address) => walk.pass("DNS", format!("{name} {record} {address}")),
        None => {
            let all: Vec<String> = ready.iter().map(|one| one.address.to_string()).collect();
            walk.pass(
                "DNS",
                format!("{name} {record} {}", if all.is_empty() { "(nothing)".to_owned() } else { all.join(", ") }),
            );
        }
    }
    if let Some(closed) = load_balancer(&mut walk, service, spec) {
        return walk.ends(closed);
    }
    node_ports(&mut walk, snapshot, spec);
    for port in spec.ports.iter().flatten().filter(|_| address.is_some()) {
        let to = match &port.target_port {
            Some(IntOrString::Int(number)) => number.to_string(),
            Some(IntOrString::String(name)) => name.clone(),
            None => port.port.to_string(),
        };
        walk.pass("cluster IP", format!("{} to port {to}", shown(address, port)));
    }
    for one in &ready {
        walk.pass("endpoint", one.shown(spec));
    }
    if ready.is_empty() { walk.ends(format!("no endpoint of {family} is ready")) } else { walk.arrives() }
}

fn shown(address: Option<IpAddr>, port: &ServicePort) -> String {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let number = u16::try_from(port.port).unwrap_or_default();
    address.map(|address| format!("{}/{protocol}", SocketAddr::new(address, number))).unwrap_or_default()
}

fn cluster_address(spec: &ServiceSpec, family: Family) -> Option<IpAddr> {
    let all = spec.cluster_ips.iter().flatten().filter_map(|text| text.parse::<IpAddr>().ok());
    all.into_iter().find(|address| address.family() == family)
}

/// Its addresses of this family, or names, which have those that their DNS says; a reason if it is closed.
fn load_balancer(walk: &mut Walk, service: &Service, spec: &ServiceSpec) -> Option<String> {
    if spec.type_.as_deref() != Some("LoadBalancer") {
        return None;
    }
    let points = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    for point in points.into_iter().flatten() {
        let address = point.ip.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
        match (&point.hostname, address) {
            (Some(name), _) => walk.pass("load balancer", name.clone()),
            (None, Some(address)) if address.family() == walk.family => walk.pass("load balancer", address.to_string()),
            _ => {}
        }
    }
    let family = walk.family;
    if !walk.steps.iter().any(|step| step.what == "load balancer") {
        walk.pass("load balancer", format!("none of {family}; inside the cluster it goes on"));
    }
    let ranges = spec.load_balancer_source_ranges.as_ref().filter(|ranges| !ranges.is_empty())?;
    let blocks: Vec<Cidr> = ranges.iter().filter_map(|range| range.trim().parse().ok()).collect();
    let open: Vec<String> = blocks.iter().filter(|block| block.family() == family).map(ToString::to_string).collect();
    match open.is_empty() {
        true => Some(format!("loadBalancerSourceRanges let nobody of {family} in")),
        false => {
            walk.pass("load balancer", format!("lets in {}", open.join(", ")));
            None
        }
    }
}

fn node_ports(walk: &mut Walk, snapshot: &Snapshot, spec: &ServiceSpec) {
    let ports: Vec<String> = spec
        .ports
        .iter()
        .flatten()
        .filter_map(|port| port.node_port)
        .filter(|port| *port > 0)
        .map(|port| port.to_string())
        .collect();
    if ports.is_empty() {
        return;
    }
    let (with, all) = (
        snapshot
            .nodes
            .iter()
            .filter(|node| families::of_node(node).is_some_and(|has| has.contains(walk.family)))
            .count(),
        snapshot.nodes.len(),
    );
    let local = if spec.external_traffic_policy.as_deref() == Some("Local") {
        ", only to endpoints of the same node"
    } else {
        ""
    };
    walk.pass("node port", format!("{} on {with} of {all} nodes{local}", ports.join(", ")));
}

/// A pod that is ready.
pub(super) struct Endpoint {
    pub(super) address: IpAddr,
    pod: String,
    node: String,
    ports: Vec<i32>,
}

impl Endpoint {
    fn shown(&self, spec: &ServiceSpec) -> String {
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        let who = if self.pod.is_empty() { String::new() } else { format!(" {}", self.pod) };
        let location = if self.node.is_empty() { String::new() } else { format!(" on {}", self.node) };
        let local =
            if spec.internal_traffic_policy.as_deref() == Some("Local") { ", for pods of that node" } else { "" };
        format!("{} port {}{who}{location}{local}", self.address, ports.join(", "))
    }
}

pub(super) fn endpoints(snapshot: &Snapshot, target: Target<'_>, family: Family) -> Vec<Endpoint> {
    let kind = family.to_string();
    let ours = |slice: &&EndpointSlice| {
        slice.address_type == kind && service_of(slice) == Some((target.namespace, target.name))
    };
    let mut all = Vec::new();
    for slice in snapshot.slices.iter().filter(ours) {
        let ports: Vec<i32> = slice.ports.iter().flatten().filter_map(|port| port.port).collect();
        for endpoint in slice.endpoints.iter().flatten() {
            let address = endpoint.addresses.first().and_then(|text| text.parse().ok());
            let Some(address) = address.filter(|_| is_ready(endpoint)) else {
                continue;
            };
            let pod = endpoint.target_ref.as_ref().and_then(|pod| pod.name.as_ref()).map(|name| format!("pod/{name}"));
            all.push(Endpoint {
                address,
                pod: pod.unwrap_or_default(),
                node: endpoint.node_name.clone().unwrap_or_default(),
                ports: ports.clone(),
            });
        }
    }
    all.sort_by_key(|endpoint| endpoint.address);
    all
}
