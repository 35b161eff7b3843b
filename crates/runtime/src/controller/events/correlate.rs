//! Which events are new, which are one more of the same, and which are too many. Pure; the numbers are client-go's.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use std::collections::{BTreeSet, HashMap};

/// So many that differ only in their note become one.
const SIMILAR: usize = 10;
/// If they come within this time.
const SIMILAR_FOR: SignedDuration = SignedDuration::from_secs(600);
/// So many are told about an object at once, and then one in a while.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// How much is remembered.
const REMEMBERED: usize = 4096;

/// What there is to tell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) kind: &'static str,
    pub(super) object: ObjectReference,
    pub(super) reason: String,
    pub(super) note: String,
}

/// What is written: the event of this name, for the `count`th time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) name: String,
    pub(super) told: Told,
    pub(super) count: i32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

/// An object of which something is told.
type Subject = (String, String, String, String);

#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// By subject, type, reason and note.
    known: HashMap<(Subject, &'static str, String, String), Known>,
    /// By subject, type and reason: the notes of late.
    similar: HashMap<(Subject, &'static str, String), (BTreeSet<String>, Timestamp)>,
    /// How much may still be told, and when that was counted.
    allowance: HashMap<Subject, (f64, Timestamp)>,
}

#[derive(Debug)]
struct Known {
    name: String,
    count: i32,
    first: Timestamp,
    last: Timestamp,
}

impl Correlator {
    /// What to write; nothing when it is too much. `unique` makes the name of a new event another than those of before.
    pub(super) fn take(&mut self, mut told: Told, now: Timestamp, unique: u64) -> Option<Write> {
        self.forget(now);
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let object = &told.object;
        let subject = (text(&object.kind), text(&object.namespace), text(&object.name), text(&object.uid));
        let (notes, last) = self
            .similar
            .entry((subject.clone(), told.kind, told.reason.clone()))
            .or_insert_with(|| (BTreeSet::new(), now));
        if now.duration_since(*last) > SIMILAR_FOR {
            notes.clear();
        }
        *last = now;
        notes.insert(told.note.clone());
        // All that are combined are counted as one, whatever their notes.
        let counted = if notes.len() >= SIMILAR {
            notes.pop_first();
            told.note = format!("(combined from similar events): {}", told.note);
            String::new()
        } else {
            told.note.clone()
        };
        if !self.may_tell(&subject, now) {
            return None;
        }
        let stem = text(&told.object.name);
        let known = self.known.entry((subject, told.kind, told.reason.clone(), counted)).or_insert_with(|| Known {
            name: format!("{stem}.{unique:016x}"),
            count: 0,
            first: now,
            last: now,
        });
        known.count = known.count.saturating_add(1);
        known.last = now;
        Some(Write { name: known.name.clone(), told, count: known.count, first: known.first, last: now })
    }

    fn may_tell(&mut self, subject: &Subject, now: Timestamp) -> bool {
        let (left, counted) = self.allowance.entry(subject.clone()).or_insert((BURST, now));
        *left = (*left + now.duration_since(*counted).as_secs_f64() / REFILL_SECONDS).min(BURST);
        *counted = now;
        let may = *left >= 1.0;
        if may {
            *left -= 1.0;
        }
        may
    }

    fn forget(&mut self, now: Timestamp) {
        let recent = |at: Timestamp| now.duration_since(at) <= SIMILAR_FOR;
        if self.known.len() > REMEMBERED {
            self.known.retain(|_, known| recent(known.last));
        }
        if self.similar.len() > REMEMBERED {
            self.similar.retain(|_, (_, last)| recent(*last));
        }
        if self.allowance.len() > REMEMBERED {
            self.allowance.retain(|_, (_, counted)| recent(*counted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, note: &str) -> Told {
        let object =
            ObjectReference { kind: Some("Pod".into()), name: Some(name.into()), ..ObjectReference::default() };
        Told { kind: "Warning", object, reason: "FailedScheduling".into(), note: note.into() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn the_same_again_is_counted() {
        let mut correlator = Correlator::default();
        let first = correlator.take(told("a", "no room"), at(0), 7).unwrap();
        let again = correlator.take(told("a", "no room"), at(5), 7).unwrap();
        let other = correlator.take(told("b", "no room"), at(5), 7).unwrap();
        assert_eq!((first.count, again.count, other.count), (1, 2, 1));
        assert_eq!((&again.name, again.first, again.last), (&first.name, at(0), at(5)));
        assert_eq!((first.name.as_str(), other.name.as_str()), ("a.0000000000000007", "b.0000000000000007"));
    }

    #[test]
    fn many_that_differ_only_in_their_note_become_one() {
        let mut correlator = Correlator::default();
        let all: Vec<Write> =
            (0..12).map(|i| correlator.take(told("a", &format!("try {i}")), at(i), 7).unwrap()).collect();
        assert_eq!((all[8].told.note.as_str(), all[8].count), ("try 8", 1));
        assert_eq!((all[9].told.note.as_str(), all[9].count), ("(combined from similar events): try 9", 1));
        assert_eq!((all[11].told.note.as_str(), all[11].count), ("(combined from similar events): try 11", 3));
        assert_eq!(all[9].name, all[11].name);
        let late = correlator.take(told("a", "later"), at(2000), 7).unwrap();
        assert_eq!(late.told.note, "later");
    }

    #[test]
    fn too_much_about_one_object_is_told_more_slowly() {
        let mut correlator = Correlator::default();
        let written = (0..40).filter(|_| correlator.take(told("a", "again"), at(0), 7).is_some()).count();
        assert_eq!(written, 25);
        assert!(correlator.take(told("b", "again"), at(0), 7).is_some(), "another one");
        assert!(correlator.take(told("a", "again"), at(299), 7).is_none());
        assert!(correlator.take(told("a", "again"), at(301), 7).is_some());
    }
}
