//! An EndpointSlice as the data path sees it.

use super::{Name, Protocol};
use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::{self as discovery, EndpointSlice};
use net::{Family, HasFamily, legacy};
use std::net::IpAddr;

/// Names the Service that a slice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// On a slice of a headless Service, which needs no rules.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// When the change that a slice tells of happened.
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// When what the slice tells happened, if it says.
pub(super) fn trigger(object: &EndpointSlice) -> Option<Timestamp> {
    object.metadata.annotations.as_ref()?.get(TRIGGER)?.parse().ok()
}

/// Endpoints of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Of all its addresses.
    pub family: Family,
    /// Where each of the endpoints listens.
    pub ports: Vec<SlicePort>,
    /// In the order of the slice.
    pub endpoints: Vec<Endpoint>,
}

/// A port of all endpoints of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The name of the Service's port.
    pub name: String,
    /// Transport.
    pub protocol: Protocol,
    /// Number.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its first address; the API says that the others are the same thing.
    pub ip: IpAddr,
    /// New connections may go to it.
    pub ready: bool,
    /// It answers, though it may be about to end.
    pub serving: bool,
    /// It is about to end.
    pub terminating: bool,
    /// It is on this node.
    pub local: bool,
    /// Zones that should use it; empty for no hint.
    pub zones: Vec<String>,
    /// Nodes that should use it; empty for no hint.
    pub nodes: Vec<String>,
}

impl Slice {
    /// Reads a slice with the Service it belongs to; `None` for one that needs no rules.
    pub(super) fn read(name: &Name, object: &EndpointSlice, node_name: &str) -> Option<(Name, Self)> {
        let labels = object.metadata.labels.as_ref()?;
        let service = labels.get(SERVICE_NAME).filter(|service| !service.is_empty())?;
        let family = match object.address_type.as_str() {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            _ => return None,
        };
        if labels.contains_key(HEADLESS) {
            return None;
        }
        let ports = object.ports.iter().flatten().filter_map(|port| {
            let read = self::port(port);
            if read.is_none() {
                tracing::warn!(slice = %name, "ports: {:?} {:?} is no TCP, UDP or SCTP port; left out", port.protocol, port.port);
            }
            read
        });
        let endpoints = object.endpoints.iter().flatten().filter_map(|endpoint| {
            let text = endpoint.addresses.first()?;
            match legacy::parse_stored_ip(text) {
                Ok(ip) if ip.family() == family => Some(self::endpoint(endpoint, ip, node_name)),
                _ => {
                    tracing::warn!(slice = %name, "endpoints: {text:?} is no {family} address; left out");
                    None
                }
            }
        });
        let slice = Self { family, ports: ports.collect(), endpoints: endpoints.collect() };
        Some((Name::new(&name.namespace, service), slice))
    }
}

fn port(port: &discovery::EndpointPort) -> Option<SlicePort> {
    Some(SlicePort {
        name: port.name.clone().unwrap_or_default(),
        protocol: Protocol::read(port.protocol.as_deref())?,
        port: u16::try_from(port.port?).ok().filter(|port| *port != 0)?,
    })
}

fn endpoint(endpoint: &discovery::Endpoint, ip: IpAddr, node_name: &str) -> Endpoint {
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
    let hints = endpoint.hints.as_ref();
    Endpoint {
        ip,
        ready,
        serving: conditions.and_then(|conditions| conditions.serving).unwrap_or(ready),
        terminating: conditions.and_then(|conditions| conditions.terminating).unwrap_or(false),
        local: endpoint.node_name.as_deref() == Some(node_name),
        zones: hints
            .and_then(|hints| hints.for_zones.as_ref())
            .map(|zones| zones.iter().map(|zone| zone.name.clone()).collect())
            .unwrap_or_default(),
        nodes: hints
            .and_then(|hints| hints.for_nodes.as_ref())
            .map(|nodes| nodes.iter().map(|node| node.name.clone()).collect())
            .unwrap_or_default(),
    }
}
