//! The state in memory, shared: engines write to it what is durable, every read and watch comes from it.

use crate::{
    bell::{Bell, Ringer},
    entry::Entry,
    error::ReadError,
    event::Event,
    mvcc::Mvcc,
};
use parking_lot::{RwLock, RwLockReadGuard};
use std::{sync::Arc, time::Instant};
use tokio::sync::watch;

/// How many entries a list copies before it lets a waiting writer pass.
const STRIDE: usize = 2_000;

#[derive(Debug)]
pub(crate) struct Mirror {
    state: RwLock<Mvcc>,
    revision: watch::Sender<u64>,
    ringer: Ringer,
}

/// What `Mirror::list` found.
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    pub(crate) revision: u64,
    pub(crate) remaining: usize,
}

impl Mirror {
    pub(crate) fn new(state: Mvcc) -> Self {
        Self { revision: watch::Sender::new(state.revision()), state: RwLock::new(state), ringer: Ringer::default() }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Mvcc> {
        self.state.read()
    }

    /// Changes the state under the lock, then wakes whom the change concerns.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Mvcc) -> (T, Vec<Arc<Bell>>)) -> T {
        let mut state = self.state.write();
        let (answer, bells) = change(&mut state);
        let revision = state.revision();
        drop(state);
        self.revision.send_if_modified(|known| std::mem::replace(known, revision) != revision);
        self.ringer.ring(bells);
        answer
    }

    /// Applies durable events in the order of their revisions.
    pub(crate) fn apply(&self, events: Vec<Event>, revision: u64) {
        // Before the lock: what a tag is read from is kept with the entry, and nobody waits for the reading.
        let tagger = self.state.read().tagger().clone();
        events.iter().for_each(|event| drop(tagger.tags(event)));
        self.write(|state| ((), state.apply(events, revision, Instant::now())));
    }

    /// Forgets what is too old.
    pub(crate) fn trim(&self) {
        self.write(|state| (state.trim(Instant::now()), Vec::new()));
    }

    pub(crate) fn compact(&self, to: u64) -> Result<(), ReadError> {
        self.write(|state| (state.compact(to), Vec::new()))
    }

    /// Waits until the state has come to `revision`.
    pub(crate) async fn reached(&self, revision: u64) {
        // An error would mean that the sender is gone, and it lives in self.
        _ = self.revision.subscribe().wait_for(|known| *known >= revision).await;
    }

    /// Lists a prefix at one revision, in strides: what was overwritten meanwhile is read from the history.
    pub(crate) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Found, ReadError> {
        match self.list_in_strides(prefix, after, limit, at, STRIDE) {
            // The history was compacted between two strides; a caller who asked for "now" need not know.
            Err(ReadError::Compacted { .. }) if at.is_none() => {
                self.list_in_strides(prefix, after, limit, at, usize::MAX)
            }
            other => other,
        }
    }

    fn list_in_strides(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
        stride: usize,
    ) -> Result<Found, ReadError> {
        let mut state = self.state.read();
        let revision = at.unwrap_or_else(|| state.revision());
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let before = entries.len();
            let wanted = stride.min(limit - before);
            let last = entries.last().cloned();
            let after = last.as_ref().map_or(after, |entry| Some(&**entry.key()));
            let mut rest = state.range(prefix, after, revision)?;
            entries.extend(rest.by_ref().take(wanted).cloned());
            let exhausted = entries.len() - before < wanted;
            if exhausted || entries.len() == limit {
                // Counted, not copied, and without following a pointer per key.
                let remaining = if exhausted { 0 } else { rest.count() };
                return Ok(Found { entries, revision, remaining });
            }
            drop(rest);
            RwLockReadGuard::bump(&mut state);
        }
    }
}
