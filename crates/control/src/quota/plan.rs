//! What a quota's status says, from what the objects of its namespace use. Pure; the rules are `api::quota`.

use api::{
    kinds::quantity::{self, Amounts},
    object::Fields,
    quota::{self, Counted},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::ResourceQuotaStatus, apimachinery::pkg::api::resource::Quantity};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A kind by group and plural.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KindName {
    pub(super) group: String,
    pub(super) plural: String,
}

impl KindName {
    pub(super) fn new(group: &str, plural: &str) -> Self {
        Self { group: group.to_owned(), plural: plural.to_owned() }
    }

    pub(super) fn counted(&self) -> Counted<'_> {
        Counted { group: &self.group, plural: &self.plural }
    }
}

/// One object, as far as quotas look at it.
#[derive(Debug)]
pub(super) struct Used {
    kind: KindName,
    /// Without what no scope and no amount is about.
    object: Value,
}

impl Used {
    pub(super) fn of(group: &str, plural: &str, object: Value) -> Self {
        let mut kept = json!({});
        for path in [
            "metadata.deletionTimestamp",
            "metadata.deletionGracePeriodSeconds",
            "metadata.annotations",
            "spec",
            "status.phase",
            "status.qosClass",
            "status.conditions",
            "status.containerStatuses",
            "status.initContainerStatuses",
            "status.allocatedResources",
            "status.currentVolumeAttributesClassName",
            "status.modifyVolumeStatus",
        ] {
            if !object.at(path).is_null() {
                kept.set(path, object.at(path).clone());
            }
        }
        Self { kind: KindName::new(group, plural), object: kept }
    }

    /// When a pod that was asked to end should have ended.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        let deleted: Timestamp = self.object.str_at("metadata.deletionTimestamp").parse().ok()?;
        let grace = self.object.int_at("metadata.deletionGracePeriodSeconds")?;
        deleted.checked_add(SignedDuration::from_secs(grace)).ok()
    }
}

/// The kinds that a quota is about.
pub(super) fn kinds_of(quota: &Value) -> BTreeSet<KindName> {
    let names = quota.map_at("spec.hard").into_iter().flatten().map(|(name, _)| name.as_str());
    names.filter_map(kind_of).collect()
}

fn kind_of(name: &str) -> Option<KindName> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(KindName::new(group, plural));
    }
    const KINDS: [Counted<'_>; 8] = [
        Counted { group: "", plural: "services" },
        Counted { group: "", plural: "persistentvolumeclaims" },
        Counted { group: "", plural: "configmaps" },
        Counted { group: "", plural: "replicationcontrollers" },
        Counted { group: "", plural: "resourcequotas" },
        Counted { group: "", plural: "secrets" },
        Counted { group: "resource.k8s.io", plural: "resourceclaims" },
        Counted { group: "", plural: "pods" },
    ];
    KINDS.iter().find(|kind| kind.has(name)).map(|kind| KindName::new(kind.group, kind.plural))
}

/// The status of the quota when these objects are there.
pub(super) fn status<'a>(quota: &Value, objects: impl Iterator<Item = &'a Used>, now: Timestamp) -> Value {
    let hard = quota.at("spec.hard").clone();
    let mut used: Amounts =
        hard.as_object().into_iter().flatten().map(|(name, _)| (name.clone(), quantity::Amount::default())).collect();
    for object in objects {
        let counted = object.kind.counted();
        if !quota::matches(quota, counted, &object.object) {
            continue;
        }
        let mut usage = counted.usage(&object.object, now);
        usage.retain(|name, _| used.contains_key(name));
        quantity::add(&mut used, &usage);
    }
    json!({"hard": hard, "used": quota::to_map(&used)})
}

/// The status as a type.
pub(super) fn typed(status: &Value) -> ResourceQuotaStatus {
    let map = |field: &str| {
        let entries = status.map_at(field).into_iter().flatten();
        let amounts = entries.filter_map(|(name, amount)| Some((name.clone(), Quantity(amount.as_str()?.to_owned()))));
        Some(amounts.collect())
    };
    ResourceQuotaStatus { hard: map("hard"), used: map("used") }
}

/// Whether the quota says so already.
pub(super) fn is_current(quota: &Value, status: &Value) -> bool {
    let same = |field: &str| amounts(quota.at("status").at(field)) == amounts(status.at(field));
    same("hard") && same("used")
}

/// Whether less is used than the quota says, and nothing more.
pub(super) fn is_less(quota: &Value, status: &Value) -> bool {
    let (before, now) = (amounts(quota.at("status.used")), amounts(status.at("used")));
    before.len() == now.len()
        && before != now
        && now.iter().zip(&before).all(|((name, amount), (known, charged))| name == known && amount <= charged)
}

fn amounts(map: &Value) -> Vec<(String, i128)> {
    quantity::amounts(map).into_iter().map(|(name, amount)| (name, amount.nanos)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str, phase: &str) -> Used {
        let resources = json!({"requests": {"cpu": cpu}});
        let object =
            json!({"spec": {"containers": [{"name": "c", "resources": resources}]}, "status": {"phase": phase}});
        Used::of("", "pods", object)
    }

    #[test]
    fn a_quota_counts_what_is_there() {
        let quota = json!({"spec": {"hard": {"pods": "5", "requests.cpu": "2", "count/deployments.apps": "3", "secrets": "1"}}});
        let names: Vec<String> =
            kinds_of(&quota).iter().map(|kind| format!("{}/{}", kind.group, kind.plural)).collect();
        assert_eq!(names, ["/pods", "/secrets", "apps/deployments"]);
        let there = [
            pod("500m", "Running"),
            pod("1", "Running"),
            pod("1", "Succeeded"),
            Used::of("apps", "deployments", json!({})),
        ];
        let found = status(&quota, there.iter(), Timestamp::UNIX_EPOCH);
        assert_eq!(
            found["used"],
            json!({"pods": "2", "requests.cpu": "1500m", "count/deployments.apps": "1", "secrets": "0"})
        );
        let mut told = quota.clone();
        told["status"] = found.clone();
        assert!(is_current(&told, &found));
        let fewer = status(&quota, there[1..].iter(), Timestamp::UNIX_EPOCH);
        assert!(!is_current(&told, &fewer) && is_less(&told, &fewer) && !is_less(&quota, &fewer));
    }

    #[test]
    fn names_lead_to_kinds() {
        for (name, expected) in [
            ("services.nodeports", Some(("", "services"))),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(("", "persistentvolumeclaims"))),
            ("gold.deviceclass.resource.k8s.io/devices", Some(("resource.k8s.io", "resourceclaims"))),
            ("limits.memory", Some(("", "pods"))),
            ("requests.example.com/gpu", Some(("", "pods"))),
            ("count/gateways.gateway.networking.k8s.io", Some(("gateway.networking.k8s.io", "gateways"))),
            ("example.com/gpu", None),
        ] {
            assert_eq!(kind_of(name), expected.map(|(group, plural)| KindName::new(group, plural)), "{name}");
        }
    }
}
