//! Every type that components read or write whole.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    authentication::v1::TokenRequest,
    authorization::v1::SubjectAccessReview,
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    certificates::v1::{CertificateSigningRequest, ClusterTrustBundle, PodCertificateRequest},
    coordination::v1::Lease,
    core::v1::{
        Binding, ConfigMap, Endpoints, Event as CoreEvent, Namespace, Node, NodeCondition, NodeSystemInfo,
        PersistentVolume, PersistentVolumeClaim, Pod, PodTemplateSpec, ReplicationController, ResourceQuota, Secret,
        Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    events::v1::Event,
    networking::v1::{IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR},
    policy::v1::PodDisruptionBudget,
    resource::v1::{ResourceClaim, ResourceClaimTemplate},
    storage::v1::{CSIDriver, StorageClass, VolumeAttachment},
    storagemigration::v1::StorageVersionMigration,
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
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    Secret,
    Service,
    ServiceAccount,
    // Workloads.
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    HorizontalPodAutoscaler,
    Job,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    // Network.
    EndpointSlice,
    IPAddress,
    Ingress,
    IngressClass,
    NetworkPolicy,
    ServiceCIDR,
    // Storage.
    CSIDriver,
    StorageClass,
    VolumeAttachment,
    StorageVersionMigration,
    // Devices.
    ResourceClaim,
    ResourceClaimTemplate,
    // The rest.
    CertificateSigningRequest,
    ClusterTrustBundle,
    PodCertificateRequest,
    SubjectAccessReview,
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
