//! IngressController: a set of routers and how they are reached.

use super::Custom;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An object in [`INGRESS_NAMESPACE`](super::INGRESS_NAMESPACE).
pub type IngressController = Custom<IngressControllerSpec, IngressControllerStatus>;

/// What an administrator may choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressControllerSpec {
    /// Domain; that of the Ingress configuration when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Number of routers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How they are reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_publishing_strategy: Option<Publishing>,
    /// What else is there.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressControllerStatus {
    /// Domain in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// How the routers are reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_publishing_strategy: Option<Publishing>,
    /// Generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What else is there.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How routers are reached: a union, of which `kind` says which member counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Publishing {
    /// Which member counts.
    #[serde(rename = "type")]
    pub kind: PublishingKind,
    /// For [`PublishingKind::LoadBalancerService`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
    /// For [`PublishingKind::HostNetwork`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_network: Option<HostNetwork>,
    /// For [`PublishingKind::NodePortService`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<NodePort>,
    /// For [`PublishingKind::Private`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<Private>,
}

/// The ways to reach routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublishingKind {
    /// A Service of type LoadBalancer.
    LoadBalancerService,
    /// Ports of the nodes themselves.
    HostNetwork,
    /// Inside the cluster only.
    Private,
    /// A Service of type NodePort.
    NodePortService,
}

/// A Service of type LoadBalancer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// Who can reach it.
    pub scope: Scope,
    /// Who makes DNS records.
    #[serde(default)]
    pub dns_management_policy: DnsManagement,
    /// CIDRs of either family that may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_source_ranges: Option<Vec<String>>,
    /// Choices of one platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_parameters: Option<ProviderParameters>,
}

/// Who can reach a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The cluster's network.
    Internal,
    /// Everybody.
    External,
}

/// Who makes DNS records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DnsManagement {
    /// The operator.
    #[default]
    Managed,
    /// Somebody else.
    Unmanaged,
}

/// Choices of one platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderParameters {
    /// The platform.
    #[serde(rename = "type")]
    pub kind: String,
    /// For AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsLoadBalancer>,
    /// What else is there.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A load balancer of AWS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsLoadBalancer {
    /// Which sort.
    #[serde(rename = "type")]
    pub kind: LoadBalancerKind,
    /// For [`LoadBalancerKind::Nlb`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_load_balancer: Option<NetworkLoadBalancer>,
    /// What else is there.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Sorts of load balancers of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadBalancerKind {
    /// Network load balancer: IPv4 or both families.
    #[serde(rename = "NLB")]
    Nlb,
    /// Classic load balancer: IPv4 only.
    Classic,
}

impl LoadBalancerKind {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nlb => "NLB",
            Self::Classic => "Classic",
        }
    }
}

/// A network load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkLoadBalancer {
    /// Subnets; the platform chooses when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Subnets>,
    /// Elastic addresses, one for each subnet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eip_allocations: Vec<String>,
    /// Groups instead of the managed one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// `TCP`, `PROXY`, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

/// Subnets by id and by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subnets {
    /// Ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Ports of the nodes; 0 is the default port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostNetwork {
    /// `TCP`, `PROXY`, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// 80.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_port: Option<u16>,
    /// 443.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_port: Option<u16>,
    /// 1936.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats_port: Option<u16>,
}

/// A Service of type NodePort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodePort {
    /// `TCP`, `PROXY`, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

/// Routers that only the cluster reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Private {
    /// `TCP`, `PROXY`, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}
