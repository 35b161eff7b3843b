//! The loop of a controller: take a key, reconcile it, decide when to look at it again.

use super::{Queue, Result};
use crate::client::{error_line, is_unreachable};
use futures::{FutureExt, future};
use std::{fmt::Display, hash::Hash, panic::AssertUnwindSafe, time::Duration};

/// When to look at a key again without anything having changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not until it changes.
    Done,
    /// After this long.
    After(Duration),
}

/// What a controller does for one key.
pub trait Reconcile: Sync {
    /// What it is keyed by; mostly [`Key`](super::Key).
    type Key: Clone + Ord + Hash + Display + Send + Sync;

    /// Brings one key from what is to what should be, from the stores alone. Never waits for anything but the API.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next>> + Send;
}

/// Reconciles keys as they come, `workers` at a time, never one key twice at a time. An error or a panic concerns its key
/// alone: it is logged and tried again, later each time. Ends only by being dropped.
pub async fn work<R: Reconcile>(queue: &Queue<R::Key>, workers: usize, controller: &R) -> Result<()> {
    let worker = || async {
        loop {
            let key = queue.next().await;
            let outcome = AssertUnwindSafe(controller.reconcile(&key)).catch_unwind().await;
            match outcome {
                Ok(Ok(next)) => {
                    queue.succeeded(&key);
                    if let Next::After(delay) = next {
                        queue.add_after(key.clone(), delay);
                    }
                }
                Ok(Err(error)) => {
                    // Somebody else was faster, the first attempts at something new, or an API that is away, which is told
                    // once for all: nothing to wake anyone for.
                    if queue.failures(&key) < 3 || is_unreachable(&*error) {
                        tracing::debug!(%key, error = error_line(&*error), "not done; tried again");
                    } else {
                        tracing::warn!(%key, error = error_line(&*error), "fails repeatedly; tried again");
                    }
                    queue.retry(key.clone());
                }
                Err(_) => {
                    tracing::error!(%key, "panicked; tried again");
                    queue.retry(key.clone());
                }
            }
            queue.done(&key);
        }
    };
    let workers: Vec<_> = (0..workers.max(1)).map(|_| worker()).collect();
    let _: Vec<()> = future::join_all(workers).await;
    Ok(())
}
