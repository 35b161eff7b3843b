//! What a cluster has from its first second: namespaces, roles, priority classes. Runs at every start and mends what is missing.

use crate::{ApiServer, client};
use access::authz::bootstrap::{self, Reconcile};
use api::{error::ApiError, object::Fields};
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;

const NAMESPACES: [&str; 4] = ["kube-system", "default", "kube-public", "kube-node-lease"];

/// Who this server is to kubelets where nobody says otherwise; it may do with nodes what its clients ask for, and nothing else.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// Name, value: Pods that must be scheduled before all others.
const PRIORITY_CLASSES: [(&str, i64, &str); 2] = [
    ("system-node-critical", 2_000_001_000, "for Pods that a node cannot do without"),
    ("system-cluster-critical", 2_000_000_000, "for Pods that the cluster cannot do without, on whatever node"),
];

/// Creates what is not there.
pub(crate) async fn run(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(server, "/api/v1/namespaces", &namespace).await?;
    }
    for (name, value, description) in PRIORITY_CLASSES {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description,
        });
        ensure(server, "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await?;
    }
    roles(server).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "twinstack:apiserver-kubelet-client"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELET_CLIENT}],
    });
    ensure(server, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await
}

/// Default roles and bindings: made when missing, completed when an upgrade brings more.
async fn roles(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    for (kind, wanted) in bootstrap::objects() {
        let (namespace, name) = (wanted.str_at("metadata.namespace"), wanted.str_at("metadata.name"));
        let plural = kind.plural();
        let scope = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{scope}{plural}");
        let stored =
            if namespace.is_empty() { format!("{plural}/{name}") } else { format!("{plural}/{namespace}/{name}") };
        match bootstrap::reconcile(kind, server.object(&stored).as_ref(), &wanted) {
            Reconcile::Keep => {}
            Reconcile::Create(object) => ensure(server, &path, &object).await?,
            Reconcile::Update(object) => {
                drop(client::ask(server, Method::PUT, &format!("{path}/{name}"), Some(&object)).await?)
            }
            Reconcile::Recreate(object) => {
                client::ask(server, Method::DELETE, &format!("{path}/{name}"), None).await?;
                ensure(server, &path, &object).await?;
            }
        }
    }
    Ok(())
}

async fn ensure(server: &Arc<ApiServer>, path: &str, object: &Value) -> Result<(), ApiError> {
    match client::ask(server, Method::POST, path, Some(object)).await {
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        other => other.map(drop),
    }
}
