//! Custom resources that the operator knows beside those of `runtime::operator`, of the few that it has its own use for.

use api::config::{CLUSTER, OperatorCondition, ingress_controller::TlsProfile};
use kube::Resource;
pub use runtime::operator::{DnsConfig, DnsRecord, Infrastructure, IngressConfig, IngressController, Network};
use runtime::{
    controller::{Key, Store},
    operator::Custom,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How the API server is served; of use here for its TLS profile.
pub type ApiServerConfig = Custom<ApiServerSpec>;
/// What Prometheus asks.
pub type ServiceMonitor = Custom<MonitorSpec>;
/// What the cluster is told of an operator.
pub type ClusterOperator = Custom<Nothing>;

/// What counts of [`ApiServerConfig`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServerSpec {
    /// Versions and ciphers for IngressControllers that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsProfile>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The spec of [`ServiceMonitor`], as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MonitorSpec(pub Map<String, Value>);

/// A spec that says nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nothing(pub Map<String, Value>);

/// What is known of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOperatorStatus {
    /// How it goes.
    pub conditions: Vec<OperatorCondition>,
    /// What runs, by name and version.
    pub versions: Vec<OperandVersion>,
    /// What to gather when something is wrong.
    pub related_objects: Vec<Value>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A part and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    /// The part.
    pub name: String,
    pub version: String,
}

/// The object `cluster` of a kind that there is one of.
pub fn singleton<K: Resource + Clone + Send + Sync + 'static>(store: &Store<K>) -> Option<std::sync::Arc<K>> {
    store.get(&Key::cluster(CLUSTER))
}

api::custom_resource!(ApiServerSpec, Map<String, Value>, ClusterWide, "config.openshift.io", "APIServer", "apiservers");
api::custom_resource!(
    Nothing,
    ClusterOperatorStatus,
    ClusterWide,
    "config.openshift.io",
    "ClusterOperator",
    "clusteroperators"
);
api::custom_resource!(
    MonitorSpec,
    Map<String, Value>,
    Namespaced,
    "monitoring.coreos.com",
    "ServiceMonitor",
    "servicemonitors"
);
