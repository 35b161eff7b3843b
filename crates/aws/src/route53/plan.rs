//! What has to change so that a name leads where it should. Pure.

use super::names::same_target;
use crate::account::{Leads, RecordChange, RecordSet};
use runtime::cloud::DnsEntry;

impl RecordSet {
    fn leads_to(&self, host: &str) -> bool {
        match &self.leads {
            Leads::Alias { target, .. } | Leads::Name { target, .. } => same_target(target, host),
            Leads::Elsewhere => false,
        }
    }

    /// Whether it says the same as one that is wanted.
    fn fits(&self, wanted: &Self) -> bool {
        let same = match (&self.leads, &wanted.leads) {
            (Leads::Alias { zone, .. }, Leads::Alias { target, zone: wanted }) => {
                zone == wanted && self.leads_to(target)
            }
            (Leads::Name { ttl, .. }, Leads::Name { target, ttl: wanted }) => ttl == wanted && self.leads_to(target),
            _ => false,
        };
        self.kind == wanted.kind && same
    }
}

fn fresh(entry: &DnsEntry, kind: &str, leads: Leads) -> RecordSet {
    RecordSet { kind: kind.to_owned(), leads, as_read: None, name: entry.name.clone() }
}

/// The aliases of an entry, one per family that the load balancer may have.
pub(super) fn aliases(entry: &DnsEntry, target: &str, zone: &str) -> Vec<RecordSet> {
    let kinds: &[&str] = if entry.dual_stack { &["A", "AAAA"] } else { &["A"] };
    let alias = || Leads::Alias { target: target.to_owned(), zone: zone.to_owned() };
    kinds.iter().map(|kind| fresh(entry, kind, alias())).collect()
}

/// The plain name of an entry, where there are no aliases.
pub(super) fn name_of(entry: &DnsEntry, target: &str) -> RecordSet {
    fresh(entry, "CNAME", Leads::Name { target: target.to_owned(), ttl: entry.ttl.into() })
}

/// All that is wanted is written together when one of it is not so. An alias for IPv6 that nobody wants any more goes if it is ours: it leads where
/// the entry leads, or where the name's alias for IPv4 leads, with which it was written.
pub(super) fn ensure(there: &[RecordSet], wanted: &[RecordSet], target: &str) -> Vec<RecordChange> {
    let fits = |wanted: &RecordSet| there.iter().any(|record| record.fits(wanted));
    let mut steps = Vec::new();
    if !wanted.iter().all(fits) {
        steps.extend(wanted.iter().cloned().map(RecordChange::Write));
    }
    let both = wanted.iter().any(|record| record.kind == "AAAA");
    let with = there.iter().find(|record| record.kind == "A").and_then(|record| match &record.leads {
        Leads::Alias { target, .. } => Some(target.as_str()),
        Leads::Name { .. } | Leads::Elsewhere => None,
    });
    let ours = |record: &&RecordSet| {
        let alias = record.kind == "AAAA" && matches!(record.leads, Leads::Alias { .. });
        alias && (record.leads_to(target) || with.is_some_and(|with| record.leads_to(with)))
    };
    if !both {
        steps.extend(there.iter().filter(ours).cloned().map(RecordChange::Delete));
    }
    steps
}

/// Each record of the name that leads to one of the targets goes, whichever of them are there.
pub(super) fn delete(there: &[RecordSet], targets: &[String]) -> Vec<RecordChange> {
    let ours = |record: &&RecordSet| {
        ["A", "AAAA", "CNAME"].contains(&record.kind.as_str()) && targets.iter().any(|target| record.leads_to(target))
    };
    there.iter().filter(ours).cloned().map(RecordChange::Delete).collect()
}
