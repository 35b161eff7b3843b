//! Jobs that have finished and say how long they are of use: they go, with their pods, when that time is over.

use super::finished;
use crate::framework::{Context, Key, Next, Reconcile, Result, Store, work};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use runtime::client::Api;
use std::time::Duration;

struct Ttl {
    client: Client,
    jobs: Store<Job>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let jobs = context.store::<Job>();
    let queue = context.queue("ttl_jobs_to_delete");
    let _jobs = jobs.on_change({
        let queue = queue.clone();
        move |change| {
            if change.new.is_some_and(|job| expires(job).is_some()) {
                queue.add(change.key());
            }
        }
    });
    context.synced(&[&jobs]).await;
    work(&queue, 5, &Ttl { client: context.client(), jobs }).await
}

/// When a Job is of no more use; nothing as long as it runs or is being deleted, or if it stays.
fn expires(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let end = finished(job).filter(|_| job.metadata.deletion_timestamp.is_none())?.last_transition_time.as_ref()?.0;
    end.checked_add(SignedDuration::from_secs(seconds.into())).ok()
}

impl Reconcile for Ttl {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(job) = self.jobs.get(key) else { return Ok(Next::Done) };
        let Some(due) = expires(&job) else { return Ok(Next::Done) };
        let left = due.duration_since(Timestamp::now());
        if left.is_positive() {
            return Ok(Next::After(left.try_into().unwrap_or(Duration::from_secs(1))));
        }
        // What was decided about is what is deleted: a longer time that has just been asked for is a new version.
        let preconditions = Preconditions { uid: job.uid(), resource_version: job.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::foreground() };
        let api: Api<Job> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.delete(&key.name, &params).await {
            Ok(_) => Ok(Next::Done),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Next::Done),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn a_finished_job_expires_after_its_time() {
        let job = |ttl: Value, condition: &str, deleted: Value| -> Job {
            from_value(json!({"metadata": {"name": "j", "deletionTimestamp": deleted},
                "spec": {"ttlSecondsAfterFinished": ttl, "template": {}},
                "status": {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
            .unwrap()
        };
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        for (job, expected) in [
            (job(json!(60), "Complete", Value::Null), at("2026-01-01T00:01:00Z")),
            (job(json!(0), "Failed", Value::Null), at("2026-01-01T00:00:00Z")),
            (job(json!(60), "Suspended", Value::Null), None),
            (job(Value::Null, "Complete", Value::Null), None),
            (job(json!(60), "Complete", json!("2026-01-01T00:00:00Z")), None),
        ] {
            assert_eq!(expires(&job), expected);
        }
    }
}
