//! DNS (config): the cluster's domain and its zones.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsSpec {
    /// Domain of the cluster.
    pub base_domain: String,
    /// Zone that everybody sees; without it nothing is published there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_zone: Option<DnsZone>,
    /// Zone that the cluster's network sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_zone: Option<DnsZone>,
    /// Choices that belong to one platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<DnsPlatform>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Choices that belong to one platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DnsPlatform {
    /// `AWS`, or nothing.
    #[serde(rename = "type")]
    pub kind: String,
    /// Those for AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsDns>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Choices for AWS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AwsDns {
    /// ARN of the role to take on for the private zone, which is then in the role's account.
    #[serde(rename = "privateZoneIAMRole", skip_serializing_if = "String::is_empty")]
    pub private_zone_role: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A zone, by id or by tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DnsZone {
    /// The platform's name of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Tags to find it by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}
