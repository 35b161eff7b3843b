//! The custom resources as the client knows them.

use api::config::{
    FeatureGateSpec, FeatureGateStatus, InfrastructureSpec, InfrastructureStatus, NetworkSpec, NetworkStatus,
    OperatorDnsSpec, OperatorDnsStatus,
};
use k8s_openapi::{ClusterResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, de::DeserializeOwned};
use std::{borrow::Cow, fmt::Debug, marker::PhantomData};

/// A kind of cluster-wide object that this operator reads.
pub trait Kind: Clone + Debug + Send + Sync + 'static {
    /// Its group; the version is always `v1`.
    const GROUP: &'static str;
    /// Its kind.
    const KIND: &'static str;
    /// Its name in paths.
    const PLURAL: &'static str;
    /// What is wanted.
    type Spec: Clone + Debug + Default + DeserializeOwned + Send + Sync;
    /// What is.
    type Status: Clone + Debug + DeserializeOwned + Send + Sync;
}

/// An object of such a kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "")]
pub struct Known<K: Kind> {
    /// Name and the like.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: K::Spec,
    /// What is.
    #[serde(default = "Option::default")]
    pub status: Option<K::Status>,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K: Kind> kube::Resource for Known<K> {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// operator.openshift.io DNS.
#[derive(Clone, Debug)]
pub enum DnsKind {}

impl Kind for DnsKind {
    const GROUP: &'static str = "operator.openshift.io";
    const KIND: &'static str = "DNS";
    const PLURAL: &'static str = "dnses";
    type Spec = OperatorDnsSpec;
    type Status = OperatorDnsStatus;
}

/// config.openshift.io Network.
#[derive(Clone, Debug)]
pub enum NetworkKind {}

impl Kind for NetworkKind {
    const GROUP: &'static str = "config.openshift.io";
    const KIND: &'static str = "Network";
    const PLURAL: &'static str = "networks";
    type Spec = NetworkSpec;
    type Status = NetworkStatus;
}

/// config.openshift.io Infrastructure.
#[derive(Clone, Debug)]
pub enum InfrastructureKind {}

impl Kind for InfrastructureKind {
    const GROUP: &'static str = "config.openshift.io";
    const KIND: &'static str = "Infrastructure";
    const PLURAL: &'static str = "infrastructures";
    type Spec = InfrastructureSpec;
    type Status = InfrastructureStatus;
}

/// config.openshift.io FeatureGate.
#[derive(Clone, Debug)]
pub enum GateKind {}

impl Kind for GateKind {
    const GROUP: &'static str = "config.openshift.io";
    const KIND: &'static str = "FeatureGate";
    const PLURAL: &'static str = "featuregates";
    type Spec = FeatureGateSpec;
    type Status = FeatureGateStatus;
}

/// The resource that the operator is for.
pub type Dns = Known<DnsKind>;
/// Which addresses Pods and Services get.
pub type Network = Known<NetworkKind>;
/// What the cluster runs on.
pub type Infrastructure = Known<InfrastructureKind>;
/// Which gates are open.
pub type FeatureGate = Known<GateKind>;
