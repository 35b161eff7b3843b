//! What records are made of, read from objects of the API.

use super::records::{Kind, Port, Target};
use crate::wire::Name;
use k8s_openapi::api::{core::v1 as core, discovery::v1::EndpointSlice};
use std::{net::IpAddr, sync::Arc};

/// What a Service is, and its ports.
pub(super) fn service_of(service: &core::Service) -> (Kind, Vec<Port>) {
    let Some(spec) = &service.spec else { return (Kind::Headless, Vec::new()) };
    let ports = spec.ports.iter().flatten().map(|port| Port {
        name: port.name.as_deref().unwrap_or_default().to_lowercase().into(),
        protocol: port.protocol.as_deref().unwrap_or("TCP").to_lowercase().into(),
        number: u16::try_from(port.port).unwrap_or(0),
    });
    let kind = match spec.type_.as_deref() {
        Some("ExternalName") => Kind::External(spec.external_name.as_deref().unwrap_or_default().into()),
        _ => {
            let all = spec.cluster_ips.clone().unwrap_or_else(|| spec.cluster_ip.iter().cloned().collect());
            let headless = all.iter().any(|address| address == "None");
            let addresses: Arc<[IpAddr]> = all.iter().filter_map(|address| address.parse().ok()).collect();
            if headless { Kind::Headless } else { Kind::Cluster(addresses) }
        }
    };
    (kind, ports.collect())
}

/// The addresses and names by which a Service is reached from outside, each once.
pub(super) fn externals_of(service: &core::Service) -> Vec<Target> {
    let given = service.spec.iter().flat_map(|spec| spec.external_ips.iter().flatten().map(String::as_str));
    let balancer = service.status.iter().filter_map(|status| status.load_balancer.as_ref());
    let balancers = balancer.flat_map(|balancer| balancer.ingress.iter().flatten()).filter_map(|ingress| {
        let address = ingress.ip.as_deref().filter(|address| !address.is_empty());
        address.or(ingress.hostname.as_deref())
    });
    let mut externals = Vec::new();
    for text in given.chain(balancers) {
        let external = match text.parse() {
            Ok(address) => Target::Address(address),
            Err(_) => match Name::parse(text) {
                Ok(name) if !name.is_root() => Target::Name(name.into()),
                _ => continue,
            },
        };
        if !externals.contains(&external) {
            externals.push(external);
        }
    }
    externals
}

/// The Service that a slice belongs to.
pub(super) fn service_name(slice: &EndpointSlice) -> Option<&str> {
    slice.metadata.labels.as_ref()?.get("kubernetes.io/service-name").map(String::as_str)
}

/// The addresses of a Pod that is alive.
pub(super) fn pod_addresses(pod: &core::Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed" | "Unknown"));
    if over || pod.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let all = status.pod_ips.iter().flatten().map(|address| address.ip.as_str());
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in all.chain(status.pod_ip.as_deref()).filter_map(|ip| ip.parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}
