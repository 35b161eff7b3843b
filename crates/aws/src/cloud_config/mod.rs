//! `--cloud-config`: what an administrator says about the account, in upstream's words.
//!
//! Read once, checked completely: every mistake is told at start, not when a load balancer is made. A key that nobody knows is a
//! warning with a suggestion, and the transformer keeps it.

mod endpoints;
pub mod gcfg;
pub mod sync;
#[cfg(test)]
mod tests;
mod transform;
mod yaml;

pub use endpoints::{Endpoint, Endpoints, ServiceOverride};
pub use transform::{Gate, transform};

use gcfg::{Entry, SyntaxError};
use net::{Families, Family, Mistakes};
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

/// A cloud-config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudConfig {
    /// The section `Global`.
    pub global: Global,
    /// The sections `ServiceOverride`.
    pub overrides: Vec<ServiceOverride>,
}

/// What is wrong with a cloud-config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// Its values cannot be.
    #[error(transparent)]
    Values(#[from] Mistakes<String>),
}

/// The keys of `Global`, in upstream's order, which is the order they are printed in.
pub(crate) const GLOBAL_KEYS: &[&str] = &[
    "Zone",
    "Region",
    "VPC",
    "SubnetID",
    "RouteTableID",
    "RoleARN",
    "SourceARN",
    "KubernetesClusterTag",
    "KubernetesClusterID",
    "DisableSecurityGroupIngress",
    "ElbSecurityGroup",
    "NodeIPFamilies",
    "ClusterServiceLoadBalancerHealthProbeMode",
    "ClusterServiceSharedLoadBalancerHealthProbePort",
    "ClusterServiceSharedLoadBalancerHealthProbePath",
    "SupportedTopologyInstanceTypePattern",
    "NLBSecurityGroupMode",
];

/// The keys of `ServiceOverride`.
pub(crate) const OVERRIDE_KEYS: &[&str] =
    &["Service", "Region", "URL", "SigningRegion", "SigningMethod", "SigningName"];

/// The key as upstream spells it, if it is known there: `global`, `region`.
pub(crate) fn known(entry: &Entry) -> Option<&'static str> {
    let keys = match entry.section.to_lowercase().as_str() {
        "global" if entry.subsection.is_none() => GLOBAL_KEYS,
        "serviceoverride" if entry.subsection.is_some() => OVERRIDE_KEYS,
        _ => return None,
    };
    keys.iter().copied().find(|key| key.eq_ignore_ascii_case(&entry.key))
}

/// The entries of a text, whichever of the two ways it is written in.
pub(crate) fn entries(text: &str) -> Result<Vec<Entry>, SyntaxError> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    match first {
        Some(line) if !line.starts_with('[') && line.contains(':') => yaml::entries(text),
        Some(line) if line.starts_with('{') => yaml::entries(text),
        _ => gcfg::entries(text),
    }
}

/// What to say of an entry that is not known.
pub(crate) fn warning(entry: &Entry) -> String {
    let place = match &entry.subsection {
        Some(part) => format!("[{} {part:?}] {}", entry.section, entry.key),
        None => format!("[{}] {}", entry.section, entry.key),
    };
    let suggestion = match entry.section.to_lowercase().as_str() {
        "global" => nearest(&entry.key, GLOBAL_KEYS.iter().copied()),
        "serviceoverride" => nearest(&entry.key, OVERRIDE_KEYS.iter().copied()),
        other => nearest(other, ["Global", "ServiceOverride"]),
    };
    match suggestion {
        Some(word) => format!("{place} is not known and does nothing; did you mean {word}?"),
        None => format!("{place} is not known and does nothing"),
    }
}

impl CloudConfig {
    /// Reads a cloud-config; the second part is what should be told though it is no mistake.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), ConfigError> {
        let entries = entries(text)?;
        let mut config = Self::default();
        let (mut mistakes, mut warnings) = (Vec::new(), Vec::new());
        let mut global: BTreeMap<&'static str, Vec<&Entry>> = BTreeMap::new();
        let mut overrides: BTreeMap<&str, BTreeMap<&'static str, String>> = BTreeMap::new();
        for entry in &entries {
            match (known(entry), entry.subsection.as_deref()) {
                (None, _) => warnings.push(warning(entry)),
                (Some(key), None) => global.entry(key).or_default().push(entry),
                (Some(key), Some(part)) => {
                    let value = entry.value.clone().unwrap_or_default();
                    overrides.entry(part).or_default().insert(key, value.trim().to_owned());
                }
            }
        }
        config.global = read_global(&global, &mut mistakes);
        config.overrides = endpoints::read(&overrides, &mut mistakes);
        Mistakes::check(mistakes)?;
        Ok((config, warnings))
    }

    /// The region that the config names, from `Zone` if it must be.
    pub fn region(&self) -> Option<String> {
        let zone = &self.global.zone;
        if !zone.is_empty() {
            return region_of_zone(zone);
        }
        Some(self.global.region.clone()).filter(|region| !region.is_empty())
    }

    /// The cluster's id, if the config names one.
    pub fn cluster_id(&self) -> Option<&str> {
        let ids = [&self.global.cluster_id, &self.global.cluster_tag];
        ids.into_iter().map(String::as_str).find(|id| !id.is_empty())
    }

    /// The families of node addresses, in order.
    pub fn node_families(&self) -> Families {
        match self.global.node_families.as_slice() {
            [first] => Families::one(*first),
            [first, ..] => Families::both(*first),
            [] => Families::one(Family::V4),
        }
    }
}

/// `us-east-1` of `us-east-1a`: words with hyphens, then a number.
fn region_of_zone(zone: &str) -> Option<String> {
    let digits = zone.find(|c: char| c.is_ascii_digit())?;
    let words = zone[..digits].strip_suffix('-')?;
    let fits = words.split('-').all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic()));
    let end = zone[digits..].find(|c: char| !c.is_ascii_digit()).map_or(zone.len(), |at| digits + at);
    fits.then(|| zone[..end].to_owned())
}

fn read_global(given: &BTreeMap<&'static str, Vec<&Entry>>, mistakes: &mut Vec<String>) -> Global {
    let text = |key: &str| -> String {
        let last = given.get(key).and_then(|entries| entries.last());
        last.and_then(|entry| entry.value.clone()).unwrap_or_default()
    };
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
