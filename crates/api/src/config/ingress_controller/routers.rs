//! What an administrator may choose about the routers themselves, and the form of conditions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A condition of an operator's object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// In a word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// In a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the status last changed.
    pub last_transition_time: String,
}

/// An object by name, in a namespace that the field implies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Named {
    pub name: String,
}

/// Which labels an object must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// These labels with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further demands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Expression>,
}

/// A demand on a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// For the first two.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Where routers run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePlacement {
    /// Labels of nodes, instead of the default ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<Selector>,
    /// Taints that are tolerated, instead of none, in Kubernetes' form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
}

/// Which Routes are let in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteAdmission {
    /// `Strict` or `InterNamespaceAllowed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace_ownership: String,
    /// `WildcardsDisallowed` or `WildcardsAllowed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wildcard_policy: String,
}

/// Versions and ciphers of TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsProfile {
    /// `Old`, `Intermediate`, `Modern` or `Custom`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// For `Custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<TlsProfileSpec>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Versions and ciphers, one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsProfileSpec {
    /// Names that OpenSSL knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ciphers: Vec<String>,
    /// `VersionTLS10` to `VersionTLS13`.
    #[serde(rename = "minTLSVersion", skip_serializing_if = "String::is_empty")]
    pub min_tls_version: String,
    /// Key exchange groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

/// Certificates of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientTls {
    /// `Required` or `Optional`; empty for none.
    pub client_certificate_policy: String,
    /// ConfigMap of `openshift-config` with their authority.
    #[serde(rename = "clientCA")]
    pub client_ca: Named,
    /// Regular expressions for subjects, of which one must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_subject_patterns: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Logging {
    /// A line for each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessLog>,
}

/// A line for each request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessLog {
    /// Where it goes.
    pub destination: LogDestination,
    /// Its form.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub http_log_format: String,
    /// `Log` or `Ignore`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log_empty_requests: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Where a log goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogDestination {
    /// `Container` or `Syslog`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For `Container`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerLog>,
    /// For `Syslog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syslog: Option<SyslogLog>,
}

/// A log in the output of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerLog {
    /// Longest line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
}

/// A log that is sent away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyslogLog {
    /// Address of either family.
    pub address: String,
    /// UDP port.
    pub port: u16,
    /// Syslog's word for the sort of sender.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub facility: String,
    /// Longest line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
}

/// Headers that routers add, change or take away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpHeaders {
    /// `Append`, `Replace`, `IfNone` or `Never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub forwarded_header_policy: String,
    /// A header that tells requests apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_id: Option<UniqueId>,
    /// Headers whose case is kept as written here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub header_name_case_adjustments: Vec<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A header that tells requests apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UniqueId {
    pub name: String,
    /// Its form.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub format: String,
}

/// What is compressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Compression {
    /// By type of content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mime_types: Vec<String>,
}

/// Sizes and times, as Go writes lengths of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TuningOptions {
    /// Bytes for headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_buffer_bytes: Option<i32>,
    /// Bytes of these kept for changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_buffer_max_rewrite_bytes: Option<i32>,
    /// Threads of HAProxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_count: Option<i32>,
    /// Connections; 0 is the default and -1 as many as the machine gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<i32>,
    /// Lengths of time by their names, and what else is there.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
