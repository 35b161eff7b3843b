//! The custom resources as the client knows them: `api::config`'s specs and statuses with Kubernetes' metadata around.

use api::config::{
    CLUSTER, DnsRecordSpec, DnsRecordStatus, DnsSpec, InfrastructureSpec, InfrastructureStatus, IngressControllerSpec,
    IngressControllerStatus, IngressSpec, IngressStatus, NetworkSpec, NetworkStatus,
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
