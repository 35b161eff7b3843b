//! How a Job's pods are counted: what the status says, whose finalizer goes, and when the Job is finished. Pure.

use super::{
    plan::{Counts, End, Plan, View},
    pod, policy,
};
use crate::workloads::{
    pods,
    replicaset::status::{clamp, unless_zero},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use std::collections::HashSet;

/// No more pods are named in the status at a time: it has to stay small.
const MOST_NAMED: usize = 500;

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub created: usize,
    /// Pods that were deleted, and how many of them were ready.
    pub deleted: usize,
    pub deleted_ready: usize,
    /// Whether everything that was planned has happened.
    pub complete: bool,
}

/// What is written next.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracked<'a> {
    /// The status that names the pods which are about to be counted.
    pub status: JobStatus,
    /// Pods whose finalizers go when that is stored.
    pub release: Vec<&'a Pod>,
    /// Pods that have a finalizer, by uid.
    pub tracked: HashSet<String>,
    /// `Complete` or `Failed`, which comes when all is counted and nothing is ending.
    pub finish: Option<JobCondition>,
    /// Reasons and notes of events.
    pub events: Vec<(&'static str, &'static str)>,
}

impl<'a> View<'a> {
    /// The status after a plan, and who is counted.
    pub fn track(&self, plan: &Plan<'a>, done: &Done) -> Tracked<'a> {
        let counts = self.counts();
        let mut status = self.job.status.clone().unwrap_or_default();
        let mut events = Vec::new();
        if status.start_time.is_none() && !self.is_suspended() {
            status.start_time = Some(Time(self.now));
        }
        let before = self.active();
        let active = before.len() + done.created - done.deleted.min(before.len());
        let ready = before.iter().filter(|pod| pods::is_ready(pod)).count().saturating_sub(done.deleted_ready);
        let ending = self.pods.iter().filter(|pod| pods::is_terminating(pod)).count() + done.deleted;
        status.active = unless_zero(clamp(active));
        status.ready = Some(clamp(ready));
        status.terminating = Some(clamp(ending));

        let mut over = plan.over.clone().filter(|_| done.complete);
        if plan.over.is_none() {
            if self.is_complete(&counts, active) {
                let text = "Reached expected number of succeeded pods";
                over = Some(self.condition("SuccessCriteriaMet", "CompletionsReached", text));
            } else if plan.managed {
                self.suspension(&mut status, &mut events);
            }
        }
        let (release, tracked) = self.name_ended(&mut status, &counts, over.as_ref());
        let everybody = release.len() == tracked.len();
        let finish = over.map(|condition| self.interim(&mut status, condition)).filter(|_| everybody);
        Tracked { status, release, tracked, finish, events }
    }

    fn is_complete(&self, counts: &Counts, active: usize) -> bool {
        let enough = self.completions().map_or(counts.succeeded > 0, |completions| counts.succeeded >= completions);
        enough && active == 0
    }

    /// Tells that the Job rests, or goes on.
    fn suspension(&self, status: &mut JobStatus, events: &mut Vec<(&'static str, &'static str)>) {
        let conditions = status.conditions.get_or_insert_default();
        let known = conditions.iter().find(|one| one.type_ == "Suspended").map(|one| one.status.as_str());
        let (reason, message) =
            if self.is_suspended() { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
        match (self.is_suspended(), known) {
            (true, Some("True")) | (false, None | Some("False")) => return,
            (true, _) => {
                status.start_time = None;
                events.push(("Suspended", message));
            }
            (false, _) => {
                // The deadline is for the time that it is active without a break.
                status.start_time = Some(Time(self.now));
                events.push(("Resumed", message));
            }
        }
        let mut condition = self.condition("Suspended", reason, message);
        if !self.is_suspended() {
            condition.status = "False".to_owned();
        }
        set(conditions, condition);
    }

    /// Names ended pods in the status. Answers with those whose finalizers may go, and with all that have one.
    fn name_ended(
        &self,
        status: &mut JobStatus,
        counts: &Counts,
        over: Option<&JobCondition>,
    ) -> (Vec<&'a Pod>, HashSet<String>) {
        let all_tracked: Vec<&Pod> = self.pods.iter().copied().filter(|pod| pod::is_tracked(pod)).collect();
        let tracked: HashSet<String> = all_tracked.iter().map(|pod| uid(pod).to_owned()).collect();
        settle(status, &tracked);
        let held = self.held_per_index(counts, &self.active());
        let named = [self.named(End::Succeeded), self.named(End::Failed)];
        let known_indexes = self.job.status.as_ref().and_then(|status| status.completed_indexes.clone());
        let known_indexes = api::kinds::batch::indexes::Indexes::read(&known_indexes.unwrap_or_default(), self.bound());
        let lost = over.is_some_and(|condition| condition.type_ != "SuccessCriteriaMet");
        let mut release = Vec::new();
        let mut fresh_indexes = Vec::new();
        let mut list = status.uncounted_terminated_pods.clone().unwrap_or_default();
        for pod in all_tracked {
            let failed = pod::failed(pod, self.job);
            let waits_for_next =
                pod::index(pod).and_then(|index| held.get(&index)).is_some_and(|one| uid(one) == uid(pod));
            let leaving = self.job.metadata.deletion_timestamp.is_some() || over.is_some();
            if !(leaving || pod::succeeded(pod) || failed && !waits_for_next) {
                continue;
            }
            release.push(pod);
            if pod::succeeded(pod) && !named[1].contains(uid(pod)) {
                match pod::index(pod).filter(|index| *index < self.bound()) {
                    // Its index is enough to count it once.
                    Some(index) if self.is_indexed() && !known_indexes.contains(index) => fresh_indexes.push(index),
                    _ if self.is_indexed() || named[0].contains(uid(pod)) => {}
                    _ => list.succeeded.get_or_insert_default().push(uid(pod).to_owned()),
                }
            } else if (failed || lost)
                && !named[1].contains(uid(pod))
                && self.has_place(pod)
                && policy::verdict(self.job, pod).counts()
            {
                // When the Job has failed, so has whatever was running.
                list.failed.get_or_insert_default().push(uid(pod).to_owned());
            }
            let named = list.succeeded.iter().flatten().count() + list.failed.iter().flatten().count();
            if fresh_indexes.len() + named >= MOST_NAMED {
                break;
            }
        }
        status.uncounted_terminated_pods = Some(list);
        if self.is_indexed() {
            let indexes = known_indexes.union(&fresh_indexes.into_iter().collect());
            status.succeeded = unless_zero(clamp(indexes.total()));
            status.completed_indexes = Some(indexes.to_string()).filter(|text| !text.is_empty());
            status.failed_indexes = counts.failed_indexes.as_ref().map(ToString::to_string);
        }
        (release, tracked)
    }

    /// Writes down that it is over, before the pods that say why are let go; answers with the condition that comes at the end.
    fn interim(&self, status: &mut JobStatus, condition: JobCondition) -> JobCondition {
        let last = match condition.type_.as_str() {
            "SuccessCriteriaMet" => "Complete",
            _ => "Failed",
        };
        let [reason, message] = [&condition.reason, &condition.message].map(|text| text.as_deref().unwrap_or_default());
        let finish = self.condition(last, reason, message);
        let conditions = status.conditions.get_or_insert_default();
        if condition.type_ != "Failed" && conditions.iter().all(|one| one.type_ != condition.type_) {
            conditions.push(condition);
        }
        finish
    }
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Pods that are named and have no finalizer any more move into the numbers.
pub fn settle(status: &mut JobStatus, tracked: &HashSet<String>) {
    let UncountedTerminatedPods { succeeded, failed } = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let split = |list: Option<Vec<String>>| -> (Vec<String>, i32) {
        let all = list.unwrap_or_default();
        let before = all.len();
        let left: Vec<String> = all.into_iter().filter(|uid| tracked.contains(uid)).collect();
        let counted = clamp(before - left.len());
        (left, counted)
    };
    let (succeeded, more) = split(succeeded);
    status.succeeded = unless_zero(status.succeeded.unwrap_or_default() + more);
    let (failed, more) = split(failed);
    status.failed = unless_zero(status.failed.unwrap_or_default() + more);
    let list = |uids: Vec<String>| Some(uids).filter(|uids| !uids.is_empty());
    status.uncounted_terminated_pods =
        Some(UncountedTerminatedPods { succeeded: list(succeeded), failed: list(failed) });
}

/// Finishes, unless somebody is still to be counted or to end.
pub fn finish(status: &mut JobStatus, condition: Option<&JobCondition>, now: Timestamp) {
    let Some(condition) = condition else { return };
    let named = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let waiting = named.succeeded.iter().flatten().count() + named.failed.iter().flatten().count();
    if waiting > 0 || status.terminating.unwrap_or_default() > 0 {
        return;
    }
    let condition =
        JobCondition { last_probe_time: Some(Time(now)), last_transition_time: Some(Time(now)), ..condition.clone() };
    if condition.type_ == "Complete" {
        status.completion_time = Some(Time(now));
    }
    set(status.conditions.get_or_insert_default(), condition);
}

fn set(conditions: &mut Vec<JobCondition>, condition: JobCondition) {
    match conditions.iter_mut().find(|one| one.type_ == condition.type_) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
