//! Which nodes lack a daemon pod, which pods have to go. Pure; called by `daemonset::reconcile`.

use super::{
    super::{Round, pods, scaled},
    pod::{self, HASH_LABEL},
};
use crate::scheduler::fit;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, DaemonSetStatus},
    core::v1::{Node, Pod},
};
use std::collections::{BTreeMap, HashMap};

/// What one DaemonSet sees.
#[derive(Debug)]
pub struct View<'a> {
    pub set: &'a DaemonSet,
    /// All nodes.
    pub nodes: &'a [&'a Node],
    /// Its own pods.
    pub pods: &'a [&'a Pod],
    /// The hash of the present template.
    pub hash: &'a str,
    pub now: Timestamp,
}

/// What has to change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// Nodes that get a pod.
    pub create: Vec<&'a str>,
    /// Pods that go.
    pub delete: Vec<&'a Pod>,
}

/// What a node means to a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// A pod belongs there.
    Wanted,
    /// None would be put there, but one that is there may stay.
    Tolerated,
    /// None belongs there.
    Unwanted,
}

impl<'a> View<'a> {
    /// The changes: first everything that is missing or too much; only when there is none, a step of the rollout.
    pub fn plan(&self) -> Plan<'a> {
        let by_node = self.by_node();
        let mut plan = Plan::default();
        for node in self.nodes {
            self.tend(node, by_node.get(name(node)).map(Vec::as_slice).unwrap_or_default(), &mut plan);
        }
        let on_delete = self.set.spec.update_strategy.as_ref().and_then(|one| one.type_.as_deref()) == Some("OnDelete");
        if plan == Plan::default() && !on_delete {
            self.roll(&by_node, &mut plan);
        }
        plan
    }

    /// The status as it is now.
    pub fn status(&self) -> DaemonSetStatus {
        let by_node = self.by_node();
        let old = self.set.status.clone().unwrap_or_default();
        let mut status = DaemonSetStatus {
            observed_generation: self.set.metadata.generation,
            collision_count: old.collision_count,
            conditions: old.conditions,
            ..DaemonSetStatus::default()
        };
        let (mut updated, mut available) = (0, 0);
        for node in self.nodes {
            let oldest = by_node.get(name(node)).and_then(|pods| pods.first());
            match (self.placement(node), oldest) {
                (Placement::Wanted, None) => status.desired_number_scheduled += 1,
                (Placement::Wanted, Some(pod)) => {
                    status.desired_number_scheduled += 1;
                    status.current_number_scheduled += 1;
                    status.number_ready += i32::from(pods::is_ready(pod));
                    available += i32::from(self.is_available(pod));
                    updated += i32::from(self.is_updated(pod));
                }
                (_, Some(_)) => status.number_misscheduled += 1,
                (_, None) => {}
            }
        }
        let some = super::super::replicaset::status::unless_zero;
        status.updated_number_scheduled = some(updated);
        status.number_available = some(available);
        status.number_unavailable = some(status.desired_number_scheduled - available);
        status
    }

    /// Pods per node, the oldest and furthest first.
    fn by_node(&self) -> HashMap<&'a str, Vec<&'a Pod>> {
        let mut map: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in self.pods.iter().copied() {
            map.entry(pod::node(pod)).or_default().push(pod);
        }
        for pods in map.values_mut() {
            pods.sort_by_key(|pod| {
                let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
                (pods::node_name(pod).is_empty(), created, pod.metadata.name.clone())
            });
        }
        map
    }

    fn placement(&self, node: &Node) -> Placement {
        let spec = pod::spec(self.set);
        let tolerations = spec.tolerations.clone().unwrap_or_default();
        let named = spec.node_name.as_ref().is_none_or(|wanted| Some(wanted) == node.metadata.name.as_ref());
        if !named || !fit::selects_node(&spec, node) || fit::untolerated(node, &tolerations, &["NoExecute"]).is_some() {
            Placement::Unwanted
        } else if fit::untolerated(node, &tolerations, &["NoSchedule"]).is_some() {
            Placement::Tolerated
        } else {
            Placement::Wanted
        }
    }

    /// One node: a pod if there is none, no failed ones, not two of a kind.
    fn tend(&self, node: &'a Node, there: &[&'a Pod], plan: &mut Plan<'a>) {
        let placement = self.placement(node);
        if there.is_empty() {
            if placement == Placement::Wanted {
                plan.create.push(name(node));
            }
            return;
        }
        let staying = there.iter().copied().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        if placement == Placement::Unwanted {
            plan.delete.extend(staying);
            return;
        }
        let (ended, running): (Vec<&Pod>, Vec<&Pod>) = staying.partition(|pod| pods::is_finished(pod));
        plan.delete.extend(&ended);
        if self.limits().surge == 0 {
            plan.delete.extend(running.iter().skip(1));
            return;
        }
        if running.is_empty() && ended.is_empty() && placement == Placement::Wanted {
            // With surge a new pod need not wait for the old one's end.
            plan.create.push(name(node));
        }
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.into_iter().partition(|pod| self.is_updated(pod));
        plan.delete.extend(new.iter().skip(1));
        plan.delete.extend(old.iter().skip(1));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!pods::is_ready(old) || self.is_available(new))
        {
            plan.delete.push(old);
        }
    }

    fn roll(&self, by_node: &HashMap<&'a str, Vec<&'a Pod>>, plan: &mut Plan<'a>) {
        let limits = self.limits();
        let ordered: BTreeMap<&str, &Vec<&Pod>> = by_node.iter().map(|(node, pods)| (*node, pods)).collect();
        let mut missing = 0;
        let mut surging = 0;
        let mut candidates: Vec<(&str, &Pod)> = Vec::new();
        for (node, there) in ordered {
            let staying: Vec<&Pod> =
                there.iter().copied().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
            let new = staying.iter().find(|pod| self.is_updated(pod));
            let old = staying.iter().find(|pod| !self.is_updated(pod));
            match (new, old) {
                (Some(new), None) => missing += i32::from(!self.is_available(new)),
                (Some(_), Some(_)) => surging += 1,
                (None, None) => missing += 1,
                (None, Some(old)) if !self.is_available(old) => {
                    // It serves nobody: replaced at once.
                    missing += 1;
                    if limits.surge == 0 { plan.delete.push(old) } else { plan.create.push(node) }
                }
                (None, Some(old)) => candidates.push((node, old)),
            }
        }
        if limits.surge == 0 {
            let room = usize::try_from(limits.unavailable - missing).unwrap_or_default();
            plan.delete.extend(candidates.iter().take(room).map(|(_, pod)| *pod));
        } else {
            let room = usize::try_from(limits.surge - surging).unwrap_or_default();
            plan.create.extend(candidates.iter().take(room).map(|(node, _)| *node));
        }
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL)).is_some_and(|hash| hash == self.hash)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, self.set.spec.min_ready_seconds.unwrap_or_default(), self.now)
    }

    fn limits(&self) -> Limits {
        let wanted = self.nodes.iter().filter(|node| self.placement(node) == Placement::Wanted).count();
        let wanted = i32::try_from(wanted).unwrap_or(i32::MAX);
        let rolling = self.set.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.clone());
        let rolling = rolling.unwrap_or_default();
        let surge = scaled(rolling.max_surge.as_ref(), wanted, Round::Up);
        let unavailable = scaled(rolling.max_unavailable.as_ref(), wanted, Round::Up);
        Limits { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }
    }
}

struct Limits {
    surge: i32,
    unavailable: i32,
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
