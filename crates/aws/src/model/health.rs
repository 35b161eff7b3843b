//! How targets are checked: annotations win, then the node that has endpoints (`externalTrafficPolicy: Local`), then the probe that all Services
//! share, then the port itself.

use super::request::Request;
use crate::{
    account::{ClassicHealthCheck, HealthCheck},
    cloud_config::SharedProbe,
};

struct Base {
    protocol: &'static str,
    port: Option<u16>,
    path: String,
}

fn base(request: &Request, shared: Option<&SharedProbe>) -> Base {
    match (request.local_check, shared) {
        (Some(port), _) => Base { protocol: "HTTP", port: Some(port), path: "/healthz".to_owned() },
        (None, Some(probe)) => Base { protocol: "HTTP", port: Some(probe.port), path: probe.path.clone() },
        (None, None) => Base { protocol: "TCP", port: None, path: "/".to_owned() },
    }
}

/// For the target groups of a network load balancer.
pub fn network(request: &Request, shared: Option<&SharedProbe>) -> HealthCheck {
    let base = base(request, shared);
    let wishes = &request.annotations.health;
    let protocol = wishes.protocol.clone().unwrap_or_else(|| base.protocol.to_owned());
    let port = base.port.map_or_else(|| "traffic-port".to_owned(), |port| port.to_string());
    let is_local = request.local_check.is_some();
    let interval = wishes.interval.unwrap_or(if is_local { 10 } else { 30 });
    // AWS's default, or less: one that was set before and is longer than the interval would be refused.
    let usual = if protocol == "HTTP" { 6 } else { 10 };
    HealthCheck {
        path: (protocol != "TCP").then(|| wishes.path.clone().unwrap_or(base.path)),
        protocol,
        port: wishes.port.clone().unwrap_or(port),
        interval,
        timeout: Some(wishes.timeout.unwrap_or_else(|| interval.min(usual))),
        healthy: wishes.healthy.unwrap_or(if is_local { 2 } else { 3 }),
        unhealthy: wishes.unhealthy.unwrap_or(if is_local { 2 } else { 3 }),
    }
}

/// For a classic load balancer, which checks one port for all. TLS towards the nodes is checked as such.
pub fn classic(request: &Request, shared: Option<&SharedProbe>) -> ClassicHealthCheck {
    let base = base(request, shared);
    let wishes = &request.annotations.health;
    let tls = matches!(request.annotations.backend_protocol.as_deref(), Some("ssl" | "https"));
    let default = if base.port.is_none() && tls { "SSL" } else { base.protocol };
    let protocol = wishes.protocol.clone().unwrap_or_else(|| default.to_owned());
    let first = request.ports.first().map_or(0, |port| port.node_port);
    let given = wishes.port.as_deref().and_then(|port| port.parse::<u16>().ok());
    let traffic = wishes.port.as_deref() == Some("traffic-port");
    let port = given.or_else(|| base.port.filter(|_| !traffic)).unwrap_or(first);
    let path = if protocol.starts_with("HTTP") { wishes.path.clone().unwrap_or(base.path) } else { String::new() };
    let interval = wishes.interval.unwrap_or(10);
    ClassicHealthCheck {
        target: format!("{protocol}:{port}{path}"),
        interval,
        timeout: wishes.timeout.unwrap_or_else(|| 5.min(interval - 1)),
        healthy: wishes.healthy.unwrap_or(2),
        unhealthy: wishes.unhealthy.unwrap_or(6),
    }
}
