//! Every type that components read or write whole.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet},
    authentication::v1::TokenRequest,
    coordination::v1::Lease,
    core::v1::{
        Binding, ConfigMap, Endpoints, Event as CoreEvent, Namespace, Node, NodeCondition, NodeSystemInfo, Pod,
        PodTemplateSpec, Secret, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    events::v1::Event,
    networking::v1::{IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR},
    policy::v1::PodDisruptionBudget,
};
use kube::api::{DynamicObject, PartialObjectMeta};
use serde_json::Value;

crate::json!(
    // Core.
    Binding,
    ConfigMap,
    Endpoints,
    Namespace,
    Node,
    Pod,
    Secret,
    Service,
    ServiceAccount,
    // Workloads.
    ControllerRevision,
    DaemonSet,
    Deployment,
    PodDisruptionBudget,
    ReplicaSet,
    // Network.
    EndpointSlice,
    IPAddress,
    Ingress,
    IngressClass,
    NetworkPolicy,
    ServiceCIDR,
    // The rest.
    CoreEvent,
    Event,
    Lease,
    TokenRequest,
    // Parts of them.
    NodeCondition,
    NodeSystemInfo,
    PodTemplateSpec,
    // Any kind.
    DynamicObject,
    PartialObjectMeta<DynamicObject>,
    Value,
);
