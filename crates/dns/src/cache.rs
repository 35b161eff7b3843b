//! Answers kept in wire form. Readers take no lock: a slot is an atomic pointer to an immutable entry.
//!
//! The table has a fixed number of slots, four to a set. A new entry takes an empty or outlived slot of its set, else
//! one at random.

use crate::{hash::Seed, random, wire::Name};
use arc_swap::ArcSwapOption;
use std::{
    hash::{BuildHasher, Hasher},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const WAYS: usize = 4;

/// What an answer is an answer to. The name is in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: Name,
    /// Type.
    pub rtype: u16,
    pub class: u16,
    /// With DNSSEC records.
    pub dnssec_ok: bool,
    /// Without checks.
    pub cd: bool,
}

/// A kept answer.
#[derive(Debug)]
pub struct Entry {
    name: Box<[u8]>,
    sort: (u16, u16, bool, bool),
    /// Response code.
    pub rcode: u16,
    /// Authoritative answer.
    pub aa: bool,
    /// Recursion available.
    pub ra: bool,
    /// Authentic data.
    pub ad: bool,
    /// Records per section.
    pub counts: [u16; 3],
    /// Records as they were written.
    pub records: Box<[u8]>,
    /// Where TTLs are in them.
    pub lifetimes: Box<[u16]>,
    /// When it was kept.
    pub stored: Instant,
    /// For how long it is good.
    pub ttl: Duration,
    hits: AtomicU32,
    /// Milliseconds after `stored` of the last hit.
    last_hit: AtomicU64,
    refreshing: AtomicU32,
    /// Milliseconds after `stored` until which no fresh one is looked for.
    resting: AtomicU64,
}

impl Entry {
    /// An answer to `key`.
    pub fn new(key: &Key, stored: Instant, ttl: Duration) -> Self {
        Self {
            name: key.name.wire().into(),
            sort: key.sort(),
            rcode: 0,
            aa: false,
            ra: false,
            ad: false,
            counts: [0; 3],
            records: Box::default(),
            lifetimes: Box::default(),
            stored,
            ttl,
            hits: AtomicU32::new(0),
            last_hit: AtomicU64::new(0),
            refreshing: AtomicU32::new(0),
            resting: AtomicU64::new(0),
        }
    }

    fn is(&self, key: &Key) -> bool {
        self.sort == key.sort() && *self.name == *key.name.wire()
    }

    /// What is left of its time; `None` when it is over.
    #[must_use]
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.ttl.checked_sub(now.saturating_duration_since(self.stored)).filter(|left| !left.is_zero())
    }

    /// Counts a hit; hits further apart than `gap` begin anew. Returns how many there were.
    pub fn hit(&self, now: Instant, gap: Duration) -> u32 {
        let at = now.saturating_duration_since(self.stored).as_millis() as u64;
        let before = self.last_hit.swap(at, Ordering::Relaxed);
        if at.saturating_sub(before) > gap.as_millis() as u64 {
            self.hits.store(0, Ordering::Relaxed);
        }
        self.hits.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// After an attempt that failed, looks for no fresh one for so long.
    pub fn rest(&self, now: Instant, length: Duration) {
        if !length.is_zero() {
            let until = now.saturating_duration_since(self.stored) + length;
            self.resting.store(until.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Whether the last attempt failed a short while ago.
    #[must_use]
    pub fn is_resting(&self, now: Instant) -> bool {
        (now.saturating_duration_since(self.stored).as_millis() as u64) < self.resting.load(Ordering::Relaxed)
    }

    /// True for the first who asks: one fetch is enough.
    pub fn claim_refresh(&self) -> bool {
        self.refreshing.swap(1, Ordering::Relaxed) == 0
    }

    /// The fetch failed: somebody else may try.
    pub fn release_refresh(&self) {
        self.refreshing.store(0, Ordering::Relaxed);
    }
}

impl Key {
    fn sort(&self) -> (u16, u16, bool, bool) {
        (self.rtype, self.class, self.dnssec_ok, self.cd)
    }
}

/// A place for an answer.
#[derive(Default)]
struct Slot {
    /// Of its key. Another one's tag spares a look at the entry; the right one proves nothing.
    tag: AtomicU32,
    entry: ArcSwapOption<Entry>,
}

impl Slot {
    fn has(&self, key: &Key) -> bool {
        self.entry.load().as_ref().is_some_and(|entry| entry.is(key))
    }
}

/// A table of answers.
pub struct Cache {
    hasher: Seed,
    slots: Box<[Slot]>,
    entries: AtomicI64,
}

impl Cache {
    /// With room for at least this many.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let sets = capacity.div_ceil(WAYS).max(1);
        let slots = (0..sets * WAYS).map(|_| Slot::default()).collect();
        Self { hasher: Seed::default(), slots, entries: AtomicI64::new(0) }
    }

    /// The four places that a key may have, and its tag.
    fn set(&self, key: &Key) -> (&[Slot], u32) {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key.name.wire());
        hasher.write_u16(key.rtype);
        hasher.write_u16(key.class ^ u16::from(key.dnssec_ok) << 15 ^ u16::from(key.cd) << 14);
        let hash = hasher.finish();
        let start = (hash as usize % (self.slots.len() / WAYS)) * WAYS;
        (&self.slots[start..start + WAYS], (hash >> 32) as u32)
    }

    /// The answer that is kept, good or outlived.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        let (set, tag) = self.set(key);
        set.iter().filter(|slot| slot.tag.load(Ordering::Acquire) == tag).find_map(|slot| {
            let guard = slot.entry.load();
            guard.as_ref().filter(|entry| entry.is(key)).cloned()
        })
    }

    /// Keeps an answer. True when another one had to go.
    pub fn put(&self, key: &Key, entry: Entry, now: Instant) -> bool {
        let (set, tag) = self.set(key);
        let same = set.iter().find(|slot| slot.has(key));
        let free = || set.iter().find(|slot| slot.entry.load().is_none());
        let over = || set.iter().find(|slot| slot.entry.load().as_ref().is_some_and(|entry| entry.left(now).is_none()));
        let (slot, evicts) = match same.or_else(free) {
            Some(slot) => (slot, false),
            None => match over() {
                Some(slot) => (slot, false),
                None => (&set[random::below(WAYS)], true),
            },
        };
        let before = slot.entry.swap(Some(Arc::new(entry)));
        // Who looks between the two misses, and asks upstream once more.
        slot.tag.store(tag, Ordering::Release);
        if before.is_none() {
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
        evicts
    }

    /// Forgets an answer.
    pub fn remove(&self, key: &Key) {
        for slot in self.set(key).0 {
            if slot.has(key) && slot.entry.swap(None).is_some() {
                self.entries.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// How many answers there are, good or outlived.
    #[must_use]
    pub fn len(&self) -> i64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key { name: Name::parse(text).unwrap(), rtype: 1, class: 1, dnssec_ok: false, cd: false }
    }

    #[test]
    fn an_answer_is_found_by_all_of_its_key_and_ages() {
        let cache = Cache::new(100);
        let now = Instant::now();
        let a = key("a.test");
        cache.put(&a, Entry::new(&a, now, Duration::from_secs(10)), now);
        assert!(cache.get(&a).is_some());
        for other in
            [Key { rtype: 28, ..a }, Key { class: 3, ..a }, Key { dnssec_ok: true, ..a }, Key { cd: true, ..a }]
        {
            assert!(cache.get(&other).is_none());
        }
        let entry = cache.get(&a).unwrap();
        assert_eq!(entry.left(now + Duration::from_secs(4)), Some(Duration::from_secs(6)));
        assert_eq!(entry.left(now + Duration::from_secs(10)), None);
        cache.remove(&a);
        assert!(cache.get(&a).is_none() && cache.is_empty());
    }

    #[test]
    fn there_are_never_more_than_it_has_room_for() {
        let cache = Cache::new(64);
        let now = Instant::now();
        let mut evicted = 0;
        for number in 0..1000 {
            let key = key(&format!("n{number}.test"));
            evicted += i64::from(cache.put(&key, Entry::new(&key, now, Duration::from_secs(1)), now));
            assert!(cache.get(&key).is_some());
        }
        assert!(cache.len() <= 64);
        assert_eq!(cache.len() + evicted, 1000);
        let late = now + Duration::from_secs(2);
        let key = key("late.test");
        assert!(!cache.put(&key, Entry::new(&key, late, Duration::from_secs(1)), late));
    }

    #[test]
    fn hits_count_while_they_are_near_each_other() {
        let now = Instant::now();
        let entry = Entry::new(&key("a"), now, Duration::from_secs(100));
        let at = |seconds| now + Duration::from_secs(seconds);
        let gap = Duration::from_secs(5);
        let counts: Vec<u32> = [1, 2, 3, 20, 21].map(|second| entry.hit(at(second), gap)).into();
        assert_eq!(counts, [1, 2, 3, 1, 2]);
        assert!(entry.claim_refresh() && !entry.claim_refresh());
        entry.release_refresh();
        assert!(entry.claim_refresh());
    }
}
