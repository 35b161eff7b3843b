//! Job: pods until enough of them have succeeded.
//!
//! No pod is counted twice or forgotten, whatever ends in between: each has a finalizer until it is counted. First the status names the
//! ended pods (`uncountedTerminatedPods`), then their finalizers go, then they move into the numbers. Mirrors kube-controller-manager.

pub mod backoff;
pub mod plan;
pub mod pod;
pub mod policy;
pub mod track;
pub mod ttl;

mod apply;
mod orphans;
#[cfg(test)]
mod tests;

use super::{
    now,
    owned::{Owned, Terms, owners_of},
};
use crate::framework::{Context, Events, Key, Next, Reconcile, Result, reference, work};
use backoff::Failures;
use jiff::SignedDuration;
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::ResourceExt;
use parking_lot::Mutex;
use plan::View;
use std::{borrow::Cow, collections::HashMap, time::Duration};

struct Jobs {
    jobs: Owned<Job>,
    pods: Owned<Pod>,
    events: Events,
    /// Failures since the last success, by Job: they decide how long to wait before the next pod.
    failures: Mutex<HashMap<Key, Failures>>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (jobs, pods) = (Owned::<Job>::new(&context), Owned::<Pod>::new(&context));
    let queue = context.queue("job");
    let _jobs = jobs.store.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.store.on_change({
        let (queue, owners) = (queue.clone(), jobs.store.clone());
        move |change| {
            let keys = owners_of(change, &owners, |job| Cow::Owned(selector(job)));
            keys.into_iter().for_each(|key| queue.add(key));
        }
    });
    context.synced(&[&jobs.store, &pods.store]).await;
    let events = context.events("job-controller");
    let orphans = orphans::run(&context, jobs.clone(), pods.clone());
    let controller = Jobs { jobs, pods, events, failures: Mutex::default() };
    tokio::try_join!(work(&queue, 5, &controller), orphans)?;
    Ok(())
}

/// The condition that ended a Job, if one has.
pub(crate) fn finished(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|one| matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True")
}

fn selector(job: &Job) -> LabelSelector {
    job.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default()
}

/// Whether another controller looks after it.
fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != "kubernetes.io/job-controller")
}

impl Reconcile for Jobs {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let job = self.jobs.store.get(key).filter(|job| finished(job).is_none() && !is_managed_elsewhere(job));
        let Some(job) = job else {
            self.failures.lock().remove(key);
            return Ok(Next::Done);
        };
        let terms = Terms { named: None, finalizer: Some(pod::FINALIZER) };
        let owned = self.pods.claim_on(&*job, &selector(&job), terms).await?;
        let mut seen: Vec<&Pod> = owned.iter().map(|pod| &**pod).collect();
        seen.sort_by_key(|pod| (pod::index(pod), pod.name_any()));
        let known = self.failures.lock().get(key).copied().unwrap_or_default();
        let view = View { job: &job, pods: &seen, failures: known, now: now() };
        let plan = view.plan();
        let (done, outcome) = self.apply(&job, &plan).await;
        let tracked = view.track(&plan, &done);
        for (reason, note) in &tracked.events {
            self.events.normal(&reference(&*job), reason, *note).await;
        }
        let job = self.count(&job, tracked, plan.failures).await?;
        outcome?;
        if finished(&job).is_some() {
            self.failures.lock().remove(key);
        }
        let wait = plan.wait.map(|wait| wait.max(SignedDuration::from_millis(1)));
        Ok(wait.map_or(Next::Done, |wait| Next::After(wait.try_into().unwrap_or(Duration::from_secs(1)))))
    }
}

/// Whether two statuses say the same; what is empty is as good as absent.
fn same_status(one: &JobStatus, other: &JobStatus) -> bool {
    let plain = |status: &JobStatus| {
        let mut status = status.clone();
        status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
        let empty = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
        status.uncounted_terminated_pods =
            status.uncounted_terminated_pods.filter(|pods| !empty(&pods.succeeded) || !empty(&pods.failed));
        status.completed_indexes = status.completed_indexes.filter(|text| !text.is_empty());
        status
    };
    plain(one) == plain(other)
}
