//! Revisions: which ReplicaSet is the present one, and what its annotations say, as `kubectl rollout history` and `undo`
//! read them.

use super::{super::template, strategy};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use std::{cmp::Ordering, collections::BTreeMap};

/// The number of a rollout.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier numbers of a ReplicaSet that has been rolled back to.
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's size when the ReplicaSet was last scaled.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// That size with the surge.
pub const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

/// A longer history loses its beginning.
const HISTORY_LENGTH: usize = 2000;

/// The present ReplicaSet, if there is one, and the others, oldest first.
pub(super) fn split<'a>(
    deployment: &Deployment,
    sets: &[&'a ReplicaSet],
) -> (Option<&'a ReplicaSet>, Vec<&'a ReplicaSet>) {
    let mut sets = sets.to_vec();
    sets.sort_by(|one, other| older(one, other));
    let wanted = Some(template::essence(&deployment.spec.template));
    let is_new = |set: &&&ReplicaSet| {
        let found = set.spec.template.as_ref();
        found.map(template::essence) == wanted
    };
    let new = sets.iter().find(is_new).copied();
    sets.retain(|set| new.is_none_or(|new| !std::ptr::eq(*set, new)));
    (new, sets)
}

/// Orders the older one first.
pub(super) fn older(one: &ReplicaSet, other: &ReplicaSet) -> Ordering {
    let key =
        |set: &ReplicaSet| (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.metadata.name.clone());
    key(one).cmp(&key(other))
}

/// The revision of a ReplicaSet; 0 when it has none that can be read.
pub(super) fn of(set: &ReplicaSet) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The revision that comes after all of these.
pub(super) fn next(old: &[&ReplicaSet]) -> i64 {
    old.iter().map(|set| of(set)).max().unwrap_or_default().max(0) + 1
}

/// A number in an annotation.
pub(super) fn number(set: &ReplicaSet, name: &str) -> Option<i32> {
    annotation(set, name).and_then(|text| text.parse().ok()).filter(|number| *number >= 0)
}

/// The annotations that the present ReplicaSet should have: the Deployment's, the revision and, when it had another, that
/// one in its history.
pub(super) fn annotations(
    deployment: &Deployment,
    set: Option<&ReplicaSet>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut wanted = set.and_then(|set| set.metadata.annotations.clone()).unwrap_or_default();
    let copied = deployment.metadata.annotations.iter().flatten();
    wanted.extend(
        copied
            .filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    let old = wanted.get(REVISION).cloned();
    let old_number = old.as_ref().map_or(Some(0), |text| text.parse::<i64>().ok());
    if old_number.is_some_and(|number| number < revision) {
        wanted.insert(REVISION.to_owned(), revision.to_string());
        if let Some(old) = old {
            let history = wanted.get(HISTORY).map(String::as_str).unwrap_or_default();
            let history = lengthened(history, &old);
            wanted.insert(HISTORY.to_owned(), history);
        }
    }
    if set.is_none() {
        wanted.extend(sizes(deployment));
    }
    wanted
}

/// The annotations by which a later change of the Deployment's size is noticed.
pub(super) fn sizes(deployment: &Deployment) -> [(String, String); 2] {
    let wanted = strategy::wanted(deployment);
    let most = wanted + strategy::max_surge(deployment);
    [(DESIRED.to_owned(), wanted.to_string()), (MAXIMUM.to_owned(), most.to_string())]
}

fn annotation<'a>(set: &'a ReplicaSet, name: &str) -> Option<&'a str> {
    set.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn lengthened(history: &str, old: &str) -> String {
    let mut parts: Vec<&str> = history.split(',').filter(|part| !part.is_empty()).collect();
    parts.push(old);
    while parts.len() > 1 && parts.iter().map(|part| part.len() + 1).sum::<usize>() > HISTORY_LENGTH {
        parts.remove(0);
    }
    parts.join(",")
}
