//! Variables that name the Services of a namespace, as they were before there was DNS.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

/// By name. `kubernetes` of `default` is always among them; the others if the Pod wants links.
pub(super) fn variables(services: &[Arc<Service>], namespace: &str, links: bool) -> BTreeMap<String, String> {
    let mut chosen: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let (name, of) = (service.metadata.name.as_deref(), service.metadata.namespace.as_deref());
        let (Some(name), Some(of)) = (name, of) else { continue };
        if of == "default" && name == "kubernetes" {
            // The namespace's own Service of that name comes before it.
            chosen.entry(name).or_insert(service);
        } else if of == namespace && links {
            chosen.insert(name, service);
        }
    }
    chosen.into_iter().flat_map(|(name, service)| of_service(name, service)).collect()
}

fn of_service(name: &str, service: &Service) -> Vec<(String, String)> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let Some(address) = spec.cluster_ip.as_deref().and_then(|address| address.parse::<IpAddr>().ok()) else {
        return Vec::new();
    };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return Vec::new() };
    let prefix = upper(name);
    let mut found = vec![
        (format!("{prefix}_SERVICE_HOST"), address.to_string()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
        (format!("{prefix}_PORT"), url(address, first)),
    ];
    for port in ports {
        if let Some(named) = port.name.as_deref().filter(|name| !name.is_empty()) {
            found.push((format!("{prefix}_SERVICE_PORT_{}", upper(named)), port.port.to_string()));
        }
        let start = format!("{prefix}_PORT_{}_{}", port.port, protocol(port));
        found.extend([
            (start.clone(), url(address, port)),
            (format!("{start}_PROTO"), protocol(port).to_lowercase()),
            (format!("{start}_PORT"), port.port.to_string()),
            (format!("{start}_ADDR"), address.to_string()),
        ]);
    }
    found
}

fn upper(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}

/// `tcp://[fd00::1]:443`: a literal of the second family stands in brackets.
fn url(address: IpAddr, port: &ServicePort) -> String {
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    format!("{}://{host}:{}", protocol(port).to_lowercase(), port.port)
}
