//! Affinity and anti-affinity between pods: who wants to be near whom, and who does not.

use super::cluster::{Cluster, Nodes, Placed};
use crate::framework::matches_labels;
use k8s_openapi::{
    api::core::v1::{Node, Pod, PodAffinityTerm},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Labels of namespaces, by name: terms may select namespaces by them.
pub(super) type Namespaces = HashMap<String, BTreeMap<String, String>>;

/// For one topology key, the values at which something is.
type Places = HashSet<String>;

/// What the pods that are there mean for a new one. Computed once per pod, asked once per node.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Topology key, places where a match is, and whether nowhere is fine because the pod itself would be the first.
    near: Vec<(String, Places, bool)>,
    far: Vec<(String, Places)>,
    kept_away: Vec<(String, String)>,
    preferred: Vec<(String, HashMap<String, i64>)>,
}

/// Why a node does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
}

pub(super) fn required_anti(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let anti = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref());
    anti.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref()).into_iter().flatten()
}

impl Neighbours {
    /// Looks at everybody whom the pod's terms, or whose terms, are about.
    pub(super) fn of(pod: &Pod, cluster: &Cluster, nodes: &Nodes, namespaces: &Namespaces) -> Self {
        let mut found = Self::default();
        let place = |placed: &Placed, key: &str| label(nodes.get(placed.node.as_str())?, key).map(str::to_owned);
        let places = |term: &PodAffinityTerm| -> Places {
            matching(term, pod, cluster, namespaces).filter_map(|placed| place(placed, &term.topology_key)).collect()
        };
        let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        for term in near
            .and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
        {
            let places = places(term);
            let first = places.is_empty() && is_about(term, pod, pod, namespaces);
            found.near.push((term.topology_key.clone(), places, first));
        }
        for term in required_anti(pod) {
            found.far.push((term.topology_key.clone(), places(term)));
        }
        for placed in cluster.loners() {
            for term in required_anti(&placed.pod).filter(|term| is_about(term, &placed.pod, pod, namespaces)) {
                found
                    .kept_away
                    .extend(place(placed, &term.topology_key).map(|value| (term.topology_key.clone(), value)));
            }
        }
        let liked = near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref());
        let disliked = far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref());
        for (terms, sign) in [(liked, 1), (disliked, -1)] {
            for weighted in terms.into_iter().flatten() {
                let mut weights = HashMap::new();
                for value in places(&weighted.pod_affinity_term) {
                    *weights.entry(value).or_default() += i64::from(weighted.weight) * sign;
                }
                found.preferred.push((weighted.pod_affinity_term.topology_key.clone(), weights));
            }
        }
        found
    }

    /// What speaks against the node.
    pub(super) fn objection(&self, node: &Node) -> Option<Objection> {
        let at = |key: &str, places: &Places| label(node, key).is_some_and(|value| places.contains(value));
        let lonely = |key: &str, first: bool| first && label(node, key).is_some();
        if !self.near.iter().all(|(key, places, first)| at(key, places) || lonely(key, *first)) {
            Some(Objection::Affinity)
        } else if self.far.iter().any(|(key, places)| at(key, places)) {
            Some(Objection::AntiAffinity)
        } else if self.kept_away.iter().any(|(key, value)| label(node, key) == Some(value)) {
            Some(Objection::ExistingAntiAffinity)
        } else {
            None
        }
    }

    /// How much the pod would like the node's neighbourhood.
    pub(super) fn preference(&self, node: &Node) -> i64 {
        let weight = |(key, weights): &(String, HashMap<String, i64>)| {
            label(node, key).and_then(|value| weights.get(value)).copied()
        };
        self.preferred.iter().filter_map(weight).sum()
    }
}

pub(super) fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn matching<'a>(
    term: &'a PodAffinityTerm,
    pod: &'a Pod,
    cluster: &'a Cluster,
    namespaces: &'a Namespaces,
) -> impl Iterator<Item = &'a Placed> {
    let asked = cluster.namespaces().filter(move |namespace| covers(term, pod, namespace, namespaces));
    asked.flat_map(|namespace| cluster.in_namespace(namespace)).filter(move |placed| {
        placed.pod.metadata.deletion_timestamp.is_none() && selector_matches(term, pod, &placed.pod)
    })
}

/// Whether the term of `owner` is about `other`.
fn is_about(term: &PodAffinityTerm, owner: &Pod, other: &Pod, namespaces: &Namespaces) -> bool {
    covers(term, owner, other.metadata.namespace.as_deref().unwrap_or_default(), namespaces)
        && selector_matches(term, owner, other)
}

fn covers(term: &PodAffinityTerm, owner: &Pod, namespace: &str, namespaces: &Namespaces) -> bool {
    let listed = term.namespaces.as_ref().filter(|names| !names.is_empty());
    if listed.is_none() && term.namespace_selector.is_none() {
        return owner.metadata.namespace.as_deref() == Some(namespace);
    }
    listed.is_some_and(|names| names.iter().any(|name| name == namespace))
        || term.namespace_selector.as_ref().is_some_and(|selector| matches_labels(selector, namespaces.get(namespace)))
}

fn selector_matches(term: &PodAffinityTerm, owner: &Pod, other: &Pod) -> bool {
    let labels = other.metadata.labels.as_ref();
    let own = |key: &String| owner.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let theirs = |key: &String| labels.and_then(|labels| labels.get(key));
    // An absent selector matches no pod.
    term.label_selector.as_ref().is_some_and(|selector: &LabelSelector| matches_labels(selector, labels))
        && term.match_label_keys.iter().flatten().all(|key| own(key).is_none() || own(key) == theirs(key))
        && term.mismatch_label_keys.iter().flatten().all(|key| own(key).is_none() || own(key) != theirs(key))
}
