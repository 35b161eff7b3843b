//! Pods that no Job counts any more lose their finalizer, so that they can go: their Job is gone, has finished, or let them go.

use super::{apply::untrack, finished, is_managed_elsewhere, pod};
use crate::{
    framework::{Context, Key, Next, Reconcile, Result, work},
    workloads::owned::{Owned, controller_of},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;

struct Orphans {
    jobs: Owned<Job>,
    pods: Owned<Pod>,
}

pub(super) async fn run(context: &Context, jobs: Owned<Job>, pods: Owned<Pod>) -> Result<()> {
    let queue = context.queue("job_orphan_pod");
    let _pods = pods.store.on_change({
        let queue = queue.clone();
        move |change| {
            if change.new.is_some_and(|pod| pod::is_tracked(pod)) {
                queue.add(change.key());
            }
        }
    });
    let _jobs = jobs.store.on_change({
        let (queue, pods) = (queue.clone(), pods.clone());
        move |change| {
            if change.new.is_none_or(|job| finished(job).is_some()) {
                let uid = change.object().uid().unwrap_or_default();
                let tracked = pods.of(&uid);
                tracked.iter().filter(|pod| pod::is_tracked(pod)).for_each(|pod| queue.add(Key::of(&**pod)));
            }
        }
    });
    work(&queue, 2, &Orphans { jobs, pods }).await
}

impl Reconcile for Orphans {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(pod) = self.pods.store.get(key).filter(|pod| pod::is_tracked(pod)) else { return Ok(Next::Done) };
        if self.is_orphan(key, &pod) {
            untrack(&self.pods, &pod).await?;
        }
        Ok(Next::Done)
    }
}

impl Orphans {
    fn is_orphan(&self, key: &Key, pod: &Pod) -> bool {
        let Some(owner) = controller_of(&pod.metadata) else {
            // Nobody's: unless a Job is about to adopt it, which puts the finalizer on by itself.
            return true;
        };
        if owner.kind != "Job" || owner.api_version != "batch/v1" {
            return false;
        }
        let job = self.jobs.store.get(&Key::new(&key.namespace, &owner.name));
        let job = job.filter(|job| job.uid().as_ref() == Some(&owner.uid));
        job.is_none_or(|job| !is_managed_elsewhere(&job) && finished(&job).is_some())
    }
}
