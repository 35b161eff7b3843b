//! What lets machines join with bootstrap tokens, as `kubeadm init` makes it: `cluster-info`, and the rights of those who bear a token.
//!
//! Applied by `up --enable-bootstrap-token-auth`.

use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Whoever bears a token that `kubeadm token create` made.
const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";
const READER: &str = "kubeadm:bootstrap-signer-clusterinfo";
const PUBLIC: &str = "kube-public";

/// The objects, given where the API is reached and who signed what it shows.
#[must_use]
pub fn joining(server: &str, authority_pem: &str) -> Vec<Value> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    // kubeadm reads it as YAML; JSON is that.
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "contexts": [], "current-context": "", "users": [],
        "clusters": [{"name": "", "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(authority_pem)}}],
    });
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": PUBLIC},
            "data": {"kubeconfig": kubeconfig.to_string()}}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": READER, "namespace": PUBLIC},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}]}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": READER, "namespace": PUBLIC},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": READER},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "system:anonymous"}]}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "kubeadm:get-nodes"},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]}),
        bound("kubeadm:get-nodes", "kubeadm:get-nodes", JOINING),
        bound("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", JOINING),
        bound(
            "kubeadm:node-autoapprove-bootstrap",
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            JOINING,
        ),
        bound(
            "kubeadm:node-autoapprove-certificate-rotation",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            "system:nodes",
        ),
    ]
}

fn bound(name: &str, role: &str, group: &str) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_credentials_reads_where_the_cluster_is_and_nothing_else() {
        let objects = joining("https://[fd00::1]:6443", "pem");
        let info = &objects[0]["data"]["kubeconfig"];
        let parsed: Value = serde_json::from_str(info.as_str().unwrap()).unwrap();
        assert_eq!(
            parsed["clusters"][0]["cluster"],
            json!({"server": "https://[fd00::1]:6443", "certificate-authority-data": "cGVt"})
        );
        let rules: Vec<&Value> =
            objects.iter().filter(|object| object["kind"] == "Role").map(|role| &role["rules"]).collect();
        assert_eq!(
            rules,
            [
                &json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}])
            ]
        );
        let anonymous = objects.iter().filter(|object| object.to_string().contains("system:anonymous"));
        assert_eq!(anonymous.count(), 1);
    }
}
