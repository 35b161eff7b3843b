//! FeatureGate: which gates are open.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FeatureGateSpec {
    /// A set of gates.
    #[serde(skip_serializing_if = "FeatureSet::is_default")]
    pub feature_set: FeatureSet,
    /// Single gates, for [`FeatureSet::CustomNoUpgrade`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_no_upgrade: Option<CustomGates>,
}

/// A named set of gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureSet {
    /// The set for everybody.
    #[default]
    #[serde(rename = "")]
    Default,
    /// With what is being tried.
    TechPreviewNoUpgrade,
    /// With what is being built.
    DevPreviewNoUpgrade,
    /// Gates one by one.
    CustomNoUpgrade,
    /// The community's set.
    #[serde(rename = "OKD")]
    Okd,
}

impl FeatureSet {
    fn is_default(&self) -> bool {
        *self == Self::Default
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomGates {
    /// Opened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<String>,
    /// Closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<String>,
}

/// What is on and off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FeatureGateStatus {
    /// Gates by version of the software.
    pub feature_gates: Vec<VersionGates>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl FeatureGateStatus {
    /// Whether `gate` is open for `version`; for one that is not listed, or not known, whether it is open for all there are. During an
    /// update there are two. A gate that is not listed is closed.
    pub fn is_enabled(&self, version: Option<&str>, gate: &str) -> bool {
        let is_open = |gates: &VersionGates| gates.enabled.iter().any(|enabled| enabled.name == gate);
        match self.feature_gates.iter().find(|gates| version == Some(&gates.version)) {
            Some(gates) => is_open(gates),
            None => !self.feature_gates.is_empty() && self.feature_gates.iter().all(is_open),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VersionGates {
    pub version: String,
    /// Open.
    pub enabled: Vec<GateName>,
    /// Closed.
    pub disabled: Vec<GateName>,
}

/// A gate in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateName {
    pub name: String,
}
