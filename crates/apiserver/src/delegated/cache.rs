//! Answers of others, kept for a while, so that they are not asked for every request.

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

/// More than this are not in use at one time; then it starts anew.
const MOST: usize = 8192;

/// Answers with the time until which each holds.
pub(super) struct Cache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.0.lock().get(key).filter(|(until, _)| *until > now).map(|(_, value)| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V, now: Instant, holds: Duration) {
        if holds.is_zero() {
            return;
        }
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (now + holds, value));
    }
}
