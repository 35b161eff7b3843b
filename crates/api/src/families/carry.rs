//! What old clients leave out: allocated values carried over from the stored Service, and `clusterIP` beside `clusterIPs`.
//!
//! Mirrors `patchAllocatedValues` and `normalizeClusterIPs`.

use super::spec::{IP, IPS, draws_node_ports, is_external_name, same};
use crate::{kinds::service::needs_health_check, object::Fields};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Keeps what was allocated where the request does not mention it, so that reading, changing and writing back is safe for
/// clients that do not know every field.
pub(super) fn allocated_values(service: &mut Value, old: &Value) {
    if !is_external_name(service) && !is_external_name(old) {
        if service.str_at(IP).is_empty() && !old.str_at(IP).is_empty() {
            service.set(IP, old.str_at(IP));
        }
        if service.list_at(IPS).is_empty() && service.str_at(IP) == old.str_at(IP) && !old.list_at(IPS).is_empty() {
            service.set(IPS, old.at(IPS).clone());
        }
    }
    if draws_node_ports(service) && draws_node_ports(old) {
        node_ports(service, old);
    }
    let health = "spec.healthCheckNodePort";
    let absent = service.int_at(health).unwrap_or_default() == 0;
    if absent && needs_health_check(service) && needs_health_check(old) && !old.at(health).is_null() {
        service.set(health, old.at(health).clone());
    }
}

/// Ports are known by their name alone: number and protocol may be what the client changes.
fn node_ports(service: &mut Value, old: &Value) {
    let numbers = |service: &Value| -> BTreeSet<i64> {
        service.list_at("spec.ports").iter().filter_map(|port| port.int_at("nodePort")).filter(|n| *n != 0).collect()
    };
    let in_both: BTreeSet<_> = numbers(service).intersection(&numbers(old)).copied().collect();
    let ports = service.at_mut("spec").get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter(|port| port.int_at("nodePort").unwrap_or_default() == 0) {
        // Of ports with the same name the last counts, as upstream's map has it.
        let before = old.list_at("spec.ports").iter().rfind(|before| before.str_at("name") == port.str_at("name"));
        let number = before.and_then(|before| before.int_at("nodePort")).unwrap_or_default();
        if number != 0 && !in_both.contains(&number) {
            port.set("nodePort", number);
        }
    }
}

/// Follows with one of `clusterIP` and `clusterIPs` where the client changed only the other.
pub(super) fn singular_and_plural(service: &mut Value, old: Option<&Value>) {
    let Some(old) = old else {
        if !service.str_at(IP).is_empty() && service.list_at(IPS).is_empty() {
            let only = json!([service.at(IP)]);
            service.set(IPS, only);
        }
        return;
    };
    let (ip_same, ips_same) = (service.str_at(IP) == old.str_at(IP), same(service, old, IPS));
    let (cleared, ips_cleared) = (service.str_at(IP).is_empty(), service.list_at(IPS).is_empty());
    match (ip_same, ips_same) {
        // A client that does not know the plural.
        (true, false) if !cleared && ips_cleared => service.set(IPS, old.at(IPS).clone()),
        (false, true) if cleared => drop(service.remove(IPS)),
        (false, true) => {
            let only = json!([service.at(IP)]);
            service.set(IPS, only);
        }
        _ => {}
    }
}
