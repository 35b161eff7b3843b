//! What the ingress operator asks of a DNS service: the seam between it and whoever talks to that service's API.

use super::Answer;
use std::collections::BTreeMap;

/// A hosted zone: by its id, or by tags that exactly one zone has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsZone {
    /// The service's id of the zone.
    pub id: Option<String>,
    /// Tags to find it by, without an id.
    pub tags: BTreeMap<String, String>,
    /// Who may change it, if not the process itself: the service's name of a role to take on, for a zone of another account.
    pub role: Option<String>,
}

/// A name and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsEntry {
    /// The full name, with its final dot; `*.` in front for a wildcard.
    pub name: String,
    /// What it leads to: host names of load balancers, or addresses.
    pub targets: Vec<String>,
    /// How long it may be remembered, in seconds; not of use where the service makes aliases.
    pub ttl: u32,
    /// Which families a load balancer behind the name may have: both give an alias for each.
    pub dual_stack: bool,
    /// The zone of the target, where it was found before or is known by other means.
    pub target_zone: Option<String>,
}

/// A DNS service. Every method may be called again with the same entry and then changes nothing.
pub trait DnsProvider: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Makes the name lead there; says in which zone the target was found, to be kept with the record.
    fn ensure<'a>(&'a self, zone: &'a DnsZone, entry: &'a DnsEntry) -> Answer<'a, Option<String>>;

    /// Takes away exactly what is there of the entry. That nothing is there is fine.
    fn delete<'a>(&'a self, zone: &'a DnsZone, entry: &'a DnsEntry) -> Answer<'a, ()>;
}
