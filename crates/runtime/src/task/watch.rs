//! What is shown of tasks: `twinstack_task_restarts_total`, `twinstack_task_running`, and a check in `/readyz` for
//! those that are restarted. Called by `run`.

use crate::{
    health::{Health, Scope},
    metrics::Metrics,
};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use std::sync::Arc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Label {
    task: String,
}

/// Where tasks report.
#[derive(Debug)]
pub(super) struct Watch {
    restarts: Family<Label, Counter>,
    running: Family<Label, Gauge>,
    health: Health,
}

impl Watch {
    pub(super) fn new(metrics: &Metrics, health: &Health) -> Self {
        Self {
            restarts: metrics.register(
                "twinstack_task_restarts",
                "Restarts after an error or a panic",
                Family::default(),
            ),
            running: metrics.register("twinstack_task_running", "Runs of the task at this moment", Family::default()),
            health: health.clone(),
        }
    }

    /// Counts a run until what it returns is dropped.
    pub(super) fn run(&self, name: &str) -> Run {
        let gauge = self.running.get_or_create(&Label { task: name.to_owned() }).clone();
        gauge.inc();
        Run(gauge)
    }

    /// Makes a check for a task that may be restarted. It passes while the task runs.
    pub(super) fn restartable(&self, name: &str) -> Restartable {
        let restarts = self.restarts.get_or_create(&Label { task: name.to_owned() }).clone();
        let waiting: Arc<Mutex<Option<String>>> = Arc::default();
        let check = format!("task-{name}");
        let seen = Arc::clone(&waiting);
        self.health.add(&check, Scope::Ready, move || seen.lock().clone().map_or(Ok(()), Err));
        Restartable { restarts, waiting, check, health: self.health.clone() }
    }
}

pub(super) struct Run(Gauge);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A restartable task's counter and check; the check goes when this is dropped.
pub(super) struct Restartable {
    restarts: Counter,
    waiting: Arc<Mutex<Option<String>>>,
    check: String,
    health: Health,
}

impl Restartable {
    pub(super) fn waits(&self, reason: &str) {
        *self.waiting.lock() = Some(format!("waits to be restarted after: {reason}"));
    }

    pub(super) fn restarts(&self) {
        self.restarts.inc();
        *self.waiting.lock() = None;
    }
}

impl Drop for Restartable {
    fn drop(&mut self) {
        self.health.remove(&self.check);
    }
}
