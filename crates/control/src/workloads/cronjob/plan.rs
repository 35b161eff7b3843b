//! When a CronJob makes its next Job, which one, and which old ones go. Pure.

use super::super::job;
use api::cron::{Schedule, zone};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use std::sync::Arc;

/// The annotation with the moment that a Job was made for, in the CronJob's zone.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// More missed moments than these point to a clock that is wrong.
const MANY: usize = 100;

/// A CronJob's schedule with where its clock hangs.
#[derive(Clone, Debug)]
pub struct Clock {
    schedule: Schedule,
    zone: TimeZone,
    created: Timestamp,
    deadline: Option<SignedDuration>,
}

/// Moments that passed without a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// The last of them.
    pub latest: Option<Timestamp>,
    /// Whether there were suspiciously many.
    pub many: bool,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Due {
    Nothing,
    /// The moment is over by more than `startingDeadlineSeconds`.
    TooLate(Timestamp),
    /// Another is running, and it must not have company.
    Forbidden,
    /// A Job for this moment, after these have been ended.
    Start {
        at: Timestamp,
        replace: Vec<ObjectReference>,
    },
}

impl Clock {
    /// Reads it; otherwise reason and note of the event that tells why not.
    pub fn new(cron: &CronJob) -> Result<Self, (&'static str, String)> {
        let spec = &cron.spec;
        let zone = match spec.time_zone.as_deref() {
            Some(name) => {
                zone(name).map_err(|wrong| ("UnknownTimeZone", format!("invalid timeZone: {name:?}: {wrong}")))?
            }
            // Where this process runs, as kube-controller-manager has it; that is UTC in most places.
            None => TimeZone::system(),
        };
        let schedule = Schedule::parse(&spec.schedule)
            .map_err(|wrong| ("UnparseableSchedule", format!("unparseable schedule: {:?} : {wrong}", spec.schedule)))?;
        let created = cron.metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default();
        Ok(Self { schedule, zone, created, deadline: spec.starting_deadline_seconds.map(SignedDuration::from_secs) })
    }

    /// The moments since the last Job, no longer ago than the deadline allows.
    pub fn missed(&self, last: Option<Timestamp>, now: Timestamp) -> Missed {
        let mut from = last.unwrap_or(self.created);
        if let Some(earliest) = self.deadline.and_then(|deadline| now.checked_sub(deadline).ok()) {
            from = from.max(earliest);
        }
        let mut missed = Missed::default();
        let mut count = 0;
        let mut at = from;
        while let Some(next) = self.schedule.next(at, &self.zone).filter(|next| *next <= now) {
            missed.latest = Some(next);
            count += 1;
            at = next;
            if count > MANY && !missed.many {
                missed.many = true;
                // No need to count a year of minutes: from shortly before now on is enough, and back to the start if that is too late.
                let near = now.checked_sub(SignedDuration::from_hours(36)).unwrap_or(at).max(at);
                if self.schedule.next(near, &self.zone).is_some_and(|next| next <= now) {
                    at = near;
                }
            }
        }
        missed
    }

    /// The first moment after this one.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, &self.zone)
    }
}

/// What is to be done about the last moment that passed.
pub fn due(cron: &CronJob, status: &CronJobStatus, latest: Option<Timestamp>, now: Timestamp) -> Due {
    let Some(at) = latest else { return Due::Nothing };
    let deadline = cron.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if deadline.and_then(|deadline| at.checked_add(deadline).ok()).is_some_and(|last| last < now) {
        return Due::TooLate(at);
    }
    let active = status.active.clone().unwrap_or_default();
    let name = name(cron, at);
    let known = active.iter().any(|one| one.name.as_ref() == Some(&name));
    if known || status.last_schedule_time.as_ref().is_some_and(|time| time.0 == at) {
        return Due::Nothing;
    }
    match cron.spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => Due::Forbidden,
        Some("Replace") => Due::Start { at, replace: active },
        _ => Due::Start { at, replace: Vec::new() },
    }
}

/// Jobs are named after their moment, in minutes, so that one moment has one Job.
fn name(cron: &CronJob, at: Timestamp) -> String {
    format!("{}-{}", cron.name_any(), at.as_second() / 60)
}

/// The Job for a moment.
pub fn job(cron: &CronJob, clock: &Clock, at: Timestamp, owner: OwnerReference) -> Job {
    let template = &cron.spec.job_template;
    let meta = template.metadata.clone().unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    let zone = if cron.spec.time_zone.is_some() { clock.zone.clone() } else { TimeZone::UTC };
    let shown = at.to_zoned(zone);
    let shown =
        if shown.offset().seconds() == 0 { at.to_string() } else { shown.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string() };
    annotations.insert(SCHEDULED.to_owned(), shown);
    Job {
        metadata: ObjectMeta {
            name: Some(name(cron, at)),
            namespace: cron.namespace(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Brings the list of active Jobs and the time of the last success up to date; answers with what there is to tell.
pub fn take_note(jobs: &[Arc<Job>], status: &mut CronJobStatus) -> Vec<(&'static str, String)> {
    let mut events = Vec::new();
    let mut active = status.active.take().unwrap_or_default();
    for job in jobs {
        let at = active.iter().position(|one| one.uid == job.uid());
        let Some(end) = job::finished(job) else {
            if at.is_none() {
                let note = format!("Saw a job that the controller did not create or forgot: {}", job.name_any());
                events.push(("UnexpectedJob", note));
            }
            continue;
        };
        if let Some(at) = at {
            active.remove(at);
            events
                .push(("SawCompletedJob", format!("Saw completed job: {}, condition: {}", job.name_any(), end.type_)));
        }
        let ended = job.status.as_ref().and_then(|status| status.completion_time.clone());
        if let Some(ended) = ended.filter(|_| end.type_ == "Complete")
            && status.last_successful_time.as_ref().is_none_or(|known| known.0 < ended.0)
        {
            status.last_successful_time = Some(ended);
        }
    }
    active.retain(|one| {
        let there = jobs.iter().any(|job| job.uid() == one.uid);
        if !there {
            events.push(("MissingJob", format!("Active job went missing: {}", one.name.clone().unwrap_or_default())));
        }
        there
    });
    status.active = Some(active).filter(|active| !active.is_empty());
    events
}

/// Finished Jobs beyond the limits, those that began first.
pub fn surplus<'a>(cron: &CronJob, jobs: &'a [Arc<Job>]) -> Vec<&'a Job> {
    let limits =
        [("Complete", cron.spec.successful_jobs_history_limit), ("Failed", cron.spec.failed_jobs_history_limit)];
    let mut gone = Vec::new();
    for (kind, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let ended = |job: &&Job| job::finished(job).is_some_and(|end| end.type_ == kind);
        let mut finished: Vec<&Job> = jobs.iter().map(|job| &**job).filter(ended).collect();
        finished.sort_by_key(|job| {
            let start = job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
            (start.is_none(), start, job.name_any())
        });
        let surplus = finished.len().saturating_sub(limit);
        gone.extend(finished.into_iter().take(surplus));
    }
    // Those that are going already need no second word.
    gone.retain(|job| job.metadata.deletion_timestamp.is_none());
    gone
}
