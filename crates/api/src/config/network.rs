//! Network: which addresses Pods and Services get.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSpec {
    /// Ranges for Pods, preferred family first.
    pub cluster_network: Vec<ClusterNetwork>,
    /// Ranges for Services, preferred family first.
    pub service_network: Vec<String>,
    /// The plugin.
    pub network_type: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What is in use. Readers look here, not at the spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkStatus {
    /// Ranges for Pods, preferred family first.
    pub cluster_network: Vec<ClusterNetwork>,
    /// Ranges for Services, preferred family first.
    pub service_network: Vec<String>,
    /// The plugin.
    pub network_type: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A range for Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    /// The range.
    pub cidr: String,
    /// Prefix length of each node's part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<u8>,
}
