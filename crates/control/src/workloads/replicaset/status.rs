//! What a ReplicaSet's status says.

use super::super::pods;
use crate::framework::selects;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

/// The condition of a ReplicaSet whose pods cannot be made or deleted.
const FAILURE: &str = "ReplicaFailure";

/// The status for these pods. `failure` is what went wrong with the last change of the pods.
pub fn status(set: &ReplicaSet, all: &[&Pod], failure: Option<&str>, now: Timestamp) -> ReplicaSetStatus {
    let min_ready = set.spec.min_ready_seconds.unwrap_or_default();
    let template = set.spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    let wanted_labels = template.and_then(|meta| meta.labels.as_ref());
    let active: Vec<&&Pod> = all.iter().filter(|pod| pods::is_active(pod)).collect();
    let fully_labelled = |pod: &Pod| wanted_labels.is_none_or(|wanted| selects(wanted, pod.metadata.labels.as_ref()));
    let count = |test: &dyn Fn(&Pod) -> bool| clamp(active.iter().filter(|pod| test(pod)).count());
    let old = set.status.clone().unwrap_or_default();
    let conditions = conditions(old.conditions, failure, clamp(active.len()).cmp(&set.spec.replicas.unwrap_or(1)), now);
    ReplicaSetStatus {
        replicas: clamp(active.len()),
        fully_labeled_replicas: unless_zero(count(&fully_labelled)),
        ready_replicas: unless_zero(count(&pods::is_ready)),
        available_replicas: unless_zero(count(&|pod| pods::is_available(pod, min_ready, now))),
        terminating_replicas: Some(clamp(all.iter().filter(|pod| pods::is_terminating(pod)).count())),
        observed_generation: set.metadata.generation,
        conditions,
    }
}

fn conditions(
    old: Option<Vec<ReplicaSetCondition>>,
    failure: Option<&str>,
    have_against_wanted: std::cmp::Ordering,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = old.unwrap_or_default();
    match failure {
        None => conditions.retain(|condition| condition.type_.as_deref() != Some(FAILURE)),
        Some(message) if conditions.iter().all(|condition| condition.type_.as_deref() != Some(FAILURE)) => {
            let reason = if have_against_wanted.is_gt() { "FailedDelete" } else { "FailedCreate" };
            conditions.push(ReplicaSetCondition {
                type_: Some(FAILURE.to_owned()),
                status: Some("True".to_owned()),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                last_transition_time: Some(Time(now)),
            });
        }
        Some(_) => {}
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

pub(crate) fn clamp(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The API drops zeros, so a status that has none is equal to what comes back.
pub(crate) fn unless_zero(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}
