//! DNS (operator): how the cluster's DNS servers answer. The object `default`.
//!
//! Enumerations are text here: an object with a value that is not known must still be read, so that its operator can say
//! what is wrong with it.

use super::OperatorCondition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What an administrator may choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorDnsSpec {
    /// Servers that answer for zones of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<DnsServer>,
    /// Who is asked about everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_resolvers: Option<UpstreamResolvers>,
    /// On which nodes the servers run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// `Managed`, or `Unmanaged`: nothing but the status is written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub management_state: String,
    /// `Normal`, `Debug`, `Trace`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator_log_level: String,
    /// `Normal`, `Debug`, `Trace`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log_level: String,
    /// How long answers are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<DnsCache>,
    /// Answers made by rule. Needs the gate `DNSTemplatePlugin`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<DnsTemplate>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A server for some zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsServer {
    /// A service name (RFC 6335).
    pub name: String,
    pub zones: Vec<String>,
    /// Whom it asks.
    pub forward_plugin: ForwardPlugin,
}

/// Whom a server asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ForwardPlugin {
    /// Addresses of either family, with or without a port.
    pub upstreams: Vec<String>,
    /// `Random`, `RoundRobin`, `Sequential`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// Plain or TLS.
    #[serde(skip_serializing_if = "TransportConfig::is_default")]
    pub transport_config: TransportConfig,
    /// `TCP`, or empty for UDP first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol_strategy: String,
}

/// Who is asked about names that nobody else answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpstreamResolvers {
    /// The resolvers; those of the node when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upstreams: Vec<Upstream>,
    /// `Random`, `RoundRobin`, `Sequential`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// Plain or TLS.
    #[serde(skip_serializing_if = "TransportConfig::is_default")]
    pub transport_config: TransportConfig,
    /// `TCP`, or empty for UDP first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol_strategy: String,
}

/// A resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upstream {
    /// `SystemResolvConf`, `Network`, or empty for the former.
    #[serde(rename = "type")]
    pub kind: String,
    /// With `Network`, of either family.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// 53 when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
}

/// How upstreams are spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportConfig {
    /// `TLS`, `Cleartext`, or empty for the latter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub transport: String,
    /// With `TLS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<UpstreamTls>,
}

impl TransportConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whom to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpstreamTls {
    /// The name that its certificate must have.
    pub server_name: String,
    /// A ConfigMap of `openshift-config` with the key `ca-bundle.crt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<BundleName>,
}

/// The name of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleName {
    pub name: String,
}

/// Where servers run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePlacement {
    /// Labels of the nodes; Linux ones when not given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// As Pods have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
}

/// How long answers are kept, as Go writes lengths of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DnsCache {
    /// Answers with records.
    #[serde(rename = "positiveTTL", skip_serializing_if = "String::is_empty")]
    pub positive_ttl: String,
    /// Answers without.
    #[serde(rename = "negativeTTL", skip_serializing_if = "String::is_empty")]
    pub negative_ttl: String,
}

/// An answer made by rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsTemplate {
    /// Tells it from others.
    pub name: String,
    /// Names it is for; `.` is all.
    pub zones: Vec<String>,
    /// `AAAA`.
    pub query_type: String,
    /// `IN`.
    pub query_class: String,
    /// What is answered: one of the two.
    pub action: TemplateAction,
}

/// What is answered: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateAction {
    /// Nothing, with a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_empty: Option<ReturnEmpty>,
    /// A record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_response: Option<GenerateResponse>,
}

/// An empty answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReturnEmpty {
    /// `NOERROR`.
    pub rcode: String,
}

/// An answer with a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerateResponse {
    /// The record, with `{{ .Name }}` and the like in it.
    pub answer_template: String,
    /// `NOERROR`.
    pub rcode: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorDnsStatus {
    /// The address that pods ask.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// The domain of Services.
    pub cluster_domain: String,
    /// How it goes.
    pub conditions: Vec<OperatorCondition>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
