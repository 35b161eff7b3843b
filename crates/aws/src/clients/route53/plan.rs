//! What has to change so that a name leads where it should. Pure.

use super::names::same_target;
use aws_sdk_route53::{error::BuildError, types as sdk};
use runtime::cloud::DnsEntry;

/// A record set, as far as it is ours to write, and everything of one that is to be deleted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// `A`, `AAAA`, `CNAME`.
    pub(super) kind: String,
    pub(super) leads: Leads,
    /// As it was read: Route53 deletes only what is given in full.
    read: Option<sdk::ResourceRecordSet>,
    name: String,
}

/// Where a record set leads.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Leads {
    /// An alias of a name in a zone.
    Alias { target: String, zone: String },
    /// A plain name with a time to live.
    Name { target: String, ttl: i64 },
    /// Anything else, among it sets that share their name with others by weight, place or health: never ours.
    Elsewhere,
}

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Write(Record),
    Delete(Record),
}

impl Record {
    pub(super) fn of(set: sdk::ResourceRecordSet) -> Self {
        let values = set.resource_records();
        let leads = match (&set.alias_target, values, &set.set_identifier) {
            (Some(alias), _, None) => {
                Leads::Alias { target: alias.dns_name.clone(), zone: alias.hosted_zone_id.clone() }
            }
            (None, [value], None) if set.r#type == sdk::RrType::Cname => {
                Leads::Name { target: value.value.clone(), ttl: set.ttl.unwrap_or(0) }
            }
            _ => Leads::Elsewhere,
        };
        Self { kind: set.r#type.as_str().to_owned(), leads, name: set.name.clone(), read: Some(set) }
    }

    pub(super) fn to_sdk(&self) -> Result<sdk::ResourceRecordSet, BuildError> {
        if let Some(read) = &self.read {
            let mut read = read.clone();
            // An alias has no time to live; some answers say 0, which a request may not.
            if read.alias_target.is_some() {
                read.ttl = None;
            }
            return Ok(read);
        }
        let set = sdk::ResourceRecordSet::builder().name(&self.name).r#type(self.kind.as_str().into());
        match &self.leads {
            Leads::Alias { target, zone } => {
                let alias = sdk::AliasTarget::builder().dns_name(target).hosted_zone_id(zone);
                set.alias_target(alias.evaluate_target_health(false).build()?).build()
            }
            Leads::Name { target, ttl } => {
                set.ttl(*ttl).resource_records(sdk::ResourceRecord::builder().value(target).build()?).build()
            }
            Leads::Elsewhere => set.build(),
        }
    }

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

fn fresh(entry: &DnsEntry, kind: &str, leads: Leads) -> Record {
    Record { kind: kind.to_owned(), leads, read: None, name: entry.name.clone() }
}

/// The aliases of an entry, one per family that the load balancer may have.
pub(super) fn aliases(entry: &DnsEntry, target: &str, zone: &str) -> Vec<Record> {
    let kinds: &[&str] = if entry.dual_stack { &["A", "AAAA"] } else { &["A"] };
    let alias = || Leads::Alias { target: target.to_owned(), zone: zone.to_owned() };
    kinds.iter().map(|kind| fresh(entry, kind, alias())).collect()
}

/// The plain name of an entry, where there are no aliases.
pub(super) fn name_of(entry: &DnsEntry, target: &str) -> Record {
    fresh(entry, "CNAME", Leads::Name { target: target.to_owned(), ttl: entry.ttl.into() })
}

/// All that is wanted is written together when one of it is not so. An alias for IPv6 that nobody wants any more goes if it is ours: it leads where
/// the entry leads, or where the name's alias for IPv4 leads, with which it was written.
pub(super) fn ensure(there: &[Record], wanted: &[Record], target: &str) -> Vec<Step> {
    let fits = |wanted: &Record| there.iter().any(|record| record.fits(wanted));
    let mut steps = Vec::new();
    if !wanted.iter().all(fits) {
        steps.extend(wanted.iter().cloned().map(Step::Write));
    }
    let both = wanted.iter().any(|record| record.kind == "AAAA");
    let with = there.iter().find(|record| record.kind == "A").and_then(|record| match &record.leads {
        Leads::Alias { target, .. } => Some(target.as_str()),
        Leads::Name { .. } | Leads::Elsewhere => None,
    });
    let ours = |record: &&Record| {
        let alias = record.kind == "AAAA" && matches!(record.leads, Leads::Alias { .. });
        alias && (record.leads_to(target) || with.is_some_and(|with| record.leads_to(with)))
    };
    if !both {
        steps.extend(there.iter().filter(ours).cloned().map(Step::Delete));
    }
    steps
}

/// Each record of the name that leads to one of the targets goes, whichever of them are there.
pub(super) fn delete(there: &[Record], targets: &[String]) -> Vec<Step> {
    let ours = |record: &&Record| {
        ["A", "AAAA", "CNAME"].contains(&record.kind.as_str()) && targets.iter().any(|target| record.leads_to(target))
    };
    there.iter().filter(ours).cloned().map(Step::Delete).collect()
}
