//! Job and CronJob: work that ends, once or by the clock.
//!
//! Mirrors `pkg/registry/batch` and `pkg/apis/batch`. The spec of a Job is also the template of a CronJob; `indexes` is the text
//! form in which a Job keeps track of its indexes, which the controller reads and writes too.

mod cron_job;
pub mod indexes;
mod job;
mod policies;
mod spec;
mod status;

pub(super) use cron_job::CronJob;
pub(super) use job::Job;
