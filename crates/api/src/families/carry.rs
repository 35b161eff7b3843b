//! What old clients leave out: allocated values carried over from the stored Service, and `clusterIP` beside `clusterIPs`.
//!
//! Mirrors `patchAllocatedValues` and `normalizeClusterIPs`.

use super::spec::Spec;
use std::collections::BTreeSet;

/// Keeps what was allocated where the request does not mention it, so that reading, changing and writing back is safe for
/// clients that do not know every field.
pub(super) fn allocated_values(spec: &mut Spec, old: &Spec) {
    if !spec.is_external_name() && !old.is_external_name() {
        if spec.ip.is_empty() {
            spec.ip.clone_from(&old.ip);
        }
        if spec.ips.is_empty() && spec.ip == old.ip {
            spec.ips.clone_from(&old.ips);
        }
    }
    if spec.draws_node_ports() && old.draws_node_ports() {
        node_ports(spec, old);
    }
    if spec.health_check_port == 0 && spec.needs_health_check() && old.needs_health_check() {
        spec.health_check_port = old.health_check_port;
    }
}

/// Ports are known by their name alone: number and protocol may be what the client changes.
fn node_ports(spec: &mut Spec, old: &Spec) {
    let in_both: BTreeSet<_> = spec.node_ports().intersection(&old.node_ports()).copied().collect();
    for port in spec.ports.iter_mut().filter(|port| port.node_port == 0) {
        // Of ports with the same name the last counts, as upstream's map has it.
        let before = old.ports.iter().rfind(|before| before.name == port.name);
        if let Some(before) = before.filter(|before| !in_both.contains(&before.node_port)) {
            port.node_port = before.node_port;
        }
    }
}

/// Follows with one of `clusterIP` and `clusterIPs` where the client changed only the other.
pub(super) fn singular_and_plural(spec: &mut Spec, old: Option<&Spec>) {
    let Some(old) = old else {
        if !spec.ip.is_empty() && spec.ips.is_empty() {
            spec.ips = vec![spec.ip.clone()];
        }
        return;
    };
    match (spec.ip == old.ip, spec.ips == old.ips) {
        // A client that does not know the plural.
        (true, false) if !spec.ip.is_empty() && spec.ips.is_empty() => spec.ips.clone_from(&old.ips),
        (false, true) if spec.ip.is_empty() => spec.ips.clear(),
        (false, true) => spec.ips = vec![spec.ip.clone()],
        _ => {}
    }
}
