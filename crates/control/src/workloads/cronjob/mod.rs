//! CronJob: Jobs by the clock.

pub mod plan;

#[cfg(test)]
mod tests;

use super::{
    job,
    owned::{self, Owned, controller_of},
    replicaset::is_namespace_leaving,
};
use crate::framework::{Context, Events, Key, Next, Reconcile, Result, reference, work};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Resource, ResourceExt, api::PostParams};
use plan::{Clock, Due};
use std::{sync::Arc, time::Duration};

/// A little after the minute, so that a clock that is late by a bit does not miss it.
const MARGIN: SignedDuration = SignedDuration::from_millis(100);

struct CronJobs {
    crons: Owned<CronJob>,
    jobs: Owned<Job>,
    events: Events,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (crons, jobs) = (Owned::<CronJob>::new(&context), Owned::<Job>::new(&context));
    let queue = context.queue("cronjob");
    let _crons = crons.store.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _jobs = jobs.store.on_change({
        let queue = queue.clone();
        move |change| {
            for job in change.both() {
                if let Some(owner) = controller_of(&job.metadata).filter(|owner| owner.kind == "CronJob") {
                    queue.add(Key::new(job.namespace().unwrap_or_default(), &owner.name));
                }
            }
        }
    });
    context.synced(&[&crons.store, &jobs.store]).await;
    let events = context.events("cronjob-controller");
    work(&queue, 5, &CronJobs { crons, jobs, events }).await
}

impl Reconcile for CronJobs {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(cron) = self.crons.store.get(key) else { return Ok(Next::Done) };
        let jobs = self.jobs.of(&cron.uid().unwrap_or_default());
        let mut status = cron.status.clone().unwrap_or_default();
        self.take_note(&cron, &jobs, &mut status).await;
        let outcome = match cron.metadata.deletion_timestamp {
            Some(_) => Ok(None),
            None => self.start_due(&cron, &mut status).await,
        };
        let tidied = self.forget_finished(&cron, &jobs).await;
        if !same_status(cron.status.as_ref(), &status) {
            self.crons.write_status(&CronJob { status: Some(status), ..(*cron).clone() }).await?;
        }
        tidied?;
        let next = outcome?.map(|due| due.saturating_add(MARGIN).unwrap_or(due).duration_since(Timestamp::now()));
        let wait = next.map(|wait| wait.max(SignedDuration::from_millis(10)));
        Ok(wait.map_or(Next::Done, |wait| Next::After(wait.try_into().unwrap_or(Duration::from_secs(1)))))
    }
}

impl CronJobs {
    /// Keeps the list of active Jobs right, and the time of the last success.
    async fn take_note(&self, cron: &CronJob, jobs: &[Arc<Job>], status: &mut CronJobStatus) {
        for (reason, note) in plan::take_note(jobs, status) {
            match reason {
                "UnexpectedJob" => self.events.warning(&reference(cron), reason, note).await,
                _ => self.events.normal(&reference(cron), reason, note).await,
            }
        }
    }

    /// Makes the Job that is due, if one is; answers with when to look again.
    async fn start_due(&self, cron: &Arc<CronJob>, status: &mut CronJobStatus) -> Result<Option<Timestamp>> {
        let about = reference(&**cron);
        let clock = match Clock::new(cron) {
            Ok(clock) => clock,
            Err((reason, note)) => {
                self.events.warning(&about, reason, note).await;
                return Ok(None);
            }
        };
        if cron.spec.suspend == Some(true) {
            return Ok(None);
        }
        let now = Timestamp::now();
        let missed = clock.missed(status.last_schedule_time.as_ref().map(|time| time.0), now);
        if missed.many {
            let note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.events.warning(&about, "TooManyMissedTimes", note).await;
        }
        match plan::due(cron, status, missed.latest, now) {
            Due::Nothing => {}
            Due::TooLate(at) => {
                let note = format!("Missed scheduled time to start a job: {at}");
                self.events.warning(&about, "MissSchedule", note).await;
            }
            Due::Forbidden => {
                let note = "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.events.normal(&about, "JobAlreadyActive", note).await;
            }
            Due::Start { at, replace } => {
                for old in replace {
                    self.replace(cron, &old, status).await?;
                }
                self.start(cron, &clock, at, status).await?;
            }
        }
        Ok(clock.next(now))
    }

    /// Ends a Job that is in the way of the next one.
    async fn replace(&self, cron: &CronJob, old: &ObjectReference, status: &mut CronJobStatus) -> Result<()> {
        let name = old.name.clone().unwrap_or_default();
        let key = Key::new(cron.namespace().unwrap_or_default(), &name);
        if let Some(job) = self.jobs.store.get(&key).filter(|job| job.uid() == old.uid) {
            self.jobs.delete(&job).await?;
            self.events.normal(&reference(cron), "SuccessfulDelete", format!("Deleted job {name}")).await;
        }
        status.active.get_or_insert_default().retain(|one| one.uid != old.uid);
        Ok(())
    }

    async fn start(&self, cron: &CronJob, clock: &Clock, at: Timestamp, status: &mut CronJobStatus) -> Result<()> {
        let wanted = plan::job(cron, clock, at, owned::reference(cron));
        let api = self.jobs.api(&cron.namespace().unwrap_or_default());
        let made = match api.create(&PostParams::default(), &wanted).await {
            Ok(made) => {
                let note = format!("Created job {}", made.name_any());
                self.events.normal(&reference(cron), "SuccessfulCreate", note).await;
                made
            }
            // The name is that of the moment: whoever was stopped between making the Job and writing it down comes here.
            Err(kube::Error::Api(answer)) if answer.code == 409 => {
                let known = api.get(&wanted.name_any()).await?;
                let ours = controller_of(&known.metadata).map(|owner| &owner.uid) == cron.metadata.uid.as_ref();
                if !ours {
                    return Ok(());
                }
                known
            }
            Err(error) if is_namespace_leaving(&error) => return Ok(()),
            Err(error) => {
                let note = format!("Error creating job: {error}");
                self.events.warning(&reference(cron), "FailedCreate", note).await;
                return Err(error.into());
            }
        };
        let active = status.active.get_or_insert_default();
        if job::finished(&made).is_none() && active.iter().all(|one| one.uid != made.uid()) {
            active.push(made.object_ref(&()));
        }
        status.last_schedule_time = Some(Time(at));
        self.jobs.store.remember(made);
        Ok(())
    }

    /// Drops finished Jobs beyond the limits, those that began first.
    async fn forget_finished(&self, cron: &CronJob, jobs: &[Arc<Job>]) -> Result<()> {
        for job in plan::surplus(cron, jobs) {
            self.jobs.delete(job).await?;
            let note = format!("Deleted job {}", job.name_any());
            self.events.normal(&reference(cron), "SuccessfulDelete", note).await;
        }
        Ok(())
    }
}

/// Whether two statuses say the same; an empty list is as good as none.
fn same_status(old: Option<&CronJobStatus>, new: &CronJobStatus) -> bool {
    let plain = |status: &CronJobStatus| {
        let active = status.active.clone().filter(|active| !active.is_empty());
        CronJobStatus { active, ..status.clone() }
    };
    plain(&old.cloned().unwrap_or_default()) == plain(new)
}
