//! Everything the router knows, and what a change means for it.
//!
//! Callers say which objects changed and then ask once what follows ([`Model::settle`]). The work depends on what the change
//! concerns, not on how many Routes there are.

use super::{
    Certificate, Claim, Host, Id, Refusal, Server, Source, Termination, Workload, elect, ingress,
    maps::{Entries, Leads, Map, entries},
    route,
    weights::{Share, weights},
};
use crate::router::{settings::Admission, text};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::Ingress,
};
use runtime::{controller::Key, operator::Route};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

/// A claim that is served, with its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// What was asked for.
    pub claim: Arc<Claim>,
    /// In order of their names.
    pub servers: Vec<Server>,
}

/// What is different now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Hosts whose entries may have changed.
    pub hosts: BTreeSet<Host>,
    /// Claims whose backend came, changed or went.
    pub backends: BTreeSet<Id>,
    /// Objects whose verdict may have changed.
    pub objects: BTreeSet<(Source, Key)>,
    /// Whether a host has another certificate than before.
    pub certificates: bool,
}

/// The objects as they are stored. `Model` asks for those that a change concerns.
pub trait Objects {
    fn route(&self, key: &Key) -> Option<Arc<Route>>;
    /// An Ingress, if its class is this router's.
    fn ingress(&self, key: &Key) -> Option<Arc<Ingress>>;
    fn service(&self, key: &Key) -> Option<Arc<Service>>;
    fn slices(&self, service: &Key) -> Vec<Arc<EndpointSlice>>;
    fn secret(&self, key: &Key) -> Option<Arc<Secret>>;
    /// The labels of a namespace; asked only when they matter.
    fn namespace_labels(&self, name: &str) -> Option<BTreeMap<String, String>>;
    /// Whether this machine has a way to an address.
    fn reaches(&self, ip: IpAddr) -> bool;
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Everything the router knows.
#[derive(Debug, Default)]
pub struct Model {
    rules: Arc<Admission>,
    claims: HashMap<Id, Result<Arc<Claim>, Refusal>>,
    of_object: HashMap<(Source, Key), Vec<Id>>,
    hosts: HashMap<Host, BTreeSet<Id>>,
    /// The names below each domain, kept only where wildcards are allowed.
    below: HashMap<String, HashSet<Host>>,
    verdicts: HashMap<Id, Result<(), Refusal>>,
    entries: HashMap<Host, Entries>,
    backends: HashMap<Id, Arc<Backend>>,
    service_users: HashMap<Key, BTreeSet<Id>>,
    secret_users: HashMap<Key, BTreeSet<(Source, Key)>>,
    secrets_of: HashMap<(Source, Key), Vec<Key>>,
    /// Whether a Secret was named that was not, or is not that was.
    named_others: bool,
    /// The certificate of each host that has one of its own.
    certificates: BTreeMap<Host, Certificate>,
    changed_objects: BTreeSet<(Source, Key)>,
    changed_services: BTreeSet<Key>,
}

impl Model {
    /// An empty one.
    pub fn new(rules: Admission) -> Self {
        Self { rules: Arc::new(rules), ..Self::default() }
    }

    /// A Route or Ingress came, changed or went, or what decides whether it is this router's.
    pub fn object_changed(&mut self, source: Source, key: Key) {
        self.changed_objects.insert((source, key));
    }

    /// A Service or one of its slices changed.
    pub fn service_changed(&mut self, key: Key) {
        if self.service_users.contains_key(&key) {
            self.changed_services.insert(key);
        }
    }

    pub fn secret_changed(&mut self, key: &Key) {
        self.changed_objects.extend(self.secret_users.get(key).into_iter().flatten().cloned());
    }

    /// The ways to the pods changed: every address is chosen anew.
    pub fn reach_changed(&mut self) {
        self.changed_services.extend(self.service_users.keys().cloned());
    }

    /// Objects that this router has claims of.
    pub fn objects(&self) -> impl Iterator<Item = &(Source, Key)> {
        self.of_object.keys()
    }

    /// The backend of a claim, if it is served.
    pub fn backend(&self, id: &Id) -> Option<&Arc<Backend>> {
        self.backends.get(id)
    }

    /// Every backend.
    pub fn backends(&self) -> impl Iterator<Item = (&Id, &Arc<Backend>)> {
        self.backends.iter()
    }

    /// What the maps should hold for a host.
    pub fn entries(&self, host: &Host) -> Option<&Entries> {
        self.entries.get(host)
    }

    /// Every host with its entries.
    pub fn hosts(&self) -> impl Iterator<Item = (&Host, &Entries)> {
        self.entries.iter()
    }

    /// The certificate of each host that has one of its own.
    pub fn certificates(&self) -> &BTreeMap<Host, Certificate> {
        &self.certificates
    }

    /// What became of an object: one verdict for each of its claims. `None` when it is not this router's.
    pub fn verdicts(&self, source: Source, key: &Key) -> Option<Vec<Result<(), Refusal>>> {
        let ids = self.of_object.get(&(source, key.clone()))?;
        let verdict = |id: &Id| match self.claims.get(id) {
            Some(Err(refusal)) => Err(refusal.clone()),
            _ => self.verdicts.get(id).cloned().unwrap_or(Ok(())),
        };
        Some(ids.iter().map(verdict).collect())
    }

    /// What an object that is served asks for in vain.
    pub fn ignored(&self, source: Source, key: &Key) -> Vec<String> {
        let ids = self.of_object.get(&(source, key.clone())).into_iter().flatten();
        // All claims of an Ingress have its annotations.
        let first = ids.filter_map(|id| self.claims.get(id)?.as_ref().ok()).next();
        first.map(|claim| claim.ignored.clone()).unwrap_or_default()
    }

    /// The Secrets that objects name, if they are others than at the last call.
    pub fn take_named_secrets(&mut self) -> Option<HashSet<Key>> {
        std::mem::take(&mut self.named_others).then(|| self.secret_users.keys().cloned().collect())
    }

    /// Takes up everything that changed since the last call.
    pub fn settle(&mut self, objects: &dyn Objects) -> Delta {
        let mut delta = Delta::default();
        for (source, key) in std::mem::take(&mut self.changed_objects) {
            self.read_object(source, &key, objects, &mut delta);
        }
        let mut stale = BTreeSet::new();
        for host in self.related(&delta.hosts) {
            self.settle_host(&host, &mut delta, &mut stale);
            delta.hosts.insert(host);
        }
        // Claims that no longer are lose their backend.
        let gone = delta.backends.iter().filter(|id| !self.claims.get(*id).is_some_and(Result::is_ok));
        stale.extend(gone.cloned());
        for service in std::mem::take(&mut self.changed_services) {
            stale.extend(self.service_users.get(&service).into_iter().flatten().cloned());
        }
        for id in stale {
            self.settle_backend(&id, objects, &mut delta);
        }
        delta
    }

    /// Reads an object's claims again.
    fn read_object(&mut self, source: Source, key: &Key, objects: &dyn Objects, delta: &mut Delta) {
        let at = (source, key.clone());
        let found = self.claims_of(source, key, objects);
        let old = self.of_object.remove(&at).unwrap_or_default();
        for id in &old {
            if let Some(Ok(claim)) = self.claims.remove(id) {
                self.unlink(&claim);
                delta.hosts.insert(claim.host.clone());
            }
        }
        delta.objects.insert(at.clone());
        // A claim that is gone is looked at as well, so that its backend goes.
        delta.backends.extend(old);
        let Some(found) = found else { return };
        let ids = found.iter().map(|(id, _)| id.clone()).collect();
        for (id, claim) in found {
            delta.backends.insert(id.clone());
            if let Ok(claim) = &claim {
                self.link(claim);
                delta.hosts.insert(claim.host.clone());
            }
            self.claims.insert(id, claim.map(Arc::new));
        }
        self.of_object.insert(at, ids);
    }

    /// `None` when the object is gone or not this router's.
    fn claims_of(
        &mut self,
        source: Source,
        key: &Key,
        objects: &dyn Objects,
    ) -> Option<Vec<(Id, Result<Claim, Refusal>)>> {
        let at = (source, key.clone());
        self.uses_secrets(&at, Vec::new());
        let rules = &*Arc::clone(&self.rules);
        // The API sees to that; names go into the configuration, so it is not taken on trust.
        if !text::is_host(&key.namespace) || !text::is_host(&key.name) {
            let refusal = Refusal::field("metadata.name", &key.to_string(), "letters, digits, dashes and dots");
            return Some(vec![(Id { key: key.clone(), source, part: 0 }, Err(refusal))]);
        }
        if !rules.namespaces.is_everything()
            && !rules.namespaces.picks(objects.namespace_labels(&key.namespace).as_ref())
        {
            return None;
        }
        match source {
            Source::Route => {
                let route = objects.route(key).filter(|route| rules.routes.picks(route.metadata.labels.as_ref()))?;
                let external = route.spec.tls.as_ref().and_then(|tls| tls.external_certificate.as_ref());
                let secret = external.map(|secret| Key::new(key.namespace.clone(), secret.name.clone()));
                let found = secret.as_ref().and_then(|secret| objects.secret(secret));
                let claim = route::claim(&route, rules, found.as_deref(), objects.now());
                self.uses_secrets(&at, secret.into_iter().collect());
                Some(vec![(Id::route(key.clone()), claim)])
            }
            Source::Ingress => {
                let found = objects.ingress(key).filter(|found| rules.routes.picks(found.metadata.labels.as_ref()))?;
                let claims = ingress::claims(&found, rules, |key| objects.secret(key), objects.now());
                self.uses_secrets(&at, ingress::secrets(&found));
                Some(claims)
            }
        }
    }

    /// Notes which Secrets an object depends on, instead of those it did.
    fn uses_secrets(&mut self, at: &(Source, Key), mut secrets: Vec<Key>) {
        // Each is watched by its name: what is none is nobody's.
        secrets.retain(|secret| text::is_host(&secret.name));
        for old in self.secrets_of.remove(at).unwrap_or_default() {
            if let Some(users) = self.secret_users.get_mut(&old) {
                users.remove(at);
                if users.is_empty() {
                    self.secret_users.remove(&old);
                    self.named_others = true;
                }
            }
        }
        for secret in &secrets {
            let users = self.secret_users.entry(secret.clone()).or_default();
            self.named_others |= users.is_empty();
            users.insert(at.clone());
        }
        if !secrets.is_empty() {
            self.secrets_of.insert(at.clone(), secrets);
        }
    }

    fn link(&mut self, claim: &Claim) {
        self.hosts.entry(claim.host.clone()).or_default().insert(claim.id.clone());
        if self.rules.wildcards
            && let Some(domain) = claim.host.domain()
        {
            self.below.entry(domain.to_owned()).or_default().insert(claim.host.clone());
        }
        for target in &claim.targets {
            let service = Key::new(claim.id.key.namespace.clone(), target.service.clone());
            self.service_users.entry(service).or_default().insert(claim.id.clone());
        }
    }

    fn unlink(&mut self, claim: &Claim) {
        let mut is_empty = false;
        if let Some(ids) = self.hosts.get_mut(&claim.host) {
            ids.remove(&claim.id);
            is_empty = ids.is_empty();
        }
        if is_empty {
            self.hosts.remove(&claim.host);
            if let Some(domain) = claim.host.domain()
                && let Some(names) = self.below.get_mut(domain)
            {
                names.remove(&claim.host);
                if names.is_empty() {
                    self.below.remove(domain);
                }
            }
        }
        for target in &claim.targets {
            let service = Key::new(claim.id.key.namespace.clone(), target.service.clone());
            if let Some(users) = self.service_users.get_mut(&service) {
                users.remove(&claim.id);
                if users.is_empty() {
                    self.service_users.remove(&service);
                }
            }
        }
    }

    /// These hosts, and those that a wildcard among them or above them concerns; wildcards come first.
    fn related(&self, hosts: &BTreeSet<Host>) -> Vec<Host> {
        let mut all: BTreeSet<Host> = hosts.clone();
        for host in hosts {
            let Some(domain) = host.domain().filter(|_| self.rules.wildcards) else { continue };
            let wildcard = Host::Below(domain.to_owned());
            if *host == wildcard || self.hosts.contains_key(&wildcard) {
                all.extend(self.below.get(domain).into_iter().flatten().cloned());
            }
        }
        let mut all: Vec<Host> = all.into_iter().collect();
        all.sort_by_key(|host| !matches!(host, Host::Below(_)));
        all
    }

    fn settle_host(&mut self, host: &Host, delta: &mut Delta, stale: &mut BTreeSet<Id>) {
        let claims: Vec<Arc<Claim>> = self.claims_for(host).cloned().collect();
        let above = match host {
            Host::Exact(_) => host.domain().and_then(|domain| self.served(&Host::Below(domain.to_owned()))),
            Host::Below(_) | Host::Any => None,
        };
        let shared = self.rules.shared_hosts;
        let mut verdicts = elect::elect(&claims.iter().collect::<Vec<_>>(), above.as_deref(), shared);
        if let (Host::Below(domain), false) = (host, shared) {
            let names = self.below.get(domain).into_iter().flatten().filter(|name| matches!(name, Host::Exact(_)));
            let names: Vec<&Arc<Claim>> = names.flat_map(|name| self.claims_for(name)).collect();
            for (id, verdict) in &mut verdicts {
                let own = claims.iter().find(|claim| claim.id == *id).filter(|_| verdict.is_ok());
                if let Some(refusal) = own.and_then(|own| elect::blocked(own, names.iter().copied())) {
                    *verdict = Err(refusal);
                }
            }
        }
        let mut served = Vec::new();
        for (id, verdict) in verdicts {
            let changed = self.verdicts.get(&id) != Some(&verdict);
            if verdict.is_ok() {
                served.extend(claims.iter().find(|claim| claim.id == id));
            }
            if changed {
                delta.objects.insert((id.source, id.key.clone()));
                delta.backends.insert(id.clone());
            }
            stale.insert(id.clone());
            self.verdicts.insert(id, verdict);
        }
        let mut entries = entries(&served);
        if self.rules.hostless() && *host != Host::Any && !served.is_empty() {
            entries.insert((Map::Claimed, host.map_key()), Leads::Nowhere);
        }
        match entries.is_empty() {
            true => self.entries.remove(host),
            false => self.entries.insert(host.clone(), entries),
        };
        // Oldest first, as they were elected.
        let certificate = served.iter().filter(|claim| claim.on_tls()).find_map(|claim| claim.certificate.clone());
        if self.certificates.get(host) != certificate.as_ref() {
            delta.certificates = true;
            match certificate {
                Some(certificate) => self.certificates.insert(host.clone(), certificate),
                None => self.certificates.remove(host),
            };
        }
    }

    fn claims_for(&self, host: &Host) -> impl Iterator<Item = &Arc<Claim>> {
        self.hosts.get(host).into_iter().flatten().filter_map(|id| self.claims.get(id)?.as_ref().ok())
    }

    /// The oldest claim of a host that is served.
    fn served(&self, host: &Host) -> Option<Arc<Claim>> {
        let served = self.claims_for(host).filter(|claim| self.verdicts.get(&claim.id).is_some_and(Result::is_ok));
        served.min_by(|a, b| (&a.age, &a.id).cmp(&(&b.age, &b.id))).cloned()
    }

    fn settle_backend(&mut self, id: &Id, objects: &dyn Objects, delta: &mut Delta) {
        let claim = self.claims.get(id).and_then(|claim| claim.as_ref().ok()).cloned();
        if claim.is_none() {
            self.verdicts.remove(id);
        }
        let served = claim.filter(|_| self.verdicts.get(id).is_some_and(Result::is_ok));
        let backend = served.map(|claim| Arc::new(Backend { servers: servers(&claim, objects), claim }));
        if backend.as_ref() == self.backends.get(id) {
            return;
        }
        delta.backends.insert(id.clone());
        match backend {
            Some(backend) => self.backends.insert(id.clone(), backend),
            None => self.backends.remove(id),
        };
    }
}

/// The servers of all targets, with their shares.
fn servers(claim: &Claim, objects: &dyn Objects) -> Vec<Server> {
    let of = |service: &str| {
        let key = Key::new(claim.id.key.namespace.clone(), service);
        let workload = objects.service(&key).map(|service| Workload { service, slices: objects.slices(&key) });
        workload.map(|workload| workload.servers(claim.port.as_ref(), &|ip| objects.reaches(ip))).unwrap_or_default()
    };
    let found: Vec<Vec<Server>> = claim.targets.iter().map(|target| of(&target.service)).collect();
    let share =
        |(target, servers): (&super::Target, &Vec<Server>)| Share { weight: target.weight, servers: servers.len() };
    let shares: Vec<Share> = claim.targets.iter().zip(&found).map(share).collect();
    let mut all: BTreeMap<String, Server> = BTreeMap::new();
    for (weight, servers) in weights(&shares).into_iter().zip(found) {
        // Whoever is passed through has no cookie to come back with.
        if weight == 0 && claim.termination == Termination::Passthrough {
            continue;
        }
        all.extend(servers.into_iter().map(|server| (server.name.clone(), Server { weight, ..server })));
    }
    all.into_values().collect()
}
