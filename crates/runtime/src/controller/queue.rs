//! Keys that wait to be worked on: each once, one worker at a time, later if asked, slower while it fails.

use super::context::QueueMetrics;
use crate::backoff::{self, Backoff};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    fmt,
    hash::Hash,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// A queue; clones share it.
pub struct Queue<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    state: Mutex<State<T>>,
    ready: Notify,
    backoff: Backoff,
    metrics: Option<QueueMetrics>,
}

struct State<T> {
    /// In line, oldest first; exactly those of `waiting` that nobody works on.
    line: VecDeque<T>,
    waiting: HashSet<T>,
    working: HashSet<T>,
    later: BTreeSet<(Instant, T)>,
    due: HashMap<T, Instant>,
    failures: HashMap<T, u32>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("line", &self.inner.state.lock().line.len()).finish_non_exhaustive()
    }
}

impl<T: Clone + Ord + Hash> Queue<T> {
    /// An empty queue whose retries are `backoff` apart.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        Self::with_metrics(backoff, None)
    }

    pub(super) fn with_metrics(backoff: Backoff, metrics: Option<QueueMetrics>) -> Self {
        let state = State {
            line: VecDeque::new(),
            waiting: HashSet::new(),
            working: HashSet::new(),
            later: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), ready: Notify::new(), backoff, metrics }) }
    }

    /// Puts a key in line, unless it stands there already. One that is being worked on is worked on again afterwards.
    pub fn add(&self, key: T) {
        let mut state = self.inner.state.lock();
        if state.put(key) {
            self.inner.ready.notify_one();
        }
        self.show(&state, true);
    }

    /// Puts a key in line after a while; of several whiles the shortest counts.
    pub fn add_after(&self, key: T, delay: Duration) {
        let due = Instant::now() + delay;
        let mut state = self.inner.state.lock();
        match state.due.get(&key).copied() {
            Some(known) if known <= due => return,
            Some(known) => drop(state.later.remove(&(known, key.clone()))),
            None => {}
        }
        state.due.insert(key.clone(), due);
        state.later.insert((due, key));
        // Whoever sleeps until a later key must look again.
        self.inner.ready.notify_one();
    }

    /// Puts a key that failed in line again, later each time.
    pub fn retry(&self, key: T) {
        let failures = {
            let mut state = self.inner.state.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures += 1;
            *failures
        };
        if let Some(metrics) = &self.inner.metrics {
            metrics.retries.inc();
        }
        self.add_after(key, self.inner.backoff.delay(failures, backoff::random()));
    }

    /// Ends the count of failures of a key.
    pub fn succeeded(&self, key: &T) {
        self.inner.state.lock().failures.remove(key);
    }

    /// How often a key failed in a row.
    pub fn failures(&self, key: &T) -> u32 {
        self.inner.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Whether nothing is in line and nobody works; keys for later do not count.
    pub fn is_idle(&self) -> bool {
        let state = self.inner.state.lock();
        state.waiting.is_empty() && state.working.is_empty()
    }

    /// The next key, when there is one. It is the caller's until [`Queue::done`].
    pub async fn next(&self) -> T {
        loop {
            let ready = self.inner.ready.notified();
            let wake = {
                let mut state = self.inner.state.lock();
                state.move_due(Instant::now());
                if let Some(key) = state.line.pop_front() {
                    state.waiting.remove(&key);
                    state.working.insert(key.clone());
                    if !state.line.is_empty() || !state.later.is_empty() {
                        self.inner.ready.notify_one();
                    }
                    self.show(&state, false);
                    return key;
                }
                state.later.first().map(|(due, _)| *due)
            };
            match wake {
                None => ready.await,
                Some(due) => {
                    // Either way there is something to look at.
                    let _ = tokio::time::timeout_at(due, ready).await;
                }
            }
        }
    }

    /// Gives a key back. If it was added meanwhile, it is in line again.
    pub fn done(&self, key: &T) {
        let mut state = self.inner.state.lock();
        state.working.remove(key);
        if state.waiting.contains(key) {
            state.line.push_back(key.clone());
            self.inner.ready.notify_one();
        }
    }

    fn show(&self, state: &State<T>, added: bool) {
        if let Some(metrics) = &self.inner.metrics {
            metrics.depth.set(i64::try_from(state.line.len()).unwrap_or(i64::MAX));
            if added {
                metrics.adds.inc();
            }
        }
    }
}

impl<T: Clone + Ord + Hash> State<T> {
    /// Whether the key is now in line because of this.
    fn put(&mut self, key: T) -> bool {
        if !self.waiting.insert(key.clone()) || self.working.contains(&key) {
            return false;
        }
        self.line.push_back(key);
        true
    }

    fn move_due(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, key)) = self.later.pop_first() else { return };
            self.due.remove(&key);
            self.put(key);
        }
    }
}
