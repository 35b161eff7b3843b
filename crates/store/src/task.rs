//! A background task with a name that ends when its handle is dropped. Used by the etcd engine.

use std::future::Future;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// Aborts its task when dropped.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Task {
    /// Starts `work` on the current tokio runtime, with `name` on everything it logs.
    #[expect(
        clippy::disallowed_methods,
        reason = "this crate sits below runtime::task; a task here ends with its store"
    )]
    pub(crate) fn start(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work.instrument(tracing::info_span!("store", task = name))).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
