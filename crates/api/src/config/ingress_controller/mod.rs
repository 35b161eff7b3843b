//! IngressController: a set of routers and how they are reached.

mod publishing;
mod routers;

pub use publishing::*;
pub use routers::*;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// Secret with the certificate for hosts that bring none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_certificate: Option<Named>,
    /// Which namespaces are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<Selector>,
    /// Which Routes are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_selector: Option<Selector>,
    /// Where routers run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// Which Routes are let in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_admission: Option<RouteAdmission>,
    /// Versions and ciphers of TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsProfile>,
    /// Certificates of clients.
    #[serde(rename = "clientTLS", skip_serializing_if = "Option::is_none")]
    pub client_tls: Option<ClientTls>,
    /// Access logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// Headers that routers add, change or take away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_headers: Option<HttpHeaders>,
    /// What is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_compression: Option<Compression>,
    /// ConfigMap of `openshift-config` with pages for errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_error_code_pages: Option<Named>,
    /// Sizes and times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning_options: Option<TuningOptions>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

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
    /// Routers that serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Labels of the routers, for scaling.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Versions and ciphers of TLS in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_profile: Option<TlsProfileSpec>,
    /// Which namespaces are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<Selector>,
    /// Which Routes are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_selector: Option<Selector>,
    /// How it goes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<OperatorCondition>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
