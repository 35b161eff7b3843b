//! The one thread that changes a local store: groups, decides, makes durable, shows, answers; and deletes what has expired.

use super::log::Log;
use crate::{
    entry::{Deadline, Entry, Key},
    error::{TxnError, Unavailable},
    event::Event,
    mirror::Mirror,
    txn::{self, Committed, Compare, Op, Txn},
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::sync::oneshot;

/// The largest group: bounds how long the first of a group waits for the last.
const GROUP: usize = 1_000;

/// How often the history is trimmed by age while nobody writes.
const TRIM_EVERY: Duration = Duration::from_secs(10);

/// Why nothing more is written once the writer is gone.
pub(super) const STOPPED: &str = "the writer has stopped; the store must be opened again";

/// A transaction and who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) txn: Txn,
    pub(super) reply: oneshot::Sender<Result<Committed, TxnError>>,
}

/// Who waits, and what for.
type Answer = (oneshot::Sender<Result<Committed, TxnError>>, Result<Committed, TxnError>);

/// What waits for the writer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<Job>,
    closed: bool,
    failure: Option<Unavailable>,
}

impl Queue {
    pub(super) fn push(&self, job: Job) {
        let mut waiting = self.waiting.lock();
        // A dropped job answers its caller that the writer has stopped.
        if waiting.failure.is_none() && !waiting.closed {
            waiting.jobs.push(job);
            drop(waiting);
            self.wake.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_one();
    }

    pub(super) fn failure(&self) -> Option<Unavailable> {
        self.waiting.lock().failure.clone()
    }

    /// The next group, empty after `patience`; `None` once the store is closed and all is done.
    fn take(&self, patience: Duration) -> Option<Vec<Job>> {
        let mut waiting = self.waiting.lock();
        if waiting.jobs.is_empty() && !waiting.closed {
            self.wake.wait_for(&mut waiting, patience);
        }
        if waiting.jobs.is_empty() && waiting.closed {
            return None;
        }
        let group = waiting.jobs.len().min(GROUP);
        Some(waiting.jobs.drain(..group).collect())
    }

    fn fail(&self, failure: &Unavailable) {
        let mut waiting = self.waiting.lock();
        waiting.failure.get_or_insert_with(|| failure.clone());
        waiting.jobs.clear();
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    mirror: Arc<Mirror>,
    queue: Arc<Queue>,
    log: Option<Box<dyn Log>>,
    expiring: BTreeSet<(Deadline, Key)>,
}

/// The changes of one group, not yet durable.
#[derive(Default)]
struct Group {
    events: Vec<Event>,
    /// What the keys of `events` hold after them.
    latest: HashMap<Key, Option<Entry>>,
}

impl Writer {
    pub(super) fn new(mirror: Arc<Mirror>, queue: Arc<Queue>, log: Option<Box<dyn Log>>) -> Self {
        let expiring = mirror.read().live().filter_map(expiry).collect();
        Self { mirror, queue, log, expiring }
    }

    pub(super) fn run(mut self) {
        while let Some(mut jobs) = self.queue.take(self.patience()) {
            if self.queue.failure().is_some() {
                continue;
            }
            jobs.extend(self.expired(Deadline::now()));
            if jobs.is_empty() {
                // The log follows with the empty group.
                self.mirror.trim();
            }
            for (reply, answer) in self.commit(jobs) {
                // A caller who no longer waits does not mind.
                _ = reply.send(answer);
            }
        }
        // What was compacted shall not come back with the next start.
        if self.queue.failure().is_none() {
            self.commit(Vec::new());
        }
    }

    /// How long nothing needs to be done if nobody writes.
    fn patience(&self) -> Duration {
        let due = self
            .expiring
            .first()
            .map(|(deadline, _)| Duration::from_millis(deadline.0.saturating_sub(Deadline::now().0)));
        due.unwrap_or(TRIM_EVERY).min(TRIM_EVERY)
    }

    /// Deletions of what is due. Whoever overwrites a key in the same group is decided first, and the comparison then fails.
    fn expired(&self, now: Deadline) -> Vec<Job> {
        let state = self.mirror.read();
        let due = self.expiring.iter().take_while(|(deadline, _)| *deadline <= now).take(GROUP);
        due.filter_map(|(_, key)| state.get(key))
            .map(|entry| {
                let txn = Txn::of([Op::Delete(entry.key().clone())]);
                let txn = txn.when(entry.key().clone(), Compare::ModRevision(entry.mod_revision()));
                Job { txn, reply: oneshot::channel().0 }
            })
            .collect()
    }

    /// Decides a group and makes it last. No answers mean that the disk failed.
    fn commit(&mut self, jobs: Vec<Job>) -> Vec<Answer> {
        let now = Deadline::now();
        let (mut revision, oldest) = {
            let state = self.mirror.read();
            (state.revision(), state.oldest())
        };
        let mut group = Group::default();
        let mut answers = Vec::with_capacity(jobs.len());
        for Job { txn, reply } in jobs {
            let decided = {
                let state = self.mirror.read();
                txn::plan(&txn, revision, now, |key| match group.latest.get(key) {
                    Some(changed) => changed.clone(),
                    None => state.get(key),
                })
            };
            let answer = decided.map_err(TxnError::Conflict).map(|events| {
                if !events.is_empty() {
                    revision += 1;
                    group.latest.extend(events.iter().map(|event| (event.key().clone(), event.entry().cloned())));
                    group.events.extend(events);
                }
                Committed { revision }
            });
            answers.push((reply, answer));
        }
        if let Some(log) = &mut self.log
            && let Err(error) = log.append(&group.events, revision, oldest)
        {
            tracing::error!(%error, "the store accepts no more writes");
            let text = format!("writing to disk failed, and the store must be opened again: {error}");
            self.queue.fail(&Unavailable::new(text));
            // What is on disk is not known, so nothing that was written later could be trusted.
            self.expiring.clear();
            // Dropping the real answers sends every caller to the failure.
            return Vec::new();
        }
        for event in &group.events {
            if let Some(expiry) = event.previous().and_then(expiry) {
                self.expiring.remove(&expiry);
            }
            self.expiring.extend(event.entry().and_then(expiry));
        }
        if !group.events.is_empty() {
            self.mirror.apply(group.events, revision);
        }
        answers
    }
}

impl Drop for Writer {
    /// Also when unwinding: nobody may wait for a writer that is gone.
    fn drop(&mut self) {
        self.queue.fail(&Unavailable::new(STOPPED));
    }
}

fn expiry(entry: &Entry) -> Option<(Deadline, Key)> {
    entry.stamp().deadline.map(|deadline| (deadline, entry.key().clone()))
}
