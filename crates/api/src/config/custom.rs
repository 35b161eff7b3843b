//! Which custom resource a spec belongs to. `runtime::operator::Custom` is the object around it.

use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// What can be the spec or status of a custom resource.
pub trait Part: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<T> Part for T where T: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {}

/// A spec names the resource that it is the spec of.
pub trait CustomResource: Part {
    /// What is known, beside what is wanted.
    type Status: Part;
    /// [`Namespaced`] or [`ClusterWide`].
    type Scope;
    const GROUP: &'static str;
    const VERSION: &'static str = "v1";
    const KIND: &'static str;
    /// Its name in paths.
    const PLURAL: &'static str;
}

/// Objects live in namespaces.
#[derive(Clone, Copy, Debug)]
pub enum Namespaced {}

/// Objects belong to no namespace.
#[derive(Clone, Copy, Debug)]
pub enum ClusterWide {}

/// Says of a spec which resource it belongs to.
#[macro_export]
macro_rules! custom_resource {
    ($spec:ty, $status:ty, $scope:ident, $group:expr, $kind:literal, $plural:literal) => {
        impl $crate::config::CustomResource for $spec {
            type Status = $status;
            type Scope = $crate::config::$scope;
            const GROUP: &'static str = $group;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
        }
    };
}

use super::*;
use serde_json::{Map, Value};

const CONFIG_GROUP: &str = "config.openshift.io";
const OPERATOR_GROUP: &str = "operator.openshift.io";

custom_resource!(
    InfrastructureSpec,
    InfrastructureStatus,
    ClusterWide,
    CONFIG_GROUP,
    "Infrastructure",
    "infrastructures"
);
custom_resource!(NetworkSpec, NetworkStatus, ClusterWide, CONFIG_GROUP, "Network", "networks");
custom_resource!(IngressSpec, IngressStatus, ClusterWide, CONFIG_GROUP, "Ingress", "ingresses");
custom_resource!(DnsSpec, Map<String, Value>, ClusterWide, CONFIG_GROUP, "DNS", "dnses");
custom_resource!(FeatureGateSpec, FeatureGateStatus, ClusterWide, CONFIG_GROUP, "FeatureGate", "featuregates");
custom_resource!(OperatorDnsSpec, OperatorDnsStatus, ClusterWide, OPERATOR_GROUP, "DNS", "dnses");
custom_resource!(
    IngressControllerSpec,
    IngressControllerStatus,
    Namespaced,
    OPERATOR_GROUP,
    "IngressController",
    "ingresscontrollers"
);
custom_resource!(
    DnsRecordSpec,
    DnsRecordStatus,
    Namespaced,
    "ingress.operator.openshift.io",
    "DNSRecord",
    "dnsrecords"
);
custom_resource!(RouteSpec, RouteStatus, Namespaced, "route.openshift.io", "Route", "routes");
