//! Infrastructure: what the cluster runs on.

use net::{Families, Family};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an administrator may choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InfrastructureSpec {
    /// Where the cloud provider's file is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_config: Option<CloudConfigReference>,
    pub platform_spec: PlatformSpec,
}

/// A file in a ConfigMap of `openshift-config`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CloudConfigReference {
    /// Name of the ConfigMap.
    pub name: String,
    /// Key of the file.
    pub key: String,
}

/// The platform, as it is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlatformSpec {
    /// `AWS`, `None` and others.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What was decided when the cluster was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InfrastructureStatus {
    /// Marks everything of this cluster, at most 27 characters.
    pub infrastructure_name: String,
    /// Same as the type of `platform_status`, for older readers.
    pub platform: String,
    /// Where users reach the API.
    #[serde(rename = "apiServerURL")]
    pub api_server_url: String,
    /// Where nodes reach the API.
    #[serde(rename = "apiServerInternalURI")]
    pub api_server_internal_uri: String,
    /// Replicas of what runs on control plane nodes.
    pub control_plane_topology: Topology,
    /// Replicas of what runs elsewhere.
    pub infrastructure_topology: Topology,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_status: Option<PlatformStatus>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How many replicas a part may expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Topology {
    /// Two or more nodes.
    #[default]
    HighlyAvailable,
    /// Three nodes, of which one only votes.
    HighlyAvailableArbiter,
    /// Two nodes.
    DualReplica,
    /// One node.
    SingleReplica,
    /// Runs outside this cluster.
    External,
}

/// The platform, as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlatformStatus {
    /// `AWS`, `None` and others.
    #[serde(rename = "type")]
    pub kind: String,
    /// Facts about AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsPlatformStatus>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Facts about AWS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsPlatformStatus {
    /// Region of the cluster.
    pub region: String,
    /// Families of VPC, subnets and load balancers.
    pub ip_family: AwsIpFamily,
    /// Addresses instead of the public ones of AWS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_endpoints: Vec<ServiceEndpoint>,
    /// Tags for everything that is made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_tags: Vec<AwsResourceTag>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Another address for a service of AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceEndpoint {
    /// The service in lower case.
    pub name: String,
    /// Where it is reached.
    pub url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsResourceTag {
    pub key: String,
    pub value: String,
}

/// The families of an AWS cluster. There is none with IPv6 alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwsIpFamily {
    /// IPv4 alone; also what an absent or empty field means.
    #[default]
    #[serde(alias = "")]
    IPv4,
    /// Both, IPv4 first.
    DualStackIPv4Primary,
    /// Both, IPv6 first.
    DualStackIPv6Primary,
}

impl AwsIpFamily {
    /// Every value, for messages and tables.
    pub const ALL: [Self; 3] = [Self::IPv4, Self::DualStackIPv4Primary, Self::DualStackIPv6Primary];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::DualStackIPv4Primary => "DualStackIPv4Primary",
            Self::DualStackIPv6Primary => "DualStackIPv6Primary",
        }
    }

    /// The families in order.
    pub fn families(self) -> Families {
        match self {
            Self::IPv4 => Families::one(Family::V4),
            Self::DualStackIPv4Primary => Families::both(Family::V4),
            Self::DualStackIPv6Primary => Families::both(Family::V6),
        }
    }
}
