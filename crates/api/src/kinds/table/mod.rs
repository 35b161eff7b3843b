//! The table: one row per built-in kind.
//!
//! Names, short names, categories, subresources and verbs are those of upstream's discovery; storage prefixes are those
//! under which Kubernetes keeps objects in etcd, so that either can read what the other wrote.

use super::{
    address::{IpAddress, ServiceCidr},
    apps::{ControllerRevision, DaemonSet, Deployment, ReplicaSet},
    config::{ConfigMap, Secret, ServiceAccount},
    coordination::{DisruptionBudget, Lease, PriorityClass},
    definition::Definition,
    endpoints::{EndpointSlice, Endpoints},
    event::{CoreEvent, NewEvent},
    flowcontrol::{FlowSchema, PriorityLevel},
    ingress::{Ingress, IngressClass},
    namespace::Namespace,
    node::Node,
    pod::Pod,
    policy::{ValidatingBinding, ValidatingPolicy},
    rbac,
    review::{self, AccessReview, Review},
    service::Service,
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
        row(core("Pod"), "pods", Namespaced, Pod)
            .short("po")
            .category("all")
            .sub(["attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy"])
            .sub(["resize", "status"])
            .select(["spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"])
            .select(["spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"])
            .select_as("spec.host", "spec.nodeName"),
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
        // network
        row(("discovery.k8s.io", "EndpointSlice"), "endpointslices", Namespaced, EndpointSlice),
        row(networking("IngressClass"), "ingressclasses", Cluster, IngressClass),
        row(networking("Ingress"), "ingresses", Namespaced, Ingress).short("ing").sub(["status"]).stored("ingress"),
        row(networking("IPAddress"), "ipaddresses", Cluster, IpAddress).short("ip"),
        row(networking("ServiceCIDR"), "servicecidrs", Cluster, ServiceCidr).sub(["status"]),
        // admission
        row(admission("MutatingWebhookConfiguration"), "mutatingwebhookconfigurations", Cluster, Mutating)
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

fn networking(kind: &'static str) -> GroupKind {
    ("networking.k8s.io", kind)
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
