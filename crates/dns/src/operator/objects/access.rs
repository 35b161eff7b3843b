//! The namespace, and what servers may read.

use super::{Parts, cluster_object, object};
use crate::operator::{NAMESPACE, Operand};
use serde_json::{Value, json};

/// The name of role, binding and, in short, account.
const ROLE: &str = "openshift-dns";
/// The account of the servers.
pub(super) const ACCOUNT: &str = "dns";

pub(super) fn objects(parts: &Parts<'_>) -> Vec<Value> {
    let mut namespace = cluster_object("v1", "Namespace", NAMESPACE, json!({}));
    namespace["metadata"]["labels"]["openshift.io/cluster-monitoring"] = "true".into();
    let mut objects = vec![namespace];
    if !matches!(parts.operand, Operand::Workload { .. }) {
        // The server in this process reads with the operator's own rights.
        return objects;
    }
    let rbac = "rbac.authorization.k8s.io";
    let version = format!("{rbac}/v1");
    objects.push(object("v1", "ServiceAccount", ACCOUNT, json!({})));
    objects.push(cluster_object(&version, "ClusterRole", ROLE, json!({"rules": api::rights::dns_server()})));
    let binding = json!({
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    });
    objects.push(cluster_object(&version, "ClusterRoleBinding", ROLE, binding));
    objects
}
