//! Which node a pod goes to, or why it goes to none. Pure; called by the scheduler for one pod at a time.

use super::{
    cluster::Cluster,
    demand::{self, PODS},
    fit,
    neighbours::{self, Namespaces, Neighbours},
    spread::{self, Spread},
};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use std::collections::{BTreeMap, HashMap};

/// Decides. The error is what `kubectl describe` shows.
pub(super) fn choose<'a>(
    pod: &Pod,
    nodes: &HashMap<&'a str, &'a Node>,
    cluster: &Cluster,
    namespaces: &Namespaces,
) -> Result<&'a str, String> {
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let spec = pod.spec.clone().unwrap_or_default();
    let demand = demand::of(pod);
    let neighbours = Neighbours::of(pod, cluster, nodes, namespaces);
    let spread = Spread::of(pod, cluster, nodes);
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(Score, &str)> = None;
    for (name, node) in nodes {
        let objection = about_node(&spec, node)
            .map(|reason| vec![reason.to_owned()])
            .or_else(|| about_room(&demand, node, cluster))
            .or_else(|| about_others(node, &neighbours, &spread).map(|reason| vec![reason.to_owned()]));
        if let Some(reasons) = objection {
            for reason in reasons {
                *refusals.entry(reason).or_default() += 1;
            }
            continue;
        }
        let score = score(&spec, node, &demand, cluster, &neighbours, &spread);
        // Names break ties, so that the same question has the same answer.
        if best.as_ref().is_none_or(|(top, of)| (&score, std::cmp::Reverse(*name)) > (top, std::cmp::Reverse(*of))) {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| name).ok_or_else(|| {
        let reasons: Vec<String> = refusals.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        format!("0/{} nodes are available: {}.", nodes.len(), reasons.join(", "))
    })
}

fn about_node(spec: &PodSpec, node: &Node) -> Option<&'static str> {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let closed = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    let cordon = k8s_openapi::api::core::v1::Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    };
    if closed && !tolerations.iter().any(|toleration| fit::tolerates(toleration, &cordon)) {
        Some("node(s) were unschedulable")
    } else if fit::untolerated(node, tolerations, &["NoSchedule", "NoExecute"]).is_some() {
        Some("node(s) had untolerated taint(s)")
    } else if !fit::selects_node(spec, node) {
        Some("node(s) didn't match Pod's node affinity/selector")
    } else {
        None
    }
}

fn about_room(demand: &demand::Demand, node: &Node, cluster: &Cluster) -> Option<Vec<String>> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if demand.ports.iter().any(|port| cluster.ports(name).any(|taken| demand::clash(port, taken))) {
        return Some(vec!["node(s) didn't have free ports for the requested pod ports".to_owned()]);
    }
    let capacity = demand::capacity(node);
    let lacks = |(resource, wanted): &(&String, &i128)| {
        let free = capacity.get(*resource).copied().unwrap_or_default() - cluster.used(name, resource);
        **wanted > 0 && **wanted > free
    };
    let reasons: Vec<String> = demand
        .amounts
        .iter()
        .filter(lacks)
        .map(
            |(resource, _)| {
                if resource == PODS { "Too many pods".to_owned() } else { format!("Insufficient {resource}") }
            },
        )
        .collect();
    Some(reasons).filter(|reasons| !reasons.is_empty())
}

fn about_others(node: &Node, neighbours: &Neighbours, spread: &Spread) -> Option<&'static str> {
    let spread = spread.objection(node).map(|objection| match objection {
        spread::Objection::NoLabel => "node(s) didn't match pod topology spread constraints (missing required label)",
        spread::Objection::TooMany => "node(s) didn't match pod topology spread constraints",
    });
    spread.or_else(|| {
        neighbours.objection(node).map(|objection| match objection {
            neighbours::Objection::Affinity => "node(s) didn't match pod affinity rules",
            neighbours::Objection::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            neighbours::Objection::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
        })
    })
}

/// Higher is better; the first difference decides. Wishes come before balance.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    unwelcome: std::cmp::Reverse<bool>,
    crowding: std::cmp::Reverse<i64>,
    preference: i64,
    load: std::cmp::Reverse<i128>,
    pods: std::cmp::Reverse<i128>,
}

fn score(
    spec: &PodSpec,
    node: &Node,
    demand: &demand::Demand,
    cluster: &Cluster,
    neighbours: &Neighbours,
    spread: &Spread,
) -> Score {
    use std::cmp::Reverse;
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let capacity = demand::capacity(node);
    // Thousandths in use once the pod is there.
    let load = ["cpu", "memory"].map(|resource| {
        let total = capacity.get(resource).copied().unwrap_or_default().max(1);
        let wanted = demand.amounts.get(resource).copied().unwrap_or_default();
        (cluster.used(name, resource) + wanted).saturating_mul(1000) / total
    });
    Score {
        unwelcome: Reverse(fit::untolerated(node, tolerations, &["PreferNoSchedule"]).is_some()),
        crowding: Reverse(spread.crowding(node)),
        preference: fit::preference(spec, node) + neighbours.preference(node),
        load: Reverse(load.into_iter().sum()),
        pods: Reverse(cluster.used(name, PODS)),
    }
}
