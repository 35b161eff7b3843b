//! A Service as the data path sees it, both families together.

use super::Name;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use net::{Cidr, legacy};
use std::{fmt, net::IpAddr};

/// Who else has this label wants to handle the Service.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";
/// How long a client stays with an endpoint when the Service does not say.
const DEFAULT_AFFINITY: u32 = 3 * 60 * 60;

/// A transport with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    pub(super) fn read(text: Option<&str>) -> Option<Self> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

/// Which endpoints traffic may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those anywhere.
    Cluster,
    /// Those on this node.
    Local,
}

/// A Service with an address of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Which of all Services that ever had the name.
    pub uid: String,
    /// Of two Services that claim an address, the older one has it.
    pub created: Option<Timestamp>,
    /// One per family.
    pub cluster_ips: Vec<IpAddr>,
    /// Addresses that somebody routes to the nodes.
    pub external_ips: Vec<IpAddr>,
    /// Addresses of a load balancer that passes packets on with its own address as the destination.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Who may use the load balancer's addresses: `None` is everyone, an empty list is nobody.
    pub source_ranges: Option<Vec<Cidr>>,
    /// For how many seconds a client stays with its endpoint.
    pub affinity: Option<u32>,
    /// For the cluster IP.
    pub internal: Policy,
    /// For everything else.
    pub external: Policy,
    /// Where load balancers ask whether this node has endpoints, under the external policy Local.
    pub health_check_port: Option<u16>,
    /// In the order of the Service.
    pub ports: Vec<Port>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name, by which the slices' ports are found; empty when there is one port.
    pub name: String,
    /// Transport.
    pub protocol: Protocol,
    /// At the Service's addresses.
    pub port: u16,
    /// At the nodes' addresses.
    pub node_port: Option<u16>,
}

impl Service {
    /// Reads a Service; `None` for one that needs no rules. What cannot be read is left out and said.
    pub(super) fn read(name: &Name, object: &core::Service) -> Option<Self> {
        let spec = object.spec.as_ref()?;
        let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
        let other_proxy = object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(PROXY_NAME));
        if kind == "ExternalName" || other_proxy {
            return None;
        }
        let listed = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
        let mut cluster_ips: Vec<IpAddr> = Vec::new();
        for text in listed.filter(|text| !text.is_empty() && *text != "None") {
            cluster_ips.extend(address(name, "spec.clusterIPs", text).filter(|ip| !cluster_ips.contains(ip)));
        }
        if cluster_ips.is_empty() {
            return None;
        }
        let external_ips: Vec<IpAddr> = addresses(name, "spec.externalIPs", spec.external_ips.iter().flatten());
        let outside = matches!(kind, "LoadBalancer" | "NodePort") || !external_ips.is_empty();
        let affinity = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
            let configured = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
            let seconds = configured.and_then(|client_ip| client_ip.timeout_seconds);
            seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|s| *s > 0).unwrap_or(DEFAULT_AFFINITY)
        });
        let external = if outside { policy(spec.external_traffic_policy.as_deref()) } else { Policy::Cluster };
        let asked = kind == "LoadBalancer" && external == Policy::Local;
        let health_check_port = spec.health_check_node_port.filter(|_| asked).and_then(number);
        Some(Self {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
            cluster_ips,
            external_ips,
            load_balancer_ips: if kind == "LoadBalancer" { load_balancer_ips(name, object) } else { Vec::new() },
            source_ranges: source_ranges(name, spec),
            affinity,
            internal: policy(spec.internal_traffic_policy.as_deref()),
            external,
            health_check_port,
            ports: spec.ports.iter().flatten().filter_map(|port| self::port(name, port)).collect(),
        })
    }
}

fn policy(text: Option<&str>) -> Policy {
    if text == Some("Local") { Policy::Local } else { Policy::Cluster }
}

fn address(name: &Name, field: &str, text: &str) -> Option<IpAddr> {
    match legacy::parse_stored_ip(text) {
        Ok(ip) => Some(ip),
        Err(error) => {
            tracing::warn!(service = %name, "{field}: {error}; left out");
            None
        }
    }
}

fn addresses<'a>(name: &Name, field: &str, texts: impl Iterator<Item = &'a String>) -> Vec<IpAddr> {
    let mut list: Vec<IpAddr> = texts.filter_map(|text| address(name, field, text)).collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// A load balancer in mode Proxy sends to the node or to the pod; its own address never arrives here.
fn load_balancer_ips(name: &Name, object: &core::Service) -> Vec<IpAddr> {
    let status = object.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
    let direct = ingress.filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
    addresses(name, "status.loadBalancer.ingress", direct.filter_map(|ingress| ingress.ip.as_ref()))
}

/// Ranges that cannot be read are left out; the list stays a list, so nobody gets in by a typing mistake.
fn source_ranges(name: &Name, spec: &core::ServiceSpec) -> Option<Vec<Cidr>> {
    let texts = spec.load_balancer_source_ranges.as_ref().filter(|list| !list.is_empty())?;
    let read = texts.iter().filter_map(|text| match legacy::parse_stored_cidr(text.trim()) {
        Ok(cidr) => Some(cidr),
        Err(error) => {
            tracing::warn!(service = %name, "spec.loadBalancerSourceRanges: {error}; left out");
            None
        }
    });
    Some(read.collect())
}

fn number(value: i32) -> Option<u16> {
    u16::try_from(value).ok().filter(|value| *value != 0)
}

fn port(name: &Name, port: &core::ServicePort) -> Option<Port> {
    let (Some(protocol), Some(at)) = (Protocol::read(port.protocol.as_deref()), number(port.port)) else {
        tracing::warn!(service = %name, "spec.ports: {:?} {} is no TCP, UDP or SCTP port; left out", port.protocol, port.port);
        return None;
    };
    Some(Port {
        name: port.name.clone().unwrap_or_default(),
        protocol,
        port: at,
        node_port: port.node_port.and_then(number),
    })
}
