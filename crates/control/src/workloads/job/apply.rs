//! Brings a Job's plan about, and writes what has been counted.

use super::{
    Jobs,
    backoff::Failures,
    finished,
    plan::Plan,
    pod::{self, FINALIZER},
    same_status,
    track::{Done, Tracked, finish, settle},
};
use crate::{
    framework::{Key, Result, reference},
    workloads::{batches, now, owned::Owned, pods, replicaset::is_namespace_leaving},
};
use futures::future::join_all;
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::sync::Arc;

impl Jobs {
    /// Deletes or makes pods. What went wrong is told beside what has been done.
    pub(super) async fn apply(&self, job: &Job, plan: &Plan<'_>) -> (Done, Result<()>) {
        let mut done = Done::default();
        let mut outcome = Ok(());
        let deletions = plan.delete.iter().map(|pod| self.delete(job, pod, plan.uncounted));
        for (result, pod) in join_all(deletions).await.into_iter().zip(&plan.delete) {
            match result {
                Ok(()) => {
                    done.deleted += 1;
                    done.deleted_ready += usize::from(pods::is_ready(pod));
                }
                Err(error) => outcome = Err(error),
            }
        }
        let (made, failure) = batches::slow_start(plan.create.len(), |at| self.create(job, plan.create[at])).await;
        done.created = made.into_iter().filter(|made| *made).count();
        done.complete = outcome.is_ok() && failure.is_none();
        (done, failure.map_or(outcome, Err))
    }

    async fn delete(&self, job: &Job, pod: &Pod, uncounted: bool) -> Result<()> {
        if uncounted {
            untrack(&self.pods, pod).await?;
        }
        self.pods.delete(pod).await?;
        let note = format!("Deleted pod: {}", pod.name_any());
        self.events.normal(&reference(job), "SuccessfulDelete", note).await;
        Ok(())
    }

    /// Answers whether there is a pod more.
    async fn create(&self, job: &Job, new: pod::NewPod) -> Result<bool> {
        let api = self.pods.api(&job.namespace().unwrap_or_default());
        match api.create(&PostParams::default(), &pod::create(job, new)).await {
            Ok(made) => {
                let note = format!("Created pod: {}", made.name_any());
                self.pods.store.remember(made);
                self.events.normal(&reference(job), "SuccessfulCreate", note).await;
                Ok(true)
            }
            Err(error) if is_namespace_leaving(&error) => Ok(false),
            Err(error) => {
                self.events.warning(&reference(job), "FailedCreate", format!("Error creating: {error}")).await;
                Err(error.into())
            }
        }
    }

    /// Names ended pods in the status, lets them go, counts them, and finishes the Job when there is nothing left to do.
    pub(super) async fn count(&self, job: &Arc<Job>, tracked: Tracked<'_>, failures: Failures) -> Result<Arc<Job>> {
        let job = self.write(job, tracked.status.clone()).await?;
        self.failures.lock().insert(Key::of(&*job), failures);
        let mut left = tracked.tracked;
        let mut outcome = Ok(());
        let releases = tracked.release.iter().map(|pod| untrack(&self.pods, pod));
        for (result, pod) in join_all(releases).await.into_iter().zip(&tracked.release) {
            match result {
                Ok(()) => drop(left.remove(pod.metadata.uid.as_deref().unwrap_or_default())),
                Err(error) => outcome = Err(error),
            }
        }
        let mut status = tracked.status;
        settle(&mut status, &left);
        if outcome.is_ok() {
            finish(&mut status, tracked.finish.as_ref(), now());
        }
        let job = self.write(&job, status).await?;
        outcome?;
        if let Some(end) = finished(&job).filter(|_| tracked.finish.is_some()) {
            let [reason, message] = [&end.reason, &end.message].map(|text| text.clone().unwrap_or_default());
            match end.type_.as_str() {
                "Complete" => self.events.normal(&reference(&*job), "Completed", "Job completed").await,
                _ => self.events.warning(&reference(&*job), &reason, message).await,
            }
        }
        Ok(job)
    }

    /// Writes a status that says something new; answers with the Job that has it.
    async fn write(&self, job: &Arc<Job>, status: JobStatus) -> Result<Arc<Job>> {
        if job.status.as_ref().is_some_and(|old| same_status(old, &status)) {
            return Ok(Arc::clone(job));
        }
        let changed = Job { status: Some(status), ..(**job).clone() };
        let api = self.jobs.api(&job.namespace().unwrap_or_default());
        match api.replace_status(&job.name_any(), &PostParams::default(), &changed).await {
            Ok(stored) => {
                self.jobs.store.remember(stored.clone());
                Ok(Arc::new(stored))
            }
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(Arc::new(changed)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes the finalizer off a pod: it is counted, or nobody's.
pub(super) async fn untrack(all: &Owned<Pod>, pod: &Pod) -> Result<()> {
    if !pod::is_tracked(pod) {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    let api = all.api(&pod.namespace().unwrap_or_default());
    match api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        // The last finalizer of a pod that was ending: the answer is the last of it.
        Ok(last) if is_last(&last) => all.store.forget(pod),
        Ok(changed) => all.store.remember(changed),
        Err(kube::Error::Api(status)) if status.code == 404 => all.store.forget(pod),
        // Another pod has the name by now.
        Err(kube::Error::Api(status)) if status.code == 409 && status.message.contains("uid") => all.store.forget(pod),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn is_last(pod: &Pod) -> bool {
    let meta = &pod.metadata;
    meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds == Some(0) && pod.finalizers().is_empty()
}
