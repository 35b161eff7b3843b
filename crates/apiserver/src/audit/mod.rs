//! Who did what: an audit log in upstream's format, on request. Bodies with secrets or tokens are never in it.
//!
//! `policy` decides how much, `event` builds, `log` writes, `answer` sees the end of a request. The engine calls
//! `Auditor::begin` after authentication (or `unknown` when it failed), fills the record, and ends it with the response. A
//! record that is dropped before says so: who hangs up early is in the log as well.

mod answer;
mod event;
mod log;
mod policy;
#[cfg(test)]
mod tests;

pub use answer::Open;
pub use event::{Record, Request, Response};
pub use log::{Log, Target};
pub use policy::{Level, Policy, PolicyError, Stage, Verdict};

use jiff::Timestamp;
use runtime::metrics::Metrics;
use serde_json::json;
use std::sync::Arc;

/// A policy and where its events go. Cheap to clone: a watch keeps one until it ends.
#[derive(Clone, Debug)]
pub struct Auditor {
    policy: Arc<Policy>,
    log: Arc<Log>,
}

impl Auditor {
    /// Joins both.
    pub fn new(policy: Policy, log: Log) -> Self {
        Self { policy: Arc::new(policy), log: Arc::new(log) }
    }

    /// Begins the record of a request and writes that it came; none when the policy does not want it.
    pub fn begin(&self, request: Request<'_>) -> Option<Open> {
        let record = Record::begin(request, self.policy.judge(request.attributes))?;
        let nothing_yet = Response { code: 0, status: None, object: None };
        self.write(&record, Stage::RequestReceived, nothing_yet, request.received);
        Some(Open::new(self.clone(), record))
    }

    /// Writes the one event of a request whose sender is not known: it ends here. `shown` are the kinds of credentials.
    pub fn unknown(&self, request: Request<'_>, shown: &[&str]) {
        let Some(record) = Record::begin(request, self.policy.judge(request.attributes)) else { return };
        let message = match shown {
            [] => "Authentication failed, no credentials provided".to_owned(),
            some => format!("Authentication failed, attempted: {}", some.join(", ")),
        };
        let response = Response { code: 401, status: Some(&json!({"message": message})), object: None };
        self.write(&record, Stage::ResponseStarted, response, request.received);
    }

    /// Writes the event of a stage, unless the policy leaves it out.
    fn write(&self, record: &Record, stage: Stage, response: Response<'_>, now: Timestamp) {
        if let Some(event) = record.at(stage, response, now) {
            self.log.write(&event);
        }
    }

    /// Shows how many events are lost among the server's metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.log.register(metrics);
    }

    /// How many events were lost to a slow or full disk.
    pub fn dropped(&self) -> u64 {
        self.log.dropped()
    }
}
