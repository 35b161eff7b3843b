//! The section `Global`: what each of its keys means, and what it may say.

use super::gcfg::Entry;
use net::Family;
use runtime::suggest::nearest;
use std::collections::BTreeMap;

/// What the controller does about security groups of network load balancers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupMode {
    /// Load balancers are made without a group unless one is brought; rules stand on the nodes.
    #[default]
    Unmanaged,
    /// Each load balancer gets a group of its own.
    Managed,
}

/// How nodes are checked for Services whose traffic any node takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedProbe {
    /// Port of the node's proxy.
    pub port: u16,
    /// Path there.
    pub path: String,
}

/// The section `Global`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// `Zone`: the old way to say the region.
    pub zone: String,
    /// `Region`.
    pub region: String,
    /// `VPC`.
    pub vpc: String,
    /// `SubnetID`: the last resort when no subnet is found.
    pub subnet: String,
    /// `RouteTableID`.
    pub route_table: String,
    /// `RoleARN`: the role to take on.
    pub role: String,
    /// `SourceARN`: on whose behalf.
    pub source: String,
    /// `KubernetesClusterTag`: the old way to say the cluster's id; also writes the old tag.
    pub cluster_tag: String,
    /// `KubernetesClusterID`.
    pub cluster_id: String,
    /// `DisableSecurityGroupIngress`: leave the nodes' groups alone.
    pub disable_node_rules: bool,
    /// `ElbSecurityGroup`: for classic load balancers, instead of one each.
    pub elb_group: String,
    /// `NodeIPFamilies`, in order.
    pub node_families: Vec<Family>,
    /// `ClusterServiceLoadBalancerHealthProbeMode` and what belongs to it.
    pub shared_probe: Option<SharedProbe>,
    /// `SupportedTopologyInstanceTypePattern`.
    pub topology_pattern: String,
    /// `NLBSecurityGroupMode`.
    pub nlb_groups: GroupMode,
}

/// `us-east-1` of `us-east-1a`: words with hyphens, then a number.
pub(super) fn region_of_zone(zone: &str) -> Option<String> {
    let digits = zone.find(|c: char| c.is_ascii_digit())?;
    let words = zone[..digits].strip_suffix('-')?;
    let fits = words.split('-').all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic()));
    let end = zone[digits..].find(|c: char| !c.is_ascii_digit()).map_or(zone.len(), |at| digits + at);
    fits.then(|| zone[..end].to_owned())
}

pub(super) fn read(given: &BTreeMap<&'static str, Vec<&Entry>>, mistakes: &mut Vec<String>) -> Global {
    let text = |key: &str| -> String {
        let last = given.get(key).and_then(|entries| entries.last());
        last.and_then(|entry| entry.value.clone()).unwrap_or_default()
    };
    for (key, entries) in given.iter().filter(|(key, _)| **key != "DisableSecurityGroupIngress") {
        if entries.iter().any(|entry| entry.value.is_none()) {
            mistakes.push(format!("{key}: stands without a value; write {key} = VALUE, or leave it out"));
        }
    }
    let mut global = Global {
        zone: text("Zone"),
        region: text("Region"),
        vpc: text("VPC"),
        subnet: text("SubnetID"),
        route_table: text("RouteTableID"),
        role: text("RoleARN"),
        source: text("SourceARN"),
        cluster_tag: text("KubernetesClusterTag"),
        cluster_id: text("KubernetesClusterID"),
        elb_group: text("ElbSecurityGroup"),
        topology_pattern: text("SupportedTopologyInstanceTypePattern"),
        ..Global::default()
    };
    if !global.zone.is_empty() && region_of_zone(&global.zone).is_none() {
        mistakes
            .push(format!("Zone: invalid AZ: {:?}; a zone is a region and a letter, such as us-east-1a", global.zone));
    }
    if !global.cluster_tag.is_empty() && !global.cluster_id.is_empty() && global.cluster_tag != global.cluster_id {
        mistakes.push(format!(
            "KubernetesClusterID: {:?} differs from KubernetesClusterTag {:?}; give one, or both alike",
            global.cluster_id, global.cluster_tag
        ));
    }
    if let Some(entry) = given.get("DisableSecurityGroupIngress").and_then(|entries| entries.last()) {
        match entry.value.as_deref().map(str::to_lowercase).as_deref() {
            None | Some("true" | "yes" | "on" | "1") => global.disable_node_rules = true,
            Some("false" | "no" | "off" | "0" | "") => {}
            Some(other) => {
                mistakes.push(format!("DisableSecurityGroupIngress: {other:?} is neither true nor false"));
            }
        }
    }
    for entry in given.get("NodeIPFamilies").into_iter().flatten() {
        let value = entry.value.clone().unwrap_or_default();
        let family = match value.to_lowercase().as_str() {
            "ipv4" => Family::V4,
            "ipv6" => Family::V6,
            _ => {
                mistakes.push(format!(
                    "NodeIPFamilies: {value:?} is no family; accepted are ipv4 and ipv6, each on a line of its own"
                ));
                continue;
            }
        };
        if global.node_families.contains(&family) {
            mistakes.push(format!("NodeIPFamilies: {value:?} is given twice"));
        } else {
            global.node_families.push(family);
        }
    }
    global.shared_probe = shared_probe(&text, mistakes);
    global.nlb_groups = match text("NLBSecurityGroupMode").as_str() {
        "" | "Unmanaged" => GroupMode::Unmanaged,
        "Managed" => GroupMode::Managed,
        other => {
            mistakes.push(refused_word("NLBSecurityGroupMode", other, &["Managed", "Unmanaged"]));
            GroupMode::Unmanaged
        }
    };
    global
}

fn shared_probe(text: &dyn Fn(&str) -> String, mistakes: &mut Vec<String>) -> Option<SharedProbe> {
    let mode = text("ClusterServiceLoadBalancerHealthProbeMode");
    let port = text("ClusterServiceSharedLoadBalancerHealthProbePort");
    let port = match port.as_str() {
        "" | "0" => 10256,
        given => given.parse().unwrap_or_else(|_| {
            mistakes.push(format!(
                "ClusterServiceSharedLoadBalancerHealthProbePort: {given:?} is no port; accepted is 1 to 65535"
            ));
            10256
        }),
    };
    let path = text("ClusterServiceSharedLoadBalancerHealthProbePath");
    let path = if path.is_empty() { "/healthz".to_owned() } else { path };
    match mode.as_str() {
        "" | "ServiceNodePort" => None,
        "Shared" => Some(SharedProbe { port, path }),
        other => {
            let accepted = ["ServiceNodePort", "Shared"];
            mistakes.push(refused_word("ClusterServiceLoadBalancerHealthProbeMode", other, &accepted));
            None
        }
    }
}

fn refused_word(key: &str, word: &str, accepted: &[&str]) -> String {
    let list: Vec<String> = accepted.iter().map(|word| format!("{word:?}")).collect();
    let list = list.join(" and ");
    match nearest(word.trim(), accepted.iter().copied()) {
        Some(near) => {
            format!("{key}: {word:?} is not accepted; did you mean {near:?}? Accepted are {list}, or nothing")
        }
        None => format!("{key}: {word:?} is not accepted; accepted are {list}, or nothing"),
    }
}
