//! What a Deployment's ReplicaSets need next. Pure; called by `deployment::reconcile`.

use super::{
    super::{
        owned,
        template::{self, HASH_LABEL},
    },
    revision, rolling, scale,
    strategy::{is_recreate, size, wanted},
};
use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::collections::BTreeMap;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// The present ReplicaSet gets these annotations and the Deployment's `minReadySeconds`.
    Annotate(&'a ReplicaSet, BTreeMap<String, String>),
    /// The first pods of a new template.
    Create(Box<ReplicaSet>),
    /// Another size.
    Scale(&'a ReplicaSet, i32),
    /// Out of the history.
    Delete(&'a ReplicaSet),
}

/// Why the steps are what they are; decides how the status reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Being deleted: nothing is changed any more.
    Leaving,
    /// Paused or scaled: no progress is claimed.
    Scaling,
    /// On the way to the present template, or there.
    Rollout,
}

/// The steps, in order, and what they are about.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<'a> {
    /// Writes in order. Those after a failure are left for the next time.
    pub steps: Vec<Step<'a>>,
    /// See [`Phase`].
    pub phase: Phase,
    /// The present ReplicaSet, if it exists.
    pub new: Option<&'a ReplicaSet>,
    /// The revision that the Deployment should show.
    pub revision: Option<i64>,
}

/// Decides. `old_pods_left` says whether pods of old ReplicaSets still run, which matters to `Recreate`.
pub fn plan<'a>(deployment: &Deployment, sets: &[&'a ReplicaSet], old_pods_left: bool) -> Plan<'a> {
    let (new, old) = revision::split(deployment, sets);
    let next = revision::next(&old);
    let mut plan = Plan { steps: Vec::new(), phase: Phase::Rollout, new, revision: None };
    if deployment.metadata.deletion_timestamp.is_some() {
        plan.phase = Phase::Leaving;
        return plan;
    }
    if let Some(new) = new {
        let annotations = revision::annotations(deployment, Some(new), next);
        let has_min_ready = new.spec.min_ready_seconds.unwrap_or_default();
        plan.revision = annotations.get(revision::REVISION).and_then(|text| text.parse().ok());
        if new.metadata.annotations.as_ref() != Some(&annotations) || has_min_ready != min_ready_seconds(deployment) {
            plan.steps.push(Step::Annotate(new, annotations));
        }
    }
    let paused = deployment.spec.paused.unwrap_or_default();
    if paused || is_scaled(deployment, sets) {
        plan.phase = Phase::Scaling;
        plan.steps
            .extend(scale::scale(deployment, new, &old).into_iter().filter_map(|change| scaling(deployment, change)));
        if paused {
            plan.steps.extend(outdated(deployment, &old));
        }
        return plan;
    }
    if is_recreate(deployment) {
        plan.steps.extend(recreate(deployment, new, &old, old_pods_left));
    } else {
        plan.steps.extend(roll(deployment, new, &old));
    }
    if plan.steps.iter().any(|step| matches!(step, Step::Create(_))) {
        plan.revision = Some(next);
    }
    if plan.steps.is_empty() && super::status::is_complete(deployment, deployment.status.as_ref()) {
        plan.steps.extend(outdated(deployment, &old));
    }
    plan
}

fn roll<'a>(deployment: &Deployment, new: Option<&'a ReplicaSet>, old: &[&'a ReplicaSet]) -> Vec<Step<'a>> {
    let Some(new) = new else {
        let first = rolling::new_size(deployment, 0, old);
        return vec![Step::Create(Box::new(create(deployment, first, old)))];
    };
    let grown = rolling::new_size(deployment, size(new), old);
    if grown != size(new) {
        return vec![Step::Scale(new, grown)];
    }
    rolling::shrink(deployment, new, old).into_iter().map(|(set, size)| Step::Scale(set, size)).collect()
}

fn recreate<'a>(
    deployment: &Deployment,
    new: Option<&'a ReplicaSet>,
    old: &[&'a ReplicaSet],
    old_pods_left: bool,
) -> Vec<Step<'a>> {
    let down: Vec<Step<'_>> = old.iter().filter(|set| size(set) > 0).map(|set| Step::Scale(set, 0)).collect();
    if !down.is_empty() {
        return down;
    }
    let counted = old.iter().any(|set| set.status.as_ref().is_some_and(|status| status.replicas > 0));
    if counted || old_pods_left {
        return Vec::new();
    }
    match new {
        None => vec![Step::Create(Box::new(create(deployment, wanted(deployment), old)))],
        Some(new) if size(new) != wanted(deployment) => vec![Step::Scale(new, wanted(deployment))],
        Some(_) => Vec::new(),
    }
}

/// Whether the Deployment's size has changed since a ReplicaSet that has pods was last scaled.
fn is_scaled(deployment: &Deployment, sets: &[&ReplicaSet]) -> bool {
    let last = |set: &&ReplicaSet| revision::number(set, revision::DESIRED);
    sets.iter().filter(|set| size(set) > 0).filter_map(last).any(|desired| desired != wanted(deployment))
}

/// A change of size, unless neither size nor annotations would change.
fn scaling<'a>(deployment: &Deployment, (set, to): (&'a ReplicaSet, i32)) -> Option<Step<'a>> {
    let annotated = |(name, value): &(String, String)| {
        set.metadata.annotations.as_ref().and_then(|all| all.get(name)) == Some(value)
    };
    let changed = size(set) != to || (size(set) > 0 && !revision::sizes(deployment).iter().all(annotated));
    changed.then_some(Step::Scale(set, to))
}

/// Empty ReplicaSets beyond the history's length, oldest revision first.
fn outdated<'a>(deployment: &Deployment, old: &[&'a ReplicaSet]) -> Vec<Step<'a>> {
    let limit = deployment.spec.revision_history_limit.unwrap_or(i32::MAX);
    let mut alive: Vec<&ReplicaSet> =
        old.iter().copied().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
    alive.sort_by_key(|set| revision::of(set));
    let surplus = alive.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    let empty = |set: &&ReplicaSet| {
        let status = set.status.as_ref();
        let seen = status.and_then(|status| status.observed_generation).unwrap_or_default();
        size(set) == 0
            && status.is_none_or(|status| status.replicas == 0)
            && seen >= set.metadata.generation.unwrap_or_default()
    };
    alive.into_iter().take(surplus).filter(empty).map(Step::Delete).collect()
}

/// A ReplicaSet for the present template.
fn create(deployment: &Deployment, size: i32, old: &[&ReplicaSet]) -> ReplicaSet {
    let spec = deployment.spec.clone();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = template::hash(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let annotations = revision::annotations(deployment, None, revision::next(old));
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(set_name(deployment, &hash)),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![owned::reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        },
        status: None,
    }
}

pub(super) fn min_ready_seconds(deployment: &Deployment) -> i32 {
    deployment.spec.min_ready_seconds.unwrap_or_default()
}

/// Names are at most 253 characters long; a Deployment's may use them all.
fn set_name(deployment: &Deployment, hash: &str) -> String {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let end = name.len().min(253 - 1 - hash.len());
    format!("{}-{hash}", name.get(..end).unwrap_or(name))
}
