//! Conditions of the wildcard record.

use super::condition;
use crate::operator::{objects::DnsRecord, plan::Input};
use api::config::{DnsManagement, DnsZone, DnsZoneStatus, OperatorCondition, PublishingKind};

/// Whether the operator makes a record, and whether all zones have it.
pub fn conditions(input: Input<'_>, record: Option<&DnsRecord>) -> Vec<OperatorCondition> {
    let managed = |status: &str, reason: &str, message: &str| condition("DNSManaged", status, reason, message);
    if input.admission.strategy.kind != PublishingKind::LoadBalancerService {
        let message = "Only the strategy LoadBalancerService has a record of the operator's.";
        return vec![managed("False", "UnsupportedEndpointPublishingStrategy", message)];
    }
    if input.cluster.zones.is_empty() {
        return vec![managed("False", "NoDNSZones", "The DNS configuration names no zone.")];
    }
    let policy = input.admission.strategy.load_balancer.as_ref().map(|balancer| balancer.dns_management_policy);
    let first = match policy {
        Some(DnsManagement::Unmanaged) => managed(
            "False",
            "UnmanagedLoadBalancerDNS",
            "The record is somebody else's: dnsManagementPolicy is Unmanaged.",
        ),
        _ => managed("True", "Normal", "The operator makes the record."),
    };
    vec![first, ready(&input.cluster.zones, record)]
}

fn ready(zones: &[DnsZone], record: Option<&DnsRecord>) -> OperatorCondition {
    let ready = |status: &str, reason: &str, message: String| condition("DNSReady", status, reason, message);
    let Some(record) = record else {
        return ready("False", "RecordNotFound", "The wildcard record is not there.".to_owned());
    };
    if record.spec.dns_management_policy == DnsManagement::Unmanaged {
        return ready("Unknown", "UnmanagedDNS", "The record is somebody else's.".to_owned());
    }
    let known = record.status.as_ref().map(|status| status.zones.as_slice()).unwrap_or_default();
    // Zones that are configured no more do not count.
    let known: Vec<&DnsZoneStatus> =
        known.iter().filter(|known| zones.iter().any(|zone| is_same(zone, &known.dns_zone))).collect();
    if known.is_empty() {
        return ready("False", "NoZones", "No zone has the record yet.".to_owned());
    }
    let published = |zone: &DnsZoneStatus| zone.conditions.iter().find(|one| one.kind == "Published").cloned();
    let with = |wanted: &str| {
        let found = known.iter().filter_map(|zone| Some((zone, published(zone)?)));
        let found = found.filter(|(_, condition)| condition.status == wanted);
        found.map(|(zone, condition)| format!("{}: {}", name(&zone.dns_zone), condition.message)).collect::<Vec<_>>()
    };
    let failed = with("False");
    if !failed.is_empty() {
        return ready("False", "FailedZones", format!("Not published: {}", failed.join("; ")));
    }
    let all = zones.iter().all(|zone| known.iter().any(|known| is_same(zone, &known.dns_zone)));
    if !all || with("True").len() < known.len() {
        return ready("False", "UnknownZones", "Not every zone has answered.".to_owned());
    }
    ready("True", "NoFailedZones", "All zones have the record.".to_owned())
}

/// By id, or by the tag `Name`.
fn is_same(one: &DnsZone, other: &DnsZone) -> bool {
    match one.id.is_empty() {
        false => one.id == other.id,
        true => one.tags.contains_key("Name") && one.tags.get("Name") == other.tags.get("Name"),
    }
}

/// For messages.
pub fn name(zone: &DnsZone) -> String {
    match zone.id.is_empty() {
        false => zone.id.clone(),
        true => zone.tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
    }
}
