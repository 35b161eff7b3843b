//! What kind of cluster this is, from its configuration objects. Pure.

use api::config::{ClusterNetwork, FeatureSet};
use net::{Cidr, Families, Family, HasFamily};
use runtime::operator::{FeatureGate, Infrastructure, Network};
use std::net::IpAddr;

/// The gate of `spec.templates`.
pub const GATE: &str = "DNSTemplatePlugin";
/// The cluster's DNS has this place in the first range of Services, by tradition.
const DNS_PLACE: u128 = 10;

/// What of the cluster matters to its DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Families of Pods and Services together.
    pub families: Families,
    /// The address that the Service should get; the API chooses when nothing is known.
    pub address: Option<IpAddr>,
    /// Whether `spec.templates` is looked at.
    pub templates: bool,
}

impl Cluster {
    /// Reads the objects, as far as they exist. `version` is the release whose gates count, if it is known.
    #[must_use]
    pub fn new(
        network: Option<&Network>,
        infrastructure: Option<&Infrastructure>,
        gates: Option<&FeatureGate>,
        version: Option<&str>,
    ) -> Self {
        let (pods, services) = network.map(ranges).unwrap_or_default();
        let named = families(services.iter().chain(&pods).copied());
        let aws = infrastructure
            .and_then(|infrastructure| infrastructure.status.as_ref()?.platform_status.as_ref()?.aws.as_ref())
            .map(|aws| aws.ip_family.families());
        Self {
            // Unknown is taken for both: what that adds does no harm elsewhere, what it leaves out would.
            families: named.or(aws).unwrap_or(Families::both(Family::V4)),
            address: services.first().and_then(|range| range.nth(DNS_PLACE)),
            templates: gates.is_some_and(|gates| is_open(gates, version)),
        }
    }
}

/// Ranges in use, or the wanted ones where nobody has said yet. What is no CIDR is passed over.
fn ranges(network: &Network) -> (Vec<Cidr>, Vec<Cidr>) {
    let read = |pods: &[ClusterNetwork], services: &[String]| {
        let pods: Vec<Cidr> = pods.iter().filter_map(|range| range.cidr.parse().ok()).collect();
        let services: Vec<Cidr> = services.iter().filter_map(|range| range.parse().ok()).collect();
        (pods, services)
    };
    let used = network.status.as_ref().map(|status| read(&status.cluster_network, &status.service_network));
    let used = used.filter(|(pods, services)| !pods.is_empty() || !services.is_empty());
    used.unwrap_or_else(|| read(&network.spec.cluster_network, &network.spec.service_network))
}

/// All families in these ranges, that of the first one first.
fn families(ranges: impl Iterator<Item = Cidr>) -> Option<Families> {
    let families: Vec<Family> = ranges.map(|range| range.family()).collect();
    let first = *families.first()?;
    Some(if families.contains(&first.other()) { Families::both(first) } else { Families::one(first) })
}

/// What the cluster says is open; where nobody has worked that out, what the administrator asked for.
fn is_open(gates: &FeatureGate, version: Option<&str>) -> bool {
    if let Some(status) = gates.status.as_ref().filter(|status| !status.feature_gates.is_empty()) {
        return status.is_enabled(version, GATE);
    }
    match gates.spec.feature_set {
        FeatureSet::TechPreviewNoUpgrade | FeatureSet::DevPreviewNoUpgrade => true,
        FeatureSet::CustomNoUpgrade => {
            gates.spec.custom_no_upgrade.as_ref().is_some_and(|gates| gates.enabled.iter().any(|gate| gate == GATE))
        }
        FeatureSet::Default | FeatureSet::Okd => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn network(object: Value) -> Network {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_families_are_those_of_pods_and_services_together() {
        for (pods, services, families, address) in [
            (vec!["10.128.0.0/14"], vec!["172.30.0.0/16"], "IPv4", Some("172.30.0.10")),
            (vec!["fd01::/48"], vec!["fd02::/112"], "IPv6", Some("fd02::a")),
            (vec!["10.128.0.0/14", "fd01::/48"], vec!["172.30.0.0/16", "fd02::/112"], "IPv4,IPv6", Some("172.30.0.10")),
            (vec!["fd01::/48", "10.128.0.0/14"], vec!["fd02::/112", "172.30.0.0/16"], "IPv6,IPv4", Some("fd02::a")),
            // Headless Services have addresses of both families here.
            (vec!["10.128.0.0/14", "fd01::/48"], vec!["172.30.0.0/16"], "IPv4,IPv6", Some("172.30.0.10")),
            (vec![], vec![], "IPv4,IPv6", None),
            (vec!["nonsense"], vec![], "IPv4,IPv6", None),
        ] {
            let pods: Vec<Value> = pods.into_iter().map(|cidr| json!({"cidr": cidr})).collect();
            let ranges = json!({"clusterNetwork": pods, "serviceNetwork": services});
            for object in [json!({"spec": ranges}), json!({"spec": {}, "status": ranges})] {
                let cluster = Cluster::new(Some(&network(object)), None, None, Some("1"));
                assert_eq!(cluster.families.to_string(), families, "{ranges}");
                assert_eq!(cluster.address.map(|address| address.to_string()).as_deref(), address, "{ranges}");
            }
        }
    }

    #[test]
    fn what_is_in_use_counts_before_what_is_wanted_and_the_platform_last() {
        let both = network(json!({
            "spec": {"serviceNetwork": ["172.30.0.0/16", "fd02::/112"]},
            "status": {"serviceNetwork": ["172.30.0.0/16"]}
        }));
        assert!(!Cluster::new(Some(&both), None, None, Some("1")).families.is_dual());
        let aws: Infrastructure = serde_json::from_value(json!({
            "status": {"platformStatus": {"type": "AWS", "aws": {"region": "a", "ipFamily": "DualStackIPv6Primary"}}}
        }))
        .unwrap();
        assert_eq!(Cluster::new(None, Some(&aws), None, Some("1")).families.to_string(), "IPv6,IPv4");
        assert_eq!(Cluster::new(Some(&both), Some(&aws), None, Some("1")).families.to_string(), "IPv4");
    }

    #[test]
    fn the_gate_is_closed_unless_somebody_opened_it() {
        let open = |object: Value| {
            let gates: FeatureGate = serde_json::from_value(object).unwrap();
            Cluster::new(None, None, Some(&gates), Some("1")).templates
        };
        assert!(!Cluster::new(None, None, None, Some("1")).templates);
        assert!(!open(json!({"spec": {}})));
        assert!(open(json!({"spec": {"featureSet": "TechPreviewNoUpgrade"}})));
        let custom = json!({"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": [GATE]}});
        assert!(open(json!({"spec": custom})));
        assert!(!open(json!({"spec": {"featureSet": "CustomNoUpgrade"}})));
        // The cluster's word counts before the administrator's wish.
        let closed = json!({"featureGates": [{"version": "1", "enabled": [], "disabled": [{"name": GATE}]}]});
        assert!(!open(json!({"spec": custom, "status": closed})));
    }
}
