//! Sets in memory. For tests and `--dry-run`: refuses what the kernel refuses.

use super::{Change, Entry, Ipset, IpsetError, Kind, Set};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Sets in memory.
#[derive(Debug, Default)]
pub struct FakeIpset {
    sets: Mutex<BTreeMap<String, (Set, BTreeSet<Entry>)>>,
    /// All that was asked for, in order.
    log: Mutex<Vec<Change>>,
}

impl FakeIpset {
    /// All entries as text, in order.
    #[must_use]
    pub fn listing(&self) -> String {
        let mut text = String::new();
        for (name, (set, entries)) in &*self.sets.lock() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name} {}", set.kind);
            for entry in entries {
                let _ = writeln!(text, "  {entry}");
            }
        }
        text
    }

    /// What was asked for since this was last called.
    pub fn take_log(&self) -> Vec<Change> {
        std::mem::take(&mut self.log.lock())
    }
}

impl Ipset for FakeIpset {
    fn make(&self, set: &Set) -> Result<(), IpsetError> {
        if set.name.len() > 31 {
            return Err(refused(set, "make it", "its name is longer than 31 bytes"));
        }
        let mut sets = self.sets.lock();
        let (there, _) = sets.entry(set.name.clone()).or_insert_with(|| (set.clone(), BTreeSet::new()));
        if there == set { Ok(()) } else { Err(refused(set, "make it", "a set of another type has this name")) }
    }

    fn entries(&self, set: &Set) -> Result<Option<Vec<Entry>>, IpsetError> {
        Ok(self.sets.lock().get(&set.name).map(|(_, entries)| entries.iter().copied().collect()))
    }

    fn change(&self, changes: &[Change]) -> Result<(), IpsetError> {
        let mut sets = self.sets.lock();
        for change in changes {
            self.log.lock().push(change.clone());
            let (Change::Add(set, entry) | Change::Remove(set, entry)) = change;
            let Some((_, entries)) = sets.get_mut(&set.name) else {
                return Err(refused(set, "change it", "there is no such set"));
            };
            if !fits(set.kind, entry) {
                return Err(refused(set, "change it", "the entry is of another kind"));
            }
            match change {
                Change::Add(..) => entries.insert(*entry),
                Change::Remove(..) => entries.remove(entry),
            };
        }
        Ok(())
    }

    fn destroy(&self, set: &Set) -> Result<(), IpsetError> {
        self.sets.lock().remove(&set.name);
        Ok(())
    }
}

fn fits(kind: Kind, entry: &Entry) -> bool {
    matches!(
        (kind, entry),
        (Kind::Ip, Entry::Ip(_))
            | (Kind::IpPort, Entry::IpPort(..))
            | (Kind::IpPortIp, Entry::IpPortIp(..))
            | (Kind::IpPortNet, Entry::IpPortNet(..))
    )
}

fn refused(set: &Set, what: &'static str, why: &str) -> IpsetError {
    IpsetError { set: set.name.clone(), what, why: why.to_owned() }
}
