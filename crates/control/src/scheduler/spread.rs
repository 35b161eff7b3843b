//! Topology spread: no place may have many more of the matching pods than another.

use super::{
    cluster::{Cluster, Nodes},
    fit,
    neighbours::label,
};
use crate::framework::matches_labels;
use k8s_openapi::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use std::collections::HashMap;

/// One constraint, counted.
#[derive(Debug)]
struct Counted {
    key: String,
    skew: i64,
    hard: bool,
    counts: HashMap<String, i64>,
    fewest: i64,
    /// Whether the pod itself is one of those that are counted.
    counts_itself: bool,
}

/// The constraints of a pod, counted over all nodes. Computed once per pod, asked once per node.
#[derive(Debug, Default)]
pub(super) struct Spread(Vec<Counted>);

/// Why a node does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    /// It does not have the label.
    NoLabel,
    /// Its place has too many already.
    TooMany,
}

impl Spread {
    /// Counts the pods that the constraints are about.
    pub(super) fn of(pod: &Pod, cluster: &Cluster, nodes: &Nodes) -> Self {
        let constraints = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_ref());
        Self(constraints.into_iter().flatten().map(|constraint| count(constraint, pod, cluster, nodes)).collect())
    }

    /// What speaks against the node.
    pub(super) fn objection(&self, node: &Node) -> Option<Objection> {
        self.0.iter().filter(|counted| counted.hard).find_map(|counted| {
            let Some(place) = label(node, &counted.key) else { return Some(Objection::NoLabel) };
            let here = counted.counts.get(place).copied().unwrap_or_default() + i64::from(counted.counts_itself);
            (here - counted.fewest > counted.skew).then_some(Objection::TooMany)
        })
    }

    /// How crowded the node's places are, for constraints that are only wishes.
    pub(super) fn crowding(&self, node: &Node) -> i64 {
        let soft = self.0.iter().filter(|counted| !counted.hard);
        soft.map(|counted| {
            label(node, &counted.key).map_or(1000, |place| counted.counts.get(place).copied().unwrap_or_default())
        })
        .sum()
    }
}

fn count(constraint: &TopologySpreadConstraint, pod: &Pod, cluster: &Cluster, nodes: &Nodes) -> Counted {
    let mut counts: HashMap<String, i64> = HashMap::new();
    for node in nodes.values().filter(|node| is_counted(constraint, pod, node)) {
        if let Some(place) = label(node, &constraint.topology_key) {
            counts.entry(place.to_owned()).or_default();
        }
    }
    let own = |key: &String| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let matches = |other: &Pod| {
        let labels = other.metadata.labels.as_ref();
        constraint.label_selector.as_ref().is_some_and(|selector| matches_labels(selector, labels))
            && constraint
                .match_label_keys
                .iter()
                .flatten()
                .all(|key| own(key).is_none() || own(key) == labels.and_then(|labels| labels.get(key)))
    };
    for placed in cluster.in_namespace(pod.metadata.namespace.as_deref().unwrap_or_default()) {
        let node = nodes.get(placed.node.as_str()).filter(|node| is_counted(constraint, pod, node));
        let place = node.and_then(|node| label(node, &constraint.topology_key));
        if let Some(count) = place.and_then(|place| counts.get_mut(place))
            && placed.pod.metadata.deletion_timestamp.is_none()
            && matches(&placed.pod)
        {
            *count += 1;
        }
    }
    let enough_places = counts.len() >= usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1);
    Counted {
        key: constraint.topology_key.clone(),
        skew: constraint.max_skew.into(),
        hard: constraint.when_unsatisfiable != "ScheduleAnyway",
        // With fewer places than asked for, the missing ones count as empty.
        fewest: if enough_places { counts.values().copied().min().unwrap_or_default() } else { 0 },
        counts_itself: matches(pod),
        counts,
    }
}

/// Whether the node's place takes part: by default nodes that the pod's selectors exclude do not.
fn is_counted(constraint: &TopologySpreadConstraint, pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let selected = constraint.node_affinity_policy.as_deref() == Some("Ignore") || fit::selects_node(spec, node);
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let tolerated = constraint.node_taints_policy.as_deref() != Some("Honor")
        || fit::untolerated(node, tolerations, &["NoSchedule", "NoExecute"]).is_none();
    selected && tolerated
}
