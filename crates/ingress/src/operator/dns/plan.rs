//! What is to be done with a record in a zone, and the condition that tells of it. Pure.

use crate::operator::{objects::DnsRecord, status::condition};
use api::config::{DnsZone, DnsZoneStatus, OperatorCondition};
use kube::ResourceExt;
use std::sync::Arc;

/// What to do in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is there, as it is wanted.
    Leave,
    /// Bring it there, or bring it up to date.
    Publish,
    /// Somebody else does it.
    Unmanaged,
    /// An older record has the name.
    InUse,
}

/// Whether a change is one that somebody has to act on: the object is new or gone, its spec is another, or it is to go.
pub fn asks_anew(old: Option<&DnsRecord>, new: Option<&DnsRecord>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let going = |record: &DnsRecord| record.metadata.deletion_timestamp.is_some();
    old.metadata.generation != new.metadata.generation
        || old.uid() != new.uid()
        || going(old) != going(new)
        || old.spec != new.spec
}

/// Decides. `current` says that the status is about this generation.
pub fn verdict(known: Option<&DnsZoneStatus>, managed: bool, current: bool, oldest: bool) -> Verdict {
    let is_published = known.and_then(published).is_some_and(|condition| condition.status == "True");
    match (managed, is_published, current, oldest) {
        (false, ..) => Verdict::Unmanaged,
        (true, true, true, _) => Verdict::Leave,
        // What is ours already is kept up to date, whoever else wants the name.
        (true, true, false, _) | (true, false, _, true) => Verdict::Publish,
        (true, false, _, false) => Verdict::InUse,
    }
}

/// The condition `Published` of a zone.
pub fn published(zone: &DnsZoneStatus) -> Option<&OperatorCondition> {
    zone.conditions.iter().find(|condition| condition.kind == "Published")
}

/// Brings conditions of older versions up to date.
pub fn migrated(zone: &DnsZoneStatus) -> DnsZoneStatus {
    let mut zone = zone.clone();
    let known = published(&zone).is_some();
    zone.conditions.retain(|condition| !(known && condition.kind == "Failed"));
    for condition in zone.conditions.iter_mut().filter(|condition| condition.kind == "Failed") {
        condition.kind = "Published".to_owned();
        condition.status = match condition.status.as_str() {
            "True" => "False".to_owned(),
            "False" => "True".to_owned(),
            other => other.to_owned(),
        };
    }
    zone
}

/// Whether no other record of the name was there before. One that is being deleted does not count.
pub fn is_oldest(record: &DnsRecord, peers: &[Arc<DnsRecord>]) -> bool {
    let age = |record: &DnsRecord| {
        let created = record.metadata.creation_timestamp.clone().map(|time| time.0);
        (created, record.namespace().unwrap_or_default(), record.name_any())
    };
    let own = age(record);
    let others = peers.iter().filter(|peer| peer.metadata.deletion_timestamp.is_none());
    others.into_iter().all(|peer| age(peer) >= own)
}

/// Zones that may have the record: those that say so, those where publishing failed half-way, and those that were never told of
/// though they are configured, because the telling may have been cut off.
pub fn zones_to_clean(record: &DnsRecord, configured: &[DnsZone]) -> Vec<DnsZone> {
    let known: Vec<DnsZoneStatus> = record.status.iter().flat_map(|status| &status.zones).map(migrated).collect();
    let may_have = |zone: &DnsZoneStatus| {
        published(zone).is_none_or(|condition| {
            condition.status == "True" || (condition.status == "False" && condition.reason == "ProviderError")
        })
    };
    let described = known.iter().filter(|zone| may_have(zone)).map(|zone| zone.dns_zone.clone());
    let managed =
        record.spec.dns_management_policy == api::config::DnsManagement::Managed && record.spec.record_ttl > 0;
    let undescribed =
        configured.iter().filter(|zone| managed && !known.iter().any(|known| known.dns_zone == **zone)).cloned();
    described.chain(undescribed).collect()
}

fn published_condition(status: &str, reason: &str, message: impl Into<String>) -> OperatorCondition {
    condition("Published", status, reason, message)
}

/// The zone has it.
pub fn success() -> OperatorCondition {
    published_condition("True", "ProviderSuccess", "The DNS provider has published the record.")
}

/// The zone does not have it, as far as is known.
pub fn failure(message: &str) -> OperatorCondition {
    published_condition("False", "ProviderError", format!("The DNS provider failed: {message}"))
}

/// An older record has the name.
pub fn in_use(name: &str) -> OperatorCondition {
    published_condition("False", "DomainAlreadyInUse", format!("An older DNSRecord has the name {name}."))
}

/// Somebody else publishes it.
pub fn unmanaged() -> OperatorCondition {
    published_condition(
        "Unknown",
        "UnmanagedDNS",
        "dnsManagementPolicy is Unmanaged: somebody else publishes the record.",
    )
}
