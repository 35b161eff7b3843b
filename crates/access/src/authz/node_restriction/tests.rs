//! Writes of a kubelet on node n1: what passes and what is refused with which words.

use super::*;
use crate::authz::Decision;
use serde_json::json;
use std::sync::Arc;

/// Pods `mine` on n1 and `other` on n2; nodes n1 and n2.
struct Cluster;

impl Objects for Cluster {
    fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let node = match (kind, namespace, name) {
            (ObjectKind::Node, "", "n1") => {
                return Some(Arc::new(json!({"metadata": {"name": "n1", "uid": "node-1"}})));
            }
            (ObjectKind::Pod, "ns", "mine") => "n1",
            (ObjectKind::Pod, "ns", "other") => "n2",
            _ => return None,
        };
        let sources =
            json!([{"serviceAccountToken": {"path": "token"}}, {"serviceAccountToken": {"audience": "vault"}}]);
        Some(Arc::new(json!({"metadata": {"name": name, "namespace": namespace, "uid": format!("{name}-uid")},
            "spec": {"nodeName": node, "volumes": [{"name": "v", "projected": {"sources": sources}}]}})))
    }
}

/// Allows the audience `extra` alone.
struct Extra;

impl Authorizer for Extra {
    fn authorize(&self, asked: &Attributes<'_>) -> Decision {
        match (asked.verb, asked.resource, asked.name) {
            ("request-serviceaccounts-token-audience", "extra", "sa") => Decision::Allow("".into()),
            _ => Decision::none(),
        }
    }
}

struct Case<'a> {
    operation: Operation,
    what: &'a str,
    namespace: &'a str,
    name: &'a str,
    object: Value,
    old: Value,
}

fn ask(case: &Case<'_>) -> Result<(), String> {
    let user = User::new("system:node:n1", ["system:nodes"]);
    ask_as(&user, case)
}

fn ask_as(user: &User, case: &Case<'_>) -> Result<(), String> {
    let (group, path) = case.what.split_once(':').unwrap_or(("", case.what));
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    let Case { operation, namespace, name, ref object, ref old, .. } = *case;
    let write = Write { user, operation, group, resource, subresource, namespace, name, object, old };
    admit(write, &Cluster, &Extra).map_err(|error| error.message)
}

fn create(what: &'static str, namespace: &'static str, name: &'static str, object: Value) -> Case<'static> {
    Case { operation: Operation::Create, what, namespace, name, object, old: Value::Null }
}

fn mirror() -> Value {
    json!({
        "metadata": {"name": "static", "annotations": {MIRROR_ANNOTATION: "h"}, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-1", "controller": true}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}], "volumes": [
            {"name": "a", "hostPath": {"path": "/etc"}}, {"name": "b", "projected": {"sources": [{"downwardAPI": {}}]}}]},
    })
}

fn changed(mut object: Value, path: &str, value: Value) -> Value {
    object.set(path, value);
    object
}

#[test]
fn only_plain_mirror_pods_of_the_node_are_created() {
    let prefix = "pods \"static\" is forbidden: ";
    let owner = |field: &str, value: Value| {
        let mut object = mirror();
        object["metadata"]["ownerReferences"][0][field] = value;
        object
    };
    for (object, refused) in [
        (mirror(), None),
        (
            changed(mirror(), "metadata.annotations", json!({})),
            Some(
                r#"pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods"#,
            ),
        ),
        (
            changed(mirror(), "spec.nodeName", json!("n2")),
            Some(r#"node "n1" can only create pods with spec.nodeName set to itself"#),
        ),
        (
            changed(mirror(), "metadata.ownerReferences", json!([])),
            Some(r#"node "n1" can only create pods with an owner reference set to itself"#),
        ),
        (owner("name", json!("n2")), Some(r#"node "n1" can only create pods with an owner reference set to itself"#)),
        (
            owner("controller", json!(false)),
            Some(r#"node "n1" can only create pods with a controller owner reference set to itself"#),
        ),
        (
            owner("blockOwnerDeletion", json!(true)),
            Some(r#"node "n1" must not set blockOwnerDeletion on an owner reference"#),
        ),
        (owner("uid", json!("old")), Some("node n1 UID mismatch: expected old got node-1")),
        (
            changed(mirror(), "spec.serviceAccountName", json!("admin")),
            Some(r#"node "n1" can not create pods that reference serviceaccounts"#),
        ),
        (
            changed(mirror(), "spec.volumes", json!([{"name": "s", "secret": {"secretName": "root"}}])),
            Some(r#"node "n1" can not create pods that reference secrets"#),
        ),
        (
            changed(mirror(), "spec.volumes", json!([{"name": "s", "secret": {}}])),
            Some(r#"node "n1" can not create pods that reference other objects (via secret volumes)"#),
        ),
        (
            changed(
                mirror(),
                "spec.volumes",
                json!([{"name": "s", "projected": {"sources": [{"serviceAccountToken": {}}]}}]),
            ),
            Some(r#"node "n1" can not create pods that reference other objects (via projected volumes)"#),
        ),
    ] {
        let got = ask(&create("pods", "ns", "static", object.clone())).err();
        assert_eq!(got, refused.map(|why| format!("{prefix}{why}")), "{object}");
    }
}

#[test]
fn a_node_touches_its_own_pods_only() {
    let stored = |name: &str| (*Cluster.get(ObjectKind::Pod, "ns", name).unwrap()).clone();
    for (operation, what, name, refused) in [
        (Operation::Delete, "pods", "mine", None),
        (
            Operation::Delete,
            "pods",
            "other",
            Some(r#"pods "other" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself"#),
        ),
        (Operation::Delete, "pods", "gone", Some(r#"pods "gone" not found"#)),
        (
            Operation::Update,
            "pods",
            "mine",
            Some(
                r#"pods "mine" is forbidden: unexpected operation "UPDATE", node "n1" can only create and delete mirror pods"#,
            ),
        ),
        (Operation::Update, "pods/status", "mine", None),
        (
            Operation::Update,
            "pods/status",
            "other",
            Some(
                r#"pods "other" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set to itself"#,
            ),
        ),
        (Operation::Create, "pods/eviction", "mine", None),
        (
            Operation::Create,
            "pods/eviction",
            "other",
            Some(r#"pods "other" is forbidden: node n1 can only evict pods with spec.nodeName set to itself"#),
        ),
        (
            Operation::Create,
            "pods/exec",
            "mine",
            Some(
                r#"pods "mine" is forbidden: unexpected pod subresource "exec", only 'status' and 'eviction' are allowed"#,
            ),
        ),
    ] {
        let object = if name == "gone" { Value::Null } else { stored(name) };
        let case = Case { operation, what, namespace: "ns", name, old: object.clone(), object };
        assert_eq!(ask(&case).err().as_deref(), refused, "{operation:?} {what} {name}");
    }
    let (old, object) = (stored("mine"), changed(stored("mine"), "metadata.labels", json!({"app": "dns"})));
    let case = Case { operation: Operation::Update, what: "pods/status", namespace: "ns", name: "mine", object, old };
    assert_eq!(
        ask(&case),
        Err("pods \"mine\" is forbidden: node \"n1\" cannot update labels through pod status".into())
    );
}

#[test]
fn a_node_changes_only_itself_and_draws_no_work() {
    let node = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}, "spec": {"taints": [{"key": "k"}]}});
    for (path, value, refused) in [
        ("status", json!({"phase": "x"}), None),
        ("metadata.labels", json!({"kubernetes.io/hostname": "n1", "own": "x"}), None),
        (
            "metadata.labels",
            json!({"kubernetes.io/hostname": "n1", "node-role.kubernetes.io/control-plane": ""}),
            Some(r#"nodes "n1" is forbidden: is not allowed to modify labels: node-role.kubernetes.io/control-plane"#),
        ),
        ("spec.taints", json!([]), Some(r#"nodes "n1" is forbidden: node "n1" is not allowed to modify taints"#)),
        (
            "metadata.ownerReferences",
            json!([{"name": "x"}]),
            Some(r#"nodes "n1" is forbidden: node "n1" is not allowed to modify ownerReferences"#),
        ),
    ] {
        let object = changed(node.clone(), path, value);
        let case =
            Case { operation: Operation::Update, what: "nodes", namespace: "", name: "n1", object, old: node.clone() };
        assert_eq!(ask(&case).err().as_deref(), refused, "{path}");
    }
    assert_eq!(ask(&create("nodes", "", "n1", node.clone())), Ok(()), "a new node may bring taints");
    assert_eq!(
        ask(&create("nodes", "", "n2", node.clone())),
        Err("nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"".into())
    );
    let labelled =
        changed(node, "metadata.labels", json!({"node-restriction.kubernetes.io/a": "b", "x.k8s.io/c": "d"}));
    assert_eq!(
        ask(&create("nodes", "", "n1", labelled)),
        Err("nodes \"n1\" is forbidden: node \"n1\" is not allowed to set the following labels: \
             node-restriction.kubernetes.io/a, x.k8s.io/c"
            .into())
    );
}

#[test]
fn tokens_are_bound_to_the_nodes_pods_and_their_audiences() {
    let request = |name: &str, uid: &str, audiences: Value| json!({"spec": {"audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}});
    let prefix = "serviceaccounts \"sa\" is forbidden: ";
    for (object, refused) in [
        (request("mine", "mine-uid", json!([])), None),
        (request("mine", "mine-uid", json!(["vault"])), None),
        (request("mine", "mine-uid", json!(["extra"])), None),
        (
            request("mine", "mine-uid", json!(["bank"])),
            Some("system:node:n1 is not authorized to request tokens for audience \"bank\""),
        ),
        (request("mine", "mine-uid", json!(["vault", "extra"])), Some("node may only request 0 or 1 audiences")),
        (request("mine", "", json!([])), Some("node requested token with a pod binding without a uid")),
        (
            request("mine", "old", json!([])),
            Some(
                "the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated",
            ),
        ),
        (
            request("other", "other-uid", json!([])),
            Some("node requested token bound to a pod scheduled on a different node"),
        ),
        (json!({"spec": {}}), Some("node requested token not bound to a pod")),
    ] {
        let got = ask(&create("serviceaccounts/token", "ns", "sa", object.clone())).err();
        assert_eq!(got, refused.map(|why| format!("{prefix}{why}")), "{object}");
    }
}

#[test]
fn leases_and_csi_nodes_carry_the_nodes_name() {
    let named = |name: &str| json!({"metadata": {"name": name}});
    for (what, namespace, name, passes) in [
        ("coordination.k8s.io:leases", "kube-node-lease", "n1", true),
        ("coordination.k8s.io:leases", "kube-node-lease", "n2", false),
        ("coordination.k8s.io:leases", "kube-system", "n1", false),
        ("storage.k8s.io:csinodes", "", "n1", true),
        ("storage.k8s.io:csinodes", "", "n2", false),
    ] {
        assert_eq!(ask(&create(what, namespace, name, named(name))).is_ok(), passes, "{what} {namespace} {name}");
        let update =
            Case { operation: Operation::Update, what, namespace, name, object: named(name), old: named(name) };
        assert_eq!(ask(&update).is_ok(), passes, "{what} {namespace} {name}");
    }
}

#[test]
fn certificates_are_asked_for_in_the_nodes_own_name() {
    for (signer, name, passes) in [
        ("kubernetes.io/kubelet-serving", "system:node:n1", true),
        ("kubernetes.io/kubelet-serving", "system:node:n2", false),
        ("kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1", true),
        ("kubernetes.io/kube-apiserver-client-kubelet", "admin", false),
        ("example.com/other", "admin", true),
    ] {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let request = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let object = json!({"spec": {"signerName": signer, "request": BASE64_STANDARD.encode(request)}});
        let case = create("certificates.k8s.io:certificatesigningrequests", "", "csr", object);
        assert_eq!(ask(&case).is_ok(), passes, "{signer} {name}");
    }
    let broken = json!({"spec": {"signerName": "kubernetes.io/kubelet-serving", "request": "!"}});
    assert!(ask(&create("certificates.k8s.io:certificatesigningrequests", "", "csr", broken)).is_err());
}

#[test]
fn others_pass_and_nameless_nodes_do_not() {
    let case = create("pods", "ns", "any", json!({"metadata": {"name": "any"}}));
    assert!(ask_as(&User::new("bob", ["system:nodes"]), &case).is_ok());
    assert_eq!(
        ask_as(&User::new("system:node:", ["system:nodes"]), &case),
        Err("pods \"any\" is forbidden: could not determine node from user \"system:node:\"".into())
    );
}
