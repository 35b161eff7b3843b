//! Who runs where: every pod with a node, what it takes, and what that leaves. Kept current one pod at a time.

use super::demand::{self, Amounts, Demand, HostPort};
use crate::workloads::pods;
use k8s_openapi::api::core::v1::{Node, Pod};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Nodes by name.
pub(super) type Nodes = HashMap<String, Arc<Node>>;

/// A pod and its node.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) pod: Arc<Pod>,
    pub(super) node: String,
    demand: Demand,
}

/// All pods that have a node and have not ended.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    placed: HashMap<String, Placed>,
    by_node: HashMap<String, HashSet<String>>,
    by_namespace: HashMap<String, HashSet<String>>,
    /// Pods that keep others away from them.
    loners: HashSet<String>,
    used: HashMap<String, Amounts>,
    /// Pods that others made room for, by UID: the node, and what they will take.
    nominated: HashMap<String, (String, i32, Demand)>,
}

/// How much a pod matters.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

impl Cluster {
    /// A pod as the API has it. One that we have bound and that is still shown without a node stays where it is.
    pub(super) fn see(&mut self, pod: &Arc<Pod>) {
        let node = pods::node_name(pod);
        if pods::is_finished(pod) {
            self.forget(pod);
        } else if !node.is_empty() {
            self.place(pod, node);
        } else {
            let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
            self.nominate(pod, nominated.unwrap_or_default());
        }
    }

    /// Room is being made for the pod on this node; empty when it is not.
    pub(super) fn nominate(&mut self, pod: &Pod, node: &str) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        if node.is_empty() || pod.metadata.deletion_timestamp.is_some() {
            self.nominated.remove(&uid);
        } else {
            self.nominated.insert(uid, (node.to_owned(), priority(pod), demand::of(pod)));
        }
    }

    /// What is kept on a node for pods that matter at least as much as this one.
    pub(super) fn kept_from<'a>(&'a self, pod: &'a Pod, node: &'a str) -> impl Iterator<Item = &'a Demand> {
        let kept = move |(uid, (on, matters, _)): &(&String, &(String, i32, Demand))| {
            on == node && *matters >= priority(pod) && pod.metadata.uid.as_ref() != Some(*uid)
        };
        self.nominated.iter().filter(kept).map(|(_, (_, _, demand))| demand)
    }

    /// Pods that matter less than this one and for which room is being made on a node, by UID.
    pub(super) fn nominated_below(&self, pod: &Pod, node: &str) -> Vec<String> {
        let below = |(_, (on, matters, _)): &(&String, &(String, i32, Demand))| on == node && *matters < priority(pod);
        self.nominated.iter().filter(below).map(|(uid, _)| uid.clone()).collect()
    }

    /// The pods on a node.
    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = &Placed> {
        self.named(self.by_node.get(node))
    }

    /// The pod goes to this node.
    pub(super) fn place(&mut self, pod: &Arc<Pod>, node: &str) {
        self.forget(pod);
        let Some(uid) = pod.metadata.uid.clone() else { return };
        self.nominated.remove(&uid);
        let demand = demand::of(pod);
        demand::add(self.used.entry(node.to_owned()).or_default(), &demand.amounts);
        self.by_node.entry(node.to_owned()).or_default().insert(uid.clone());
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        self.by_namespace.entry(namespace).or_default().insert(uid.clone());
        if super::neighbours::required_anti(pod).next().is_some() {
            self.loners.insert(uid.clone());
        }
        self.placed.insert(uid, Placed { pod: Arc::clone(pod), node: node.to_owned(), demand });
    }

    /// The pod is gone.
    pub(super) fn forget(&mut self, pod: &Pod) {
        if let Some(uid) = &pod.metadata.uid {
            self.nominated.remove(uid);
        }
        let Some((uid, placed)) = pod.metadata.uid.as_ref().and_then(|uid| self.placed.remove_entry(uid)) else {
            return;
        };
        if let Some(used) = self.used.get_mut(&placed.node) {
            demand::subtract(used, &placed.demand.amounts);
        }
        let namespace = placed.pod.metadata.namespace.clone().unwrap_or_default();
        for (table, value) in [(&mut self.by_node, &placed.node), (&mut self.by_namespace, &namespace)] {
            if let Some(uids) = table.get_mut(value) {
                uids.remove(&uid);
                if uids.is_empty() {
                    table.remove(value);
                }
            }
        }
        self.loners.remove(&uid);
    }

    /// Where a pod has been placed.
    pub(super) fn node_of(&self, pod: &Pod) -> Option<&str> {
        pod.metadata.uid.as_ref().and_then(|uid| self.placed.get(uid)).map(|placed| placed.node.as_str())
    }

    /// What is used of a resource on a node.
    pub(super) fn used(&self, node: &str, resource: &str) -> i128 {
        self.used.get(node).and_then(|used| used.get(resource)).copied().unwrap_or_default()
    }

    /// The host ports in use on a node.
    pub(super) fn ports(&self, node: &str) -> impl Iterator<Item = &HostPort> {
        self.named(self.by_node.get(node)).flat_map(|placed| &placed.demand.ports)
    }

    /// The pods of a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Placed> {
        self.named(self.by_namespace.get(namespace))
    }

    /// The namespaces that have pods.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.by_namespace.keys().map(String::as_str)
    }

    /// The pods that keep others away from them.
    pub(super) fn loners(&self) -> impl Iterator<Item = &Placed> {
        self.named(Some(&self.loners))
    }

    fn named<'a>(&'a self, uids: Option<&'a HashSet<String>>) -> impl Iterator<Item = &'a Placed> {
        uids.into_iter().flatten().filter_map(|uid| self.placed.get(uid))
    }
}
