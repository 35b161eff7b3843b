//! What a Deployment's status says: counts, and whether the rollout is available, progressing or stuck.

use super::{
    super::replicaset::status::unless_zero,
    plan::Phase,
    strategy::{available, max_unavailable, size, wanted},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::Time,
};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";

const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// What happened to the present ReplicaSet just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// It was made; its name.
    Created(String),
    /// It could not be made; why.
    NotCreated(String),
}

/// The status for these ReplicaSets.
pub fn status(
    deployment: &Deployment,
    sets: &[&ReplicaSet],
    new: Option<&ReplicaSet>,
    phase: Phase,
    news: &News,
    now: Timestamp,
) -> DeploymentStatus {
    let old = deployment.status.clone().unwrap_or_default();
    let sum = |count: &dyn Fn(&ReplicaSet) -> i32| sets.iter().map(|set| count(set)).sum::<i32>();
    let replicas = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let serving = sum(&|set| available(set));
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: unless_zero(sum(&replicas)),
        updated_replicas: unless_zero(new.map_or(0, replicas)),
        ready_replicas: unless_zero(sum(&|set| {
            set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default()
        })),
        available_replicas: unless_zero(serving),
        unavailable_replicas: unless_zero((sum(&size) - serving).max(0)),
        terminating_replicas: terminating(sets),
        collision_count: old.collision_count,
        conditions: None,
    };
    let mut conditions = Conditions { list: old.conditions.clone().unwrap_or_default(), now };
    pausing(deployment, &mut conditions);
    announce(deployment, new, news, &mut conditions);
    if serving >= wanted(deployment) - max_unavailable(deployment) {
        conditions.set(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.");
    } else {
        conditions.set(
            AVAILABLE,
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        );
    }
    if phase == Phase::Rollout {
        progress(deployment, new, &status, *news == News::None, &mut conditions);
        failures(sets, new, &mut conditions);
    }
    status.conditions = Some(conditions.list);
    status
}

/// Whether all pods are new, serving and as many as wanted.
pub(super) fn is_complete(deployment: &Deployment, status: Option<&DeploymentStatus>) -> bool {
    let Some(status) = status else { return false };
    let target = unless_zero(wanted(deployment));
    status.updated_replicas == target
        && status.replicas == target
        && status.available_replicas == target
        && status.observed_generation >= deployment.metadata.generation
}

/// When to look whether the rollout has made progress, if nothing else happens before.
pub fn look_again_in(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<SignedDuration> {
    let deadline = deadline(deployment)?;
    let progressing = status.conditions.iter().flatten().find(|condition| is(condition, PROGRESSING))?;
    if is_complete(deployment, Some(status)) || matches!(progressing.reason.as_deref(), Some(TIMED_OUT | DONE | PAUSED))
    {
        return None;
    }
    let due = progressing.last_update_time.as_ref()?.0.saturating_add(deadline).ok()?;
    Some(due.duration_since(now).max(SignedDuration::ZERO) + SignedDuration::from_secs(1))
}

/// Pausing and going on restart the clock of the deadline.
fn pausing(deployment: &Deployment, conditions: &mut Conditions) {
    let reason = conditions.reason(PROGRESSING);
    if deadline(deployment).is_none() || reason == Some(TIMED_OUT) {
        return;
    }
    let paused = deployment.spec.paused.unwrap_or_default();
    if paused && reason != Some(PAUSED) {
        conditions.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused");
    } else if !paused && reason == Some(PAUSED) {
        conditions.set(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed");
    }
}

fn announce(deployment: &Deployment, new: Option<&ReplicaSet>, news: &News, conditions: &mut Conditions) {
    if deadline(deployment).is_none() {
        return;
    }
    match (news, new) {
        (News::Created(name), _) => {
            let message = format!("Created new replica set \"{name}\"");
            conditions.set(PROGRESSING, "True", "NewReplicaSetCreated", &message);
        }
        (News::NotCreated(why), _) => conditions.set(PROGRESSING, "False", "ReplicaSetCreateError", why),
        (News::None, Some(new)) if conditions.find(PROGRESSING).is_none() => {
            let message = format!("Found new replica set \"{}\"", new.metadata.name.as_deref().unwrap_or_default());
            conditions.set(PROGRESSING, "True", "FoundNewReplicaSet", &message);
        }
        (News::None, _) => {}
    }
}

fn progress(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    status: &DeploymentStatus,
    may_time_out: bool,
    conditions: &mut Conditions,
) {
    let Some(deadline) = deadline(deployment) else { return conditions.remove(PROGRESSING) };
    let all_new = status.replicas == status.updated_replicas;
    if all_new && conditions.reason(PROGRESSING) == Some(DONE) {
        return;
    }
    let who = match new.and_then(|new| new.metadata.name.as_deref()) {
        Some(name) => format!("ReplicaSet \"{name}\""),
        None => format!("Deployment \"{}\"", deployment.metadata.name.as_deref().unwrap_or_default()),
    };
    if is_complete(deployment, Some(status)) {
        conditions.set(PROGRESSING, "True", DONE, &format!("{who} has successfully progressed."));
    } else if has_progressed(&deployment.status.clone().unwrap_or_default(), status) {
        conditions.renew(PROGRESSING, "True", "ReplicaSetUpdated", &format!("{who} is progressing."));
    } else if may_time_out && conditions.is_older_than(PROGRESSING, deadline) {
        conditions.set(PROGRESSING, "False", TIMED_OUT, &format!("{who} has timed out progressing."));
    }
}

fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let number = |count: Option<i32>| count.unwrap_or_default();
    let old = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(after.updated_replicas) > number(before.updated_replicas)
        || old(after) < old(before)
        || number(after.ready_replicas) > number(before.ready_replicas)
        || number(after.available_replicas) > number(before.available_replicas)
}

/// A ReplicaSet that cannot make its pods: the present one's trouble first.
fn failures(sets: &[&ReplicaSet], new: Option<&ReplicaSet>, conditions: &mut Conditions) {
    let all = new.into_iter().chain(sets.iter().copied());
    let mut found = all.flat_map(|set| set.status.iter().flat_map(|status| status.conditions.iter().flatten()));
    match found.find(|condition| condition.type_.as_deref() == Some(FAILURE)) {
        Some(failure) => {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            conditions.set(FAILURE, &text(&failure.status), &text(&failure.reason), &text(&failure.message));
        }
        None => conditions.remove(FAILURE),
    }
}

/// Pods that are ending; unknown as long as a ReplicaSet does not say.
fn terminating(sets: &[&ReplicaSet]) -> Option<i32> {
    sets.iter().try_fold(0, |sum, set| match &set.status {
        Some(status) => match status.terminating_replicas {
            Some(count) => Some(sum + count),
            None => status.observed_generation.is_none().then_some(sum),
        },
        None => Some(sum),
    })
}

fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| SignedDuration::from_secs(seconds.into()))
}

fn is(condition: &DeploymentCondition, kind: &str) -> bool {
    condition.type_.as_deref() == Some(kind)
}

struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn find(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|condition| is(condition, kind))
    }

    fn reason(&self, kind: &str) -> Option<&str> {
        self.find(kind).and_then(|condition| condition.reason.as_deref())
    }

    /// Sets it, unless status and reason are what they were.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let same = self
            .find(kind)
            .is_some_and(|old| old.status.as_deref() == Some(status) && old.reason.as_deref() == Some(reason));
        if !same {
            self.renew(kind, status, reason, message);
        }
    }

    /// Sets it and its time of update in any case.
    fn renew(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let kept = self.find(kind).filter(|old| old.status.as_deref() == Some(status));
        let since = kept.and_then(|old| old.last_transition_time.clone()).unwrap_or(Time(self.now));
        self.remove(kind);
        self.list.push(DeploymentCondition {
            type_: Some(kind.to_owned()),
            status: Some(status.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: Some(Time(self.now)),
            last_transition_time: Some(since),
        });
    }

    fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| !is(condition, kind));
    }

    fn is_older_than(&self, kind: &str, age: SignedDuration) -> bool {
        let updated = self.find(kind).and_then(|condition| condition.last_update_time.as_ref());
        updated.is_some_and(|time| self.now.duration_since(time.0) > age)
    }
}
