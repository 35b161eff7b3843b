//! Running one task, once or again and again. Called by `Tasks`.

use super::Inner;
use crate::{backoff, http::BoxError};
use std::{any::Any, fmt, future::Future, sync::Arc};
use tokio::{
    task::{AbortHandle, JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{Instrument, Span};

/// A task that must not fail has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The task's name.
    pub task: String,
    /// Its error or panic message.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} failed: {}", self.task, self.reason)
    }
}

impl std::error::Error for Failure {}

/// The one place where tasks begin: everything that is spawned here is in a span with the task's name, and joined by
/// `Tasks`.
#[allow(clippy::disallowed_methods, reason = "this is what the others are told to use")]
fn spawn<T: Send + 'static>(span: Span, future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(future.instrument(span))
}

/// Begins a task. Log lines name it alone, not who began it.
pub(super) fn named(name: &str, future: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn(tracing::info_span!(parent: None, "task", name), future)
}

/// Work that ends by itself or with what it serves: a connection, the start of one container. Log lines name it; nobody waits for it.
pub fn beside<F>(name: &str, future: F) -> AbortHandle
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    named(name, async move { drop(future.await) }).abort_handle()
}

pub(super) async fn once<F, E>(tasks: Arc<Inner>, name: Arc<str>, future: F)
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    let run = tasks.watch.run(&name);
    let ended = AbortOnDropHandle::new(spawn(Span::current(), future)).await;
    drop(run);
    if let Err(reason) = outcome(ended) {
        tracing::error!(reason, "task failed");
        let failure = Failure { task: name.to_string(), reason };
        tasks.failure.send_if_modified(|first| {
            let is_first = first.is_none();
            if is_first {
                *first = Some(failure);
            }
            is_first
        });
    }
}

pub(super) async fn restarting<F, E>(
    tasks: Arc<Inner>,
    name: Arc<str>,
    run: impl Fn(CancellationToken) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    let stop = tasks.working.clone();
    let shown = tasks.watch.restartable(&name);
    let run = Arc::new(run);
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let counted = tasks.watch.run(&name);
        // In a task of its own, so that a panic ends there; and inside it, so that one while setting up does as well.
        let attempt = {
            let (run, stop) = (Arc::clone(&run), stop.clone());
            async move { run(stop).await }
        };
        let ended = AbortOnDropHandle::new(spawn(Span::current(), attempt)).await;
        drop(counted);
        let Err(reason) = outcome(ended) else { return };
        if stop.is_cancelled() {
            tracing::warn!(reason, "task failed while stopping");
            return;
        }
        // A task that ran for long has recovered from what was wrong before.
        failures = if begun.elapsed() > tasks.backoff.cap { 1 } else { failures + 1 };
        let pause = tasks.backoff.delay(failures, backoff::random());
        tracing::error!(reason, failures, ?pause, "task failed and will be restarted");
        shown.waits(&reason);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => shown.restarts(),
        }
    }
}

/// The error, or the words of the panic.
fn outcome<E: Into<BoxError>>(ended: Result<Result<(), E>, JoinError>) -> Result<(), String> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.into().to_string()),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Err(format!("panic: {}", words(&*panic))),
            // Only an abort is left, and nobody waits for an aborted task.
            Err(_) => Ok(()),
        },
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without words")
}
