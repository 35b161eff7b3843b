//! What one key held over time.

use crate::entry::Entry;
use std::collections::VecDeque;

/// What a key held from one revision on; nothing once it was deleted. The revision stands here as well as in the entry so
/// that counting a range need not follow a pointer per key.
#[derive(Debug)]
struct Version {
    since: u64,
    entry: Option<Entry>,
}

/// The newest version of a key, and the older ones that a read at an old revision may still ask for.
#[derive(Debug)]
pub(super) struct Versions {
    now: Version,
    older: VecDeque<Version>,
}

impl Versions {
    /// A key that holds `entry`, or nothing, since a revision.
    pub(super) fn new(since: u64, entry: Option<Entry>) -> Self {
        Self { now: Version { since, entry }, older: VecDeque::new() }
    }

    pub(super) fn now(&self) -> Option<&Entry> {
        self.now.entry.as_ref()
    }

    pub(super) fn at(&self, revision: u64) -> Option<&Entry> {
        if self.now.since <= revision {
            return self.now();
        }
        self.older.iter().rev().find(|version| version.since <= revision)?.entry.as_ref()
    }

    pub(super) fn push(&mut self, since: u64, entry: Option<Entry>) {
        self.older.push_back(std::mem::replace(&mut self.now, Version { since, entry }));
    }

    /// Forgets what no read at `oldest` or later can see. False if that leaves nothing of the key.
    pub(super) fn prune(&mut self, oldest: u64) -> bool {
        while let Some(successor) = self.older.get(1).or_else(|| self.older.front().map(|_| &self.now))
            && successor.since <= oldest
        {
            self.older.pop_front();
        }
        if self.older.is_empty() {
            self.older.shrink_to_fit();
        }
        !self.older.is_empty() || self.now.entry.is_some() || self.now.since > oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Stamp;
    use bytes::Bytes;

    fn live(revision: u64) -> Option<Entry> {
        let stamp = Stamp { create_revision: revision, mod_revision: revision, version: 1, deadline: None };
        Some(Entry::new("k".into(), Bytes::new(), stamp))
    }

    #[test]
    fn pruning_keeps_what_a_read_at_the_oldest_revision_sees() {
        for oldest in 0..12 {
            let mut versions = Versions::new(2, live(2));
            versions.push(5, None);
            versions.push(7, live(7));
            versions.push(9, None);
            let expected: Vec<_> = (oldest..12).map(|at| versions.at(at).map(Entry::mod_revision)).collect();
            let kept = versions.prune(oldest);
            let got: Vec<_> = (oldest..12).map(|at| versions.at(at).map(Entry::mod_revision)).collect();
            assert_eq!(got, expected, "oldest {oldest}");
            assert_eq!(kept, oldest < 9, "oldest {oldest}");
        }
    }
}
