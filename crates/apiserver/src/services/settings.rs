//! What an administrator decides about Services: `--service-cluster-ip-range` and its companions.

use api::families::{Cluster, RuleSet, UnknownRules};
use net::{DualStack, PortRange, ServiceRange, flags};
use std::net::IpAddr;

/// The settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--service-cluster-ip-range`: the first is the cluster's default family.
    pub ranges: DualStack<ServiceRange>,
    /// `--service-node-port-range`; none means that there are no node ports.
    pub node_ports: Option<PortRange>,
    /// `--service-family-rules`.
    pub rules: RuleSet,
    /// `--dual-stack-kubernetes-service`.
    pub kubernetes_service: KubernetesService,
    /// `--advertise-address` and the secure port; none serves no endpoints of the `kubernetes` Service.
    pub advertised: Option<Advertised>,
}

/// In which families the `kubernetes` Service has an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubernetesService {
    /// In the first, as kube-apiserver has it.
    #[default]
    Primary,
    /// In all that the cluster has.
    Both,
}

/// Where other machines reach this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// One address, or one of each family; the first of the family that Services have first.
    pub addresses: DualStack<IpAddr>,
    /// The secure port.
    pub port: u16,
}

/// The texts of the flags.
#[derive(Clone, Copy, Debug)]
pub struct Flags<'a> {
    /// `--service-cluster-ip-range`.
    pub service_cluster_ip_range: &'a str,
    /// `--service-node-port-range`.
    pub service_node_port_range: &'a str,
    /// `--service-family-rules`.
    pub service_family_rules: &'a str,
    /// `--dual-stack-kubernetes-service`.
    pub dual_stack_kubernetes_service: bool,
    /// `--advertise-address`, if one is known.
    pub advertise_address: Option<&'a str>,
    /// The secure port.
    pub secure_port: u16,
}

/// Mistakes in the flags, all of them. Not retryable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct SettingsError(pub Vec<String>);

impl Settings {
    /// Reads the flags; all mistakes come back together.
    pub fn parse(given: Flags<'_>) -> Result<Self, SettingsError> {
        let Flags {
            service_cluster_ip_range,
            service_node_port_range,
            service_family_rules,
            dual_stack_kubernetes_service,
            advertise_address,
            secure_port,
        } = given;
        let mut mistakes = Vec::new();
        let ranges = keep(&mut mistakes, flags::service_ranges(service_cluster_ip_range));
        let node_ports = keep(&mut mistakes, flags::node_port_range(service_node_port_range));
        let rules = service_family_rules
            .parse()
            .map_err(|error: UnknownRules| mistakes.push(format!("--service-family-rules: {error}")))
            .ok();
        let primary = ranges.map(|ranges| ranges.families().primary());
        let advertised = match (advertise_address, primary) {
            (Some(text), Some(primary)) => keep(&mut mistakes, flags::advertise_address(text, primary)),
            _ => None,
        };
        match (ranges, node_ports, rules) {
            (Some(ranges), Some(node_ports), Some(rules)) if mistakes.is_empty() => Ok(Self {
                ranges,
                node_ports,
                rules,
                kubernetes_service: if dual_stack_kubernetes_service { KubernetesService::Both } else { KubernetesService::Primary },
                advertised: advertised.map(|addresses| Advertised { addresses, port: secure_port }),
            }),
            _ => Err(SettingsError(mistakes)),
        }
    }

    /// What the family rules need to know.
    pub fn cluster(&self) -> Cluster {
        Cluster { families: self.ranges.families(), rules: self.rules }
    }
}

/// A dual-stack cluster, IPv4 first, that nobody reaches from outside: for tests.
impl Default for Settings {
    fn default() -> Self {
        Self {
            ranges: flags::service_ranges("10.96.0.0/16,fd00:96::/108").expect("two ranges of different families"),
            node_ports: Some(PortRange::NODE_PORTS),
            rules: RuleSet::default(),
            kubernetes_service: KubernetesService::default(),
            advertised: None,
        }
    }
}

fn keep<T>(mistakes: &mut Vec<String>, read: Result<T, flags::FlagErrors>) -> Option<T> {
    read.map_err(|errors| mistakes.push(errors.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(range: &str) -> Flags<'_> {
        Flags {
            service_cluster_ip_range: range,
            service_node_port_range: "30000-32767",
            service_family_rules: "seed",
            dual_stack_kubernetes_service: false,
            advertise_address: None,
            secure_port: 6443,
        }
    }

    #[test]
    fn one_range_or_one_of_each_family_is_accepted() {
        for range in ["10.96.0.0/16", "fd00:96::/108", "10.96.0.0/16,fd00:96::/108", "fd00:96::/108,10.96.0.0/16"] {
            assert_eq!(Settings::parse(given(range)).unwrap().ranges.to_string(), range);
        }
        for range in ["", "10.96.0.0/16,10.97.0.0/16", "10.96.0.0/16,fd00:96::/108,fd00:97::/108", "10.96.0.0/30"] {
            let error = Settings::parse(given(range)).unwrap_err().to_string();
            assert!(error.contains("--service-cluster-ip-range"), "{error}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_together() {
        let flags = Flags {
            service_cluster_ip_range: "10.96.0.0/16",
            service_node_port_range: "5-1",
            service_family_rules: "mine",
            dual_stack_kubernetes_service: true,
            advertise_address: Some("fd00::1"),
            secure_port: 6443,
        };
        let SettingsError(mistakes) = Settings::parse(flags).unwrap_err();
        for (mistake, flag) in mistakes.iter().zip(["--service-node-port-range", "--service-family-rules", "--advertise-address"]) {
            assert!(mistake.starts_with(flag), "{mistake}");
        }
        assert_eq!(mistakes.len(), 3);
    }
}
