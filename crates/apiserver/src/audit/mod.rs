//! Who did what: an audit log in upstream's format, on request. Bodies with secrets or tokens are never in it.
//!
//! `policy` decides how much, `event` builds, `log` writes. The engine calls `Auditor::begin` after authentication, fills the
//! record, and hands it to `write` at the end (and, for a watch, when the answer starts).

mod event;
mod log;
mod policy;
#[cfg(test)]
mod tests;

pub use event::{Record, Request, Response};
pub use log::{Log, Target};
pub use policy::{Level, Policy, PolicyError, Stage, Verdict};

use jiff::Timestamp;

/// A policy and where its events go.
#[derive(Debug)]
pub struct Auditor {
    policy: Policy,
    log: Log,
}

impl Auditor {
    /// Joins both.
    pub fn new(policy: Policy, log: Log) -> Self {
        Self { policy, log }
    }

    /// Begins the record of a request; none when the policy does not want it.
    pub fn begin(&self, request: Request<'_>) -> Option<Record> {
        Record::begin(request, self.policy.judge(request.attributes))
    }

    /// Writes the event of a stage, unless the policy leaves it out.
    pub fn write(&self, record: &Record, stage: Stage, response: Response<'_>, now: Timestamp) {
        if let Some(event) = record.at(stage, response, now) {
            self.log.write(&event);
        }
    }

    /// How many events were lost to a slow or full disk.
    pub fn dropped(&self) -> u64 {
        self.log.dropped()
    }
}
