//! Nodes: addresses of both families, ranges for pods, and whether anybody has looked at them.

use super::{About, Cluster, Finding, Severity};
use crate::{Snapshot, families};
use k8s_openapi::api::core::v1::Node;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

pub(super) fn check(snapshot: &Snapshot, cluster: Cluster) -> Vec<Finding> {
    snapshot.nodes.iter().flat_map(|node| one(node, cluster)).collect()
}

fn one(node: &Node, cluster: Cluster) -> Vec<Finding> {
    let about = About::of("node", &node.metadata);
    let finding = |severity, problem: String, why: &str, mend: String| Finding {
        severity,
        about: about.clone(),
        problem,
        why: why.to_owned(),
        mend,
    };
    let mut found = Vec::new();
    if is_tainted(node) {
        found.push(finding(
            Severity::Error,
            format!("has the taint {UNINITIALIZED}, so that no pod comes here"),
            "a cloud controller manager takes it away when it has described the node",
            "see that one runs: kubectl get leases -n kube-system cloud-controller-manager".to_owned(),
        ));
    }
    if let Some((reason, message)) = unavailable(node) {
        found.push(finding(Severity::Error, format!("its network is not there: {reason}"), &message, String::new()));
    }
    if let Some((status, message)) = not_ready(node) {
        let mend = format!("look at its kubelet; kubectl describe node {} says more", about.name);
        found.push(finding(Severity::Error, format!("is not ready: Ready is {status}"), &message, mend));
    }
    if !cluster.is_dual() {
        return found;
    }
    if let Some(own) = families::of_node(node) {
        if !own.is_dual() {
            found.push(finding(
                Severity::Warning,
                format!("has an {} address only", own.primary()),
                "its kubelet tells no other, so that node ports, host pods and health checks are there in one family",
                format!("start the kubelet with --node-ip naming one address of each family, {} first", own.primary()),
            ));
        }
        if let Some(services) = cluster.services.filter(|services| services.primary() != own.primary()) {
            found.push(finding(
                Severity::Warning,
                format!("pods here are {} first, Services {} first", own.primary(), services.primary()),
                "a pod's first address follows its node; what reads only the first one sees the other family",
                "name the addresses in --node-ip of the kubelet in the order of --service-cluster-ip-range".to_owned(),
            ));
        }
    }
    if let Some(pods) = families::of_pods_of(node).filter(|pods| !pods.is_dual()) {
        let (has, lacks) = (pods.primary(), pods.primary().other());
        found.push(finding(
            Severity::Warning,
            format!("has a range of {has} for its pods, and none of {lacks}"),
            "it was registered before the cluster had both families, or the range of the other family is used up",
            format!("give --cluster-cidr a range of {lacks}; where the API does not let a range be added to a Node, delete the Node and let it register again"),
        ));
    }
    found
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    taints.into_iter().any(|taint| taint.key == UNINITIALIZED)
}

/// Reason and message.
/// A Node that says nothing of itself is somebody's file.
fn not_ready(node: &Node) -> Option<(String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let one = conditions.iter().find(|one| one.type_ == "Ready" && one.status != "True")?;
    Some((one.status.clone(), one.message.clone().unwrap_or_default()))
}

fn unavailable(node: &Node) -> Option<(String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let one = conditions.iter().find(|one| one.type_ == "NetworkUnavailable" && one.status == "True")?;
    Some((one.reason.clone().unwrap_or_default(), one.message.clone().unwrap_or_default()))
}
