//! Named tasks: every piece of work that runs beside another. Used by all components instead of `tokio::spawn`.
//!
//! A task has a name, by which it is logged, counted and, if it may be restarted, shown in `/readyz`. At shutdown the
//! tasks that serve are told first, then those that work; who does not end in time is aborted and named.

mod run;
mod watch;

use crate::{backoff::Backoff, health::Health, http::BoxError, metrics::Metrics};
use parking_lot::Mutex;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use watch::Watch;

pub use run::{Failure, beside};

/// The tasks of this process; clones share them.
#[derive(Clone, Debug)]
pub struct Tasks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    serving: CancellationToken,
    working: CancellationToken,
    running: Mutex<Vec<Running>>,
    failure: tokio::sync::watch::Sender<Option<Failure>>,
    watch: Arc<Watch>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Running {
    name: Arc<str>,
    phase: Phase,
    handle: JoinHandle<()>,
}

/// When a task is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    Working,
}

impl Tasks {
    /// No tasks yet. Restarts begin after half a second and are never more than a minute apart.
    #[must_use]
    pub fn new(metrics: &Metrics, health: &Health) -> Self {
        let backoff = Backoff { first: Duration::from_millis(500), cap: Duration::from_secs(60) };
        Self::with_backoff(metrics, health, backoff)
    }

    /// As [`Tasks::new`], with other pauses between restarts.
    #[must_use]
    pub fn with_backoff(metrics: &Metrics, health: &Health, backoff: Backoff) -> Self {
        let inner = Inner {
            serving: CancellationToken::new(),
            working: CancellationToken::new(),
            running: Mutex::default(),
            failure: tokio::sync::watch::Sender::default(),
            watch: Arc::new(Watch::new(metrics, health)),
            backoff,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Tasks that can be stopped before the others. They are told when the others are, too, but whoever made them has to
    /// stop them; a failure among them ends the process all the same.
    #[must_use]
    pub fn group(&self) -> Self {
        let Inner { serving, working, running: _, failure, watch, backoff } = &*self.inner;
        let inner = Inner {
            serving: serving.child_token(),
            working: working.child_token(),
            running: Mutex::default(),
            failure: failure.clone(),
            watch: Arc::clone(watch),
            backoff: *backoff,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs a task that takes connections or packets: it is told to stop before the others. Its failure ends the
    /// process.
    pub fn serve<F, E>(&self, name: &str, run: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let future = run(self.inner.serving.clone());
        self.start(name, Phase::Serving, |name| run::once(Arc::clone(&self.inner), name, future));
    }

    /// Runs a task once. Its failure ends the process: what can be tried again belongs into [`Tasks::restarting`].
    pub fn once<F, E>(&self, name: &str, run: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let future = run(self.inner.working.clone());
        self.start(name, Phase::Working, |name| run::once(Arc::clone(&self.inner), name, future));
    }

    /// Runs a task, and again after each error or panic, with growing pauses. It ends for good when it returns `Ok`.
    pub fn restarting<F, E>(&self, name: &str, run: impl Fn(CancellationToken) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        self.start(name, Phase::Working, |name| run::restarting(Arc::clone(&self.inner), name, run));
    }

    /// Waits until a task that must not fail has failed.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.inner.failure.subscribe();
        let failure = failure.wait_for(Option::is_some).await.expect("the sender lives in self");
        failure.clone().expect("waited for")
    }

    /// Ends all tasks within `grace`: those that serve get up to half of it before the others are told. Returns the
    /// names of those that had to be aborted. Tasks started from now on see that they are to stop.
    pub async fn stop(&self, grace: Duration) -> Vec<String> {
        let deadline = tokio::time::Instant::now() + grace;
        let half_time = deadline - grace / 2;
        self.inner.serving.cancel();
        let _late_servers_get_the_other_half =
            tokio::time::timeout_at(half_time, self.ended(Some(Phase::Serving))).await;
        self.inner.working.cancel();
        let _late_tasks_are_aborted = tokio::time::timeout_at(deadline, self.ended(None)).await;
        self.abort()
    }

    /// Ends all tasks that still run, at once. Returns their names.
    pub fn abort(&self) -> Vec<String> {
        let running = std::mem::take(&mut *self.inner.running.lock());
        let late = running.into_iter().filter(|task| !task.handle.is_finished());
        late.map(|task| {
            task.handle.abort();
            tracing::warn!(task = &*task.name, "task aborted at shutdown");
            task.name.to_string()
        })
        .collect()
    }

    fn start<F>(&self, name: &str, phase: Phase, run: impl FnOnce(Arc<str>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name: Arc<str> = name.into();
        let handle = run::named(&name, run(Arc::clone(&name)));
        let mut running = self.inner.running.lock();
        running.retain(|task| !task.handle.is_finished());
        running.push(Running { name, phase, handle });
    }

    /// Waits until no task (of `phase`) runs. Tasks that end may start others, so it looks again after each.
    async fn ended(&self, phase: Option<Phase>) {
        loop {
            let next = {
                let mut running = self.inner.running.lock();
                let position = running.iter().position(|task| phase.is_none_or(|phase| task.phase == phase));
                position.map(|position| running.swap_remove(position))
            };
            let Some(task) = next else { return };
            Waiting { tasks: self, task: Some(task) }.await_end().await;
        }
    }
}

/// A task that is being waited for. Put back if the wait is given up, so that it can still be aborted and named.
struct Waiting<'a> {
    tasks: &'a Tasks,
    task: Option<Running>,
}

impl Waiting<'_> {
    async fn await_end(mut self) {
        if let Some(task) = &mut self.task {
            let _panics_are_handled_inside = (&mut task.handle).await;
        }
        self.task = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.tasks.inner.running.lock().extend(self.task.take());
    }
}

#[cfg(test)]
mod tests;
