//! Hints for `trafficDistribution`: each ready endpoint serves its own zone, or its own node and zone.

use super::draft::Draft;
use k8s_openapi::api::{
    core::v1::Service,
    discovery::v1::{Endpoint, EndpointHints, ForNode, ForZone},
};

/// How hints are decided for a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No hints.
    Off,
    /// By the annotation `service.kubernetes.io/topology-mode: Auto`; it wins over the field.
    Auto,
    /// By `trafficDistribution: PreferSameZone`, or `PreferClose`, its older name.
    SameZone,
    /// By `trafficDistribution: PreferSameNode`.
    SameNode,
}

/// What the Service asks for.
pub fn mode(service: &Service) -> Mode {
    if wants_auto(service) {
        return Mode::Auto;
    }
    match service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref()) {
        Some("PreferClose" | "PreferSameZone") => Mode::SameZone,
        Some("PreferSameNode") => Mode::SameNode,
        _ => Mode::Off,
    }
}

/// Whether the annotation says `Auto`; the deprecated one counts first.
pub fn wants_auto(service: &Service) -> bool {
    let annotation = |name: &str| service.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let value = annotation("service.kubernetes.io/topology-aware-hints")
        .or_else(|| annotation("service.kubernetes.io/topology-mode"));
    matches!(value.map(String::as_str), Some("Auto" | "auto"))
}

/// Whether the endpoint takes traffic.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(false)
}

/// Gives every ready endpoint the hints for its own zone, and node if `node`. Slices that have them are not touched.
pub fn prefer_close(drafts: &mut [Draft], node: bool) {
    for draft in drafts {
        let wrong =
            draft.endpoints().iter().any(|endpoint| is_ready(endpoint) && endpoint.hints != own(endpoint, node));
        if wrong {
            for endpoint in draft.edit_endpoints().iter_mut().filter(|endpoint| is_ready(endpoint)) {
                endpoint.hints = own(endpoint, node);
            }
        }
    }
}

fn own(endpoint: &Endpoint, node: bool) -> Option<EndpointHints> {
    let zones = endpoint.zone.as_ref().map(|zone| vec![ForZone { name: zone.clone() }]);
    let nodes = endpoint.node_name.as_ref().filter(|_| node).map(|name| vec![ForNode { name: name.clone() }]);
    (zones.is_some() || nodes.is_some()).then_some(EndpointHints { for_nodes: nodes, for_zones: zones })
}

/// Takes all hints away. Slices without any are not touched.
pub fn remove(drafts: &mut [Draft]) {
    for draft in drafts {
        if draft.endpoints().iter().any(|endpoint| endpoint.hints.is_some()) {
            for endpoint in draft.edit_endpoints() {
                endpoint.hints = None;
            }
        }
    }
}
