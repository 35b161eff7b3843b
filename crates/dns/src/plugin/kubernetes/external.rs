//! The cluster as it is reached from outside: external addresses and load balancers of Services, for `k8s_external`.

use super::{
    Kubernetes,
    names::{bare, key, of_key},
    records::{Kind, Port, Service, Target, bytes},
};
use crate::wire::Name;
use std::net::IpAddr;

/// An address or name with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    /// Of an endpoint that has a name of its own.
    pub(crate) endpoint: Option<std::sync::Arc<str>>,
    pub(crate) target: Target,
    /// None where the Service has no ports.
    pub(crate) port: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundOutside {
    /// At least one.
    Targets(Vec<Outside>),
    /// There is such a name, and nothing to it.
    NoData,
    NoName,
}

impl Kubernetes {
    /// What `[ENDPOINT | _PORT._PROTOCOL].SERVICE.NAMESPACE` leads to; with `headless` also endpoints of Services that have no
    /// address anywhere.
    pub(crate) fn outside(&self, labels: &[&[u8]], headless: bool) -> FoundOutside {
        let [before @ .., namespace] = labels else { return FoundOutside::NoName };
        if !self.exposed(namespace) {
            return FoundOutside::NoName;
        }
        let (endpoint, port, protocol, service) = match before {
            [] => return FoundOutside::NoData,
            [service] => (None, &b""[..], &b""[..], service),
            [endpoint, service] => (Some(bare(endpoint)), &b""[..], &b""[..], service),
            [port, protocol, service] => (None, bare(port), bare(protocol), service),
            _ => return FoundOutside::NoName,
        };
        let key = key_of(service, namespace);
        let Some(found) = self.cluster.records.services.get(&key) else { return FoundOutside::NoName };
        let externals = self.cluster.records.externals.get(&key);
        let fits = |one: &Port| one.fits(port, protocol);
        let is_headless = matches!(found.kind, Kind::Headless);
        let targets = match externals {
            None if headless && (is_headless || endpoint.is_some()) => endpoints(&found, endpoint, (port, protocol)),
            None => Vec::new(),
            Some(externals) => {
                let ports = numbers(&found.ports, fits, port.is_empty() && protocol.is_empty());
                let each = |target: &Target| {
                    ports
                        .iter()
                        .map(|port| Outside { endpoint: None, target: target.clone(), port: *port })
                        .collect::<Vec<_>>()
                };
                externals.iter().flat_map(each).collect()
            }
        };
        if targets.is_empty() { FoundOutside::NoName } else { FoundOutside::Targets(targets) }
    }

    /// `SERVICE.NAMESPACE` of every Service that is reached by this address.
    pub(crate) fn outside_owners(&self, address: IpAddr, zone: &Name) -> Vec<Name> {
        let keys = self.cluster.records.external_owners.get(&bytes(address));
        let exposed = keys.iter().flat_map(|keys| keys.iter()).filter_map(|key| of_key(key));
        let exposed = exposed.filter(|(_, namespace)| self.exposed(namespace));
        exposed.filter_map(|(service, namespace)| Name::under([service, namespace], zone).ok()).collect()
    }

    /// Addresses under which this server is reached from outside.
    pub(crate) fn outside_servers(&self, headless: bool) -> Vec<IpAddr> {
        let records = &self.cluster.records;
        let mut addresses: Vec<IpAddr> = Vec::new();
        let mut has_service = false;
        for owners in self.own_addresses().iter().filter_map(|own| records.owners.get(&bytes(*own))) {
            for (key, _) in owners.iter().filter(|(_, label)| label.is_some()) {
                has_service = true;
                let Some(service) = records.services.get(key) else { continue };
                if headless && matches!(service.kind, Kind::Headless) {
                    addresses.extend(service.endpoints().map(|endpoint| endpoint.address));
                    continue;
                }
                let externals = records.externals.get(key);
                addresses.extend(externals.iter().flat_map(|all| all.iter()).filter_map(|external| match external {
                    Target::Address(address) => Some(*address),
                    Target::Name(_) => None,
                }));
            }
        }
        if !has_service {
            addresses = self.own_addresses();
        }
        let mut seen = Vec::new();
        addresses.retain(|address| {
            !seen.contains(address) && {
                seen.push(*address);
                true
            }
        });
        addresses
    }

    /// Whether what is not known does not exist.
    pub(crate) fn knows_all(&self) -> bool {
        self.cluster.records.synced()
    }

    pub(crate) fn serial(&self) -> u32 {
        self.cluster.records.serial()
    }
}

fn endpoints(service: &Service, label: Option<&[u8]>, (port, protocol): (&[u8], &[u8])) -> Vec<Outside> {
    let wanted = service.endpoints().filter(|one| label.is_none_or(|label| one.label.as_bytes() == label));
    let each = |endpoint: &super::records::Endpoint| {
        let any = port.is_empty() && protocol.is_empty();
        let ports = numbers(&endpoint.ports, |one| one.fits(port, protocol), any);
        let (label, target) = (endpoint.label.clone(), Target::Address(endpoint.address));
        let outside = move |port| Outside { endpoint: Some(label.clone()), target: target.clone(), port };
        ports.into_iter().map(outside).collect::<Vec<_>>()
    };
    wanted.flat_map(each).collect()
}

/// The ports that fit; no port at all is one that fits those who ask for `any`.
fn numbers(ports: &[Port], fits: impl Fn(&Port) -> bool, any: bool) -> Vec<Option<u16>> {
    if ports.is_empty() {
        return if any { vec![None] } else { Vec::new() };
    }
    ports.iter().filter(|port| fits(port)).map(|port| Some(port.number)).collect()
}

/// The key of a Service by the labels of a name.
fn key_of(service: &[u8], namespace: &[u8]) -> Box<[u8]> {
    key(&String::from_utf8_lossy(service), &String::from_utf8_lossy(namespace))
}
