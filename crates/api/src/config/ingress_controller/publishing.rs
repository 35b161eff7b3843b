//! How routers are reached: the endpoint publishing strategies with their parameters.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

impl Publishing {
    /// One with nothing but its kind.
    pub fn of(kind: PublishingKind) -> Self {
        Self { kind, load_balancer: None, host_network: None, node_port: None, private: None }
    }

    /// What is said about AWS.
    pub fn aws(&self) -> Option<&AwsLoadBalancer> {
        self.load_balancer.as_ref()?.provider_parameters.as_ref()?.aws.as_ref()
    }

    /// What is said about AWS, to be changed.
    pub fn aws_mut(&mut self) -> Option<&mut AwsLoadBalancer> {
        self.load_balancer.as_mut()?.provider_parameters.as_mut()?.aws.as_mut()
    }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsLoadBalancer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpLoadBalancer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ibm: Option<IbmLoadBalancer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenStackLoadBalancer>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsLoadBalancer {
    /// Which sort.
    #[serde(rename = "type")]
    pub kind: LoadBalancerKind,
    /// For [`LoadBalancerKind::Nlb`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_load_balancer: Option<NetworkLoadBalancer>,
    /// For [`LoadBalancerKind::Classic`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classic_load_balancer: Option<ClassicLoadBalancer>,
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

impl PublishingKind {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::LoadBalancerService => "LoadBalancerService",
            Self::HostNetwork => "HostNetwork",
            Self::Private => "Private",
            Self::NodePortService => "NodePortService",
        }
    }
}

impl Scope {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "Internal",
            Self::External => "External",
        }
    }
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassicLoadBalancer {
    /// How long a silent connection is kept, as Go writes it; nothing, 0 or less leaves it to the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_idle_timeout: Option<String>,
    /// Subnets; the platform chooses when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Subnets>,
}

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
    /// Whether connections begin with a PROXY header.
    #[serde(skip_serializing_if = "Protocol::is_unset")]
    pub protocol: Protocol,
}

/// A load balancer of Google.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GcpLoadBalancer {
    /// `Global` or `Local`: from which regions an internal one is reached.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_access: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IbmLoadBalancer {
    /// Whether connections begin with a PROXY header.
    #[serde(skip_serializing_if = "Protocol::is_unset")]
    pub protocol: Protocol,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenStackLoadBalancer {
    /// The address that it gets.
    #[serde(rename = "floatingIP", skip_serializing_if = "String::is_empty")]
    pub floating_ip: String,
}

/// Whether connections begin with a PROXY header that names the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// Not said.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// They do not.
    #[serde(rename = "TCP")]
    Tcp,
    /// They do; those that do not are refused.
    #[serde(rename = "PROXY")]
    Proxy,
}

impl Protocol {
    /// Whether nothing is said.
    pub fn is_unset(&self) -> bool {
        *self == Self::Unset
    }

    /// The same with nothing said meaning TCP.
    #[must_use]
    pub fn resolved(self) -> Self {
        if self.is_unset() { Self::Tcp } else { self }
    }
}

/// Subnets by id and by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subnets {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Ports of the nodes; 0 is the default port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostNetwork {
    /// Whether connections begin with a PROXY header.
    #[serde(skip_serializing_if = "Protocol::is_unset")]
    pub protocol: Protocol,
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
    /// Whether connections begin with a PROXY header.
    #[serde(skip_serializing_if = "Protocol::is_unset")]
    pub protocol: Protocol,
}

/// Routers that only the cluster reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Private {
    /// Whether connections begin with a PROXY header.
    #[serde(skip_serializing_if = "Protocol::is_unset")]
    pub protocol: Protocol,
}
