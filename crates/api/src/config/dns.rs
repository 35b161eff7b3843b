//! DNS (config): the cluster's domain and its zones.

use super::Custom;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The object `cluster`. Its status is empty.
pub type Dns = Custom<DnsSpec, Map<String, Value>>;

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
    /// What else is there.
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
