//! The servers behind a Service: one for each pod, whatever families it has.

use super::Port;
use crate::router::text;
use k8s_openapi::api::{
    core::v1::{Service, ServicePort},
    discovery::v1::{Endpoint, EndpointPort, EndpointSlice},
};
use net::{Family, HasFamily};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

/// One place that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The same for the same pod and port, whichever address leads there.
    pub name: String,
    pub address: SocketAddr,
    /// Its share, 0 to 256.
    pub weight: u16,
    /// HTTP/2 without TLS.
    pub h2c: bool,
    /// Which Service it belongs to; pods of reencrypt prove that name.
    pub service: String,
}

/// Whether this machine has a way to an address.
pub type Reaches<'a> = &'a dyn Fn(IpAddr) -> bool;

/// A Service with its slices.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The Service; slices without one are not used.
    pub service: Arc<Service>,
    /// In any order.
    pub slices: Vec<Arc<EndpointSlice>>,
}

const IDLED: &str = "idling.alpha.openshift.io/idled-at";

impl Workload {
    /// The servers for a port, or for all. A pod of both families is reached by the Service's first, if there is a way.
    pub fn servers(&self, port: Option<&Port>, reaches: Reaches<'_>) -> Vec<Server> {
        let name = self.service.metadata.name.clone().unwrap_or_default();
        let mut found: BTreeMap<String, (bool, Vec<SocketAddr>)> = BTreeMap::new();
        for slice in &self.slices {
            let ports: Vec<(&EndpointPort, u16)> = self.ports(slice, port).collect();
            for endpoint in slice.endpoints.iter().flatten().filter(|endpoint| is_ready(endpoint)) {
                let Some(ip) = address(slice, endpoint) else { continue };
                for (port, number) in &ports {
                    let server = server_name(&name, endpoint, port.name.as_deref().unwrap_or_default(), ip, *number);
                    let entry = found.entry(server).or_insert_with(|| (self.is_h2c(port), Vec::new()));
                    entry.1.push(SocketAddr::new(ip, *number));
                }
            }
        }
        let servers: Vec<Server> = found
            .into_iter()
            .filter_map(|(server, (h2c, addresses))| {
                let address = self.preferred(addresses, reaches)?;
                Some(Server { name: server, address, weight: 1, h2c, service: name.clone() })
            })
            .collect();
        if servers.is_empty() { self.idled(port, reaches).into_iter().collect() } else { servers }
    }

    /// Of the addresses of one pod, the one to use.
    fn preferred(&self, mut addresses: Vec<SocketAddr>, reaches: Reaches<'_>) -> Option<SocketAddr> {
        let first = self.families().first().copied();
        // One address needs no choice, and so no question.
        if addresses.len() > 1 {
            addresses
                .sort_by_cached_key(|address| (!reaches(address.ip()), Some(address.ip().family()) != first, *address));
        }
        addresses.first().copied()
    }

    fn families(&self) -> Vec<Family> {
        let spec = self.service.spec.as_ref();
        let named: Vec<Family> = spec
            .iter()
            .flat_map(|spec| spec.ip_families.iter().flatten())
            .filter_map(|name| name.parse().ok())
            .collect();
        if named.is_empty() { self.cluster_ips().iter().map(HasFamily::family).collect() } else { named }
    }

    fn cluster_ips(&self) -> Vec<IpAddr> {
        let spec = self.service.spec.as_ref();
        let all = spec.iter().flat_map(|spec| spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip));
        all.filter_map(|text| text.parse().ok()).filter(|ip| is_usable(*ip)).collect()
    }

    /// The ports of a slice that are asked for: by name, by the pod's number, or by the Service's own number.
    fn ports<'a>(
        &'a self,
        slice: &'a EndpointSlice,
        wanted: Option<&'a Port>,
    ) -> impl Iterator<Item = (&'a EndpointPort, u16)> {
        let tcp = |protocol: Option<&str>| protocol.is_none_or(|protocol| protocol == "TCP");
        let all = move || slice.ports.iter().flatten().filter(move |port| tcp(port.protocol.as_deref()));
        let number =
            |port: &EndpointPort| port.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        let by_number = |wanted: u16| all().any(|port| number(port) == Some(wanted));
        let service_port = |wanted: u16| self.service_ports().find(|port| port.port == i32::from(wanted));
        let name: Option<Option<String>> = match wanted {
            Some(Port::Name(name)) => Some(Some(name.clone())),
            Some(Port::Number(wanted)) if !by_number(*wanted) => {
                Some(service_port(*wanted).map(|port| port.name.clone().unwrap_or_default()))
            }
            _ => None,
        };
        let exact = match (wanted, &name) {
            (Some(Port::Number(wanted)), None) => Some(*wanted),
            _ => None,
        };
        all().filter_map(move |port| {
            let named =
                name.as_ref().is_none_or(|name| name.as_deref() == Some(port.name.as_deref().unwrap_or_default()));
            let number = number(port)?;
            (named && exact.is_none_or(|exact| exact == number) && is_plain(port.name.as_deref()))
                .then_some((port, number))
        })
    }

    fn service_ports(&self) -> impl Iterator<Item = &ServicePort> {
        self.service.spec.iter().flat_map(|spec| spec.ports.iter().flatten())
    }

    fn is_h2c(&self, port: &EndpointPort) -> bool {
        let of_service = || {
            let name = port.name.as_deref().unwrap_or_default();
            let same = |candidate: &&ServicePort| candidate.name.as_deref().unwrap_or_default() == name;
            self.service_ports().find(same).and_then(|port| port.app_protocol.clone())
        };
        let protocol = port.app_protocol.clone().or_else(of_service);
        matches!(protocol.as_deref(), Some("h2c" | "kubernetes.io/h2c"))
    }

    /// A Service that sleeps is woken by traffic to its own address.
    fn idled(&self, port: Option<&Port>, reaches: Reaches<'_>) -> Option<Server> {
        self.service.metadata.annotations.as_ref()?.get(IDLED)?;
        let wanted = |candidate: &&ServicePort| match port {
            Some(Port::Name(name)) => candidate.name.as_ref() == Some(name),
            Some(Port::Number(number)) => candidate.port == i32::from(*number),
            None => true,
        };
        let number = u16::try_from(self.service_ports().find(wanted)?.port).ok()?;
        let addresses = self.cluster_ips().into_iter().map(|ip| SocketAddr::new(ip, number)).collect();
        let service = self.service.metadata.name.clone()?;
        let address = self.preferred(addresses, reaches)?;
        Some(Server { name: format!("svc:{service}:{number}"), address, weight: 1, h2c: false, service })
    }
}

/// What the API takes as a port's name; anything else is not used.
fn is_plain(name: Option<&str>) -> bool {
    name.is_none_or(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

/// The address, if it is of the slice's family and traffic may go there.
fn address(slice: &EndpointSlice, endpoint: &Endpoint) -> Option<IpAddr> {
    let family: Family = slice.address_type.parse().ok()?;
    let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    (ip.family() == family && is_usable(ip)).then_some(ip)
}

fn server_name(service: &str, endpoint: &Endpoint, port: &str, ip: IpAddr, number: u16) -> String {
    let pod = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
    // Whoever may write slices may write any name into them.
    let pod = pod.and_then(|target| target.name.as_deref()).filter(|name| text::is_host(name));
    match pod {
        Some(pod) => format!("pod:{pod}:{service}:{port}:{number}"),
        None => format!("ept:{service}:{port}:{ip}:{number}"),
    }
}

/// Whether traffic may be sent there: no loopback, no link, no cloud's metadata, also not hidden in an IPv6 address.
pub fn is_usable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_usable_v4(ip),
        IpAddr::V6(ip) => {
            let hidden = ip.to_ipv4();
            let metadata = ip.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_unicast_link_local() || metadata)
                && hidden.is_none_or(is_usable_v4)
        }
    }
}

fn is_usable_v4(ip: Ipv4Addr) -> bool {
    let azure = Ipv4Addr::new(168, 63, 129, 16);
    !(ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip == azure)
}
