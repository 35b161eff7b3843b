//! Which nodes load balancers lead to.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

/// Not those that are taken out by label, are being deleted, or are about to be taken away by the autoscaler.
#[must_use]
pub fn eligible(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    node.metadata.deletion_timestamp.is_none()
        && !node.labels().contains_key("node.kubernetes.io/exclude-from-external-load-balancers")
        && !taints.into_iter().any(|taint| taint.key == "ToBeDeletedByClusterAutoscaler")
}

/// What a provider knows a node by: when this changes, so does the set of nodes.
#[must_use]
pub fn identity(node: &Node) -> String {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let addresses: Vec<&str> = addresses.map(|address| address.address.as_str()).collect();
    let provider = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    format!("{} {provider} {}", node.name_any(), addresses.join(","))
}
