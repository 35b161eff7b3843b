//! The tables of records: who may publish, what is done again, what is cleaned up.

use super::{
    cloud_zone,
    plan::{Verdict, asks_anew, is_oldest, migrated, verdict, zones_to_clean},
};
use crate::operator::{
    cluster::Cluster,
    objects::{DnsConfig, DnsRecord},
};
use api::config::{DnsZone, DnsZoneStatus};
use serde_json::{Value, json};
use std::sync::Arc;

fn zone(id: &str, conditions: Value) -> DnsZoneStatus {
    serde_json::from_value(json!({"dnsZone": {"id": id}, "conditions": conditions})).unwrap()
}

fn published(status: &str, reason: &str) -> Value {
    json!([{"type": "Published", "status": status, "reason": reason, "lastTransitionTime": ""}])
}

fn record(name: &str, created: &str, more: Value) -> Arc<DnsRecord> {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": name, "creationTimestamp": created},
        "spec": {"dnsName": "*.a.", "targets": ["x"], "recordType": "CNAME", "recordTTL": 30, "dnsManagementPolicy": "Managed"},
    });
    for (pointer, value) in more.as_object().unwrap() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    Arc::new(serde_json::from_value(object).unwrap())
}

#[test]
fn verdicts() {
    let there = zone("a", published("True", "ProviderSuccess"));
    let failed = zone("a", published("False", "ProviderError"));
    let waiting = zone("a", published("False", "DomainAlreadyInUse"));
    for (what, known, managed, current, oldest, expected) in [
        ("new", None, true, false, true, Verdict::Publish),
        ("new, but another is older", None, true, false, false, Verdict::InUse),
        ("there", Some(&there), true, true, true, Verdict::Leave),
        ("there, another is older", Some(&there), true, true, false, Verdict::Leave),
        ("changed", Some(&there), true, false, true, Verdict::Publish),
        ("changed, another is older", Some(&there), true, false, false, Verdict::Publish),
        ("failed", Some(&failed), true, true, true, Verdict::Publish),
        ("the older one is gone", Some(&waiting), true, true, true, Verdict::Publish),
        ("still waiting", Some(&waiting), true, true, false, Verdict::InUse),
        ("unmanaged", Some(&there), false, true, true, Verdict::Unmanaged),
    ] {
        assert_eq!(verdict(known, managed, current, oldest), expected, "{what}");
    }
}

#[test]
fn the_oldest_record_has_the_name() {
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let own = record("m", late, json!({}));
    for (what, peer, oldest) in [
        ("alone", None, true),
        ("itself", Some(record("m", late, json!({}))), true),
        ("younger", Some(record("a", "2026-01-03T00:00:00Z", json!({}))), true),
        ("older", Some(record("z", early, json!({}))), false),
        ("as old, name before", Some(record("a", late, json!({}))), false),
        ("as old, name after", Some(record("z", late, json!({}))), true),
        ("as old, namespace before", Some(record("z", late, json!({"/metadata/namespace": "a"}))), false),
        ("older, but going", Some(record("a", early, json!({"/metadata/deletionTimestamp": late}))), true),
        ("younger, name before", Some(record("a", "2026-01-03T00:00:00Z", json!({}))), true),
        (
            "younger, namespace before",
            Some(record("m", "2026-01-03T00:00:00Z", json!({"/metadata/namespace": "a"}))),
            true,
        ),
        ("as old, namespace after", Some(record("a", late, json!({"/metadata/namespace": "z"}))), true),
        ("older, in another namespace", Some(record("m", early, json!({"/metadata/namespace": "z"}))), false),
        ("older and unmanaged", Some(record("a", early, json!({"/spec/dnsManagementPolicy": "Unmanaged"}))), false),
    ] {
        let peers: Vec<_> = peer.into_iter().collect();
        assert_eq!(is_oldest(&own, &peers), oldest, "{what}");
    }
}

#[test]
fn every_zone_that_may_have_it_is_cleaned() {
    let zones = |ids: &[&str]| -> Vec<DnsZone> {
        ids.iter().map(|id| DnsZone { id: (*id).to_owned(), ..DnsZone::default() }).collect()
    };
    let with = |zones: Vec<DnsZoneStatus>| record("a", "2026-01-01T00:00:00Z", json!({"/status": {"zones": zones}}));
    for (what, record, expected) in [
        ("never told", record("a", "2026-01-01T00:00:00Z", json!({})), zones(&["1", "2"])),
        (
            "published",
            with(vec![
                zone("1", published("True", "ProviderSuccess")),
                zone("2", published("True", "ProviderSuccess")),
            ]),
            zones(&["1", "2"]),
        ),
        (
            "failed half-way",
            with(vec![
                zone("1", published("False", "ProviderError")),
                zone("2", published("False", "DomainAlreadyInUse")),
            ]),
            zones(&["1"]),
        ),
        (
            "somebody else's",
            with(vec![
                zone("1", published("Unknown", "UnmanagedDNS")),
                zone("2", published("Unknown", "UnmanagedDNS")),
            ]),
            zones(&[]),
        ),
        (
            "in a zone of old",
            with(vec![
                zone("0", published("True", "ProviderSuccess")),
                zone("1", published("False", "DomainAlreadyInUse")),
            ]),
            zones(&["0", "2"]),
        ),
    ] {
        assert_eq!(zones_to_clean(&record, &zones(&["1", "2"])), expected, "{what}");
    }
}

#[test]
fn conditions_of_old_are_turned_round() {
    let old = |status: &str| zone("a", json!([{"type": "Failed", "status": status, "lastTransitionTime": ""}]));
    for (status, expected) in [("True", "False"), ("False", "True"), ("Unknown", "Unknown")] {
        let new = migrated(&old(status));
        assert_eq!((new.conditions[0].kind.as_str(), new.conditions[0].status.as_str()), ("Published", expected));
    }
    let both = zone(
        "a",
        json!([{"type": "Failed", "status": "True", "lastTransitionTime": ""}, {"type": "Published", "status": "True", "lastTransitionTime": ""}]),
    );
    assert_eq!(migrated(&both).conditions.len(), 1);
}

/// What is told about a record must not be what makes the next attempt come at once.
#[test]
fn only_what_somebody_asks_for_is_acted_on() {
    let time = "2026-01-01T00:00:00Z";
    let known = || record("a", time, json!({"/metadata/generation": 1, "/metadata/uid": "1"}));
    let with = |more: Value| {
        let mut all = json!({"/metadata/generation": 1, "/metadata/uid": "1"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record("a", time, all)
    };
    for (what, old, new, expected) in [
        ("new", None, Some(known()), true),
        ("gone", Some(known()), None, true),
        ("the same", Some(known()), Some(known()), false),
        (
            "a status",
            Some(known()),
            Some(with(json!({"/status": {"zones": []}, "/metadata/resourceVersion": "2"}))),
            false,
        ),
        ("an annotation", Some(known()), Some(with(json!({"/metadata/annotations": {"a": "b"}}))), false),
        ("a finalizer", Some(known()), Some(with(json!({"/metadata/finalizers": ["a"]}))), false),
        ("another spec", Some(known()), Some(with(json!({"/metadata/generation": 2, "/spec/targets": ["y"]}))), true),
        ("to be deleted", Some(known()), Some(with(json!({"/metadata/deletionTimestamp": time}))), true),
        ("another object of the name", Some(known()), Some(with(json!({"/metadata/uid": "2"}))), true),
    ] {
        assert_eq!(asks_anew(old.as_deref(), new.as_deref()), expected, "{what}");
    }
}

#[test]
fn the_private_zone_alone_is_changed_in_the_name_of_its_role() {
    let role = "arn:aws:iam::210987654321:role/zones";
    let zones =
        json!({"baseDomain": "example.test", "publicZone": {"id": "ZPUB"}, "privateZone": {"tags": {"Name": "int"}}});
    for (platform, expected) in [
        (json!(null), [None, None]),
        (json!({"type": ""}), [None, None]),
        (json!({"type": "AWS", "aws": {}}), [None, None]),
        (json!({"type": "AWS", "aws": {"privateZoneIAMRole": ""}}), [None, None]),
        (json!({"type": "AWS", "aws": {"privateZoneIAMRole": role}}), [Some(role), None]),
    ] {
        let mut spec = zones.clone();
        spec["platform"] = platform.clone();
        let dns = DnsConfig::new(None, "cluster", serde_json::from_value(spec).unwrap());
        let cluster = Cluster::read(None, None, Some(&dns), None, None);
        let roles: Vec<_> = cluster.zones.iter().map(|zone| cloud_zone(zone, &cluster).role).collect();
        assert_eq!(roles.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{platform}");
        // A zone that the configuration does not name any more.
        let old = DnsZone { id: "ZOLD".to_owned(), ..DnsZone::default() };
        assert_eq!(cloud_zone(&old, &cluster).role, None);
    }
}
