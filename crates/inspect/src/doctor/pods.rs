//! Pods: as many families as their node gives, in the node's order.

use super::{About, Finding, Severity};
use crate::{Snapshot, families};
use k8s_openapi::api::core::v1::{Node, Pod};
use net::Families;
use std::collections::HashMap;

pub(super) fn check(snapshot: &Snapshot) -> Vec<Finding> {
    let nodes: HashMap<&str, &Node> =
        snapshot.nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect();
    let of_node = |pod: &Pod| nodes.get(pod.spec.as_ref()?.node_name.as_deref()?).copied();
    snapshot.pods.iter().filter_map(|pod| one(pod, of_node(pod)?)).collect()
}

fn one(pod: &Pod, node: &Node) -> Option<Finding> {
    let has = families::of_pod(pod).filter(|_| is_running(pod))?;
    let in_host = pod.spec.as_ref()?.host_network == Some(true);
    let gives = if in_host { families::of_node(node)? } else { families::of_pods_of(node)? };
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let (problem, why, mend) = different(has, gives, name, in_host)?;
    Some(Finding { severity: Severity::Warning, about: About::of("pod", &pod.metadata), problem, why, mend })
}

fn different(has: Families, gives: Families, node: &str, in_host: bool) -> Option<(String, String, String)> {
    if gives.is_dual() && !has.is_dual() {
        let lacks = has.primary().other();
        let (why, mend) = match in_host {
            true => ("it was told its addresses before the node had both".to_owned(), "restart the pod".to_owned()),
            false => (
                format!("node {node} has a range of {lacks}, but the pod's network gave no address of it"),
                format!(
                    "look at the CNI configuration of {node} (/etc/cni/net.d): it needs a range of each family; then delete the pod, so that another is made"
                ),
            ),
        };
        return Some((format!("has an {} address only", has.primary()), why, mend));
    }
    let swapped = has.is_dual() && gives.is_dual() && has.primary() != gives.primary();
    swapped.then(|| {
        (
            format!("is {} first, its node {} first", has.primary(), gives.primary()),
            "the CNI plugin tells addresses in another order than the node's ranges".to_owned(),
            format!("name the ranges in the CNI configuration of {node} in the order of the node's pod CIDRs"),
        )
    })
}

pub(super) fn is_running(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}
