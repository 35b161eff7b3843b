//! Where cluster IPs are taken from: the ServiceCIDRs.

use k8s_openapi::api::networking::v1::ServiceCIDR;
use net::{Cidr, Family, HasFamily, legacy};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

/// By name of the ServiceCIDR.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    known: BTreeMap<String, Vec<Cidr>>,
    listed: BTreeSet<String>,
}

impl Ranges {
    /// Says whether that is new.
    pub(super) fn set(&mut self, object: &ServiceCIDR) -> bool {
        let Some(name) = object.metadata.name.clone() else { return false };
        let texts = object.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
        let read = texts.filter_map(|text| match legacy::parse_stored_cidr(text) {
            Ok(cidr) => Some(cidr),
            Err(error) => {
                tracing::warn!(servicecidr = name, "spec.cidrs: {error}; left out");
                None
            }
        });
        let cidrs: Vec<Cidr> = read.collect();
        self.listed.insert(name.clone());
        let before = self.known.insert(name, cidrs.clone());
        before.as_ref() != Some(&cidrs)
    }

    pub(super) fn remove(&mut self, object: &ServiceCIDR) -> bool {
        object.metadata.name.as_ref().is_some_and(|name| self.known.remove(name).is_some())
    }

    pub(super) fn list_begins(&mut self) {
        self.listed.clear();
    }

    pub(super) fn list_ends(&mut self) -> bool {
        let before = self.known.len();
        self.known.retain(|name, _| self.listed.contains(name));
        self.known.len() != before
    }

    /// The range that an address lies in.
    pub(super) fn around(&self, ip: IpAddr) -> Option<Cidr> {
        self.known.values().flatten().copied().find(|cidr| cidr.contains(ip))
    }

    /// Without those that lie in another one.
    pub(super) fn of(&self, family: Family) -> Vec<Cidr> {
        let mut all: Vec<Cidr> =
            self.known.values().flatten().copied().filter(|cidr| cidr.family() == family).collect();
        all.sort_unstable();
        all.dedup();
        let outermost = |cidr: &&Cidr| !all.iter().any(|other| other != *cidr && other.contains_cidr(cidr));
        all.iter().filter(outermost).copied().collect()
    }
}
