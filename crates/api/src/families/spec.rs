//! A Service as the rules see it: read from JSON once, decided on, and written back.

use crate::{kinds::check, object::Fields};
use net::Family;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt, net::IpAddr};

pub(super) const POLICY: &str = "spec.ipFamilyPolicy";
pub(super) const FAMILIES: &str = "spec.ipFamilies";
pub(super) const IP: &str = "spec.clusterIP";
pub(super) const IPS: &str = "spec.clusterIPs";
const PORTS: &str = "spec.ports";
const HEALTH: &str = "spec.healthCheckNodePort";
const HEADLESS: &str = "None";

/// What the rules read and write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) policy: Option<Policy>,
    pub(super) families: Vec<Listed>,
    /// Empty when there is none.
    pub(super) ip: String,
    /// As written: `None`, addresses in any spelling, and in requests anything.
    pub(super) ips: Vec<String>,
    pub(super) has_selector: bool,
    pub(super) ports: Vec<Port>,
    /// 0 when there is none.
    pub(super) health_check_port: i64,
}

/// `spec.type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ClusterIp,
    NodePort,
    LoadBalancer {
        draws_node_ports: bool,
        /// Traffic stays on the node it reached, and load balancers ask which nodes those are.
        is_local: bool,
    },
    /// A name at another place: nothing inside the cluster belongs to it.
    ExternalName,
    /// Refused by validation, which comes later.
    Unknown(String),
}

/// `spec.ipFamilyPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Single,
    Prefer,
    Require,
    /// Refused once the structure is checked.
    Unknown(String),
}

/// An entry of `spec.ipFamilies`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Known(Family),
    /// Refused once the structure is checked.
    Unknown(String),
}

/// An entry of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) number: i64,
    /// 0 when there is none.
    pub(super) node_port: i64,
}

impl Policy {
    fn read(text: &str) -> Self {
        match text {
            "SingleStack" => Self::Single,
            "PreferDualStack" => Self::Prefer,
            "RequireDualStack" => Self::Require,
            other => Self::Unknown(other.to_owned()),
        }
    }

    pub(super) fn wants_both(&self) -> bool {
        matches!(self, Self::Prefer | Self::Require)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "SingleStack",
            Self::Prefer => "PreferDualStack",
            Self::Require => "RequireDualStack",
            Self::Unknown(text) => text,
        })
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(family) => family.fmt(f),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

impl Kind {
    fn read(service: &Value) -> Self {
        match service.str_at("spec.type") {
            "ClusterIP" => Self::ClusterIp,
            "NodePort" => Self::NodePort,
            "LoadBalancer" => Self::LoadBalancer {
                draws_node_ports: service.at("spec.allocateLoadBalancerNodePorts").as_bool().unwrap_or(true),
                is_local: service.str_at("spec.externalTrafficPolicy") == "Local",
            },
            "ExternalName" => Self::ExternalName,
            other => Self::Unknown(other.to_owned()),
        }
    }

    /// Whether both are of one type, however they differ in it.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::LoadBalancer { .. }, Self::LoadBalancer { .. }) => true,
            _ => self == other,
        }
    }
}

impl Spec {
    pub(super) fn read(service: &Value) -> Self {
        let families = check::texts(service, FAMILIES).into_iter();
        let families =
            families.map(|text| text.parse().map_or_else(|_| Listed::Unknown(text.to_owned()), Listed::Known));
        let ports = service.list_at(PORTS).iter().map(|port| Port {
            name: port.str_at("name").to_owned(),
            number: port.int_at("port").unwrap_or_default(),
            node_port: port.int_at("nodePort").unwrap_or_default(),
        });
        Self {
            kind: Kind::read(service),
            policy: service.at(POLICY).as_str().map(Policy::read),
            families: families.collect(),
            ip: service.str_at(IP).to_owned(),
            ips: check::texts(service, IPS).into_iter().map(str::to_owned).collect(),
            has_selector: service.map_at("spec.selector").is_some_and(|selector| !selector.is_empty()),
            ports: ports.collect(),
            health_check_port: service.int_at(HEALTH).unwrap_or_default(),
        }
    }

    /// Writes what is different from what stands there.
    pub(super) fn write(&self, service: &mut Value) {
        let stands = Self::read(service);
        if self.policy != stands.policy {
            put(service, POLICY, self.policy.as_ref().map(|policy| json!(policy.to_string())));
        }
        if self.families != stands.families || self.families.is_empty() {
            let texts: Vec<String> = self.families.iter().map(ToString::to_string).collect();
            put(service, FAMILIES, (!texts.is_empty()).then(|| json!(texts)));
        }
        if self.ip != stands.ip {
            service.set(IP, self.ip.as_str());
        }
        if self.ips != stands.ips {
            put(service, IPS, (!self.ips.is_empty()).then(|| json!(self.ips)));
        }
        for (i, (port, stood)) in self.ports.iter().zip(&stands.ports).enumerate() {
            if port.node_port != stood.node_port {
                let ports = service.at_mut("spec").get_mut("ports");
                if let Some(written) = ports.and_then(|ports| ports.get_mut(i)) {
                    written.set("nodePort", port.node_port);
                }
            }
        }
        if self.health_check_port != stands.health_check_port {
            service.set(HEALTH, self.health_check_port);
        }
    }

    pub(super) fn is_external_name(&self) -> bool {
        self.kind == Kind::ExternalName
    }

    /// No addresses of its own.
    pub(super) fn is_headless(&self) -> bool {
        self.ips == [HEADLESS]
    }

    /// No addresses of its own, and nobody selects endpoints for it.
    pub(super) fn is_unmanaged(&self) -> bool {
        self.is_headless() && !self.has_selector
    }

    pub(super) fn is_single(&self) -> bool {
        self.policy == Some(Policy::Single)
    }

    /// Whether the server draws node ports for ports without one.
    pub(super) fn draws_node_ports(&self) -> bool {
        matches!(self.kind, Kind::NodePort | Kind::LoadBalancer { draws_node_ports: true, .. })
    }

    /// Whether node ports may stand in it.
    pub(super) fn may_have_node_ports(&self) -> bool {
        matches!(self.kind, Kind::NodePort | Kind::LoadBalancer { .. })
    }

    pub(super) fn needs_health_check(&self) -> bool {
        matches!(self.kind, Kind::LoadBalancer { is_local: true, .. })
    }

    /// The families; what is no family is left out, so call it after the structure was checked.
    pub(super) fn known_families(&self) -> Vec<Family> {
        let known = self.families.iter().filter_map(|listed| match listed {
            Listed::Known(family) => Some(*family),
            Listed::Unknown(_) => None,
        });
        known.collect()
    }

    pub(super) fn set_families(&mut self, families: &[Family]) {
        self.families = families.iter().copied().map(Listed::Known).collect();
    }

    /// The addresses; a headless Service and an ExternalName have none.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        if self.is_external_name() || self.is_headless() {
            return Vec::new();
        }
        self.ips.iter().filter_map(|ip| net::legacy::parse_stored_ip(ip).ok()).collect()
    }

    /// The node ports in its list of ports.
    pub(super) fn node_ports(&self) -> BTreeSet<i64> {
        self.ports.iter().map(|port| port.node_port).filter(|number| *number != 0).collect()
    }
}

/// Sets a field, or takes it out.
fn put(service: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => service.set(field, value),
        None => drop(service.remove(field)),
    }
}

/// The policy as errors show it.
pub(super) fn shown(policy: Option<&Policy>) -> Value {
    policy.map_or(Value::Null, |policy| json!(policy.to_string()))
}
