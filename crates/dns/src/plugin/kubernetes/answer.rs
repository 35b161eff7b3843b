//! From a question to records: the table of the Kubernetes DNS specification.

use super::{
    Kubernetes, Pods,
    names::{Fallback, Labels, Meaning, Part, of_key, undashed},
    records::{Endpoint, Kind, Port, Service, bytes},
};
use crate::{
    query::Query,
    wire::{
        Name, Record, Reply, Section,
        code::{class, rtype},
        from_reverse,
    },
};
use std::net::IpAddr;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The reply has them.
    Records,
    /// The name exists, but has no such records.
    NoData,
    /// There is no such name.
    NoName,
    /// The reply has a CNAME; what it points to is elsewhere.
    External(Box<Name>),
    /// Not to be had here.
    Refused,
}

/// Version of the specification that is followed.
const VERSION: &str = "1.1.0";
/// TTL of the record that says so.
const VERSION_TTL: u32 = 28_800;
/// ExternalNames that lead from one to another.
const CHAIN: usize = 8;

impl Kubernetes {
    /// Adds the records for a question to the reply.
    pub(super) fn find(&self, zone: &Name, query: &Query, reply: &mut Reply) -> Found {
        let Some(above) = query.lower.above(zone) else { return Found::NoName };
        let labels = Labels::new(above, zone).with_zones(self.zonal);
        let name = &query.request.name;
        match query.request.rtype {
            rtype::A | rtype::AAAA if labels.is(&[b"ns", b"dns"]) => {
                let wanted = query.request.rtype == rtype::AAAA;
                let servers = self.servers(zone).into_iter().filter(|(_, address)| address.is_ipv6() == wanted);
                servers.for_each(|(_, address)| reply.add_address(Section::Answer, name, self.ttl, address));
                or_nothing(reply)
            }
            rtype::A | rtype::AAAA => self.addresses(zone, &labels, query, reply),
            rtype::SRV if labels.is(&[b"ns", b"dns"]) => Found::NoData,
            rtype::SRV => self.srv(zone, &labels, query, reply),
            rtype::PTR => match from_reverse(&query.lower) {
                Some(address) => self.ptr(address, query, reply),
                None => self.exists(&labels),
            },
            rtype::TXT if labels.only() == Some(b"dns-version") => {
                reply.add(Section::Answer, &Record::txt(*name, class::IN, VERSION_TTL, VERSION));
                Found::Records
            }
            // Only names that have records exist for TXT; namespaces and the like do not.
            rtype::TXT => match self.exists_with_records(&labels) {
                true => Found::NoData,
                false => Found::NoName,
            },
            rtype::CNAME => match self.service(&labels) {
                Some((service, Part::Whole)) if matches!(service.kind, Kind::External(_)) => {
                    let Some(target) = external(&service) else { return Found::NoName };
                    reply.add(Section::Answer, &Record::pointer(*name, rtype::CNAME, self.ttl, &target));
                    Found::Records
                }
                _ if labels.is(&[b"ns", b"dns"]) => Found::NoData,
                _ => self.exists(&labels),
            },
            rtype::SOA if above.is_empty() => {
                self.soa(Section::Answer, zone, query, reply);
                Found::Records
            }
            rtype::SOA => Found::NoData,
            rtype::NS if above.is_empty() => self.ns(zone, query, reply),
            rtype::AXFR | rtype::IXFR => Found::Refused,
            _ if labels.is(&[b"ns", b"dns"]) => Found::NoData,
            _ => self.exists(&labels),
        }
    }

    pub(super) fn exposed(&self, namespace: &[u8]) -> bool {
        let allowed = self.namespaces.is_empty() || self.namespaces.iter().any(|known| **known == *namespace);
        allowed && self.cluster.records.namespaces.load().contains(namespace)
    }

    /// The Service that a name is about, if it is exposed.
    fn service<'a>(&self, labels: &Labels<'a>) -> Option<(std::sync::Arc<Service>, Part<'a>)> {
        match labels.meaning() {
            Meaning::Service { key, namespace, part } if self.exposed(namespace) => {
                let service = self.cluster.records.services.get(key)?;
                let empty = matches!(service.kind, Kind::Cluster(_)) && service.endpoints().next().is_none();
                (!(self.ignore_empty && empty)).then_some((service, part))
            }
            _ => None,
        }
    }

    fn pod(&self, address: &[u8], namespace: &[u8]) -> Option<IpAddr> {
        if self.pods == Pods::Disabled || !self.exposed(namespace) {
            return None;
        }
        let label = address;
        let address = undashed(label)?;
        let is_there = || {
            // Pods are found by the text of their address: another way to write it is another name.
            let text = address.to_string();
            let same = |(one, other): (u8, &u8)| one == *other || *other == b'-' && matches!(one, b'.' | b':');
            let is_written_so = text.len() == label.len() && text.bytes().zip(label).all(same);
            is_written_so && self.cluster.records.has_pod(address, namespace)
        };
        (self.pods == Pods::Insecure || is_there()).then_some(address)
    }

    /// Whether there is such a name at all.
    fn exists(&self, labels: &Labels<'_>) -> Found {
        let there = match labels.meaning() {
            Meaning::Empty => true,
            Meaning::Namespace(namespace) => self.exposed(namespace),
            Meaning::PodNamespace(namespace) => self.pods != Pods::Disabled && self.exposed(namespace),
            _ => self.exists_with_records(labels),
        };
        if there { Found::NoData } else { Found::NoName }
    }

    fn exists_with_records(&self, labels: &Labels<'_>) -> bool {
        match labels.meaning() {
            Meaning::Pod { address, namespace } => self.pod(address, namespace).is_some(),
            Meaning::Service { .. } => self.service(labels).is_some_and(|(service, part)| service.has(part)),
            _ => false,
        }
    }

    fn addresses(&self, zone: &Name, labels: &Labels<'_>, query: &Query, reply: &mut Reply) -> Found {
        let name = &query.request.name;
        let wanted = query.request.rtype == rtype::AAAA;
        if let Meaning::Pod { address, namespace } = labels.meaning() {
            return match self.pod(address, namespace) {
                None => Found::NoName,
                Some(address) if address.is_ipv6() == wanted => {
                    reply.add_address(Section::Answer, name, self.ttl, address);
                    Found::Records
                }
                Some(_) => Found::NoData,
            };
        }
        let Some((service, part)) = self.service(labels) else { return self.exists(labels) };
        if let Kind::External(_) = service.kind {
            return match part {
                Part::Whole => self.external(zone, &service, query, reply),
                _ => Found::NoName,
            };
        }
        if !service.has(part) {
            return Found::NoName;
        }
        let whole = matches!((part, &service.kind), (Part::Whole, _) | (Part::Port { .. }, Kind::Cluster(_)));
        if whole {
            let written = &service.written[usize::from(wanted)];
            reply.add_answers(written.count, written.bytes());
            return or_nothing(reply);
        }
        let mut seen = Vec::new();
        for endpoint in service.fitting(part) {
            if endpoint.address.is_ipv6() == wanted && !seen.contains(&endpoint.address) {
                seen.push(endpoint.address);
                reply.add_address(Section::Answer, name, self.ttl, endpoint.address);
            }
        }
        or_nothing(reply)
    }

    /// A CNAME, and what it points to if that is in the cluster.
    fn external(&self, zone: &Name, service: &Service, query: &Query, reply: &mut Reply) -> Found {
        let Some(target) = external(service) else { return Found::NoName };
        if target == query.request.name || query.depth as usize >= CHAIN {
            return Found::NoData;
        }
        if !target.is_within(zone) {
            reply.add(Section::Answer, &Record::pointer(query.request.name, rtype::CNAME, self.ttl, &target));
            return Found::External(Box::new(target));
        }
        let Some(inner) = query.derived(target, query.request.rtype) else { return Found::NoData };
        let mut found = Reply::new();
        found.reset(&target, query.request.rtype, query.request.class);
        let outcome = self.find(zone, &inner, &mut found);
        let Some(message) = found.message().filter(|message| !message.answer().is_empty()) else {
            return Found::NoData;
        };
        reply.add(Section::Answer, &Record::pointer(query.request.name, rtype::CNAME, self.ttl, &target));
        message.answer().iter().for_each(|record| reply.add(Section::Answer, record));
        match outcome {
            Found::External(target) => Found::External(target),
            _ => Found::Records,
        }
    }

    fn srv(&self, zone: &Name, labels: &Labels<'_>, query: &Query, reply: &mut Reply) -> Found {
        let meaning = labels.meaning();
        let suffix = as_asked(zone, &query.request.name);
        // Target, address, port.
        let mut entries: Vec<(Name, IpAddr, u16)> = Vec::new();
        // Also those without a port, which count when weights are made.
        let mut total = 0;
        match meaning {
            Meaning::Pod { address, namespace } => {
                let Some(found) = self.pod(address, namespace) else { return Found::NoName };
                total = 1;
                entries.push((query.request.name, found, 0));
            }
            Meaning::Service { key, .. } => {
                let Some((service, part)) = self.service(labels) else { return self.exists(labels) };
                if matches!(service.kind, Kind::External(_)) {
                    // A target that is no address has no SRV record, but the name is there.
                    return if part == Part::Whole { Found::NoData } else { Found::NoName };
                }
                if !service.has(part) {
                    return Found::NoName;
                }
                service.each(part, |endpoint, address, port| {
                    total += 1;
                    if let (Some(port), Some(target)) = (port, target(endpoint, key, &suffix)) {
                        entries.push((target, address, port));
                    }
                });
            }
            _ => return self.exists(labels),
        }
        let weight = (100.0 / (100.0 * f64::from(total)) * 100.0).floor().max(1.0) as u16;
        let mut ports: Vec<(Name, u16)> = Vec::new();
        for (target, _, port) in &entries {
            if !ports.contains(&(*target, *port)) {
                ports.push((*target, *port));
                reply.add(Section::Answer, &srv_record(query.request.name, self.ttl, weight, *port, target));
            }
        }
        let mut glue: Vec<(Name, IpAddr)> = Vec::new();
        for (target, address, _) in &entries {
            if !glue.contains(&(*target, *address)) {
                glue.push((*target, *address));
                reply.add_address(Section::Additional, target, self.ttl, *address);
            }
        }
        or_nothing(reply)
    }

    fn ptr(&self, address: IpAddr, query: &Query, reply: &mut Reply) -> Found {
        let Some(owners) = self.cluster.records.owners.get(&bytes(address)) else { return Found::NoName };
        let exposed = |key: &[u8]| of_key(key).is_some_and(|(_, namespace)| self.exposed(namespace));
        let mut add = |target: Option<Name>| {
            if let Some(target) = target {
                reply.add(Section::Answer, &Record::pointer(query.request.name, rtype::PTR, self.ttl, &target));
            }
        };
        let exposed: Vec<_> = owners.iter().filter(|(key, _)| exposed(key)).collect();
        // An address of a Service itself comes before those of endpoints.
        match exposed.iter().find(|(_, label)| label.is_none()) {
            Some((key, _)) => add(target(None, key, &self.primary)),
            None => exposed.iter().for_each(|(key, label)| add(target(label.as_deref(), key, &self.primary))),
        }
        if reply.count(Section::Answer) == 0 { Found::NoName } else { Found::Records }
    }

    /// Addresses of this machine that others can reach.
    pub(super) fn own_addresses(&self) -> Vec<IpAddr> {
        self.local.iter().copied().filter(|address| !address.is_loopback()).collect()
    }

    /// The name servers of the zone, once for each address: the Services in front of this server, or this machine itself.
    fn servers(&self, suffix: &Name) -> Vec<(Name, IpAddr)> {
        let mut servers: Vec<(Name, IpAddr)> = Vec::new();
        for own in self.own_addresses() {
            let Some(owners) = self.cluster.records.owners.get(&bytes(own)) else { continue };
            for (key, _) in owners.iter().filter(|(_, label)| label.is_some()) {
                let Some(service) = self.cluster.records.services.get(key) else { continue };
                let mut add = |label, address| {
                    let found = target(label, key, suffix).map(|name| (name, address));
                    servers.extend(found.filter(|found| !servers.contains(found)));
                };
                match &service.kind {
                    Kind::Cluster(addresses) => addresses.iter().for_each(|address| add(None, *address)),
                    Kind::Headless => service.endpoints().for_each(|one| add(Some(&*one.label), one.address)),
                    Kind::External(_) => {}
                }
            }
        }
        if servers.is_empty()
            && let Ok(own) = Name::under([&b"ns"[..], b"dns"], suffix)
        {
            servers.extend(self.own_addresses().into_iter().map(|address| (own, address)));
        }
        servers
    }

    fn ns(&self, zone: &Name, query: &Query, reply: &mut Reply) -> Found {
        let servers = self.servers(&as_asked(zone, &query.request.name));
        let mut names: Vec<&Name> = Vec::new();
        for (name, _) in &servers {
            if !names.contains(&name) {
                names.push(name);
                reply.add(Section::Answer, &Record::pointer(query.request.name, rtype::NS, self.ttl, name));
            }
        }
        servers.iter().for_each(|(name, address)| reply.add_address(Section::Additional, name, self.ttl, *address));
        or_nothing(reply)
    }

    /// Adds the SOA record of a zone, written as the question writes the zone.
    pub(super) fn soa(&self, section: Section, zone: &Name, query: &Query, reply: &mut Reply) {
        let zone = as_asked(zone, &query.request.name);
        let under = |labels: &[&'static [u8]]| Name::under(labels.iter().copied(), &zone).unwrap_or(zone);
        let names = [&under(&[b"ns", b"dns"]), &under(&[b"hostmaster"])];
        let numbers = [self.cluster.records.serial(), 7200, 1800, 86_400, self.ttl];
        reply.add_soa(section, &zone, self.ttl.min(300), names, numbers);
    }
}

impl Service {
    /// Whether the name with this part in front has any record.
    fn has(&self, part: Part<'_>) -> bool {
        match (&self.kind, part) {
            (Kind::External(_), Part::Whole) => true,
            (Kind::External(_), _) => false,
            (Kind::Cluster(_), Part::Whole) => true,
            (Kind::Cluster(_), Part::Port { name, protocol }) => {
                self.ports.iter().any(|port| port.fits(name, protocol))
            }
            // A zone without endpoints and one that nobody has look the same: the name is there.
            (Kind::Headless, Part::Zone { .. }) => true,
            (Kind::Cluster(_), Part::Zone { .. }) => false,
            (Kind::Cluster(_), Part::Endpoint(_)) | (Kind::Headless, _) => self.fitting(part).next().is_some(),
        }
    }

    /// The endpoints that a part is about.
    fn fitting<'a>(&'a self, part: Part<'a>) -> impl Iterator<Item = &'a Endpoint> {
        let is_in = |endpoint: &Endpoint, zone: &[u8]| endpoint.zone.as_deref() == Some(zone);
        let everywhere = match part {
            Part::Zone { zone, fallback: Fallback::Everything } => !self.endpoints().any(|one| is_in(one, zone)),
            _ => false,
        };
        self.endpoints().filter(move |endpoint| match part {
            Part::Whole => true,
            Part::Zone { zone, .. } => everywhere || is_in(endpoint, zone),
            Part::Endpoint(label) => endpoint.label.as_bytes() == label,
            Part::Port { name, protocol } => endpoint.ports.iter().any(|port| port.fits(name, protocol)),
        })
    }

    /// Every address with every port that a part is about; the endpoint's label if it has a name of its own.
    fn each(&self, part: Part<'_>, mut visit: impl FnMut(Option<&str>, IpAddr, Option<u16>)) {
        let fits = |port: &&Port| match part {
            Part::Port { name, protocol } => port.fits(name, protocol),
            _ => true,
        };
        match (&self.kind, part) {
            (Kind::Cluster(addresses), Part::Whole | Part::Port { .. }) => {
                let ports: Vec<Option<u16>> = self.ports.iter().filter(fits).map(|port| Some(port.number)).collect();
                let ports = if self.ports.is_empty() { vec![None] } else { ports };
                for port in ports {
                    addresses.iter().for_each(|address| visit(None, *address, port));
                }
            }
            _ => {
                for endpoint in self.fitting(part) {
                    if endpoint.ports.is_empty() {
                        visit(Some(&endpoint.label), endpoint.address, None);
                    }
                    for port in endpoint.ports.iter().filter(fits) {
                        visit(Some(&endpoint.label), endpoint.address, Some(port.number));
                    }
                }
            }
        }
    }
}

impl Port {
    pub(super) fn fits(&self, name: &[u8], protocol: &[u8]) -> bool {
        let fits = |own: &str, wanted: &[u8]| wanted.is_empty() || own.as_bytes() == wanted;
        fits(&self.name, name) && fits(&self.protocol, protocol)
    }
}

fn or_nothing(reply: &Reply) -> Found {
    if reply.count(Section::Answer) == 0 { Found::NoData } else { Found::Records }
}

/// Where an ExternalName points to; an address is no name.
fn external(service: &Service) -> Option<Name> {
    match &service.kind {
        Kind::External(target) if target.parse::<IpAddr>().is_err() && !target.is_empty() => Name::parse(target).ok(),
        _ => None,
    }
}

/// The zone as it stands at the end of the name asked for.
fn as_asked(zone: &Name, name: &Name) -> Name {
    let tail = name.wire().len().checked_sub(zone.wire().len()).and_then(|cut| name.wire().get(cut..));
    tail.and_then(|tail| Name::from_wire(tail).ok()).unwrap_or(*zone)
}

/// `[endpoint.]svc.ns.svc.zone`.
fn target(endpoint: Option<&str>, key: &[u8], zone: &Name) -> Option<Name> {
    let (service, namespace) = of_key(key)?;
    let labels = endpoint.map(str::as_bytes).into_iter().chain([service, namespace, b"svc"]);
    Name::under(labels, zone).ok()
}

pub(crate) fn srv_record(name: Name, ttl: u32, weight: u16, port: u16, target: &Name) -> Record {
    let mut data = vec![0, 0];
    data.extend(weight.to_be_bytes());
    data.extend(port.to_be_bytes());
    data.extend_from_slice(target.wire());
    Record { name, rtype: rtype::SRV, class: class::IN, ttl, data }
}
