//! Which pods have to go so that one that matters more can run. Pure; called by the scheduler when a pod fits nowhere.
//!
//! Mirrors DefaultPreemption of kube-scheduler: as few as possible, those of least priority, disruption budgets respected where
//! there is a choice.

use super::{
    cluster::{Cluster, Nodes, priority},
    neighbours::Namespaces,
    plan::View,
};
use crate::framework::matches_labels;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use std::{cmp::Reverse, collections::HashMap, sync::Arc};

/// How many nodes are looked at; upstream's least.
const CANDIDATES: usize = 100;

/// Who goes, and where.
#[derive(Clone, Debug)]
pub(super) struct Preemption {
    pub(super) node: String,
    pub(super) victims: Vec<Arc<Pod>>,
    /// How many of them a disruption budget would have kept.
    violations: usize,
}

/// Why nobody has to go, in upstream's words.
pub(super) fn is_not_eligible(pod: &Pod, cluster: &Cluster) -> Option<&'static str> {
    if pod.spec.as_ref().is_some_and(|spec| spec.preemption_policy.as_deref() == Some("Never")) {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref()).unwrap_or_default();
    let leaving = cluster
        .on_node(nominated)
        .any(|placed| placed.pod.metadata.deletion_timestamp.is_some() && priority(&placed.pod) < priority(pod));
    leaving.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Decides; the error is what `kubectl describe` shows. The cluster is changed while different absences are tried, and is as before
/// afterwards.
pub(super) fn choose(
    pod: &Pod,
    curable: &[String],
    nodes: &Nodes,
    cluster: &mut Cluster,
    namespaces: &Namespaces,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Preemption, String> {
    let mut found: Vec<Preemption> = Vec::new();
    for name in curable {
        if let Some(node) = nodes.get(name) {
            found.extend(on_node(pod, node, nodes, cluster, namespaces, budgets));
        }
        if found.len() >= CANDIDATES {
            break;
        }
    }
    let total = nodes.len();
    found.into_iter().min_by(|a, b| cost(a).cmp(&cost(b)).then_with(|| a.node.cmp(&b.node))).ok_or_else(|| {
        let unhelpful = total - curable.len();
        let mut reasons = Vec::new();
        if !curable.is_empty() {
            reasons.push(format!("{} No preemption victims found for incoming pod", curable.len()));
        }
        if unhelpful > 0 {
            reasons.push(format!("{unhelpful} Preemption is not helpful for scheduling"));
        }
        format!("0/{total} nodes are available: {}.", reasons.join(", "))
    })
}

/// Less is better; the first difference decides.
fn cost(preemption: &Preemption) -> (usize, i32, i64, usize, Reverse<Option<jiff::Timestamp>>) {
    let priorities = || preemption.victims.iter().map(|pod| priority(pod));
    let highest = priorities().max().unwrap_or(i32::MIN);
    // Moved up, so that many pods of low priority never weigh less than few.
    let sum = priorities().map(|priority| i64::from(priority) + i64::from(i32::MAX) + 1).sum();
    let started = |pod: &Arc<Pod>| pod.status.as_ref().and_then(|status| Some(status.start_time.as_ref()?.0));
    let earliest = preemption.victims.iter().filter(|pod| priority(pod) == highest).filter_map(started).min();
    (preemption.violations, highest, sum, preemption.victims.len(), Reverse(earliest))
}

/// Who would have to go on one node; none when that would not help.
fn on_node(
    pod: &Pod,
    node: &Node,
    nodes: &Nodes,
    cluster: &mut Cluster,
    namespaces: &Namespaces,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Option<Preemption> {
    let name = node.metadata.name.clone().unwrap_or_default();
    let mut below: Vec<Arc<Pod>> = cluster
        .on_node(&name)
        .filter(|placed| priority(&placed.pod) < priority(pod))
        .map(|placed| Arc::clone(&placed.pod))
        .collect();
    if below.is_empty() {
        return None;
    }
    // Those that matter most, and have run longest, are the first to be spared.
    let started = |pod: &Arc<Pod>| pod.status.as_ref().and_then(|status| Some(status.start_time.as_ref()?.0));
    below.sort_by_key(|pod| (Reverse(priority(pod)), started(pod).is_none(), started(pod), pod.metadata.name.clone()));
    below.iter().for_each(|pod| cluster.forget(pod));
    let fits = |cluster: &Cluster| View::of(pod, nodes, cluster, namespaces).objection(node, cluster).is_none();
    let mut victims = Vec::new();
    let mut violations = 0;
    let helps = fits(cluster);
    if helps {
        let (kept_by_budget, free) = split(&below, budgets);
        for (group, violates) in [(kept_by_budget, true), (free, false)] {
            for one in group {
                cluster.place(&one, &name);
                if !fits(cluster) {
                    cluster.forget(&one);
                    violations += usize::from(violates);
                    victims.push(one);
                }
            }
        }
    }
    below.iter().for_each(|pod| cluster.place(pod, &name));
    (helps && !victims.is_empty()).then_some(Preemption { node: name, victims, violations })
}

/// Pods whose going a disruption budget would not allow, and the others.
fn split(pods: &[Arc<Pod>], budgets: &[Arc<PodDisruptionBudget>]) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut left: HashMap<usize, i32> = HashMap::new();
    let (mut kept, mut free) = (Vec::new(), Vec::new());
    for pod in pods {
        let mut violates = false;
        for (i, budget) in budgets.iter().enumerate().filter(|(_, budget)| covers(budget, pod)) {
            let status = budget.status.as_ref();
            let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
            if disrupted.is_some_and(|pods| pod.metadata.name.as_ref().is_some_and(|name| pods.contains_key(name))) {
                continue;
            }
            let allowed = status.and_then(|status| status.disruptions_allowed).unwrap_or_default();
            let left = left.entry(i).or_insert(allowed);
            *left -= 1;
            violates |= *left < 0;
        }
        if violates { kept.push(Arc::clone(pod)) } else { free.push(Arc::clone(pod)) }
    }
    (kept, free)
}

/// Whether the budget is about this pod. One that selects nothing in particular is about none here, as upstream has it.
fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let says = |selector: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector| {
        selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
            || selector.match_expressions.as_ref().is_some_and(|all| !all.is_empty())
    };
    budget.metadata.namespace == pod.metadata.namespace
        && pod.metadata.labels.as_ref().is_some_and(|labels| !labels.is_empty())
        && selector.filter(says).is_some_and(|selector| matches_labels(selector, pod.metadata.labels.as_ref()))
}
