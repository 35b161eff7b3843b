//! Who may do what in a new cluster, beyond the roles that every API server brings.

use crate::secrets::{CLUSTER_ADMINS, KUBELET_CLIENT};
use api::rights::Rights;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Administrators, the API server at its kubelets, and the controllers.
pub(super) fn of_every_cluster() -> Vec<Value> {
    let mut objects = vec![
        cluster_binding(CLUSTER_ADMINS, "cluster-admin", "Group", CLUSTER_ADMINS),
        cluster_binding("twinstack:apiserver-kubelet-client", "system:kubelet-api-admin", "User", KUBELET_CLIENT),
    ];
    let user = "system:kube-controller-manager";
    objects.extend(granted("twinstack:controller-manager", user, api::rights::controller_manager()));
    objects
}

/// What the cloud controller manager may do.
pub(super) fn cloud_controller_manager() -> Vec<Value> {
    let name = "system:cloud-controller-manager";
    granted(name, name, api::rights::cloud_controller_manager())
}

fn version() -> String {
    format!("{RBAC}/v1")
}

fn role_ref(kind: &str, name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": kind, "name": name})
}

fn cluster_binding(name: &str, role: &str, kind: &str, subject: &str) -> Value {
    json!({"apiVersion": version(), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": role_ref("ClusterRole", role), "subjects": [{"apiGroup": RBAC, "kind": kind, "name": subject}]})
}

/// Roles with these rights and their bindings to a user, all of one name.
fn granted(name: &str, user: &str, rights: Rights) -> Vec<Value> {
    let mut objects = vec![
        json!({"apiVersion": version(), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rights.everywhere}),
        cluster_binding(name, name, "User", user),
    ];
    for (namespace, rules) in rights.within {
        let metadata = json!({"name": name, "namespace": namespace});
        objects.push(json!({"apiVersion": version(), "kind": "Role", "metadata": metadata, "rules": rules}));
        objects.push(json!({"apiVersion": version(), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": role_ref("Role", name), "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]}));
    }
    objects
}
