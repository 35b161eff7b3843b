//! What the API says about Services, their endpoints and this node, parsed once and indexed by Service.
//!
//! Called by `run` for each watch event. Pure: it answers which Services have to be planned again. An object that says
//! nothing new changes nothing, so resyncs and status updates cost no kernel work.

mod frontend;
mod name;
mod node;
mod owners;
mod peers;
mod ranges;
mod refused;
mod service;
mod slice;

use jiff::Timestamp;
use k8s_openapi::api::{core::v1 as core, discovery::v1::EndpointSlice, networking::v1::ServiceCIDR};
use net::{Cidr, Family};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
};

pub use frontend::Frontend;
pub use name::Name;
pub use node::Node;
pub use refused::{NewRefusal, Refusal, Refused};
pub use service::{Policy, Port, Protocol, Service};
pub use slice::{Endpoint, Slice, SlicePort};

use owners::Owners;
use peers::Peers;
use ranges::Ranges;

/// The index.
#[derive(Debug)]
pub struct Tracker {
    node_name: String,
    own_addresses: Vec<IpAddr>,
    node: Node,
    peers: Peers,
    /// A Service has, or had, external IPs.
    external_ips: bool,
    entries: HashMap<Name, Entry>,
    /// Which Service a slice was last seen with; its label may change.
    slices: HashMap<Name, Name>,
    ranges: Ranges,
    owners: Owners,
    changed: Changed,
    refusals: Vec<NewRefusal>,
    relisted: Relisted,
}

/// A Service and its slices; either may come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The Service, unless it is headless, an alias, or not there (yet).
    pub service: Option<Service>,
    /// Those of its external IPs that are not served.
    pub refused: Refused,
    /// Its slices by name.
    pub slices: BTreeMap<String, Slice>,
}

/// What has to be planned again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// These Services.
    pub services: BTreeSet<Name>,
    /// Everything, because this node or the ranges of cluster IPs are not what they were.
    pub node: bool,
    /// When what the changed slices tell happened in the cluster, as far as they say.
    pub triggers: Vec<Timestamp>,
}

/// What a list has named so far; the rest is gone when it ends.
#[derive(Debug, Default)]
struct Relisted {
    services: HashSet<Name>,
    slices: HashSet<Name>,
}

impl Changed {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && !self.node
    }
}

impl Tracker {
    /// Nothing known yet about the node of this name and its cluster. `own_addresses` count before those of the Node.
    #[must_use]
    pub fn new(node_name: &str, own_addresses: &[IpAddr]) -> Self {
        Self {
            node_name: node_name.to_owned(),
            own_addresses: own_addresses.to_vec(),
            node: Node::default(),
            peers: Peers::default(),
            external_ips: false,
            entries: HashMap::new(),
            slices: HashMap::new(),
            ranges: Ranges::default(),
            owners: Owners::default(),
            refusals: Vec::new(),
            changed: Changed::default(),
            relisted: Relisted::default(),
        }
    }

    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// A Service with its slices.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Entry)> {
        self.entries.iter()
    }

    /// Whether a frontend leads to this Service: others may name it too.
    #[must_use]
    pub fn owns(&self, name: &Name, family: Family, frontend: Frontend) -> bool {
        self.owner(family, frontend) == Some(name)
    }

    /// The Service that a frontend leads to.
    #[must_use]
    pub fn owner(&self, family: Family, frontend: Frontend) -> Option<&Name> {
        self.owners.owner((family, frontend))
    }

    /// External IPs that are not served any more since this was last asked.
    pub fn take_refusals(&mut self) -> Vec<NewRefusal> {
        std::mem::take(&mut self.refusals)
    }

    /// What changed since this was last asked.
    pub fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    /// Whether [`take_changed`](Self::take_changed) has something to say.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// A Service is there, or is different.
    pub fn service(&mut self, object: &core::Service) {
        let Some(name) = Name::of(&object.metadata) else { return };
        self.relisted.services.insert(name.clone());
        self.set_service(name.clone(), Service::read(&name, object));
    }

    /// A Service is gone.
    pub fn no_service(&mut self, object: &core::Service) {
        if let Some(name) = Name::of(&object.metadata) {
            self.set_service(name, None);
        }
    }

    /// A slice is there, or is different.
    pub fn slice(&mut self, object: &EndpointSlice) {
        let Some(name) = Name::of(&object.metadata) else { return };
        self.relisted.slices.insert(name.clone());
        let before = self.changed.services.len();
        self.set_slice(name.clone(), Slice::read(&name, object, &self.node_name));
        if self.changed.services.len() > before {
            self.changed.triggers.extend(slice::trigger(object));
        }
    }

    /// A slice is gone.
    pub fn no_slice(&mut self, object: &EndpointSlice) {
        if let Some(name) = Name::of(&object.metadata) {
            self.set_slice(name, None);
        }
    }

    /// This node is there, or is different.
    pub fn set_node(&mut self, object: Option<&core::Node>) {
        let mut node = object.map(Node::read).unwrap_or_default();
        node.addresses.splice(0..0, self.own_addresses.iter().copied());
        // Whether it may be sent traffic is asked for health only; no rule depends on it.
        self.changed.node |= !node.same_rules(&self.node);
        let moved = node.addresses != self.node.addresses;
        self.node = node;
        if moved {
            self.review_external_ips();
        }
    }

    /// Whether the addresses of all nodes have to be known: nobody's external IP may be one of them.
    #[must_use]
    pub const fn wants_peers(&self) -> bool {
        self.external_ips
    }

    /// A node, this one or another, is there, or is different.
    pub fn peer(&mut self, object: &core::Node) {
        if self.peers.set(object) {
            self.review_external_ips();
        }
    }

    /// A node is gone.
    pub fn no_peer(&mut self, object: &core::Node) {
        if self.peers.remove(object) {
            self.review_external_ips();
        }
    }

    /// A list of nodes begins.
    pub fn peers_begin(&mut self) {
        self.peers.list_begins();
    }

    /// The list of nodes is complete.
    pub fn peers_end(&mut self) {
        if self.peers.list_ends() {
            self.review_external_ips();
        }
    }

    /// A list of Services begins: what it does not name is gone.
    pub fn services_begin(&mut self) {
        self.relisted.services.clear();
    }

    /// The list of Services is complete.
    pub fn services_end(&mut self) {
        let seen = std::mem::take(&mut self.relisted.services);
        let gone = self.entries.iter().filter(|(name, entry)| entry.service.is_some() && !seen.contains(*name));
        for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.set_service(name, None);
        }
    }

    /// A list of slices begins.
    pub fn slices_begin(&mut self) {
        self.relisted.slices.clear();
    }

    /// The list of slices is complete.
    pub fn slices_end(&mut self) {
        let seen = std::mem::take(&mut self.relisted.slices);
        let gone: Vec<Name> = self.slices.keys().filter(|name| !seen.contains(*name)).cloned().collect();
        for name in gone {
            self.set_slice(name, None);
        }
    }

    /// The ranges of cluster IPs, of a family.
    #[must_use]
    pub fn service_cidrs(&self, family: Family) -> Vec<Cidr> {
        self.ranges.of(family)
    }

    /// A ServiceCIDR is there, or is different.
    pub fn range(&mut self, object: &ServiceCIDR) {
        let changed = self.ranges.set(object);
        self.ranges_changed(changed);
    }

    /// A ServiceCIDR is gone.
    pub fn no_range(&mut self, object: &ServiceCIDR) {
        let changed = self.ranges.remove(object);
        self.ranges_changed(changed);
    }

    /// A list of ServiceCIDRs begins.
    pub fn ranges_begin(&mut self) {
        self.ranges.list_begins();
    }

    /// The list of ServiceCIDRs is complete.
    pub fn ranges_end(&mut self) {
        let changed = self.ranges.list_ends();
        self.ranges_changed(changed);
    }

    fn set_service(&mut self, name: Name, service: Option<Service>) {
        let refused = service.as_ref().map(|service| self.refused(service)).unwrap_or_default();
        let (was, was_refused) = match self.entries.get(&name) {
            Some(entry) => (entry.service.as_ref(), Some(&entry.refused)),
            None => (None, None),
        };
        if was == service.as_ref() && was_refused.is_none_or(|was| *was == refused) {
            return;
        }
        self.external_ips |= service.as_ref().is_some_and(|service| !service.external_ips.is_empty());
        let uid = service.as_ref().map(|service| service.uid.clone()).unwrap_or_default();
        for (ip, why) in refused.iter().filter(|(ip, why)| was_refused.and_then(|was| was.get(*ip)) != Some(*why)) {
            tracing::warn!(service = %name, "external IP {ip} is not served: {why}");
            self.refusals.push(NewRefusal { service: name.clone(), uid: uid.clone(), ip: *ip, why: *why });
        }
        self.changed.services.extend(self.owners.set(&name, service.as_ref(), &refused));
        self.change(name, |entry| (entry.service, entry.refused) = (service, refused));
    }

    /// External IPs that would take traffic away from other Services or from nodes.
    fn refused(&self, service: &Service) -> Refused {
        let why = |ip: IpAddr| match self.ranges.around(ip) {
            Some(range) => Some(Refusal::ServiceRange(range)),
            None => (self.node.addresses.contains(&ip) || self.peers.have(ip)).then_some(Refusal::NodeAddress),
        };
        service.external_ips.iter().filter_map(|ip| Some((*ip, why(*ip)?))).collect()
    }

    /// Ranges or addresses of nodes are not what they were.
    fn review_external_ips(&mut self) {
        let with_some =
            |entry: &Entry| entry.service.as_ref().filter(|service| !service.external_ips.is_empty()).cloned();
        let services: Vec<(Name, Service)> =
            self.entries.iter().filter_map(|(name, entry)| Some((name.clone(), with_some(entry)?))).collect();
        for (name, service) in services {
            self.set_service(name, Some(service));
        }
    }

    fn ranges_changed(&mut self, changed: bool) {
        self.changed.node |= changed;
        if changed {
            self.review_external_ips();
        }
    }

    fn set_slice(&mut self, name: Name, slice: Option<(Name, Slice)>) {
        let before = match &slice {
            Some((service, _)) => self.slices.insert(name.clone(), service.clone()),
            None => self.slices.remove(&name),
        };
        let now = slice.as_ref().map(|(service, _)| service.clone());
        if let Some(before) = before.filter(|before| Some(before) != now.as_ref()) {
            self.change(before, |entry| drop(entry.slices.remove(&*name.name)));
        }
        if let Some((service, slice)) = slice {
            self.change(service, |entry| drop(entry.slices.insert(name.name.to_string(), slice)));
        }
    }

    fn change(&mut self, name: Name, change: impl FnOnce(&mut Entry)) {
        let entry = self.entries.entry(name.clone()).or_default();
        let before = entry.clone();
        change(entry);
        if *entry != before {
            // Slices of a Service that is not there change nothing in the kernel.
            if entry.service.is_some() || before.service.is_some() {
                self.changed.services.insert(name.clone());
            }
        }
        if *entry == Entry::default() {
            self.entries.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
