//! What a kubelet's writes may contain: its own Node, Lease and pods, no labels or taints that would draw work to it, tokens
//! only for its pods. Mirrors the NodeRestriction admission plugin; the engine calls `admit` for every write.

use super::{
    Attributes, Authorizer,
    node::LEASE_NAMESPACE,
    pod_graph::{Linked, MIRROR_ANNOTATION, references},
};
use crate::authn::{
    User,
    service_account::{ObjectKind, Objects},
};
use api::{error::ApiError, object::Fields};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;
use std::collections::BTreeSet;
use x509_parser::{certification_request::X509CertificationRequest, pem::parse_x509_pem, prelude::FromDer};

mod labels;
#[cfg(test)]
mod tests;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object, or a POST to a subresource.
    Create,
    /// PUT or PATCH.
    Update,
    /// DELETE, of each object.
    Delete,
}

/// A write, before it is carried out and before a TokenRequest is filled in.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// Who writes.
    pub user: &'a User,
    /// What is done.
    pub operation: Operation,
    /// API group.
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Subresource or empty.
    pub subresource: &'a str,
    /// Namespace or empty.
    pub namespace: &'a str,
    /// Name in the path; on create that of the object, if it has one.
    pub name: &'a str,
    /// The object sent; null on delete.
    pub object: &'a Value,
    /// The object stored; null on create.
    pub old: &'a Value,
}

type Verdict = Result<(), Refusal>;

/// Why not: forbidden for a reason, or an answer of its own.
enum Refusal {
    Forbidden(String),
    Other(ApiError),
}

fn no<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Forbidden(why.into()))
}

/// Refuses what a node may not write. Everybody else passes.
pub fn admit(write: Write<'_>, objects: &dyn Objects, authorizer: &dyn Authorizer) -> Result<(), ApiError> {
    let Some(node) = write.user.node() else { return Ok(()) };
    let verdict = match (write.group, write.resource, write.subresource) {
        _ if node.is_empty() => no(format!("could not determine node from user {:?}", write.user.name)),
        ("", "pods", "") => pod(node, write, objects),
        ("", "pods", "status") => pod_status(node, write),
        ("", "pods", "eviction") => pod_eviction(node, write, objects),
        ("", "pods", other) => {
            no(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"))
        }
        ("", "nodes", _) => own_node(node, write),
        ("", "persistentvolumeclaims", "status") => claim_status(node, write),
        ("", "persistentvolumeclaims", _) => no("may only update PVC status"),
        ("", "serviceaccounts", "token") if write.operation == Operation::Create => {
            token(node, write, objects, authorizer)
        }
        ("coordination.k8s.io", "leases", _) => lease(node, write),
        ("storage.k8s.io", "csinodes", _) => csi_node(node, write),
        ("certificates.k8s.io", "certificatesigningrequests", _) => certificate_request(node, write),
        _ => Ok(()),
    };
    verdict.map_err(|refusal| match refusal {
        Refusal::Forbidden(why) => ApiError::forbidden(write.resource, write.group, write.name, why),
        Refusal::Other(error) => error,
    })
}

fn stored_pod(name: &str, write: Write<'_>, objects: &dyn Objects) -> Result<std::sync::Arc<Value>, Refusal> {
    let found = objects.get(ObjectKind::Pod, write.namespace, name);
    found.ok_or_else(|| Refusal::Other(ApiError::not_found("pods", "", name)))
}

fn pod(node: &str, write: Write<'_>, objects: &dyn Objects) -> Verdict {
    match write.operation {
        Operation::Create => mirror_pod(node, write.object, objects),
        Operation::Delete if stored_pod(write.name, write, objects)?.str_at("spec.nodeName") != node => {
            no(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
        }
        Operation::Delete => Ok(()),
        Operation::Update => {
            no(format!("unexpected operation \"UPDATE\", node {node:?} can only create and delete mirror pods"))
        }
    }
}

fn mirror_pod(node: &str, pod: &Value, objects: &dyn Objects) -> Verdict {
    if !pod.map_at("metadata.annotations").is_some_and(|all| all.contains_key(MIRROR_ANNOTATION)) {
        return no(format!(
            "pod does not have {MIRROR_ANNOTATION:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    if pod.str_at("spec.nodeName") != node {
        return no(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    let owner = match pod.list_at("metadata.ownerReferences") {
        [owner] => owner,
        [] => return no(format!("node {node:?} can only create pods with an owner reference set to itself")),
        _ => return no(format!("node {node:?} can only create pods with a single owner reference set to itself")),
    };
    if (owner.str_at("apiVersion"), owner.str_at("kind"), owner.str_at("name")) != ("v1", "Node", node) {
        return no(format!("node {node:?} can only create pods with an owner reference set to itself"));
    }
    if !owner.is_true("controller") {
        return no(format!("node {node:?} can only create pods with a controller owner reference set to itself"));
    }
    if owner.is_true("blockOwnerDeletion") {
        return no(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let own = objects.get(ObjectKind::Node, "", node);
    let own = own.ok_or_else(|| Refusal::Other(ApiError::not_found("nodes", "", node)))?;
    let (named, real) = (owner.str_at("uid"), own.str_at("metadata.uid"));
    if named != real {
        return no(format!("node {node} UID mismatch: expected {named} got {real}"));
    }
    match reads_the_api(pod) {
        Some(what) => no(format!("node {node:?} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

/// Volumes that live without the API; every other kind of volume is taken to read from it.
const PLAIN_VOLUMES: [&str; 5] = ["downwardAPI", "emptyDir", "hostPath", "image", "nfs"];

/// What in the API a pod needs, if anything.
fn reads_the_api(pod: &Value) -> Option<String> {
    if let Some((kind, _)) = references(pod).first() {
        let plural = match kind {
            Linked::ServiceAccount => "serviceaccounts",
            Linked::Secret => "secrets",
            Linked::ConfigMap => "configmaps",
            Linked::PersistentVolumeClaim | Linked::PersistentVolume => "persistentvolumeclaims",
            Linked::Pod | Linked::VolumeAttachment => "other objects",
        };
        return Some(plural.to_owned());
    }
    if !pod.list_at("spec.resourceClaims").is_empty() {
        return Some("resourceclaims".to_owned());
    }
    for volume in pod.list_at("spec.volumes") {
        let sources =
            volume.as_object().into_iter().flatten().filter(|(field, value)| *field != "name" && !value.is_null());
        for (source, value) in sources {
            let harmless = |one: &Value| {
                one.as_object().is_some_and(|fields| fields.iter().all(|(k, v)| k == "downwardAPI" || v.is_null()))
            };
            let plain = PLAIN_VOLUMES.contains(&source.as_str())
                || (source == "projected" && value.list_at("sources").iter().all(harmless));
            if !plain {
                return Some(format!("other objects (via {source} volumes)"));
            }
        }
    }
    None
}

fn pod_status(node: &str, write: Write<'_>) -> Verdict {
    let Write { old, object, .. } = write;
    if write.operation != Operation::Update {
        return no("unexpected operation, only the update of a pod's status is allowed");
    }
    if old.str_at("spec.nodeName") != node {
        return no(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"));
    }
    if !labels::same(old.at("metadata.labels"), object.at("metadata.labels")) {
        return no(format!("node {node:?} cannot update labels through pod status"));
    }
    for field in ["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"] {
        let path = format!("status.{field}");
        if old.at(&path) != object.at(&path) {
            return no(format!("node {node:?} cannot update {path}"));
        }
    }
    Ok(())
}

fn pod_eviction(node: &str, write: Write<'_>, objects: &dyn Objects) -> Verdict {
    // The deletion that an eviction ends in is judged like the eviction itself.
    if write.operation == Operation::Update {
        return no("unexpected operation, an eviction is only created");
    }
    let name = if write.name.is_empty() { write.object.str_at("metadata.name") } else { write.name };
    if name.is_empty() {
        return no("could not determine pod from request data");
    }
    if stored_pod(name, write, objects)?.str_at("spec.nodeName") != node {
        return no(format!("node {node} can only evict pods with spec.nodeName set to itself"));
    }
    Ok(())
}

fn own_node(node: &str, write: Write<'_>) -> Verdict {
    let Write { object, old, .. } = write;
    if write.name != node {
        return no(format!("node {node:?} is not allowed to modify node {:?}", write.name));
    }
    let source = object.at("spec.configSource");
    match write.operation {
        Operation::Delete => Ok(()),
        Operation::Create => {
            if !source.is_null() {
                return no(format!("node {node:?} is not allowed to create pods with a non-nil configSource"));
            }
            match labels::forbidden(&Value::Null, object.at("metadata.labels")) {
                none if none.is_empty() => Ok(()),
                some => no(format!("node {node:?} is not allowed to set the following labels: {}", some.join(", "))),
            }
        }
        Operation::Update => {
            if !source.is_null() && source != old.at("spec.configSource") {
                return no(format!(
                    "node {node:?} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            for (path, what) in [("spec.taints", "taints"), ("metadata.ownerReferences", "ownerReferences")] {
                if old.list_at(path) != object.list_at(path) {
                    return no(format!("node {node:?} is not allowed to modify {what}"));
                }
            }
            match labels::forbidden(old.at("metadata.labels"), object.at("metadata.labels")) {
                none if none.is_empty() => Ok(()),
                some => no(format!("is not allowed to modify labels: {}", some.join(", "))),
            }
        }
    }
}

fn claim_status(node: &str, write: Write<'_>) -> Verdict {
    if write.operation != Operation::Update {
        return no("unexpected operation, only the update of a claim's status is allowed");
    }
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        for path in [
            "metadata.resourceVersion",
            "metadata.managedFields",
            "status.capacity",
            "status.conditions",
            "status.allocatedResources",
            "status.allocatedResourceStatuses",
        ] {
            claim.remove(path);
        }
        claim
    };
    if rest(write.old) != rest(write.object) {
        return no(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
        ));
    }
    Ok(())
}

fn token(node: &str, write: Write<'_>, objects: &dyn Objects, authorizer: &dyn Authorizer) -> Verdict {
    let bound = write.object.at("spec.boundObjectRef");
    let name = bound.str_at("name");
    if (bound.str_at("apiVersion"), bound.str_at("kind")) != ("v1", "Pod") || name.is_empty() {
        return no("node requested token not bound to a pod");
    }
    let uid = bound.str_at("uid");
    if uid.is_empty() {
        return no("node requested token with a pod binding without a uid");
    }
    let pod = stored_pod(name, write, objects)?;
    if pod.str_at("metadata.uid") != uid {
        return no(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if pod.str_at("spec.nodeName") != node {
        return no("node requested token bound to a pod scheduled on a different node");
    }
    let audience = match write.object.list_at("spec.audiences") {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return no("node may only request 0 or 1 audiences"),
    };
    let sources = pod.list_at("spec.volumes").iter().flat_map(|volume| volume.list_at("projected.sources"));
    let mut tokens = sources.map(|source| source.at("serviceAccountToken")).filter(|token| token.is_object());
    let asked = Attributes {
        namespace: write.namespace,
        version: "v1",
        name: write.name,
        ..Attributes::resource(write.user, "request-serviceaccounts-token-audience", "", audience)
    };
    if tokens.any(|token| token.str_at("audience") == audience) || authorizer.authorize(&asked).allowed() {
        return Ok(());
    }
    no(format!("{} is not authorized to request tokens for audience {audience:?}", write.user.name))
}

/// The name an object has or will have.
fn own_name<'a>(write: Write<'a>) -> &'a str {
    if write.operation == Operation::Create { write.object.str_at("metadata.name") } else { write.name }
}

fn lease(node: &str, write: Write<'_>) -> Verdict {
    if write.namespace != LEASE_NAMESPACE {
        return no(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"));
    }
    if own_name(write) != node {
        return no("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn csi_node(node: &str, write: Write<'_>) -> Verdict {
    if own_name(write) != node {
        return no("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

/// A node asks for certificates in its own name alone.
fn certificate_request(node: &str, write: Write<'_>) -> Verdict {
    let signer = write.object.str_at("spec.signerName");
    let for_nodes = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"].contains(&signer);
    if write.operation != Operation::Create || !for_nodes {
        return Ok(());
    }
    let Some(names) = common_names(write.object.str_at("spec.request")) else { return no("unable to parse csr") };
    let wanted = format!("system:node:{node}");
    // Exactly one name: who signs might read another one than who checks.
    if names != BTreeSet::from([wanted.clone()]) {
        return no(format!("can only create a node CSR with CN={wanted}"));
    }
    Ok(())
}

fn common_names(request: &str) -> Option<BTreeSet<String>> {
    let pem = BASE64_STANDARD.decode(request).ok()?;
    let (_, block) = parse_x509_pem(&pem).ok()?;
    let (_, parsed) = X509CertificationRequest::from_der(&block.contents).ok()?;
    let names = parsed.certification_request_info.subject.iter_common_name();
    names.map(|name| name.as_str().ok().map(str::to_owned)).collect()
}
