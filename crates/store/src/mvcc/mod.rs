//! The state in memory: every key with its recent versions, the ring of recent events, and the hubs of the watchers.
//!
//! Plain data under the lock of `mirror`; nothing here waits. A version that was overwritten and the event that overwrote it
//! are forgotten together, so the ring's limits bound the whole history.

mod hubs;
mod tags;
mod versions;

use self::hubs::Hubs;
pub(crate) use self::tags::{TagOf, Tagger, Topic};
use self::{
    tags::{TaggedKeys, Tags},
    versions::Versions,
};
use crate::{
    bell::Bell,
    entry::{Entry, Key},
    error::{ReadError, WatchError},
    event::Event,
};
use futures::task::AtomicWaker;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
    time::{Duration, Instant},
};

/// How much history is kept for reads at old revisions and for watches from them. The first limit that is hit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// How long a change is remembered. With etcd also how often, and how far back, etcd is compacted.
    pub age: Duration,
    /// How many changes are remembered.
    pub events: usize,
    /// How many bytes of overwritten and deleted values are remembered.
    pub bytes: usize,
}

impl Default for Retention {
    /// Five minutes is how long a Kubernetes client may take to page through a list.
    fn default() -> Self {
        Self { age: Duration::from_secs(300), events: 100_000, bytes: 128 << 20 }
    }
}

/// What an event costs beside the value it replaced: its allocations and its places in the ring and in hubs.
const EVENT_OVERHEAD: usize = 256;

#[derive(Debug)]
struct Slot {
    event: Arc<Event>,
    tags: Tags,
    at: Instant,
    cost: usize,
}

#[derive(Debug)]
pub(crate) struct Mvcc {
    keys: BTreeMap<Key, Versions>,
    ring: VecDeque<Slot>,
    ring_bytes: usize,
    /// How many slots, from the front, have had their overwritten versions dropped by an explicit compaction.
    pruned: usize,
    hubs: Hubs,
    tagger: Tagger,
    tagged: TaggedKeys,
    revision: u64,
    /// The oldest revision that can be read at or watched from.
    oldest: u64,
    retention: Retention,
    /// Counts how often everything was replaced; a watcher of an earlier epoch has missed changes.
    epoch: u64,
    closed: bool,
}

/// Where a watcher is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    index: u64,
    epoch: u64,
}

impl Mvcc {
    pub(crate) fn new(entries: impl IntoIterator<Item = Entry>, revision: u64, retention: Retention) -> Self {
        Self {
            keys: live(entries),
            ring: VecDeque::new(),
            ring_bytes: 0,
            pruned: 0,
            hubs: Hubs::default(),
            tagger: Tagger::default(),
            tagged: TaggedKeys::default(),
            revision,
            oldest: revision,
            retention,
            epoch: 0,
            closed: false,
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The oldest revision that can be read at or watched from.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn get(&self, key: &str) -> Option<Entry> {
        self.keys.get(key)?.now().cloned()
    }

    pub(crate) fn get_at(&self, key: &str, revision: u64) -> Result<Option<Entry>, ReadError> {
        self.readable(revision)?;
        Ok(self.keys.get(key).and_then(|versions| versions.at(revision)).cloned())
    }

    /// The entries at `revision` with this prefix and after this key, in order.
    pub(crate) fn range<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        revision: u64,
    ) -> Result<impl Iterator<Item = &'a Entry>, ReadError> {
        self.readable(revision)?;
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let after_all = successor(prefix);
        let end = after_all.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        // A range that ends before it starts, which the map would panic at: `after` lies behind the prefix.
        let is_empty = matches!((start, end), (Bound::Excluded(start), Bound::Excluded(end)) if start >= end);
        let range = (!is_empty).then(|| self.keys.range::<str, _>((start, end)));
        Ok(range.into_iter().flatten().filter_map(move |(_, versions)| versions.at(revision)))
    }

    pub(crate) fn tagger(&self) -> &Tagger {
        &self.tagger
    }

    /// Tags what is remembered, and from now on what is written.
    pub(crate) fn tag_by(&mut self, tagger: Tagger) {
        for slot in &mut self.ring {
            slot.tags = tagger.tags(&slot.event);
        }
        self.tagged = TaggedKeys::of(&tagger, self.keys.values().filter_map(Versions::now));
        self.tagger = tagger;
    }

    /// The entries of a tag that are live now and whose keys start with `prefix`, in order.
    pub(crate) fn tagged<'a>(&'a self, tag: &str, prefix: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.tagged.get(tag, prefix).filter_map(|key| self.keys.get(&**key)?.now())
    }

    /// Everything that is live now.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.keys.values().filter_map(Versions::now)
    }

    /// Applies events in the order of their revisions, then moves to `revision`. Answers whom to wake.
    pub(crate) fn apply(&mut self, events: Vec<Event>, revision: u64, now: Instant) -> Vec<Arc<Bell>> {
        let mut rung = Vec::new();
        for event in events {
            let (since, entry) = (event.revision(), event.entry().cloned());
            match self.keys.get_mut(&**event.key()) {
                Some(versions) => versions.push(since, entry),
                None => _ = self.keys.insert(event.key().clone(), Versions::new(since, entry)),
            }
            let cost = EVENT_OVERHEAD + event.key().len() + event.previous().map_or(0, |entry| entry.value().len());
            let tags = self.tagger.tags(&event);
            let event = Arc::new(event);
            self.hubs.push(&event, &tags, &mut rung);
            self.tagged.apply(event.key(), &tags);
            self.ring_bytes += cost;
            self.ring.push_back(Slot { event, tags, at: now, cost });
        }
        self.revision = self.revision.max(revision);
        self.trim(now);
        rung
    }

    /// Replaces everything, for want of the changes in between. All watchers end.
    pub(crate) fn reset(&mut self, entries: impl IntoIterator<Item = Entry>, revision: u64) -> Vec<Arc<Bell>> {
        self.keys = live(entries);
        self.tagged = TaggedKeys::of(&self.tagger, self.keys.values().filter_map(Versions::now));
        self.ring.clear();
        self.ring_bytes = 0;
        self.pruned = 0;
        self.hubs.clear(revision);
        self.revision = revision;
        self.oldest = revision;
        self.epoch += 1;
        self.hubs.bells()
    }

    /// Forgets what is beyond the retention.
    pub(crate) fn trim(&mut self, now: Instant) {
        let Retention { age, events, bytes } = self.retention;
        let mut last = None;
        while let Some(slot) = self.ring.front() {
            let over = self.ring.len() > events || self.ring_bytes > bytes || now.duration_since(slot.at) > age;
            // Once begun, a revision goes as a whole: the oldest one readable is a whole one.
            if !over && last != Some(slot.event.revision()) {
                break;
            }
            let slot = self.ring.pop_front().expect("it was just seen");
            let revision = slot.event.revision();
            last = Some(revision);
            self.ring_bytes -= slot.cost;
            self.hubs.trim(&slot.event, &slot.tags);
            if self.pruned > 0 {
                self.pruned -= 1;
            } else {
                self.prune(slot.event.key(), revision);
            }
        }
        if let Some(revision) = last {
            self.oldest = self.oldest.max(revision);
            self.hubs.trimmed_to(revision);
        }
    }

    /// Drops the history before `to`. Watchers under way keep the events they have not yet had.
    pub(crate) fn compact(&mut self, to: u64) -> Result<(), ReadError> {
        self.readable(to)?;
        self.oldest = to;
        while let Some(slot) = self.ring.get(self.pruned)
            && slot.event.revision() <= to
        {
            let key = slot.event.key().clone();
            self.pruned += 1;
            self.prune(&key, to);
        }
        Ok(())
    }

    /// Registers a watcher for what changes after `from`.
    pub(crate) fn watch(&mut self, topic: &Topic, from: u64, waker: Arc<AtomicWaker>) -> Result<Cursor, ReadError> {
        self.readable(from)?;
        let hub = self.hubs.join(topic, self.revision, waker);
        let covers = hub.covers();
        if from < covers {
            let start = self.ring.partition_point(|slot| slot.event.revision() <= from);
            let end = self.ring.partition_point(|slot| slot.event.revision() <= covers);
            let missed = self.ring.range(start..end).rev().filter(|slot| topic.covers(&slot.event, &slot.tags));
            hub.extend_back(from, missed.map(|slot| Arc::clone(&slot.event)));
        }
        Ok(Cursor { index: hub.cursor_after(from), epoch: self.epoch })
    }

    pub(crate) fn unwatch(&mut self, topic: &Topic, waker: &Arc<AtomicWaker>) {
        self.hubs.leave(topic, waker);
    }

    /// Moves up to `limit` events from `cursor` on into `buffer`.
    pub(crate) fn read(
        &self,
        topic: &Topic,
        cursor: &mut Cursor,
        buffer: &mut VecDeque<Arc<Event>>,
        limit: usize,
    ) -> Result<(), WatchError> {
        let before = buffer.len();
        buffer.extend(self.pending(topic, *cursor)?.take(limit).cloned());
        cursor.index += (buffer.len() - before) as u64;
        Ok(())
    }

    /// The revision up to which a watcher at `cursor` has had everything.
    pub(crate) fn progress(&self, topic: &Topic, cursor: Cursor) -> Result<u64, WatchError> {
        Ok(self.pending(topic, cursor)?.next().map_or(self.revision, |event| event.revision() - 1))
    }

    /// Ends all watchers once they have had what there is.
    pub(crate) fn close(&mut self) -> Vec<Arc<Bell>> {
        self.closed = true;
        self.hubs.bells()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    fn pending(&self, topic: &Topic, cursor: Cursor) -> Result<impl Iterator<Item = &Arc<Event>>, WatchError> {
        if cursor.epoch != self.epoch {
            return Err(WatchError::Compacted { oldest: self.oldest });
        }
        let hub = self.hubs.get(topic).ok_or(WatchError::Closed)?;
        hub.from(cursor.index).ok_or(WatchError::Lagged { oldest: self.oldest })
    }

    fn readable(&self, revision: u64) -> Result<(), ReadError> {
        if revision > self.revision {
            return Err(ReadError::FutureRevision { requested: revision, current: self.revision });
        }
        if revision < self.oldest {
            return Err(ReadError::Compacted { requested: revision, oldest: self.oldest });
        }
        Ok(())
    }

    fn prune(&mut self, key: &Key, oldest: u64) {
        if let Some(versions) = self.keys.get_mut(&**key)
            && !versions.prune(oldest)
        {
            self.keys.remove(&**key);
        }
    }
}

fn live(entries: impl IntoIterator<Item = Entry>) -> BTreeMap<Key, Versions> {
    let held = |entry: Entry| (entry.key().clone(), Versions::new(entry.mod_revision(), Some(entry)));
    entries.into_iter().map(held).collect()
}

/// The first text after all that start with `prefix`; `None` if there is none.
fn successor(prefix: &str) -> Option<String> {
    let (rest, next) = prefix.char_indices().rev().find_map(|(index, last)| {
        let next = (last..=char::MAX).nth(1)?;
        Some((&prefix[..index], next))
    })?;
    Some(format!("{rest}{next}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_starts_with_a_prefix_is_what_lies_between_it_and_its_successor(
            prefix in "[a-c\u{d7ff}\u{10ffff}]{0,3}",
            text in "[a-d\u{d7ff}\u{e000}\u{10ffff}]{0,5}",
        ) {
            let between = text >= prefix && successor(&prefix).is_none_or(|end| text < end);
            prop_assert_eq!(text.starts_with(&prefix), between);
        }
    }
}
