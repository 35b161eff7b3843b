//! Ingress (config): where applications are published.

use super::LoadBalancerKind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an administrator may choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressSpec {
    /// Domain of the default IngressController.
    pub domain: String,
    /// Load balancers of IngressControllers that do not say otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<IngressLoadBalancer>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Load balancers of IngressControllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressLoadBalancer {
    pub platform: IngressPlatform,
}

/// Load balancers of a platform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressPlatform {
    /// `AWS` and others.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsIngress>,
}

/// Load balancers of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsIngress {
    /// Which sort.
    #[serde(rename = "type")]
    pub kind: LoadBalancerKind,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressStatus {
    /// Where routers run that do not say otherwise.
    pub default_placement: Placement,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A set of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Nodes that are no control plane; also what an empty field means.
    #[default]
    #[serde(alias = "")]
    Workers,
    /// Control plane nodes.
    ControlPlane,
}
