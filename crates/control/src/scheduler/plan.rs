//! Which node a pod goes to, or why it goes to none. Pure; called by the scheduler for one pod at a time.

use super::{
    cluster::{Cluster, Nodes},
    demand::{self, PODS},
    fit,
    neighbours::{self, Namespaces, Neighbours},
    spread::{self, Spread},
    volumes::Volumes,
};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use std::collections::BTreeMap;

/// Decides. The error is what `kubectl describe` shows.
pub(super) fn choose<'a>(
    pod: &Pod,
    nodes: &'a Nodes,
    cluster: &Cluster,
    namespaces: &Namespaces,
    volumes: &Volumes,
) -> Result<&'a str, Refusal> {
    if nodes.is_empty() {
        return Err(Refusal { why: "no nodes available to schedule pods".to_owned(), curable: Vec::new() });
    }
    let view = View::of(pod, nodes, cluster, namespaces);
    let objection = |node: &Node| {
        let about_volumes = volumes.objection(node);
        let about_volumes = about_volumes.map(|reason| Objection { reasons: vec![reason.to_owned()], curable: false });
        about_volumes.or_else(|| view.objection(node, cluster))
    };
    // Room was made for it there.
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref()).unwrap_or_default();
    if let Some((name, node)) = nodes.get_key_value(nominated)
        && objection(node).is_none()
    {
        return Ok(name);
    }
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let mut curable = Vec::new();
    let mut best: Option<(Score, &str)> = None;
    for (name, node) in nodes {
        if let Some(objection) = objection(node) {
            if objection.curable {
                curable.push(name.clone());
            }
            for reason in objection.reasons {
                *refusals.entry(reason).or_default() += 1;
            }
            continue;
        }
        let score = score(&view.spec, node, &view.demand, cluster, &view.neighbours, &view.spread);
        // Names break ties, so that the same question has the same answer.
        if best
            .as_ref()
            .is_none_or(|(top, of)| (&score, std::cmp::Reverse(name.as_str())) > (top, std::cmp::Reverse(*of)))
        {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| name).ok_or_else(|| {
        let reasons: Vec<String> = refusals.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        curable.sort_unstable();
        Refusal { why: format!("0/{} nodes are available: {}.", nodes.len(), reasons.join(", ")), curable }
    })
}

/// Why a pod goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) why: String,
    /// Nodes on which it might run if other pods were not there.
    pub(super) curable: Vec<String>,
}

/// What speaks against a node.
pub(super) struct Objection {
    reasons: Vec<String>,
    /// Whether fewer pods would help.
    curable: bool,
}

/// A pod as it looks at nodes.
pub(super) struct View<'a> {
    pod: &'a Pod,
    spec: PodSpec,
    demand: demand::Demand,
    neighbours: Neighbours,
    spread: Spread,
}

impl<'a> View<'a> {
    pub(super) fn of(pod: &'a Pod, nodes: &Nodes, cluster: &Cluster, namespaces: &Namespaces) -> Self {
        Self {
            pod,
            spec: pod.spec.clone().unwrap_or_default(),
            demand: demand::of(pod),
            neighbours: Neighbours::of(pod, cluster, nodes, namespaces),
            spread: Spread::of(pod, cluster, nodes),
        }
    }

    /// What speaks against the node, as the cluster is.
    pub(super) fn objection(&self, node: &Node, cluster: &Cluster) -> Option<Objection> {
        let one = |reason: &str, curable| Objection { reasons: vec![reason.to_owned()], curable };
        about_node(&self.spec, node)
            .map(|reason| one(reason, false))
            .or_else(|| {
                about_room(self.pod, &self.demand, node, cluster).map(|reasons| Objection { reasons, curable: true })
            })
            .or_else(|| about_others(node, &self.neighbours, &self.spread).map(|reason| one(reason, true)))
    }
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

fn about_room(pod: &Pod, demand: &demand::Demand, node: &Node, cluster: &Cluster) -> Option<Vec<String>> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let kept: Vec<&demand::Demand> = cluster.kept_from(pod, name).collect();
    let taken = || cluster.ports(name).chain(kept.iter().flat_map(|demand| &demand.ports));
    if demand.ports.iter().any(|port| taken().any(|taken| demand::clash(port, taken))) {
        return Some(vec!["node(s) didn't have free ports for the requested pod ports".to_owned()]);
    }
    let capacity = demand::capacity(node);
    let lacks = |(resource, wanted): &(&String, &i128)| {
        let kept: i128 = kept.iter().filter_map(|demand| demand.amounts.get(*resource)).sum();
        let free = capacity.get(*resource).copied().unwrap_or_default() - cluster.used(name, resource) - kept;
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
