//! What the rules read of a Service, by name. Used by every file of this room.

use crate::{
    kinds::{check, service},
    object::Fields,
};
use net::Family;
use serde_json::Value;

pub(super) const POLICY: &str = "spec.ipFamilyPolicy";
pub(super) const FAMILIES: &str = "spec.ipFamilies";
pub(super) const IP: &str = "spec.clusterIP";
pub(super) const IPS: &str = "spec.clusterIPs";

pub(super) const SINGLE: &str = "SingleStack";
pub(super) const PREFER: &str = "PreferDualStack";
pub(super) const REQUIRE: &str = "RequireDualStack";

/// A name at another place: nothing inside the cluster belongs to it.
pub(super) fn is_external_name(service: &Value) -> bool {
    service.str_at("spec.type") == "ExternalName"
}

/// No addresses of its own, and nobody selects endpoints for it.
pub(super) fn is_unmanaged(service: &Value) -> bool {
    service::is_headless(service) && service.map_at("spec.selector").is_none_or(serde_json::Map::is_empty)
}

/// Whether the server draws node ports for ports without one.
pub(super) fn draws_node_ports(service: &Value) -> bool {
    match service.str_at("spec.type") {
        "NodePort" => true,
        "LoadBalancer" => service.at("spec.allocateLoadBalancerNodePorts").as_bool().unwrap_or(true),
        _ => false,
    }
}

/// Whether node ports may stand in it.
pub(super) fn may_have_node_ports(service: &Value) -> bool {
    matches!(service.str_at("spec.type"), "NodePort" | "LoadBalancer")
}

/// The families as listed; what is no family is left out, so call it after the structure was checked.
pub(super) fn families(service: &Value) -> Vec<Family> {
    check::texts(service, FAMILIES).iter().filter_map(|family| family.parse().ok()).collect()
}

/// Writes the list of families.
pub(super) fn set_families(service: &mut Value, families: &[Family]) {
    service.set(FAMILIES, families.iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// Whether a list or text is the same in both; absent and empty do not differ.
pub(super) fn same(service: &Value, old: &Value, path: &str) -> bool {
    check::same(service.at(path), old.at(path))
}
