//! DNSRecord: a name, where it leads, and in which zones it is published.

use super::{DnsManagement, DnsZone};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsRecordSpec {
    /// The full name with its final dot; `*.` in front for a wildcard.
    pub dns_name: String,
    /// Where it leads.
    pub targets: Vec<String>,
    /// `CNAME` for host names, `A` and `AAAA` for addresses.
    pub record_type: RecordType,
    /// Seconds for which an answer may be remembered.
    #[serde(rename = "recordTTL")]
    pub record_ttl: i64,
    /// Who makes the record.
    pub dns_management_policy: DnsManagement,
}

/// Sorts of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordType {
    /// Another name.
    #[default]
    #[serde(rename = "CNAME")]
    Cname,
    /// IPv4 addresses, and IPv6 ones beside them.
    A,
    /// IPv6 addresses.
    #[serde(rename = "AAAA")]
    Aaaa,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsRecordStatus {
    /// How it went in each zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<DnsZoneStatus>,
    /// Generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How it went in one zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsZoneStatus {
    pub dns_zone: DnsZone,
    /// `Published` and its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<super::OperatorCondition>,
}
