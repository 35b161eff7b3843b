//! Names with their addresses, found by name; made anew from all objects whenever one changes.

use crate::wire::Name;
use api::config::{DnsManagement, DnsRecordSpec};
use std::{collections::HashMap, net::IpAddr};

/// TTL of an object that gives none, or one that cannot be.
const TTL: u32 = 30;

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) ttl: u32,
    pub(super) addresses: Vec<IpAddr>,
    /// Where it leads, if it has no addresses.
    pub(super) target: Option<Name>,
}

/// Names in lower case and wire form; a wildcard has its asterisk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    entries: HashMap<Box<[u8]>, Entry>,
}

impl Table {
    /// Of these objects, in any order.
    pub(super) fn new<'a>(specs: impl Iterator<Item = &'a DnsRecordSpec>) -> Self {
        let mut table = Self::default();
        for spec in specs.filter(|spec| spec.dns_management_policy != DnsManagement::Unmanaged) {
            let Ok(name) = Name::parse(&spec.dns_name) else { continue };
            if !name.is_root() {
                table.add(&name.lower(), spec);
            }
        }
        for entry in table.entries.values_mut() {
            // So that the answer does not depend on the order of objects.
            entry.addresses.sort_unstable();
            entry.addresses.dedup();
        }
        table
    }

    fn add(&mut self, name: &Name, spec: &DnsRecordSpec) {
        let ttl = u32::try_from(spec.record_ttl).ok().filter(|ttl| (1..=i32::MAX as u32).contains(ttl)).unwrap_or(TTL);
        let new = || Entry { ttl, addresses: Vec::new(), target: None };
        let entry = self.entries.entry(name.wire().into()).or_insert_with(new);
        entry.ttl = entry.ttl.min(ttl);
        for target in &spec.targets {
            match target.parse::<IpAddr>() {
                Ok(address) => entry.addresses.push(address),
                // Of several host names only one can be a CNAME: the first in alphabetical order.
                Err(_) => {
                    let found = Name::parse(target).ok().filter(|found| !found.is_root());
                    let known = entry.target.take();
                    entry.target = found.into_iter().chain(known).min_by_key(Name::to_string);
                }
            }
        }
    }

    /// What answers a name in lower case: its own entry, or the nearest wildcard above that nothing hides.
    pub(super) fn get(&self, name: &Name) -> Option<&Entry> {
        if let Some(entry) = self.entries.get(name.wire()) {
            return Some(entry);
        }
        let mut wildcard = [0; 257];
        for suffix in name.suffixes().skip(1) {
            // `*` and the rest of the name.
            let length = 2 + suffix.len();
            wildcard[..2].copy_from_slice(b"\x01*");
            wildcard[2..length].copy_from_slice(suffix);
            if let Some(entry) = self.entries.get(&wildcard[..length]) {
                return Some(entry);
            }
            // A name that is there itself ends the search: what is below it is not the wildcard's.
            if self.entries.contains_key(suffix) {
                return None;
            }
        }
        None
    }
}
