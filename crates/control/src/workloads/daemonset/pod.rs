//! The pod that a DaemonSet puts on a node, and which node a pod is for.

use super::super::{owned, pods, template};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration},
};

/// The label that says from which template a pod is.
pub const HASH_LABEL: &str = "controller-revision-hash";
/// The label of old, still written for those who look for it.
const GENERATION_LABEL: &str = "pod-template-generation";
/// The annotation that counts templates.
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// A node's name as pods ask for it.
const NAME_FIELD: &str = "metadata.name";

/// Troubles of a node that daemons live with.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The pods' spec with the tolerations that all daemons have.
pub(super) fn spec(set: &DaemonSet) -> PodSpec {
    let mut spec = set.spec.template.spec.clone().unwrap_or_default();
    let network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    let network = network.then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec
}

/// The pod for a node. The scheduler binds it; it can go nowhere else.
pub(super) fn create(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let mut pod = template::pod(&set.spec.template, &owned::reference(set));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    if let Some(generation) = set.metadata.annotations.as_ref().and_then(|all| all.get(GENERATION)) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.clone());
    }
    let mut spec = spec(set);
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: NAME_FIELD.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        match_expressions: None,
    };
    // The DaemonSet's own terms have been looked at before the node was chosen.
    affinity.node_affinity.get_or_insert_default().required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    pod.spec = Some(spec);
    pod
}

/// The node that a pod is on or meant for; empty when nobody knows.
pub(super) fn node(pod: &Pod) -> &str {
    let bound = pods::node_name(pod);
    if bound.is_empty() { wanted_node(pod).unwrap_or_default() } else { bound }
}

fn wanted_node(pod: &Pod) -> Option<&str> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut named = fields.filter(|field| field.key == NAME_FIELD && field.operator == "In");
    match named.next()?.values.as_deref()? {
        [only] => Some(only),
        _ => None,
    }
}
