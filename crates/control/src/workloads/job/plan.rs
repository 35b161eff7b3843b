//! What a Job does next: whether it is over, which pods go, which are made, and when to look again. Pure.

use super::{
    backoff::{self, Failures},
    pod::{self, NewPod},
    policy::{self, Verdict},
};
use crate::workloads::{pods, replicaset::plan::expendable_first};
use api::kinds::batch::indexes::Indexes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobSpec},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use std::collections::{BTreeMap, HashSet};

/// No more pods are made or deleted in one go.
const BURST: usize = 500;

/// What one Job sees.
#[derive(Debug)]
pub struct View<'a> {
    pub job: &'a Job,
    /// Its own pods, those of lower indexes first.
    pub pods: &'a [&'a Pod],
    /// Failures that were known before.
    pub failures: Failures,
    pub now: Timestamp,
}

/// What has to happen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// The Job is over, one way or the other: `SuccessCriteriaMet`, `FailureTarget`, or `Failed` where that was known before.
    pub over: Option<JobCondition>,
    /// Pods that go.
    pub delete: Vec<&'a Pod>,
    /// Whether those pods are nobody's failure, so that their finalizers go first.
    pub uncounted: bool,
    pub create: Vec<NewPod>,
    /// Whether the pods were looked after in this round, so that being suspended is worth telling.
    pub managed: bool,
    pub wait: Option<SignedDuration>,
    pub failures: Failures,
}

/// What has been counted so far, with what is about to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) succeeded_indexes: Indexes,
    /// Only where failures are counted by index.
    pub(super) failed_indexes: Option<Indexes>,
}

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Succeeded,
    Failed,
}

impl<'a> View<'a> {
    /// What comes next.
    pub fn plan(&self) -> Plan<'a> {
        let counts = self.counts();
        let active = self.active();
        let failures = self.failures.after(&self.newly(End::Succeeded), &self.newly(End::Failed));
        let mut plan = Plan { failures, over: self.over(&counts), ..Plan::default() };
        if plan.over.is_some() {
            plan.delete = active;
            return plan;
        }
        if let Some(left) = self.deadline_left() {
            plan.wait = Some(left);
        }
        if self.job.metadata.deletion_timestamp.is_none() {
            plan.managed = true;
            self.manage(&counts, active, &mut plan);
        }
        plan
    }

    fn field<T: Copy>(&self, get: impl Fn(&JobSpec) -> Option<T>) -> Option<T> {
        self.job.spec.as_ref().and_then(get)
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.job.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed")
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.field(|spec| spec.suspend) == Some(true)
    }

    pub(super) fn completions(&self) -> Option<i32> {
        self.field(|spec| spec.completions)
    }

    /// Below this are the indexes.
    pub(super) fn bound(&self) -> u32 {
        self.completions().and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
    }

    pub(super) fn counts_by_index(&self) -> bool {
        self.is_indexed() && self.field(|spec| spec.backoff_limit_per_index).is_some()
    }

    pub(super) fn active(&self) -> Vec<&'a Pod> {
        self.pods.iter().copied().filter(|pod| pods::is_active(pod)).collect()
    }

    /// Pods of the status that are named there and not counted yet.
    pub(super) fn named(&self, end: End) -> HashSet<&'a str> {
        let named = self.job.status.as_ref().and_then(|status| status.uncounted_terminated_pods.as_ref());
        let list = named.and_then(|named| match end {
            End::Succeeded => named.succeeded.as_ref(),
            End::Failed => named.failed.as_ref(),
        });
        list.into_iter().flatten().map(String::as_str).collect()
    }

    /// Whether its index, if it needs one, is one of this Job.
    pub(super) fn has_place(&self, pod: &Pod) -> bool {
        !self.is_indexed() || pod::index(pod).is_some_and(|index| index < self.bound())
    }

    pub(super) fn ended(&self, pod: &Pod, end: End) -> bool {
        match end {
            End::Succeeded => pod::succeeded(pod),
            End::Failed => pod::failed(pod, self.job),
        }
    }

    /// Pods that ended and that nobody has counted or named.
    fn newly(&self, end: End) -> Vec<&'a Pod> {
        let named = self.named(end);
        let is_new = |pod: &&&Pod| {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            pod::is_tracked(pod) && !named.contains(uid) && self.has_place(pod) && self.ended(pod, end)
        };
        self.pods.iter().filter(is_new).copied().collect()
    }

    pub(super) fn counts(&self) -> Counts {
        let status = self.job.status.clone().unwrap_or_default();
        let size = |set: HashSet<&str>| i32::try_from(set.len()).unwrap_or(i32::MAX);
        let length = |list: usize| i32::try_from(list).unwrap_or(i32::MAX);
        let failed = self.newly(End::Failed);
        let counted = failed.iter().filter(|pod| policy::verdict(self.job, pod).counts()).count();
        let mut counts = Counts {
            succeeded: status.succeeded.unwrap_or_default()
                + length(self.newly(End::Succeeded).len())
                + size(self.named(End::Succeeded)),
            failed: status.failed.unwrap_or_default() + length(counted) + size(self.named(End::Failed)),
            ..Counts::default()
        };
        if self.is_indexed() {
            let known = Indexes::read(status.completed_indexes.as_deref().unwrap_or_default(), self.bound());
            let fresh = self.tracked_indexes(pod::succeeded);
            counts.succeeded_indexes = known.union(&fresh);
            counts.succeeded = length(counts.succeeded_indexes.total());
        }
        if self.counts_by_index() {
            let known = Indexes::read(status.failed_indexes.as_deref().unwrap_or_default(), self.bound());
            counts.failed_indexes = Some(known.union(&self.tracked_indexes(|pod| self.index_failed(pod))));
        }
        counts
    }

    fn tracked_indexes(&self, test: impl Fn(&Pod) -> bool) -> Indexes {
        let pods = self.pods.iter().filter(|pod| pod::is_tracked(pod) && test(pod));
        pods.filter_map(|pod| pod::index(pod)).filter(|index| *index < self.bound()).collect()
    }

    fn index_failed(&self, pod: &Pod) -> bool {
        if !pod::failed(pod, self.job) {
            return false;
        }
        let limit = self.field(|spec| spec.backoff_limit_per_index).unwrap_or_default();
        match policy::verdict(self.job, pod) {
            Verdict::FailIndex => true,
            Verdict::Ignore => false,
            Verdict::Count | Verdict::FailJob(_) => pod::failures_before(pod).0 >= limit,
        }
    }

    fn holds(&self, kind: &str) -> Option<&'a JobCondition> {
        let conditions = self.job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().find(|one| one.type_ == kind && one.status == "True")
    }

    pub(super) fn condition(&self, kind: &str, reason: &str, message: &str) -> JobCondition {
        JobCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            last_probe_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        }
    }

    /// Whether it is over: what was decided before stands; then failures, then the success policy. That enough have succeeded is seen
    /// when nothing is active any more, in `track`.
    fn over(&self, counts: &Counts) -> Option<JobCondition> {
        if let Some(met) = self.holds("SuccessCriteriaMet") {
            return Some(met.clone());
        }
        if let Some(target) = self.holds("FailureTarget") {
            let [reason, message] = [&target.reason, &target.message].map(|text| text.as_deref().unwrap_or_default());
            return Some(self.condition("Failed", reason, message));
        }
        let failed = |reason: &str, message: &str| Some(self.condition("FailureTarget", reason, message));
        let verdicts =
            self.pods.iter().filter(|pod| pod::failed(pod, self.job)).map(|pod| policy::verdict(self.job, pod));
        for verdict in verdicts {
            if let Verdict::FailJob(message) = verdict {
                return failed("PodFailurePolicy", &message);
            }
        }
        let limit = self.field(|spec| spec.backoff_limit).unwrap_or(6);
        if counts.failed > limit || self.restarted_too_often(limit) {
            return failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if self.deadline_left().is_some_and(|left| left.is_zero()) {
            return failed("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if let Some(lost) = &counts.failed_indexes {
            let most = self.field(|spec| spec.max_failed_indexes).and_then(|most| usize::try_from(most).ok());
            if most.is_some_and(|most| lost.total() > most) {
                let text = "Job has exceeded the specified maximal number of failed indexes";
                return failed("MaxFailedIndexesExceeded", text);
            }
            let ended = lost.total() + counts.succeeded_indexes.total();
            if lost.total() > 0 && ended >= self.bound() as usize {
                return failed("FailedIndexes", "Job has failed indexes");
            }
        }
        let spec = self.job.spec.as_ref().filter(|_| self.is_indexed())?;
        let message = policy::success(spec.success_policy.as_ref(), self.bound(), &counts.succeeded_indexes)?;
        Some(self.condition("SuccessCriteriaMet", "SuccessPolicy", &message))
    }

    /// With `OnFailure` containers are restarted in their pod, and each time counts.
    fn restarted_too_often(&self, limit: i32) -> bool {
        let template = self.job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
        let statuses = running.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
            let lists = [&status.init_container_statuses, &status.container_statuses];
            lists.into_iter().flat_map(|list| list.iter().flatten())
        });
        let restarts: i32 = statuses.map(|status| status.restart_count).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    /// What is left of `activeDeadlineSeconds`; zero when it is over.
    fn deadline_left(&self) -> Option<SignedDuration> {
        let allowed = self.field(|spec| spec.active_deadline_seconds).filter(|_| !self.is_suspended())?;
        let started = self.job.status.as_ref().and_then(|status| status.start_time.as_ref());
        let started = started.map_or(self.now, |time| time.0);
        let left = SignedDuration::from_secs(allowed) - self.now.duration_since(started);
        Some(left.max(SignedDuration::ZERO))
    }

    /// Brings the number of active pods to what it should be: deletes, or makes, never both in one round.
    fn manage(&self, counts: &Counts, active: Vec<&'a Pod>, plan: &mut Plan<'a>) {
        let have = active.len();
        if self.is_suspended() {
            plan.uncounted = true;
            plan.delete = self.surplus(active, have);
            return;
        }
        let wanted = self.wanted(counts, have);
        let surplus = self.surplus(active.clone(), have.saturating_sub(wanted));
        if !surplus.is_empty() {
            plan.uncounted = true;
            plan.delete = surplus.into_iter().take(BURST).collect();
            return;
        }
        let ending = self.pods.iter().filter(|pod| pods::is_terminating(pod)).count();
        let held = if pod::replaces_only_failed(self.job) { ending } else { 0 };
        let missing = wanted.saturating_sub(held + have).min(BURST);
        if missing == 0 {
            return;
        }
        if self.counts_by_index() {
            self.create_by_index(counts, &active, missing, plan);
            return;
        }
        if let Some(left) = plan.failures.left(self.now) {
            plan.wait = Some(plan.wait.map_or(left, |wait| wait.min(left)));
            return;
        }
        plan.create = if self.is_indexed() {
            let indexes = self.pending_indexes(counts, &active, missing).into_iter();
            indexes.map(|index| NewPod { index: Some(index), failures: None }).collect()
        } else {
            vec![NewPod::default(); missing]
        };
    }

    /// How many should be active.
    fn wanted(&self, counts: &Counts, have: usize) -> usize {
        let parallelism = self.field(|spec| spec.parallelism).unwrap_or(1);
        let wanted = match self.completions() {
            // The first success is enough; what runs may run on.
            None if counts.succeeded > 0 => return have,
            None => parallelism,
            Some(completions) => (completions - counts.succeeded).min(parallelism),
        };
        usize::try_from(wanted).unwrap_or_default()
    }

    /// At least so many pods that are too many: in indexed Jobs all without a proper index and all but one of each, then the most
    /// expendable.
    fn surplus(&self, active: Vec<&'a Pod>, at_least: usize) -> Vec<&'a Pod> {
        let (mut gone, mut rest) = (Vec::new(), active);
        if self.is_indexed() {
            let mut by_index: BTreeMap<u32, Vec<&Pod>> = BTreeMap::new();
            for pod in rest.drain(..) {
                match pod::index(pod).filter(|index| *index < self.bound()) {
                    Some(index) => by_index.entry(index).or_default().push(pod),
                    None => gone.push(pod),
                }
            }
            for mut same in by_index.into_values() {
                expendable_first(&mut same, self.now);
                rest.extend(same.pop());
                gone.extend(same);
            }
        }
        if gone.len() < at_least {
            expendable_first(&mut rest, self.now);
            let more = at_least - gone.len();
            gone.extend(rest.into_iter().take(more));
        }
        gone
    }

    fn pending_indexes(&self, counts: &Counts, active: &[&Pod], count: usize) -> Vec<u32> {
        let of = |pods: &[&Pod]| -> Indexes { pods.iter().filter_map(|pod| pod::index(pod)).collect() };
        let mut taken = counts.succeeded_indexes.union(&of(active));
        if pod::replaces_only_failed(self.job) {
            let ending: Vec<&Pod> = self.pods.iter().copied().filter(|pod| pods::is_terminating(pod)).collect();
            taken = taken.union(&of(&ending));
        }
        if let Some(lost) = &counts.failed_indexes {
            taken = taken.union(lost);
        }
        taken.first_missing(count, self.bound())
    }

    /// Each index waits for itself: as long as its own failures ask for.
    fn create_by_index(&self, counts: &Counts, active: &[&Pod], missing: usize, plan: &mut Plan<'a>) {
        let held = self.held_per_index(counts, active);
        let mut shortest: Option<SignedDuration> = None;
        for index in self.pending_indexes(counts, active, missing) {
            let before = held.get(&index).copied();
            let left = before.and_then(|pod| {
                let (counted, ignored) = pod::failures_before(pod);
                let count = u32::try_from(counted + ignored + 1).unwrap_or_default();
                backoff::left(count, pod::finished_at(pod), self.now)
            });
            match left {
                Some(left) => shortest = Some(shortest.map_or(left, |known| known.min(left))),
                None => {
                    let failures = before.map_or((0, 0), |pod| {
                        let (counted, ignored) = pod::failures_before(pod);
                        if policy::verdict(self.job, pod).counts() {
                            (counted + 1, ignored)
                        } else {
                            (counted, ignored + 1)
                        }
                    });
                    plan.create.push(NewPod { index: Some(index), failures: Some(failures) });
                }
            }
        }
        if let (true, Some(left)) = (plan.create.is_empty(), shortest) {
            plan.wait = Some(plan.wait.map_or(left, |wait| wait.min(left)));
        }
    }

    /// Failed pods that are kept until their index has its next pod, which takes over how often the index has failed.
    pub(super) fn held_per_index(&self, counts: &Counts, active: &[&Pod]) -> BTreeMap<u32, &'a Pod> {
        let mut held: BTreeMap<u32, &Pod> = BTreeMap::new();
        let Some(lost) = counts.failed_indexes.as_ref() else { return held };
        let running: HashSet<u32> = active.iter().filter_map(|pod| pod::index(pod)).collect();
        for pod in self.pods.iter().copied().filter(|pod| pod::is_tracked(pod) && pod::failed(pod, self.job)) {
            let Some(index) = pod::index(pod).filter(|index| *index < self.bound()) else { continue };
            if counts.succeeded_indexes.contains(index) || lost.contains(index) || running.contains(&index) {
                continue;
            }
            let weight = |pod: &Pod| {
                let (counted, ignored) = pod::failures_before(pod);
                (counted + ignored, pod::finished_at(pod))
            };
            if held.get(&index).is_none_or(|known| weight(known) <= weight(pod)) {
                held.insert(index, pod);
            }
        }
        held
    }
}
