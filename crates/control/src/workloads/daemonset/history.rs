//! ControllerRevisions: the templates a DaemonSet has had, as `kubectl rollout history` and `undo` read them.

use super::{
    super::{owned, template},
    pod::HASH_LABEL,
};
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, DaemonSet},
        core::v1::Pod,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use serde_json::{Value, json};
use std::collections::HashSet;

/// The present template's revision, and the older ones from the first on.
pub(super) fn split<'a>(
    set: &DaemonSet,
    revisions: &[&'a ControllerRevision],
) -> (Option<&'a ControllerRevision>, Vec<&'a ControllerRevision>) {
    let wanted = template::essence(&set.spec.template);
    let is_it = |revision: &&&ControllerRevision| essence(revision).as_ref() == Some(&wanted);
    let mut sorted = revisions.to_vec();
    sorted.sort_by_key(|revision| (number(revision), revision.metadata.name.clone()));
    let present = sorted.iter().rev().find(is_it).copied();
    let old = sorted.into_iter().filter(|one| present.is_none_or(|present| !std::ptr::eq(*one, present))).collect();
    (present, old)
}

/// The number after all these.
pub(super) fn next(old: &[&ControllerRevision]) -> i64 {
    old.iter().map(|revision| number(revision)).max().unwrap_or_default() + 1
}

pub(super) fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or_default()
}

/// The hash by which pods of a revision are known.
pub(super) fn hash(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL)).map(String::as_str).unwrap_or_default()
}

/// A revision of the present template.
pub(super) fn create(set: &DaemonSet, revision: i64) -> ControllerRevision {
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let hash = template::hash(&set.spec.template, collisions);
    let mut labels = set.spec.template.metadata.clone().unwrap_or_default().labels.unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let mut data = objects::to_value(&set.spec.template).unwrap_or_default();
    // Undo is a patch with this data: all of the template, not its differences.
    data["$patch"] = json!("replace");
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![owned::reference(set)]),
            ..ObjectMeta::default()
        },
        data: RawExtension(json!({"spec": {"template": data}})),
        revision: Some(revision),
    }
}

/// Revisions beyond the limit that no pod is of, oldest first.
pub(super) fn outdated<'a>(
    set: &DaemonSet,
    old: &[&'a ControllerRevision],
    pods: &[&Pod],
) -> Vec<&'a ControllerRevision> {
    let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or_default();
    let labels = pods.iter().filter_map(|pod| pod.metadata.labels.as_ref());
    let live: HashSet<&str> = labels.filter_map(|labels| labels.get(HASH_LABEL)).map(String::as_str).collect();
    let surplus = old.len().saturating_sub(limit);
    old.iter().copied().filter(|revision| !live.contains(hash(revision))).take(surplus).collect()
}

fn essence(revision: &ControllerRevision) -> Option<Value> {
    let mut data = revision.data.0.pointer("/spec/template")?.clone();
    data.as_object_mut()?.remove("$patch");
    Some(template::essence(&objects::from_value(&data).ok()?))
}
