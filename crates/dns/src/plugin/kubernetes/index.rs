//! Objects of the API to records. Pure but for where it publishes: a change is applied, and what it touches is written.

use super::{
    names::{dashed, key, zone_key},
    records::{Endpoint, Kind, Owner, Port, Records, Service, Target, Written, bytes},
};
use crate::wire::Name;
use k8s_openapi::api::{core::v1 as core, discovery::v1::EndpointSlice};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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

/// Of a Service; all that speak of it share one.
type Key = Arc<[u8]>;
/// Namespace and name.
type Object = (String, String);

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
    slices: HashMap<Arc<Object>, (Key, Box<[Endpoint]>)>,
    /// In order, as the addresses and keys below: there are few of each, and a tree has room for eleven.
    by_service: HashMap<Key, Vec<Arc<Object>>>,
    owned: HashMap<Key, Box<[IpAddr]>>,
    owners: HashMap<IpAddr, Vec<Key>>,
    namespaces: BTreeSet<String>,
    pods: HashMap<Object, Vec<IpAddr>>,
    /// Namespaces that have or had Pods, and zones of endpoints.
    words: std::collections::HashSet<Arc<[u8]>>,
    /// Objects seen since a list began.
    seen: BTreeMap<Sort, BTreeSet<Object>>,
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
            owned: HashMap::new(),
            owners: HashMap::new(),
            namespaces: BTreeSet::new(),
            pods: HashMap::new(),
            words: Default::default(),
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
                let object = name_of(&service.metadata);
                self.note(Sort::Services, &object);
                self.set_service(&object, Some(service_of(&service)));
                if self.details.externals {
                    self.set_externals(&self.key(&object.1, &object.0), externals_of(&service));
                }
            }
            Change::NoService(service) => {
                let (namespace, name) = name_of(&service.metadata);
                let key = self.key(&name, &namespace);
                self.set_service(&(namespace, name), None);
                self.set_externals(&key, Vec::new());
            }
            Change::Slice(slice) => {
                let object = name_of(&slice.metadata);
                self.note(Sort::Slices, &object);
                let service = service_name(&slice).map(|service| self.key(service, &object.0));
                let found = service.map(|service| (service, self.endpoints_of(&slice)));
                self.set_slice(object.into(), found);
            }
            Change::NoSlice(slice) => self.set_slice(name_of(&slice.metadata).into(), None),
            Change::Namespace(namespace) => {
                let name = namespace.metadata.name.unwrap_or_default();
                self.note(Sort::Namespaces, &(String::new(), name.clone()));
                self.namespaces.insert(name);
                self.publish_namespaces();
            }
            Change::NoNamespace(namespace) => {
                self.namespaces.remove(&namespace.metadata.name.unwrap_or_default());
                self.publish_namespaces();
            }
            Change::Pod(pod) => {
                let object = name_of(&pod.metadata);
                self.note(Sort::Pods, &object);
                self.set_pod(object, pod_addresses(&pod));
            }
            Change::NoPod(pod) => self.set_pod(name_of(&pod.metadata), Vec::new()),
            Change::Listing(sort) => {
                self.seen.insert(sort, BTreeSet::new());
            }
            Change::Listed(sort) => self.listed(sort),
        }
        if self.waiting.is_empty() {
            self.records().touch(now);
        }
    }

    fn note(&mut self, sort: Sort, object: &Object) {
        if let Some(seen) = self.seen.get_mut(&sort) {
            seen.insert(object.clone());
        }
    }

    /// A list is complete: what it did not name is gone.
    fn listed(&mut self, sort: Sort) {
        let Some(seen) = self.seen.remove(&sort) else { return };
        match sort {
            Sort::Services => {
                let known: BTreeSet<Key> = seen.iter().map(|(namespace, name)| key(name, namespace).into()).collect();
                let gone: Vec<Key> = self.services.keys().filter(|key| !known.contains(*key)).cloned().collect();
                for key in gone {
                    self.services.remove(&key);
                    self.publish(&key);
                    self.set_externals(&key, Vec::new());
                }
            }
            Sort::Slices => {
                let gone: Vec<Arc<Object>> =
                    self.slices.keys().filter(|object| !seen.contains(&***object)).cloned().collect();
                gone.into_iter().for_each(|object| self.set_slice(object, None));
            }
            Sort::Namespaces => {
                self.namespaces.retain(|name| seen.contains(&(String::new(), name.clone())));
                self.publish_namespaces();
            }
            Sort::Pods => {
                let gone: Vec<Object> = self.pods.keys().filter(|object| !seen.contains(*object)).cloned().collect();
                gone.into_iter().for_each(|object| self.set_pod(object, Vec::new()));
            }
        }
        if self.waiting.remove(&sort) && self.waiting.is_empty() {
            self.publish_all();
        }
    }

    /// The key of a Service, as it is kept already if anything speaks of it.
    fn key(&self, service: &str, namespace: &str) -> Key {
        let key = key(service, namespace);
        let known = self.services.get_key_value(&*key).map(|(key, _)| key);
        known
            .or_else(|| self.by_service.get_key_value(&*key).map(|(key, _)| key))
            .map_or_else(|| key.into(), Arc::clone)
    }

    fn set_service(&mut self, (namespace, name): &Object, service: Option<(Kind, Arc<[Port]>)>) {
        let key = self.key(name, namespace);
        match service {
            Some(service) => self.services.insert(key.clone(), service),
            None => self.services.remove(&key),
        };
        self.publish(&key);
    }

    /// How a Service is reached from outside, and back from each address.
    fn set_externals(&self, key: &Key, externals: Vec<Target>) {
        let records = self.records();
        let before = records.externals.get(key);
        let before: &[Target] = before.as_deref().map_or(&[], |before| before);
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
                    insert(&mut keys, Arc::clone(key))
                } else {
                    remove(&mut keys, key)
                }
                records.external_owners.set(&address, (!keys.is_empty()).then(|| keys.into()));
            }
        }
        records.externals.set(key, (!externals.is_empty()).then(|| externals.into()));
    }

    fn set_slice(&mut self, object: Arc<Object>, slice: Option<(Key, Box<[Endpoint]>)>) {
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
    fn endpoints_of(&mut self, slice: &EndpointSlice) -> Box<[Endpoint]> {
        let ports = slice.ports.iter().flatten().map(|port| Port {
            name: port.name.as_deref().unwrap_or_default().to_lowercase().into(),
            protocol: port.protocol.as_deref().unwrap_or("TCP").to_lowercase().into(),
            number: port.port.and_then(|number| u16::try_from(number).ok()).unwrap_or(0),
        });
        let ports: Arc<[Port]> = ports.collect();
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

    fn set_pod(&mut self, object: Object, addresses: Vec<IpAddr>) {
        let namespace = self.word(object.0.to_lowercase().as_bytes());
        let old = match addresses.is_empty() {
            true => self.pods.remove(&object),
            false => self.pods.insert(object, addresses.clone()),
        };
        let old = old.unwrap_or_default();
        for address in old.iter().filter(|address| !addresses.contains(address)) {
            self.records().count_pod(*address, &namespace, false);
        }
        for address in addresses.iter().filter(|address| !old.contains(address)) {
            self.records().count_pod(*address, &namespace, true);
        }
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
        let slices = self.by_service.get(key).into_iter().flatten();
        let endpoints: Vec<Endpoint> =
            slices.filter_map(|object| self.slices.get(object)).flat_map(|(_, endpoints)| endpoints).cloned().collect();
        let mut addresses: Vec<IpAddr> = Vec::new();
        let all: &mut dyn Iterator<Item = IpAddr> = match &kind {
            Kind::Cluster(own) => &mut own.iter().copied(),
            Kind::Headless => &mut endpoints.iter().map(|endpoint| endpoint.address),
            Kind::External(_) => &mut std::iter::empty(),
        };
        let mut seen = std::collections::HashSet::new();
        addresses.extend(all.filter(|address| seen.insert(*address)));
        let written = Written::new(addresses.into_iter(), self.records().ttl);
        Some(Service { kind, ports, endpoints, written })
    }

    /// Writes what is known of a Service, and of the addresses that it has or had.
    fn publish(&mut self, key: &Key) {
        if !self.waiting.is_empty() {
            return;
        }
        let service = self.made(key);
        let touched = self.own(key, service.as_ref());
        self.records().services.set(key, service);
        for address in touched {
            let owner = self.owner(address);
            self.records().owners.set(&bytes(address), owner);
        }
    }

    /// Notes which addresses a Service has; returns those and the ones it had.
    fn own(&mut self, key: &Key, service: Option<&Service>) -> BTreeSet<IpAddr> {
        let mut now: BTreeSet<IpAddr> = BTreeSet::new();
        if let Some(service) = service {
            if let Kind::Cluster(own) = &service.kind {
                now.extend(own);
            }
            now.extend(service.endpoints.iter().map(|endpoint| endpoint.address));
        }
        let before = match now.is_empty() {
            true => self.owned.remove(key),
            false => self.owned.insert(Arc::clone(key), now.iter().copied().collect()),
        };
        let before = before.unwrap_or_default();
        for address in before.iter().filter(|address| !now.contains(address)) {
            if let Some(keys) = self.owners.get_mut(address) {
                remove(keys, key);
                if keys.is_empty() {
                    self.owners.remove(address);
                }
            }
        }
        for address in &now {
            insert(self.owners.entry(*address).or_default(), Arc::clone(key));
        }
        now.extend(before);
        now
    }

    fn owner(&self, address: IpAddr) -> Option<Owner> {
        let mut owner = Owner::default();
        for key in self.owners.get(&address)? {
            let Some((kind, _)) = self.services.get(key) else { continue };
            if matches!(kind, Kind::Cluster(own) if own.contains(&address)) {
                owner.services.push(Arc::clone(key));
            }
            for object in self.by_service.get(key).into_iter().flatten() {
                let endpoints = self.slices.get(object).into_iter().flat_map(|(_, endpoints)| endpoints);
                for endpoint in endpoints.filter(|endpoint| endpoint.address == address) {
                    let entry = (Arc::clone(key), Arc::clone(&endpoint.label));
                    if !owner.endpoints.contains(&entry) {
                        owner.endpoints.push(entry);
                    }
                }
            }
        }
        Some(owner)
    }

    /// Everything was listed: it is written at once.
    fn publish_all(&mut self) {
        let keys: Vec<Key> = self.services.keys().cloned().collect();
        let made: Vec<(Key, Service)> =
            keys.into_iter().filter_map(|key| Some((key.clone(), self.made(&key)?))).collect();
        for (key, service) in &made {
            self.own(key, Some(service));
        }
        let addresses: Vec<IpAddr> = self.owners.keys().copied().collect();
        let owners = addresses.iter().filter_map(|address| Some((bytes(*address), self.owner(*address)?)));
        self.records().owners.replace(owners);
        self.records().services.replace(made.into_iter());
        self.records().set_synced();
    }
}

fn name_of(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Object {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
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

fn service_of(service: &core::Service) -> (Kind, Arc<[Port]>) {
    let Some(spec) = &service.spec else { return (Kind::Headless, Arc::default()) };
    let ports = spec.ports.iter().flatten().map(|port| Port {
        name: port.name.as_deref().unwrap_or_default().to_lowercase().into(),
        protocol: port.protocol.as_deref().unwrap_or("TCP").to_lowercase().into(),
        number: u16::try_from(port.port).unwrap_or(0),
    });
    let kind = match spec.type_.as_deref() {
        Some("ExternalName") => Kind::External(spec.external_name.as_deref().unwrap_or_default().into()),
        _ => {
            let all = spec.cluster_ips.clone().unwrap_or_else(|| spec.cluster_ip.iter().cloned().collect());
            let headless = all.iter().any(|address| address == "None");
            let addresses: Vec<IpAddr> = all.iter().filter_map(|address| address.parse().ok()).collect();
            if headless { Kind::Headless } else { Kind::Cluster(addresses) }
        }
    };
    (kind, ports.collect())
}

/// The addresses and names by which a Service is reached from outside, each once.
fn externals_of(service: &core::Service) -> Vec<Target> {
    let given = service.spec.iter().flat_map(|spec| spec.external_ips.iter().flatten().map(String::as_str));
    let balancer = service.status.iter().filter_map(|status| status.load_balancer.as_ref());
    let balancers = balancer.flat_map(|balancer| balancer.ingress.iter().flatten()).filter_map(|ingress| {
        let address = ingress.ip.as_deref().filter(|address| !address.is_empty());
        address.or(ingress.hostname.as_deref())
    });
    let mut externals = Vec::new();
    for text in given.chain(balancers) {
        let external = match text.parse() {
            Ok(address) => Target::Address(address),
            Err(_) => match Name::parse(text) {
                Ok(name) if !name.is_root() => Target::Name(name.into()),
                _ => continue,
            },
        };
        if !externals.contains(&external) {
            externals.push(external);
        }
    }
    externals
}

/// The Service that a slice belongs to.
fn service_name(slice: &EndpointSlice) -> Option<&str> {
    slice.metadata.labels.as_ref()?.get("kubernetes.io/service-name").map(String::as_str)
}

/// The addresses of a Pod that is alive.
fn pod_addresses(pod: &core::Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed" | "Unknown"));
    if over || pod.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let all = status.pod_ips.iter().flatten().map(|address| address.ip.as_str());
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in all.chain(status.pod_ip.as_deref()).filter_map(|ip| ip.parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}
