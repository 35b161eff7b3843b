//! Objects of the API to records. Pure but for where it publishes: a change is applied, and what it touches is written.

use super::{
    names::{dashed, key, of_key, zone_key},
    read::{externals_of, pod_addresses, service_name, service_of},
    records::{Endpoint, Kind, Owner, Port, Records, Service, Target, Written, bytes},
};
use k8s_openapi::{
    api::{core::v1 as core, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

/// What the API tells.
pub enum Change {
    /// Made or changed.
    Service(core::Service),
    /// Gone.
    NoService(core::Service),
    /// Made or changed.
    Slice(EndpointSlice),
    /// Gone.
    NoSlice(EndpointSlice),
    /// Made or changed.
    Namespace(core::Namespace),
    /// Gone.
    NoNamespace(core::Namespace),
    /// Made or changed.
    Pod(core::Pod),
    /// Gone.
    NoPod(core::Pod),
    /// A list begins anew; what it does not name is gone.
    Listing(Sort),
    /// It was the last of the list.
    Listed(Sort),
}

/// The four kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    Services,
    /// EndpointSlices.
    Slices,
    Namespaces,
    Pods,
}

/// Name and namespace of an object; all that speak of it share one.
type Key = Arc<[u8]>;

/// What is kept only where somebody asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details {
    /// Endpoints without a host name are called like their Pods.
    pub pod_names: bool,
    /// Zones of the topology in which endpoints are.
    pub zones: bool,
    /// Addresses and names by which Services are reached from outside.
    pub externals: bool,
}

/// The objects that records are made of.
pub struct Index {
    records: Arc<Records>,
    details: Details,
    services: HashMap<Key, (Kind, Arc<[Port]>)>,
    /// A slice with the Service it belongs to.
    slices: HashMap<Key, (Key, Arc<[Endpoint]>)>,
    /// In order: there are few of each, and a tree has room for eleven.
    by_service: HashMap<Key, Vec<Key>>,
    namespaces: BTreeSet<String>,
    pods: HashMap<Key, Box<[IpAddr]>>,
    /// Lists of ports: nearly all are the same few.
    ports: HashSet<Arc<[Port]>>,
    /// As many were in use when they were last looked through.
    ports_in_use: usize,
    /// Namespaces that have or had Pods, and zones of endpoints.
    words: HashSet<Arc<[u8]>>,
    /// Objects seen since a list began.
    seen: BTreeMap<Sort, HashSet<Key>>,
    /// Lists that were not complete yet.
    waiting: BTreeSet<Sort>,
}

impl Index {
    /// Nothing yet; it is complete when each of `sorts` was listed once.
    #[must_use]
    pub fn new(records: Arc<Records>, sorts: &[Sort], details: Details) -> Self {
        Self {
            records,
            details,
            services: HashMap::new(),
            slices: HashMap::new(),
            by_service: HashMap::new(),
            namespaces: BTreeSet::new(),
            pods: HashMap::new(),
            ports: HashSet::new(),
            ports_in_use: 0,
            words: HashSet::new(),
            seen: BTreeMap::new(),
            waiting: sorts.iter().copied().collect(),
        }
    }

    fn records(&self) -> &Records {
        &self.records
    }

    /// Takes in a change. `now` is the time in seconds since 1970.
    pub fn apply(&mut self, change: Change, now: u32) {
        match change {
            Change::Service(service) => {
                let key = self.key(name_of(&service.metadata));
                self.note(Sort::Services, &key);
                let (kind, ports) = service_of(&service);
                let ports = self.shared(ports);
                self.services.insert(Arc::clone(&key), (kind, ports));
                self.publish(&key);
                if self.details.externals {
                    self.set_externals(&key, externals_of(&service));
                }
            }
            Change::NoService(service) => self.remove_service(&self.key(name_of(&service.metadata))),
            Change::Slice(slice) => {
                let object = object(&slice.metadata);
                self.note(Sort::Slices, &object);
                let (_, namespace) = name_of(&slice.metadata);
                let service = service_name(&slice).map(|service| self.key((service, namespace)));
                let found = service.map(|service| (service, self.endpoints_of(&slice)));
                self.set_slice(object, found);
            }
            Change::NoSlice(slice) => self.set_slice(object(&slice.metadata), None),
            Change::Namespace(namespace) => {
                self.note(Sort::Namespaces, &object(&namespace.metadata));
                self.namespaces.insert(namespace.metadata.name.unwrap_or_default());
                self.publish_namespaces();
            }
            Change::NoNamespace(namespace) => {
                self.namespaces.remove(&namespace.metadata.name.unwrap_or_default());
                self.publish_namespaces();
            }
            Change::Pod(pod) => {
                let object = object(&pod.metadata);
                self.note(Sort::Pods, &object);
                self.set_pod(object, &pod_addresses(&pod));
            }
            Change::NoPod(pod) => self.set_pod(object(&pod.metadata), &[]),
            Change::Listing(sort) => {
                self.seen.insert(sort, HashSet::new());
            }
            Change::Listed(sort) => self.listed(sort),
        }
        if self.waiting.is_empty() {
            self.records().touch(now);
        }
    }

    fn note(&mut self, sort: Sort, object: &Key) {
        if let Some(seen) = self.seen.get_mut(&sort) {
            seen.insert(Arc::clone(object));
        }
    }

    /// A list is complete: what it did not name is gone.
    fn listed(&mut self, sort: Sort) {
        let Some(seen) = self.seen.remove(&sort) else { return };
        match sort {
            Sort::Services => {
                let gone: Vec<Key> = self.services.keys().filter(|key| !seen.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.remove_service(key));
            }
            Sort::Slices => {
                let gone: Vec<Key> = self.slices.keys().filter(|object| !seen.contains(*object)).cloned().collect();
                gone.into_iter().for_each(|object| self.set_slice(object, None));
            }
            Sort::Namespaces => {
                self.namespaces.retain(|name| seen.contains(&*key(name, "")));
                self.publish_namespaces();
            }
            Sort::Pods => {
                let gone: Vec<Key> = self.pods.keys().filter(|object| !seen.contains(*object)).cloned().collect();
                gone.into_iter().for_each(|object| self.set_pod(object, &[]));
            }
        }
        if self.waiting.remove(&sort) && self.waiting.is_empty() {
            self.publish_all();
        }
    }

    /// The key of a Service, as it is kept already if anything speaks of it.
    fn key(&self, (service, namespace): (&str, &str)) -> Key {
        let key = key(service, namespace);
        let known = self.services.get_key_value(&*key).map(|(key, _)| key);
        known
            .or_else(|| self.by_service.get_key_value(&*key).map(|(key, _)| key))
            .map_or_else(|| key.into(), Arc::clone)
    }

    fn remove_service(&mut self, key: &Key) {
        self.services.remove(key);
        self.publish(key);
        self.set_externals(key, Vec::new());
    }

    /// How a Service is reached from outside, and back from each address.
    fn set_externals(&self, key: &Key, externals: Vec<Target>) {
        let records = self.records();
        let before = records.externals.get(key);
        let before = before.as_deref().unwrap_or_default();
        if *before == *externals {
            return;
        }
        let address = |external: &Target| match external {
            Target::Address(address) => Some(bytes(*address)),
            Target::Name(_) => None,
        };
        for (has, list) in [(false, before), (true, &externals)] {
            for address in list.iter().filter_map(address) {
                let mut keys = records.external_owners.get(&address).map(|keys| keys.to_vec()).unwrap_or_default();
                if has {
                    insert(&mut keys, Arc::clone(key));
                } else {
                    remove(&mut keys, key);
                }
                records.external_owners.set(&address, (!keys.is_empty()).then_some(keys));
            }
        }
        records.externals.set(key, (!externals.is_empty()).then_some(externals));
    }

    fn set_slice(&mut self, object: Key, slice: Option<(Key, Arc<[Endpoint]>)>) {
        let new = slice.as_ref().map(|(key, _)| Arc::clone(key));
        let old = match slice {
            Some(slice) => self.slices.insert(Arc::clone(&object), slice),
            None => self.slices.remove(&object),
        };
        let old = old.map(|(key, _)| key);
        if let Some(old) = old.filter(|old| Some(old) != new.as_ref()) {
            if let Some(slices) = self.by_service.get_mut(&old) {
                remove(slices, &object);
                if slices.is_empty() {
                    self.by_service.remove(&old);
                }
            }
            self.publish(&old);
        }
        if let Some(new) = new {
            insert(self.by_service.entry(Arc::clone(&new)).or_default(), object);
            self.publish(&new);
        }
    }

    /// The ready endpoints of a slice.
    fn endpoints_of(&mut self, slice: &EndpointSlice) -> Arc<[Endpoint]> {
        let ports = slice.ports.iter().flatten().map(|port| Port {
            name: port.name.as_deref().unwrap_or_default().to_lowercase().into(),
            protocol: port.protocol.as_deref().unwrap_or("TCP").to_lowercase().into(),
            number: port.port.and_then(|number| u16::try_from(number).ok()).unwrap_or(0),
        });
        let ports = self.shared(ports.collect());
        let mut endpoints = Vec::new();
        for endpoint in slice.endpoints.iter().flatten() {
            // Nobody says whether it is ready: then it is.
            if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(false) {
                continue;
            }
            let pod = endpoint.target_ref.as_ref().and_then(|target| target.name.clone());
            let pod = pod.filter(|name| self.details.pod_names && name.len() < 64);
            let zone = endpoint.zone.as_deref().filter(|zone| self.details.zones && !zone.is_empty());
            let zone = zone.map(|zone| self.word(&zone_key(zone)));
            for address in endpoint.addresses.iter().filter_map(|address| address.parse().ok()) {
                let hostname = endpoint.hostname.clone().filter(|name| !name.is_empty());
                let label = hostname.or_else(|| pod.clone()).unwrap_or_else(|| dashed(address));
                let (label, ports, zone) = (label.to_lowercase().into(), Arc::clone(&ports), zone.clone());
                endpoints.push(Endpoint { label, address, ports, zone });
            }
        }
        endpoints.into()
    }

    fn set_pod(&mut self, object: Key, addresses: &[IpAddr]) {
        let Some(namespace) = of_key(&object).map(|(_, namespace)| self.word(namespace)) else { return };
        let old = match addresses.is_empty() {
            true => self.pods.remove(&object),
            false => self.pods.insert(object, addresses.into()),
        };
        let old = old.unwrap_or_default();
        for address in old.iter().filter(|address| !addresses.contains(address)) {
            self.records().count_pod(*address, &namespace, false);
        }
        for address in addresses.iter().filter(|address| !old.contains(address)) {
            self.records().count_pod(*address, &namespace, true);
        }
    }

    /// One copy of a list of ports for all that have the same.
    fn shared(&mut self, ports: Vec<Port>) -> Arc<[Port]> {
        if let Some(known) = self.ports.get(&*ports) {
            return Arc::clone(known);
        }
        // Lists that nobody has any more go when there are twice as many as were in use.
        if self.ports.len() >= 2 * self.ports_in_use.max(64) {
            self.ports.retain(|ports| Arc::strong_count(ports) > 1);
            self.ports_in_use = self.ports.len();
        }
        let new: Arc<[Port]> = ports.into();
        self.ports.insert(Arc::clone(&new));
        new
    }

    /// One copy of a word for all that have it.
    fn word(&mut self, word: &[u8]) -> Arc<[u8]> {
        if let Some(known) = self.words.get(word) {
            return Arc::clone(known);
        }
        let new: Arc<[u8]> = word.into();
        self.words.insert(Arc::clone(&new));
        new
    }

    fn publish_namespaces(&self) {
        let names = self.namespaces.iter().map(|name| name.to_lowercase().into_bytes().into());
        self.records().namespaces.store(Arc::new(names.collect()));
    }

    fn made(&self, key: &Key) -> Option<Service> {
        let (kind, ports) = self.services.get(key)?.clone();
        let slices = self.by_service.get(key).into_iter().flatten().filter_map(|object| self.slices.get(object));
        let slices: Box<[Arc<[Endpoint]>]> = slices.map(|(_, endpoints)| Arc::clone(endpoints)).collect();
        let mut addresses: Vec<IpAddr> = Vec::new();
        let all: &mut dyn Iterator<Item = IpAddr> = match &kind {
            Kind::Cluster(own) => &mut own.iter().copied(),
            Kind::Headless => &mut slices.iter().flat_map(|slice| slice.iter()).map(|endpoint| endpoint.address),
            Kind::External(_) => &mut std::iter::empty(),
        };
        let mut seen = HashSet::new();
        addresses.extend(all.filter(|address| seen.insert(*address)));
        let written = Written::new(addresses.into_iter(), self.records().ttl);
        Some(Service { kind, ports, slices, written })
    }

    /// Writes what is known of a Service, and of the addresses whose meaning that changes.
    fn publish(&mut self, key: &Key) {
        if !self.waiting.is_empty() {
            return;
        }
        let records = self.records();
        let service = self.made(key);
        let before = addresses(records.services.get(key).as_deref());
        let now = addresses(service.as_ref());
        records.services.set(key, service);
        let all: BTreeSet<&IpAddr> = before.keys().chain(now.keys()).collect();
        for address in all.into_iter().filter(|address| before.get(address) != now.get(address)) {
            let others = records.owners.get(&bytes(*address));
            let others = others.iter().flat_map(|owners| owners.iter()).filter(|(of, _)| of != key).cloned();
            let own = now.get(address).into_iter().flatten().map(|label| (Arc::clone(key), label.clone()));
            let mut owners: Vec<Owner> = others.chain(own).collect();
            // One Service after another; what is of the same one stays in its order.
            owners.sort_by(|(one, _), (other, _)| one.cmp(other));
            records.owners.set(&bytes(*address), (!owners.is_empty()).then_some(owners));
        }
    }

    /// Everything was listed: it is written at once.
    fn publish_all(&mut self) {
        let mut keys: Vec<Key> = self.services.keys().cloned().collect();
        keys.sort_unstable();
        let mut owners: HashMap<IpAddr, Vec<Owner>> = HashMap::new();
        let made = keys.into_iter().filter_map(|key| {
            let service = self.made(&key)?;
            for (address, labels) in addresses(Some(&service)) {
                owners.entry(address).or_default().extend(labels.into_iter().map(|label| (Arc::clone(&key), label)));
            }
            Some((key, service))
        });
        self.records().services.replace(made);
        self.records().owners.replace(owners.into_iter().map(|(address, owners)| (bytes(address), owners)));
        self.records().set_synced();
    }
}

/// The addresses of a Service, and what each is: an endpoint with this label, or the Service itself.
fn addresses(service: Option<&Service>) -> BTreeMap<IpAddr, Vec<Option<Arc<str>>>> {
    let mut found: BTreeMap<IpAddr, Vec<Option<Arc<str>>>> = BTreeMap::new();
    let Some(service) = service else { return found };
    if let Kind::Cluster(own) = &service.kind {
        own.iter().for_each(|address| found.entry(*address).or_default().push(None));
    }
    for endpoint in service.endpoints() {
        let labels = found.entry(endpoint.address).or_default();
        if !labels.contains(&Some(Arc::clone(&endpoint.label))) {
            labels.push(Some(Arc::clone(&endpoint.label)));
        }
    }
    found
}

fn name_of(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.name.as_deref().unwrap_or_default(), metadata.namespace.as_deref().unwrap_or_default())
}

fn object(metadata: &ObjectMeta) -> Key {
    let (name, namespace) = name_of(metadata);
    key(name, namespace).into()
}

/// Puts an entry where it belongs, once.
fn insert<T: Ord>(sorted: &mut Vec<T>, entry: T) {
    if let Err(place) = sorted.binary_search(&entry) {
        // Room for what there is and no more: nearly all of these lists stay as short as they are.
        sorted.reserve_exact(1);
        sorted.insert(place, entry);
    }
}

fn remove<T: Ord>(sorted: &mut Vec<T>, entry: &T) {
    if let Ok(place) = sorted.binary_search(entry) {
        sorted.remove(place);
    }
}
