//! The table: one row per built-in kind.
//!
//! Names, short names, categories, subresources and verbs are those of upstream's discovery; storage prefixes are those
//! under which Kubernetes keeps objects in etcd, so that either can read what the other wrote.

use super::{
    address::{IpAddress, ServiceCidr},
    api_service::{self, ApiService},
    apps::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::{Autoscaler, AutoscalerV1},
    batch::{CronJob, Job},
    certificates::{CertificateSigningRequest, ClusterTrustBundle, PodCertificateRequest},
    config::{ConfigMap, Secret, ServiceAccount},
    coordination::{DisruptionBudget, Lease, PriorityClass},
    definition::Definition,
    devices::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
    endpoints::{EndpointSlice, Endpoints},
    event::{CoreEvent, NewEvent},
    flowcontrol::{FlowSchema, PriorityLevel},
    ingress::{Ingress, IngressClass},
    limit_range::LimitRange,
    migration::StorageVersionMigration,
    namespace::Namespace,
    node::Node,
    pod::Pod,
    policy::{MutatingBinding, MutatingPolicy, ValidatingBinding, ValidatingPolicy},
    rbac,
    replication_controller::{PodTemplate, ReplicationController},
    resource_quota::ResourceQuota,
    review::{self, AccessReview, Review},
    runtime_class::RuntimeClass,
    service::Service,
    storage::{
        CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
        VolumeAttachment, VolumeAttributesClass,
    },
    webhook::WebhookConfiguration::{Mutating, Validating},
};
use crate::{
    resource::{Resource, Rules, Scope, Subresource, Verbs},
    schema::Shape,
};
use std::sync::Arc;

/// Every built-in resource.
pub fn table() -> Vec<Arc<Resource>> {
    use Scope::{Cluster, Namespaced};
    let of_event = |object: &'static str| {
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
            .map(|field| format!("{object}.{field}"))
    };
    let rows = [
        // core
        row(core("Binding"), "bindings", Namespaced, review::Binding).create_only(),
        row(core("ConfigMap"), "configmaps", Namespaced, ConfigMap).short("cm"),
        row(core("Endpoints"), "endpoints", Namespaced, Endpoints).short("ep").stored("services/endpoints"),
        row(core("Event"), "events", Namespaced, CoreEvent)
            .short("ev")
            .select(of_event("involvedObject"))
            .select(["reason", "reportingComponent", "type"])
            .select_as("source", "source.component"),
        row(core("LimitRange"), "limitranges", Namespaced, LimitRange).short("limits"),
        row(core("Namespace"), "namespaces", Cluster, Namespace)
            .short("ns")
            .no_collection_delete()
            .sub(["finalize", "status"])
            .select(["status.phase"]),
        row(core("Node"), "nodes", Cluster, Node)
            .short("no")
            .sub(["proxy", "status"])
            .stored("minions")
            .select(["spec.unschedulable"]),
        row(core("PersistentVolumeClaim"), "persistentvolumeclaims", Namespaced, PersistentVolumeClaim)
            .short("pvc")
            .sub(["status"]),
        row(core("PersistentVolume"), "persistentvolumes", Cluster, PersistentVolume).short("pv").sub(["status"]),
        row(core("Pod"), "pods", Namespaced, Pod)
            .short("po")
            .category("all")
            .sub(["attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy"])
            .sub(["resize", "status"])
            .select(["spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"])
            .select(["spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"])
            .select_as("spec.host", "spec.nodeName"),
        row(core("ResourceQuota"), "resourcequotas", Namespaced, ResourceQuota).short("quota").sub(["status"]),
        row(core("PodTemplate"), "podtemplates", Namespaced, PodTemplate),
        row(core("ReplicationController"), "replicationcontrollers", Namespaced, ReplicationController)
            .short("rc")
            .category("all")
            .sub(["scale", "status"])
            .stored("controllers")
            .select(["status.replicas"]),
        row(core("Secret"), "secrets", Namespaced, Secret).select(["type"]),
        row(core("ServiceAccount"), "serviceaccounts", Namespaced, ServiceAccount).short("sa").sub(["token"]),
        row(core("Service"), "services", Namespaced, Service)
            .short("svc")
            .category("all")
            .sub(["proxy", "status"])
            .stored("services/specs")
            .select(["spec.clusterIP", "spec.type"]),
        // apps
        row(apps("ControllerRevision"), "controllerrevisions", Namespaced, ControllerRevision),
        row(apps("DaemonSet"), "daemonsets", Namespaced, DaemonSet).short("ds").category("all").sub(["status"]),
        row(apps("Deployment"), "deployments", Namespaced, Deployment)
            .short("deploy")
            .category("all")
            .sub(["scale", "status"]),
        row(apps("ReplicaSet"), "replicasets", Namespaced, ReplicaSet)
            .short("rs")
            .category("all")
            .sub(["scale", "status"]),
        row(apps("StatefulSet"), "statefulsets", Namespaced, StatefulSet)
            .short("sts")
            .category("all")
            .sub(["scale", "status"]),
        // autoscaling
        row(autoscaling("HorizontalPodAutoscaler"), "horizontalpodautoscalers", Namespaced, Autoscaler)
            .version("v2")
            .short("hpa")
            .category("all")
            .sub(["status"]),
        row(autoscaling("HorizontalPodAutoscaler"), "horizontalpodautoscalers", Namespaced, AutoscalerV1)
            .short("hpa")
            .category("all")
            .sub(["status"]),
        // batch
        row(("batch", "CronJob"), "cronjobs", Namespaced, CronJob).short("cj").category("all").sub(["status"]),
        row(("batch", "Job"), "jobs", Namespaced, Job)
            .category("all")
            .sub(["status"])
            .select_as("status.successful", "status.succeeded"),
        // network
        row(("discovery.k8s.io", "EndpointSlice"), "endpointslices", Namespaced, EndpointSlice),
        row(networking("IngressClass"), "ingressclasses", Cluster, IngressClass),
        row(networking("Ingress"), "ingresses", Namespaced, Ingress).short("ing").sub(["status"]).stored("ingress"),
        row(networking("IPAddress"), "ipaddresses", Cluster, IpAddress).short("ip"),
        row(networking("ServiceCIDR"), "servicecidrs", Cluster, ServiceCidr).sub(["status"]),
        // admission
        row(admission("MutatingWebhookConfiguration"), "mutatingwebhookconfigurations", Cluster, Mutating)
            .category("api-extensions"),
        row(admission("MutatingAdmissionPolicy"), "mutatingadmissionpolicies", Cluster, MutatingPolicy)
            .category("api-extensions"),
        row(admission("MutatingAdmissionPolicyBinding"), "mutatingadmissionpolicybindings", Cluster, MutatingBinding)
            .category("api-extensions"),
        row(admission("ValidatingWebhookConfiguration"), "validatingwebhookconfigurations", Cluster, Validating)
            .category("api-extensions"),
        row(admission("ValidatingAdmissionPolicy"), "validatingadmissionpolicies", Cluster, ValidatingPolicy)
            .category("api-extensions")
            .sub(["status"]),
        row(
            admission("ValidatingAdmissionPolicyBinding"),
            "validatingadmissionpolicybindings",
            Cluster,
            ValidatingBinding,
        )
        .category("api-extensions"),
        // certificates
        row(
            certificates("CertificateSigningRequest"),
            "certificatesigningrequests",
            Cluster,
            CertificateSigningRequest,
        )
        .short("csr")
        .sub(["approval", "status"])
        .select(["spec.signerName"]),
        row(certificates("ClusterTrustBundle"), "clustertrustbundles", Cluster, ClusterTrustBundle)
            .select(["spec.signerName"]),
        row(certificates("PodCertificateRequest"), "podcertificaterequests", Namespaced, PodCertificateRequest)
            .sub(["status"])
            .select(["spec.signerName", "spec.podName", "spec.nodeName"]),
        // storage
        row(storage("CSIDriver"), "csidrivers", Cluster, CsiDriver),
        row(storage("CSINode"), "csinodes", Cluster, CsiNode).sub(["status"]),
        row(storage("CSIStorageCapacity"), "csistoragecapacities", Namespaced, CsiStorageCapacity),
        row(storage("StorageClass"), "storageclasses", Cluster, StorageClass).short("sc"),
        row(storage("VolumeAttachment"), "volumeattachments", Cluster, VolumeAttachment).sub(["status"]),
        row(storage("VolumeAttributesClass"), "volumeattributesclasses", Cluster, VolumeAttributesClass).short("vac"),
        row(
            ("storagemigration.k8s.io", "StorageVersionMigration"),
            "storageversionmigrations",
            Cluster,
            StorageVersionMigration,
        )
        .sub(["status"]),
        // devices
        row(devices("DeviceClass"), "deviceclasses", Cluster, DeviceClass),
        row(devices("ResourceClaim"), "resourceclaims", Namespaced, ResourceClaim).sub(["status"]),
        row(devices("ResourceClaimTemplate"), "resourceclaimtemplates", Namespaced, ResourceClaimTemplate),
        row(devices("ResourceSlice"), "resourceslices", Cluster, ResourceSlice).select([
            "spec.nodeName",
            "spec.driver",
            "spec.pool.name",
        ]),
        // the rest
        row(("coordination.k8s.io", "Lease"), "leases", Namespaced, Lease),
        row(("events.k8s.io", "Event"), "events", Namespaced, NewEvent)
            .short("ev")
            .select(of_event("regarding"))
            .select(["reason", "reportingController", "type"]),
        row(flow("FlowSchema"), "flowschemas", Cluster, FlowSchema).sub(["status"]),
        row(flow("PriorityLevelConfiguration"), "prioritylevelconfigurations", Cluster, PriorityLevel).sub(["status"]),
        row(access("ClusterRoleBinding"), "clusterrolebindings", Cluster, rbac::Binding(Cluster)),
        row(access("ClusterRole"), "clusterroles", Cluster, rbac::Role(Cluster)),
        row(access("RoleBinding"), "rolebindings", Namespaced, rbac::Binding(Namespaced)),
        row(access("Role"), "roles", Namespaced, rbac::Role(Namespaced)),
        row(("node.k8s.io", "RuntimeClass"), "runtimeclasses", Cluster, RuntimeClass),
        row(("policy", "PodDisruptionBudget"), "poddisruptionbudgets", Namespaced, DisruptionBudget)
            .short("pdb")
            .sub(["status"]),
        row(("scheduling.k8s.io", "PriorityClass"), "priorityclasses", Cluster, PriorityClass).short("pc"),
        row(("authentication.k8s.io", "SelfSubjectReview"), "selfsubjectreviews", Cluster, Review).create_only(),
        row(("authentication.k8s.io", "TokenReview"), "tokenreviews", Cluster, Review).create_only(),
        row(asking("LocalSubjectAccessReview"), "localsubjectaccessreviews", Namespaced, AccessReview::Local)
            .create_only(),
        row(asking("SelfSubjectAccessReview"), "selfsubjectaccessreviews", Cluster, AccessReview::Itself).create_only(),
        row(asking("SelfSubjectRulesReview"), "selfsubjectrulesreviews", Cluster, Review).create_only(),
        row(asking("SubjectAccessReview"), "subjectaccessreviews", Cluster, AccessReview::Subject).create_only(),
        row(("apiextensions.k8s.io", "CustomResourceDefinition"), "customresourcedefinitions", Cluster, Definition)
            .short("crd")
            .short("crds")
            .category("api-extensions")
            .sub(["status"])
            .stored("apiextensions.k8s.io/customresourcedefinitions"),
        row((api_service::GROUP, "APIService"), "apiservices", Cluster, ApiService)
            .category("api-extensions")
            .sub(["status"])
            .stored("apiregistration.k8s.io/apiservices"),
    ];
    rows.into_iter().map(Row::done).collect()
}

type GroupKind = (&'static str, &'static str);

fn core(kind: &'static str) -> GroupKind {
    ("", kind)
}

fn apps(kind: &'static str) -> GroupKind {
    ("apps", kind)
}

fn autoscaling(kind: &'static str) -> GroupKind {
    ("autoscaling", kind)
}

fn networking(kind: &'static str) -> GroupKind {
    ("networking.k8s.io", kind)
}

fn certificates(kind: &'static str) -> GroupKind {
    ("certificates.k8s.io", kind)
}

fn storage(kind: &'static str) -> GroupKind {
    ("storage.k8s.io", kind)
}

fn devices(kind: &'static str) -> GroupKind {
    ("resource.k8s.io", kind)
}

fn admission(kind: &'static str) -> GroupKind {
    ("admissionregistration.k8s.io", kind)
}

fn access(kind: &'static str) -> GroupKind {
    ("rbac.authorization.k8s.io", kind)
}

fn flow(kind: &'static str) -> GroupKind {
    ("flowcontrol.apiserver.k8s.io", kind)
}

fn asking(kind: &'static str) -> GroupKind {
    ("authorization.k8s.io", kind)
}

/// A row being written: what nearly all kinds have is there, the rest is added by name.
struct Row {
    resource: Resource,
    selectable: Vec<(String, String)>,
}

fn row((group, kind): GroupKind, plural: &str, scope: Scope, rules: impl Rules + 'static) -> Row {
    let shape = crate::schema::of_kind(group, "v1", kind).map_or(Shape::Any, |shape| Shape::Named(&shape.name));
    let resource = Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope,
        verbs: Verbs::All,
        shape: shape.into(),
        storage: plural.to_owned(),
        subresources: Vec::new(),
        selectable: Arc::default(),
        rules: Arc::new(rules),
        custom: false,
    };
    Row { resource, selectable: Vec::new() }
}

impl Row {
    fn done(self) -> Arc<Resource> {
        Arc::new(Resource { selectable: self.selectable.into(), ..self.resource })
    }

    /// Another version than v1.
    fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.resource.version);
        let shape = crate::schema::of_kind(&self.resource.group, version, &self.resource.kind);
        self.resource.shape = shape.map_or(Shape::Any, |shape| Shape::Named(&shape.name)).into();
        self
    }

    fn short(mut self, name: &str) -> Self {
        self.resource.short_names.push(name.to_owned());
        self
    }

    fn category(mut self, name: &str) -> Self {
        self.resource.categories.push(name.to_owned());
        self
    }

    fn stored(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.resource.storage);
        self
    }

    fn create_only(mut self) -> Self {
        self.resource.verbs = Verbs::CreateOnly;
        self
    }

    fn no_collection_delete(mut self) -> Self {
        self.resource.verbs = Verbs::AllButDeleteCollection;
        self
    }

    fn sub<const N: usize>(mut self, names: [&'static str; N]) -> Self {
        self.resource.subresources.extend(names.map(|name| match name {
            "status" => Subresource::Status,
            "scale" => Subresource::Scale {
                spec_replicas: "spec.replicas".to_owned(),
                status_replicas: "status.replicas".to_owned(),
                selector: Some("spec.selector".to_owned()),
            },
            name => Subresource::Named(name),
        }));
        self
    }

    fn select<const N: usize>(mut self, paths: [impl Into<String>; N]) -> Self {
        self.selectable.extend(paths.map(|path| {
            let path = path.into();
            (path.clone(), path)
        }));
        self
    }

    fn select_as(mut self, label: &str, path: &str) -> Self {
        self.selectable.push((label.to_owned(), path.to_owned()));
        self
    }
}

#[cfg(test)]
mod tests;
