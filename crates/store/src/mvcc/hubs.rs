//! Who has to hear of a change: one hub per watched prefix, or prefix and tag, found by the key that changed and its tags.
//!
//! A hub is the ring of events filtered by its prefix. All watchers of a prefix share it, each with its own cursor, so a
//! change costs one push per distinct prefix that matches, however many watch; and a write elsewhere wakes nobody.

use super::tags::{Tags, Topic};
use crate::{bell::Bell, event::Event};
use futures::task::AtomicWaker;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

/// Where a cursor starts: half way, since a watch from an older revision puts events in front of the first.
const MIDDLE: u64 = u64::MAX / 2;

/// The events of one prefix.
#[derive(Debug)]
pub(super) struct Hub {
    events: VecDeque<Arc<Event>>,
    /// The cursor of `events[0]`.
    first: u64,
    /// Every matching event after this revision is in `events`.
    covers: u64,
    bell: Arc<Bell>,
}

impl Hub {
    fn new(covers: u64) -> Self {
        Self { events: VecDeque::new(), first: MIDDLE, covers, bell: Arc::default() }
    }

    pub(super) fn covers(&self) -> u64 {
        self.covers
    }

    /// Puts `earlier` (matching, newest first) in front; the hub then covers everything after `covers`.
    pub(super) fn extend_back(&mut self, covers: u64, earlier: impl Iterator<Item = Arc<Event>>) {
        for event in earlier {
            self.events.push_front(event);
            self.first -= 1;
        }
        self.covers = covers;
    }

    /// The cursor of the first event after `revision`.
    pub(super) fn cursor_after(&self, revision: u64) -> u64 {
        self.first + self.events.partition_point(|event| event.revision() <= revision) as u64
    }

    /// The events from `cursor` on; `None` if some were trimmed before the cursor got to them.
    pub(super) fn from(&self, cursor: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        let skip = usize::try_from(cursor.checked_sub(self.first)?).ok()?;
        Some(self.events.range(skip.min(self.events.len())..))
    }
}

/// All hubs: of whole prefixes, and by tag.
#[derive(Debug, Default)]
pub(super) struct Hubs {
    whole: Prefixes,
    tagged: HashMap<Arc<str>, Prefixes>,
}

impl Hubs {
    pub(super) fn get(&self, topic: &Topic) -> Option<&Hub> {
        match &topic.tag {
            Some(tag) => self.tagged.get(tag)?.get(&topic.prefix),
            None => self.whole.get(&topic.prefix),
        }
    }

    /// The hub of a topic, with one more watcher to wake. A new one covers what comes after `revision`.
    pub(super) fn join(&mut self, topic: &Topic, revision: u64, waker: Arc<AtomicWaker>) -> &mut Hub {
        let prefixes = match &topic.tag {
            Some(tag) => self.tagged.entry(Arc::clone(tag)).or_default(),
            None => &mut self.whole,
        };
        prefixes.join(&topic.prefix, revision, waker)
    }

    /// Takes a watcher away, and the hub with its last one.
    pub(super) fn leave(&mut self, topic: &Topic, waker: &Arc<AtomicWaker>) {
        let Some(tag) = &topic.tag else { return self.whole.leave(&topic.prefix, waker) };
        if let Some(prefixes) = self.tagged.get_mut(tag) {
            prefixes.leave(&topic.prefix, waker);
            if prefixes.0.is_empty() {
                self.tagged.remove(tag);
            }
        }
    }

    /// Hands `event` to every hub that it concerns; `rung` collects whom to wake.
    pub(super) fn push(&mut self, event: &Arc<Event>, tags: &Tags, rung: &mut Vec<Arc<Bell>>) {
        self.concerned(tags, |prefixes| prefixes.push(event, rung));
    }

    /// Forgets `event`, the oldest of all.
    pub(super) fn trim(&mut self, event: &Event, tags: &Tags) {
        self.concerned(tags, |prefixes| prefixes.trim(event));
    }

    /// Notes that nothing up to `revision` can be had any more.
    pub(super) fn trimmed_to(&mut self, revision: u64) {
        self.all_mut().for_each(|hub| hub.covers = hub.covers.max(revision));
    }

    pub(super) fn bells(&self) -> Vec<Arc<Bell>> {
        let all = std::iter::once(&self.whole).chain(self.tagged.values()).flat_map(|prefixes| prefixes.0.values());
        all.map(|hub| Arc::clone(&hub.bell)).collect()
    }

    /// Forgets all events; the watchers stay to be told why.
    pub(super) fn clear(&mut self, revision: u64) {
        self.all_mut().for_each(|hub| {
            hub.events.clear();
            hub.covers = revision;
        });
    }

    fn concerned(&mut self, tags: &Tags, mut visit: impl FnMut(&mut Prefixes)) {
        visit(&mut self.whole);
        for tag in tags.iter() {
            if let Some(prefixes) = self.tagged.get_mut(tag) {
                visit(prefixes);
            }
        }
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Hub> {
        std::iter::once(&mut self.whole).chain(self.tagged.values_mut()).flat_map(|prefixes| prefixes.0.values_mut())
    }
}

#[derive(Debug, Default)]
struct Prefixes(BTreeMap<Arc<str>, Hub>);

impl Prefixes {
    fn get(&self, prefix: &str) -> Option<&Hub> {
        self.0.get(prefix)
    }

    fn join(&mut self, prefix: &Arc<str>, revision: u64, waker: Arc<AtomicWaker>) -> &mut Hub {
        let hub = self.0.entry(Arc::clone(prefix)).or_insert_with(|| Hub::new(revision));
        hub.bell.join(waker);
        hub
    }

    fn leave(&mut self, prefix: &str, waker: &Arc<AtomicWaker>) {
        let Some(hub) = self.0.get(prefix) else { return };
        if hub.bell.leave(waker) {
            self.0.remove(prefix);
        }
    }

    fn push(&mut self, event: &Arc<Event>, rung: &mut Vec<Arc<Bell>>) {
        self.for_each_prefix_of(event.key(), |hub| {
            hub.events.push_back(Arc::clone(event));
            if !rung.iter().any(|bell| Arc::ptr_eq(bell, &hub.bell)) {
                rung.push(Arc::clone(&hub.bell));
            }
        });
    }

    fn trim(&mut self, event: &Event) {
        self.for_each_prefix_of(event.key(), |hub| {
            if hub.covers < event.revision() {
                hub.events.pop_front();
                hub.first += 1;
            }
        });
    }

    /// Visits the hubs whose prefix `key` starts with, longest first.
    ///
    /// Every prefix of `key` sorts at or before it. Going down from there, a hub that does not match shares only some first
    /// characters with `key`, and every match still to come is a prefix of just those; so each step jumps there.
    fn for_each_prefix_of(&mut self, key: &str, mut visit: impl FnMut(&mut Hub)) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let mut bound = Included(key.len());
        loop {
            let upper = bound.map(|end| &key[..end]);
            let Some((prefix, hub)) = self.0.range_mut::<str, _>((Unbounded, upper)).next_back() else { return };
            if key.starts_with(&**prefix) {
                visit(hub);
                bound = Excluded(prefix.len());
            } else {
                let shared = prefix.bytes().zip(key.bytes()).take_while(|(one, other)| one == other).count();
                bound = Included(key.floor_char_boundary(shared));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn exactly_the_hubs_of_prefixes_are_visited(
            prefixes in prop::collection::btree_set("[ab/é]{0,5}", 0..20),
            key in "[ab/é]{0,7}",
        ) {
            let mut hubs = Prefixes::default();
            for (number, prefix) in prefixes.iter().enumerate() {
                hubs.join(&prefix.as_str().into(), number as u64, Arc::default());
            }
            let mut expected: Vec<_> = (0..).zip(&prefixes).filter(|(_, prefix)| key.starts_with(*prefix)).map(|(number, _)| number).collect();
            let mut visited = Vec::new();
            hubs.for_each_prefix_of(&key, |hub| visited.push(hub.covers));
            expected.reverse();
            prop_assert_eq!(visited, expected);
        }
    }
}
