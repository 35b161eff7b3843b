//! `--cloud-config`: what an administrator says about the account, in upstream's words.
//!
//! Read once, checked completely: every mistake is told at start, not when a load balancer is made. A key that nobody knows is a
//! warning with a suggestion, and the transformer keeps it.

mod endpoints;
pub mod gcfg;
mod global;
pub mod sync;
#[cfg(test)]
mod tests;
mod transform;
mod yaml;

pub use endpoints::{Endpoint, Endpoints, ServiceOverride};
pub use global::{Global, GroupMode, SharedProbe};
pub use transform::{Gate, transform};

use gcfg::{Entry, SyntaxError};
use net::{Families, Family, Mistakes};
use runtime::suggest::nearest;
use std::collections::BTreeMap;

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
        Some(line) if line.starts_with('{') || line.starts_with("---") => yaml::entries(text),
        _ => gcfg::entries(text),
    }
}

/// What to say of an entry that is not known.
pub(crate) fn warning(entry: &Entry) -> String {
    let setting = match &entry.subsection {
        Some(part) => format!("[{} {part:?}] {}", entry.section, entry.key),
        None => format!("[{}] {}", entry.section, entry.key),
    };
    let suggestion = match entry.section.to_lowercase().as_str() {
        "global" => nearest(&entry.key, GLOBAL_KEYS.iter().copied()),
        "serviceoverride" => nearest(&entry.key, OVERRIDE_KEYS.iter().copied()),
        other => nearest(other, ["Global", "ServiceOverride"]),
    };
    match suggestion {
        Some(word) => format!("{setting} is not known and does nothing; did you mean {word}?"),
        None => format!("{setting} is not known and does nothing"),
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
        config.global = global::read(&global, &mut mistakes);
        config.overrides = endpoints::read(&overrides, &mut mistakes);
        Mistakes::check(mistakes)?;
        Ok((config, warnings))
    }

    /// The region that the config names, from `Zone` if it must be.
    pub fn region(&self) -> Option<String> {
        let zone = &self.global.zone;
        if !zone.is_empty() {
            return global::region_of_zone(zone);
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
