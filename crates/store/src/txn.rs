//! Transactions: what a caller asks for, and the pure decision of what becomes of it.
//!
//! `plan` is used by the local engine, whose writer decides itself; etcd decides on its own by the same rules, which the
//! model test in `tests/model.rs` holds both to.

use crate::{
    entry::{Deadline, Entry, Key, Stamp},
    error::{Conflict, KeyFault},
    event::Event,
};
use bytes::Bytes;
use std::{collections::HashSet, time::Duration};

/// Writes that happen together, at one revision, if all comparisons hold. Without writes it only compares.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Txn {
    /// What must hold, per key.
    pub compare: Vec<(Key, Compare)>,
    /// What is then done. Each key at most once.
    pub ops: Vec<Op>,
}

/// What must be true of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// The key does not exist.
    Absent,
    /// The key exists, whatever it holds.
    Exists,
    /// The key exists and was last written by this revision.
    ModRevision(u64),
}

/// One write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Creates or overwrites; a time to live that the key had is gone.
    Put(Key, Bytes),
    /// Like `Put`, and the store deletes the key after that time. etcd rounds it up to seconds.
    PutTtl(Key, Bytes, Duration),
    /// Deletes; nothing happens if the key is absent.
    Delete(Key),
}

/// A transaction that was carried out, and is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The revision of its writes; the current one if it changed nothing.
    pub revision: u64,
}

impl Txn {
    /// A transaction with no comparisons.
    pub fn of(ops: impl IntoIterator<Item = Op>) -> Self {
        Self { compare: Vec::new(), ops: ops.into_iter().collect() }
    }

    /// The same with one more comparison.
    #[must_use]
    pub fn when(mut self, key: impl Into<Key>, compare: Compare) -> Self {
        self.compare.push((key.into(), compare));
        self
    }

    /// Everything that is wrong with the keys.
    pub(crate) fn faults(&self) -> Vec<KeyFault> {
        let mut faults = Vec::new();
        let mut written = HashSet::new();
        let compared = self.compare.iter().map(|(key, _)| key);
        for key in compared.chain(self.ops.iter().map(Op::key)) {
            if key.is_empty() {
                faults.push(KeyFault::Empty);
            } else if key.contains('\0') {
                faults.push(KeyFault::Nul(key.clone()));
            }
        }
        for op in &self.ops {
            if !written.insert(op.key()) {
                faults.push(KeyFault::Repeated(op.key().clone()));
            }
            if let Op::PutTtl(key, _, ttl) = op
                && ttl.as_millis() == 0
            {
                faults.push(KeyFault::NoTime(key.clone()));
            }
        }
        faults
    }
}

impl Op {
    /// The key it writes.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::PutTtl(key, _, _) | Self::Delete(key) => key,
        }
    }
}

impl Compare {
    /// Whether it holds for what the key has now.
    pub(crate) fn holds(self, current: Option<&Entry>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Exists => current.is_some(),
            Self::ModRevision(revision) => current.is_some_and(|entry| entry.mod_revision() == revision),
        }
    }
}

/// What `txn` does to the state that `lookup` shows, if it got the revision after `revision` at the time `now`.
/// No events means that nothing changes and no revision is used.
pub(crate) fn plan(
    txn: &Txn,
    revision: u64,
    now: Deadline,
    lookup: impl Fn(&Key) -> Option<Entry>,
) -> Result<Vec<Event>, Box<Conflict>> {
    let current: Vec<_> = txn.compare.iter().map(|(key, _)| (key.clone(), lookup(key))).collect();
    let compared = txn.compare.iter().zip(&current);
    let failed: Vec<_> = compared
        .filter(|((_, compare), (_, entry))| !compare.holds(entry.as_ref()))
        .map(|((key, _), _)| key.to_string())
        .collect();
    if !failed.is_empty() {
        return Err(Box::new(Conflict { revision, failed, current }));
    }
    let next = revision + 1;
    let put = |key: &Key, value: &Bytes, deadline| {
        let previous = lookup(key);
        let (create_revision, version) =
            previous.as_ref().map_or((next, 1), |entry| (entry.create_revision(), entry.version() + 1));
        let stamp = Stamp { create_revision, mod_revision: next, version, deadline };
        Event::Put { entry: Entry::new(key.clone(), value.clone(), stamp), previous }
    };
    Ok(txn
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Put(key, value) => Some(put(key, value, None)),
            Op::PutTtl(key, value, ttl) => {
                let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                Some(put(key, value, Some(Deadline(now.0.saturating_add(millis)))))
            }
            Op::Delete(key) => lookup(key).map(|previous| Event::Delete { revision: next, previous }),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_of_a_transaction_are_reported_together() {
        let txn = Txn::of([
            Op::Delete("a".into()),
            Op::Put("a".into(), Bytes::new()),
            Op::PutTtl("b".into(), Bytes::new(), Duration::ZERO),
            Op::Delete("x\0".into()),
        ])
        .when("", Compare::Exists);
        let text = crate::TxnError::Invalid(txn.faults()).to_string();
        assert_eq!(
            text,
            "invalid transaction: a key is empty; it must have at least one character; \
             key \"x\\0\" contains a NUL character; any other is accepted; \
             key \"a\" is written more than once; a transaction writes a key at most once; \
             key \"b\" has a time to live of zero; at least one millisecond is accepted"
        );
    }

    #[test]
    fn comparisons_decide_before_anything_is_written() {
        let stamp = Stamp { create_revision: 4, mod_revision: 6, version: 2, deadline: None };
        let held = Entry::new("held".into(), Bytes::from_static(b"x"), stamp);
        let lookup = |key: &Key| (&**key == "held").then(|| held.clone());
        for (key, compare, holds) in [
            ("held", Compare::Absent, false),
            ("held", Compare::Exists, true),
            ("held", Compare::ModRevision(6), true),
            ("held", Compare::ModRevision(4), false),
            ("none", Compare::Absent, true),
            ("none", Compare::Exists, false),
            ("none", Compare::ModRevision(0), false),
        ] {
            let txn = Txn::of([Op::Delete("held".into())]).when(key, compare);
            let outcome = plan(&txn, 9, Deadline(0), lookup);
            assert_eq!(outcome.is_ok(), holds, "{key} {compare:?}");
        }
    }

    #[test]
    fn deleting_what_is_not_there_changes_nothing() {
        assert_eq!(plan(&Txn::of([Op::Delete("a".into())]), 9, Deadline(0), |_| None), Ok(Vec::new()));
    }
}
