//! The custom resources as the client knows them: `api::config`'s specs and statuses with Kubernetes' metadata around.

use api::config::{
    CLUSTER, DnsRecordSpec, DnsRecordStatus, DnsSpec, InfrastructureSpec, InfrastructureStatus, IngressControllerSpec,
    IngressControllerStatus, IngressSpec, IngressStatus, NetworkSpec, NetworkStatus, OperatorCondition,
    ingress_controller::TlsProfile,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Resource, ResourceExt,
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use runtime::controller::{Key, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// An object with a typed spec and status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object<Spec, Status> {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: Spec,
    /// What is.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// A set of routers and how they are reached.
pub type IngressController = Object<IngressControllerSpec, IngressControllerStatus>;
/// A name and where it leads.
pub type DnsRecord = Object<DnsRecordSpec, DnsRecordStatus>;
/// What the cluster runs on.
pub type Infrastructure = Object<InfrastructureSpec, InfrastructureStatus>;
/// Which addresses Pods and Services get.
pub type Network = Object<NetworkSpec, NetworkStatus>;
/// Where applications are published.
pub type IngressConfig = Object<IngressSpec, IngressStatus>;
/// The cluster's domain and its zones.
pub type DnsConfig = Object<DnsSpec, Map<String, Value>>;
/// How the API server is served; of use here for its TLS profile.
pub type ApiServerConfig = Object<ApiServerSpec, Map<String, Value>>;
/// What Prometheus asks.
pub type ServiceMonitor = Object<MonitorSpec, Map<String, Value>>;
/// What the cluster is told of an operator.
pub type ClusterOperator = Object<Nothing, ClusterOperatorStatus>;

/// What counts of [`ApiServerConfig`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServerSpec {
    /// Versions and ciphers for IngressControllers that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsProfile>,
    /// What else is there.
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
    /// What else is there.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A part and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    /// The part.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl<Spec, Status> Object<Spec, Status>
where
    Self: Resource<DynamicType = ()>,
{
    /// A new object.
    pub fn new(namespace: Option<&str>, name: &str, spec: Spec) -> Self {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ObjectMeta::default()
        };
        let (api_version, kind) = (Self::api_version(&()).into_owned(), Self::kind(&()).into_owned());
        Self { api_version, kind, metadata, spec, status: None }
    }

    /// As the owner of other objects; they go with it.
    pub fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: Self::api_version(&()).into_owned(),
            kind: Self::kind(&()).into_owned(),
            name: self.name_any(),
            uid: self.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// The object `cluster` of a kind that there is one of.
pub fn singleton<K: Resource + Clone + Send + Sync + 'static>(store: &Store<K>) -> Option<std::sync::Arc<K>> {
    store.get(&Key::cluster(CLUSTER))
}

macro_rules! kind {
    ($type:ty, $scope:ty, $group:literal, $kind:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }
            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

kind!(IngressController, NamespaceResourceScope, "operator.openshift.io", "IngressController", "ingresscontrollers");
kind!(DnsRecord, NamespaceResourceScope, "ingress.operator.openshift.io", "DNSRecord", "dnsrecords");
kind!(Infrastructure, ClusterResourceScope, "config.openshift.io", "Infrastructure", "infrastructures");
kind!(Network, ClusterResourceScope, "config.openshift.io", "Network", "networks");
kind!(IngressConfig, ClusterResourceScope, "config.openshift.io", "Ingress", "ingresses");
kind!(DnsConfig, ClusterResourceScope, "config.openshift.io", "DNS", "dnses");
kind!(ApiServerConfig, ClusterResourceScope, "config.openshift.io", "APIServer", "apiservers");
kind!(ClusterOperator, ClusterResourceScope, "config.openshift.io", "ClusterOperator", "clusteroperators");
kind!(ServiceMonitor, NamespaceResourceScope, "monitoring.coreos.com", "ServiceMonitor", "servicemonitors");
