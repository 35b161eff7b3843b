//! The engine that numbers revisions itself: one writer thread, with group commit into a log.
//!
//! Callers queue transactions. The writer takes all that wait, decides them one after the other against the state plus the
//! group's own changes, makes the group durable in one step, shows it, and only then answers. So nothing is ever visible
//! that a crash could take back, and a slow disk makes groups larger instead of queues longer.

mod history;
mod log;
mod redb;
mod writer;

use self::{
    history::Past,
    log::Log,
    redb::Redb,
    writer::{Job, Queue, Writer},
};
use crate::{
    engine::{Engine, Health},
    entry::Entry,
    error::{OpenError, ReadError, TxnError, Unavailable},
    mirror::Mirror,
    mvcc::{Mvcc, Retention},
    transform::Transform,
    txn::{Committed, Txn},
};
use futures::{FutureExt, future::BoxFuture};
use std::{path::Path, sync::Arc};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Local {
    cluster_id: String,
    mirror: Arc<Mirror>,
    queue: Arc<Queue>,
    writer: Option<std::thread::JoinHandle<()>>,
}

/// What a log held when it was opened.
#[derive(Debug)]
struct Opened {
    cluster_id: String,
    revision: u64,
    /// The oldest revision that is known, and what was there then.
    oldest: u64,
    entries: Vec<Entry>,
    /// What has happened since `oldest`.
    past: Vec<Past>,
}

impl Opened {
    fn empty(cluster_id: String) -> Self {
        Self { cluster_id, revision: 1, oldest: 1, entries: Vec::new(), past: Vec::new() }
    }
}

/// Opens the redb file at `path`.
pub(crate) fn open(
    path: &Path,
    retention: Retention,
    transform: Arc<dyn Transform>,
) -> Result<(Arc<Mirror>, Local), OpenError> {
    let (log, opened) = Redb::open(path, transform)?;
    Local::start(Some(Box::new(log)), opened, retention).map_err(|source| OpenError::Io { path: path.into(), source })
}

impl Local {
    /// An engine without a log.
    pub(crate) fn memory(retention: Retention) -> (Arc<Mirror>, Self) {
        Self::start(None, Opened::empty(uuid::Uuid::new_v4().to_string()), retention)
            .expect("a process that cannot start a thread cannot run anything else either")
    }

    fn start(log: Option<Box<dyn Log>>, opened: Opened, retention: Retention) -> std::io::Result<(Arc<Mirror>, Self)> {
        let Opened { cluster_id, revision, oldest, entries, past } = opened;
        let mut state = Mvcc::new(entries, oldest, retention);
        for (at, event) in past {
            let since = event.revision();
            state.apply(vec![event], since, at);
        }
        debug_assert_eq!(state.revision(), revision, "the history leads to the newest revision");
        let mirror = Arc::new(Mirror::new(state));
        mirror.trim();
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(Arc::clone(&mirror), Arc::clone(&queue), log);
        let writer = std::thread::Builder::new().name("store-writer".into()).spawn(move || writer.run())?;
        Ok((Arc::clone(&mirror), Self { cluster_id, mirror, queue, writer: Some(writer) }))
    }
}

impl Engine for Local {
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, TxnError>> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Job { txn, reply });
        // A writer that panics drops what waits before it can say so. It is not a close: this call still holds the store.
        let stopped = || self.queue.failure().unwrap_or_else(|| Unavailable::new(writer::STOPPED));
        async move { answer.await.unwrap_or_else(|_| Err(stopped().into())) }.boxed()
    }

    fn current(&self) -> BoxFuture<'_, Result<u64, Unavailable>> {
        std::future::ready(Ok(self.mirror.read().revision())).boxed()
    }

    fn compact(&self, to: u64) -> BoxFuture<'_, Result<(), ReadError>> {
        std::future::ready(self.mirror.compact(to)).boxed()
    }

    fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    fn health(&self) -> Health {
        self.queue.failure().map_or(Health::Ready, |failure| Health::Failing(failure.to_string()))
    }
}

impl Drop for Local {
    /// Waits for the writer, so that the file is closed and unlocked when the last handle is gone.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{log::LogError, *};
    use crate::{event::Event, txn::Op};
    use bytes::Bytes;

    /// A disk that fails from the second group on.
    #[derive(Debug)]
    struct Failing(u64);

    impl Log for Failing {
        fn append(&mut self, _: &[Event], revision: u64, _: u64) -> Result<(), LogError> {
            if revision > self.0 { Err(LogError("disk on fire".into())) } else { Ok(()) }
        }
    }

    /// A disk that takes the writer with it.
    #[derive(Debug)]
    struct Panicking;

    impl Log for Panicking {
        fn append(&mut self, _: &[Event], _: u64, _: u64) -> Result<(), LogError> {
            panic!("a mistake in the log")
        }
    }

    fn start(log: impl Log + 'static) -> (Arc<Mirror>, Local) {
        Local::start(Some(Box::new(log)), Opened::empty("test".into()), Retention::default()).unwrap()
    }

    fn put(key: &str) -> Txn {
        Txn::of([Op::Put(key.into(), Bytes::new())])
    }

    #[tokio::test]
    async fn what_the_disk_did_not_take_is_never_seen_and_nothing_follows_it() {
        let (mirror, engine) = start(Failing(2));
        assert_eq!(engine.commit(put("a")).await, Ok(Committed { revision: 2 }));
        for key in ["b", "c"] {
            let error = engine.commit(put(key)).await.expect_err("the disk failed");
            let text =
                "the store is unavailable: writing to disk failed, and the store must be opened again: disk on fire";
            assert_eq!(error.to_string(), text);
            assert_eq!(engine.health(), Health::Failing(text.into()));
            assert_eq!(mirror.read().get(key), None);
        }
        assert_eq!(engine.current().await, Ok(2));
        assert!(mirror.read().get("a").is_some(), "reads go on");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_writer_that_is_gone() {
        let (_mirror, engine) = start(Panicking);
        for _ in 0..2 {
            let error = engine.commit(put("a")).await.expect_err("the writer is gone").to_string();
            assert_eq!(error, "the store is unavailable: the writer has stopped; the store must be opened again");
        }
    }
}
