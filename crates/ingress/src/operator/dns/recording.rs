//! A provider that keeps its zones in memory, for tests: what it was asked, what it holds, and failures on demand.

use parking_lot::Mutex;
use runtime::cloud::{Answer, CloudError, DnsEntry, DnsProvider, DnsZone};
use std::collections::BTreeMap;

/// A DNS service in memory.
#[derive(Debug, Default)]
pub struct Recording {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<(String, String), DnsEntry>,
    calls: Vec<String>,
    failures: Vec<(String, CloudError)>,
}

impl Recording {
    /// The next call about this zone fails; several wait for their turns.
    pub fn fail(&self, zone: &str, error: CloudError) {
        self.state.lock().failures.push((zone.to_owned(), error));
    }

    /// What it was asked since the last time: `ensure ZONE NAME -> TARGETS` and `delete ZONE NAME`.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().calls)
    }

    /// What it holds: `ZONE NAME SORTS -> TARGETS`.
    pub fn records(&self) -> Vec<String> {
        let state = self.state.lock();
        let line = |((zone, name), entry): (&(String, String), &DnsEntry)| {
            let sorts = if entry.dual_stack { "A+AAAA" } else { "A" };
            format!("{zone} {name} {sorts} -> {}", entry.targets.join(","))
        };
        state.records.iter().map(line).collect()
    }

    fn call(&self, zone: &DnsZone, line: String) -> Result<(), CloudError> {
        let mut state = self.state.lock();
        state.calls.push(line);
        let zone = name(zone);
        match state.failures.iter().position(|(of, _)| *of == zone) {
            Some(at) => Err(state.failures.remove(at).1),
            None => Ok(()),
        }
    }
}

fn name(zone: &DnsZone) -> String {
    zone.id.clone().unwrap_or_else(|| zone.tags.values().cloned().collect::<Vec<_>>().join(","))
}

impl DnsProvider for Recording {
    fn name(&self) -> &str {
        "recording"
    }

    fn ensure<'a>(&'a self, zone: &'a DnsZone, entry: &'a DnsEntry) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            self.call(zone, format!("ensure {} {} -> {}", name(zone), entry.name, entry.targets.join(",")))?;
            self.state.lock().records.insert((name(zone), entry.name.clone()), entry.clone());
            Ok(Some(format!("Z-{}", entry.targets.first().map_or("", |target| target.split('.').next().unwrap_or("")))))
        })
    }

    fn delete<'a>(&'a self, zone: &'a DnsZone, entry: &'a DnsEntry) -> Answer<'a, ()> {
        Box::pin(async move {
            self.call(zone, format!("delete {} {}", name(zone), entry.name))?;
            let mut state = self.state.lock();
            let key = (name(zone), entry.name.clone());
            // Exactly what is there of the entry: another target is another's record.
            if state.records.get(&key).is_some_and(|known| known.targets == entry.targets) {
                state.records.remove(&key);
            }
            Ok(())
        })
    }
}
