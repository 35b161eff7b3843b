//! What a Service asks for, before anything is known of the account: ports, families, ranges, health check.

use super::{
    annotations::{Annotations, Kind, Ports, SOURCE_RANGES, name},
    names::Owner,
    strangers,
};
use crate::account::IpAddressType;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use net::{Cidr, Family, HasFamily, legacy::parse_stored_cidr};
use std::collections::BTreeSet;

/// One port of the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    /// Port of the load balancer.
    pub port: u16,
    /// Port of the nodes.
    pub node_port: u16,
    /// Whether it is UDP; TCP otherwise.
    pub udp: bool,
    /// Whether the load balancer speaks TLS there.
    pub tls: bool,
}

/// A request that can be fulfilled, as far as the Service alone tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose it is.
    pub owner: Owner,
    /// What the annotations say.
    pub annotations: Annotations,
    pub ports: Vec<Port>,
    /// Families of the load balancer.
    pub ip_address_type: IpAddressType,
    pub target_family: Family,
    /// Who may connect; each family that is missing is closed.
    pub ranges: BTreeSet<Cidr>,
    /// Port that tells whether a node has endpoints, with `externalTrafficPolicy: Local`.
    pub local_check: Option<u16>,
    /// What should be told though nothing is refused.
    pub notes: Vec<Note>,
}

/// Reason of the note about a load balancer that can have no security group.
pub const NO_GROUP: &str = "SecurityGroupNotSupported";

/// Something that people should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// One word for the event.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Request {
    /// What the Service asks for; all its mistakes otherwise. `None` when another controller is asked.
    pub fn read(service: &Service) -> Result<Option<Self>, Vec<String>> {
        let empty = Default::default();
        let mut mistakes = Vec::new();
        let given_annotations = service.metadata.annotations.as_ref().unwrap_or(&empty);
        let annotations = Annotations::read(given_annotations, &mut mistakes);
        if annotations.kind == Kind::Elsewhere {
            return Ok(None);
        }
        let spec = service.spec.clone().unwrap_or_default();
        if let Some(affinity) = spec.session_affinity.filter(|affinity| affinity != "None" && !affinity.is_empty()) {
            mistakes.push(format!("spec.sessionAffinity: unsupported load balancer affinity: {affinity}"));
        }
        if let Some(ip) = spec.load_balancer_ip.filter(|ip| !ip.is_empty()) {
            mistakes.push(format!("spec.loadBalancerIP: {ip}: LoadBalancerIP cannot be specified for AWS ELB"));
        }
        let ports = ports(&spec.ports.unwrap_or_default(), &annotations, &mut mistakes);
        let families = spec.ip_families.unwrap_or_default();
        let shape =
            address_type(annotations.kind, spec.ip_family_policy.as_deref(), &families).unwrap_or_else(|mistake| {
                mistakes.push(format!("spec.ipFamilies: {mistake}"));
                (IpAddressType::Ipv4, Family::V4)
            });
        let (ip_address_type, target_family) = shape;
        let mut notes = Vec::new();
        strangers::check(given_annotations, &annotations, ip_address_type, &mut notes, &mut mistakes);
        notes.extend(tls_nowhere(&annotations, &ports));
        let given = spec.load_balancer_source_ranges.filter(|ranges| !ranges.is_empty());
        let ranges = ranges(given, annotations.source_ranges.as_deref(), ip_address_type, &mut notes, &mut mistakes);
        let preserved = annotations.target_attributes.get("preserve_client_ip.enabled");
        if preserved.is_some_and(|value| value == "false") && ports.iter().any(|port| port.udp) {
            let annotation = name("target-group-attributes");
            mistakes.push(format!("{annotation}: preserve_client_ip.enabled cannot be false for a UDP port"));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let local = spec.external_traffic_policy.as_deref() == Some("Local");
        let local_check = spec.health_check_node_port.and_then(|port| u16::try_from(port).ok());
        let metadata = &service.metadata;
        Ok(Some(Self {
            owner: Owner {
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
                uid: metadata.uid.clone().unwrap_or_default(),
            },
            annotations,
            ports,
            ip_address_type,
            target_family,
            ranges,
            local_check: local_check.filter(|port| local && *port > 0),
            notes,
        }))
    }

    /// Families that the load balancer has addresses of.
    pub fn served(&self) -> &'static [Family] {
        served(self.ip_address_type)
    }

    /// Whether clients' addresses reach the nodes.
    pub fn preserves_clients(&self) -> bool {
        self.annotations.target_attributes.get("preserve_client_ip.enabled").is_none_or(|value| value == "true")
    }
}

fn ports(given: &[ServicePort], annotations: &Annotations, mistakes: &mut Vec<String>) -> Vec<Port> {
    if given.is_empty() {
        mistakes.push("spec.ports: requested load balancer with no ports".to_owned());
    }
    let protocol = |port: &ServicePort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let protocols: BTreeSet<String> = given.iter().map(protocol).collect();
    let accepted: &[&str] = if annotations.kind == Kind::Network { &["TCP", "UDP"] } else { &["TCP"] };
    for other in protocols.iter().filter(|protocol| !accepted.contains(&protocol.as_str())) {
        mistakes.push(format!(
            "spec.ports: Protocol {other} not supported by LoadBalancer; accepted: {}",
            accepted.join(", ")
        ));
    }
    let numbers: BTreeSet<i32> = given.iter().map(|port| port.port).collect();
    if numbers.len() > 50 {
        mistakes.push(format!("spec.ports: {} ports; a load balancer has up to 50 listeners", numbers.len()));
    }
    let mut ports = Vec::new();
    for one in given {
        let udp = protocol(one) == "UDP";
        let name = one.name.clone().unwrap_or_default();
        let Ok(port) = u16::try_from(one.port) else { continue };
        let Some(node_port) = one.node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0) else {
            mistakes.push(format!(
                "spec.ports: port {port} has no node port; allocateLoadBalancerNodePorts must not be false"
            ));
            continue;
        };
        let chosen = match &annotations.ssl_ports {
            None | Some(Ports::All) => true,
            Some(Ports::Some(list)) => list.contains(&port.to_string()) || list.contains(&name.to_lowercase()),
        };
        let tls = !annotations.certificates.is_empty() && chosen && !udp;
        ports.push(Port { name, port, node_port, udp, tls });
    }
    check_pairs(&ports, mistakes);
    ports
}

/// TCP and UDP of one port share a listener and its target group, and so the node port; TLS has no such pair.
fn check_pairs(ports: &[Port], mistakes: &mut Vec<String>) {
    for udp in ports.iter().filter(|port| port.udp) {
        let Some(tcp) = ports.iter().find(|port| !port.udp && port.port == udp.port) else { continue };
        if tcp.tls {
            mistakes.push(format!(
                "spec.ports: port {} is TLS and UDP, and a load balancer has one listener for a port; leave it out of {}",
                udp.port,
                name("ssl-ports")
            ));
        } else if tcp.node_port != udp.node_port {
            mistakes.push(format!(
                "spec.ports: port {} leads to node port {} with TCP and {} with UDP; one listener serves both, so give both the same \
                 nodePort",
                udp.port, tcp.node_port, udp.node_port
            ));
        }
    }
}

/// A word of `ssl-ports` that is no port of the Service.
fn tls_nowhere(annotations: &Annotations, ports: &[Port]) -> Option<Note> {
    let Some(Ports::Some(list)) = &annotations.ssl_ports else { return None };
    let is_port =
        |word: &&String| ports.iter().any(|port| port.port.to_string() == **word || port.name.to_lowercase() == **word);
    let strange: Vec<&str> = list.iter().filter(|word| !is_port(word)).map(String::as_str).collect();
    (!strange.is_empty()).then(|| Note {
        reason: "AnnotationNotKnown",
        message: format!("{}: {} is no port of the Service", name("ssl-ports"), strange.join(", ")),
    })
}

/// Families of the load balancer and of its targets. Each row that is refused says why.
pub fn address_type(kind: Kind, policy: Option<&str>, families: &[String]) -> Result<(IpAddressType, Family), String> {
    let mut parsed = Vec::new();
    for text in families {
        parsed.push(text.parse::<Family>().map_err(|error| error.to_string())?);
    }
    if parsed.len() > 2 {
        return Err(format!("{} families; there are two", parsed.len()));
    }
    if kind == Kind::Classic {
        return match (policy, parsed.as_slice()) {
            (Some("RequireDualStack"), _) => {
                Err("a classic load balancer does not support IPv6, and RequireDualStack asks for it".to_owned())
            }
            (_, families) if families.is_empty() || families.contains(&Family::V4) => {
                Ok((IpAddressType::Ipv4, Family::V4))
            }
            _ => Err("a classic load balancer does not support IPv6; use a network load balancer".to_owned()),
        };
    }
    match (policy.unwrap_or("SingleStack"), parsed.as_slice()) {
        ("SingleStack" | "PreferDualStack", [] | [Family::V4]) => Ok((IpAddressType::Ipv4, Family::V4)),
        ("SingleStack", [Family::V6]) => Err("single stack IPv6 is not supported for network load balancers; \
                                              ask for PreferDualStack or RequireDualStack"
            .to_owned()),
        ("SingleStack", many) => Err(format!("policy SingleStack has one family, not {}", many.len())),
        ("PreferDualStack", [Family::V6]) => Ok((IpAddressType::Dualstack, Family::V6)),
        ("PreferDualStack" | "RequireDualStack", [first, second]) if first != second => {
            Ok((IpAddressType::Dualstack, *first))
        }
        ("RequireDualStack", other) => {
            Err(format!("policy RequireDualStack requires 2 entries in the ipFamilies field. got {}", other.len()))
        }
        (policy, _) => Err(format!("policy {policy} with these families is not known")),
    }
}

fn served(kind: IpAddressType) -> &'static [Family] {
    match kind {
        IpAddressType::Dualstack => &Family::BOTH,
        IpAddressType::Ipv4 => &[Family::V4],
    }
}

/// Who may connect. A range of a family that the load balancer has not is left out; a family without a range is closed.
fn ranges(
    given: Option<Vec<String>>,
    annotation: Option<&str>,
    kind: IpAddressType,
    notes: &mut Vec<Note>,
    mistakes: &mut Vec<String>,
) -> BTreeSet<Cidr> {
    let served = served(kind);
    let field = if given.is_some() { "spec.loadBalancerSourceRanges" } else { SOURCE_RANGES };
    let texts = given.unwrap_or_else(|| {
        annotation
            .unwrap_or_default()
            .split(',')
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    });
    if texts.is_empty() {
        return served.iter().filter_map(|family| Cidr::containing(family.unspecified(), 0)).collect();
    }
    let mut ranges = BTreeSet::new();
    for text in &texts {
        match parse_stored_cidr(text.trim()) {
            Ok(cidr) => {
                ranges.insert(cidr);
            }
            Err(error) => mistakes.push(format!("{field}: {error}")),
        }
    }
    let foreign: Vec<String> =
        ranges.iter().filter(|cidr| !served.contains(&cidr.family())).map(Cidr::to_string).collect();
    if !foreign.is_empty() {
        notes.push(Note {
            reason: "SourceRangeIgnored",
            message: format!("the load balancer has no IPv6 address: {} is of no use", foreign.join(", ")),
        });
    }
    ranges.retain(|cidr| served.contains(&cidr.family()));
    for family in served.iter().filter(|family| !ranges.iter().any(|cidr| cidr.family() == **family)) {
        notes.push(Note {
            reason: "FamilyClosed",
            message: format!(
                "no source range is {family}: nobody can connect by {family}; add a range such as {} to open it",
                if *family == Family::V4 { "0.0.0.0/0" } else { "::/0" }
            ),
        });
    }
    ranges
}
