//! What a StatefulSet has to do next: what is missing, then what is too much, then a step of the rollout. Pure.
//!
//! In order means that a pod is made when all before it are available and ended when all after it are gone; in parallel nothing waits.
//! Mirrors the update of a StatefulSet in kube-controller-manager, with `maxUnavailable`.

use super::{
    super::{
        Round, history, pods,
        replicaset::status::{clamp, unless_zero},
        scaled,
    },
    pod,
};
use crate::framework::Result;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus},
    core::v1::{Pod, PodTemplateSpec},
};
use kube::ResourceExt;

/// A template with the name that its pods have it by.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    pub name: String,
    pub template: PodTemplateSpec,
}

impl Revision {
    /// What a ControllerRevision keeps.
    pub fn read(revision: &ControllerRevision) -> Result<Self> {
        let name = revision.name_any();
        let template =
            history::template(revision).ok_or_else(|| format!("ControllerRevision {name} has no template"))?;
        Ok(Self { name, template })
    }
}

/// What one StatefulSet sees.
#[derive(Debug)]
pub struct View<'a> {
    pub set: &'a StatefulSet,
    /// Its own pods.
    pub pods: &'a [&'a Pod],
    /// The revision that it rolls from.
    pub current: &'a Revision,
    /// The revision that it rolls to.
    pub update: &'a Revision,
    pub now: Timestamp,
}

/// Which template a new pod is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Current,
    Update,
}

/// What has to happen, in this order. In order there is at most one creation or deletion of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// Pods that wait for something, perhaps for their claims.
    pub pending: Vec<(i32, &'a Pod)>,
    /// Numbers that get a pod.
    pub create: Vec<(i32, Source)>,
    /// Pods without the labels that say who they are, or whose claims may have other owners by now.
    pub tend: Vec<(i32, &'a Pod)>,
    /// Pods beyond the size whose claims are looked at before they go.
    pub condemned: Vec<(i32, &'a Pod)>,
    pub delete: Vec<&'a Pod>,
}

/// A number within the size, and the pod that has it.
type Slot<'a> = (i32, Option<&'a Pod>);

impl<'a> View<'a> {
    /// The next changes.
    pub fn plan(&self) -> Plan<'a> {
        let mut plan = Plan::default();
        let (replicas, condemned) = self.by_ordinal();
        let in_order = self.in_order();
        for (ordinal, there) in &replicas {
            let blocked = self.tend(*ordinal, *there, &mut plan);
            if blocked && in_order {
                return plan;
            }
        }
        plan.condemned.clone_from(&condemned);
        let first_unavailable = self.first_unavailable(&replicas, &condemned);
        for (_, pod) in &condemned {
            let ending = pod.metadata.deletion_timestamp.is_some();
            let stuck = !self.is_available(pod) && first_unavailable != Some(*pod);
            if in_order && (ending || stuck) {
                return plan;
            }
            if !ending {
                plan.delete.push(pod);
            }
            if in_order {
                return plan;
            }
        }
        if self.strategy() == "RollingUpdate" {
            self.roll(&replicas, in_order, &mut plan);
        }
        plan
    }

    /// One number within the size. Answers whether what comes after it has to wait.
    fn tend(&self, ordinal: i32, there: Option<&'a Pod>, plan: &mut Plan<'a>) -> bool {
        let Some(pod) = there else {
            plan.create.push((ordinal, self.source(ordinal)));
            return true;
        };
        let ending = pod.metadata.deletion_timestamp.is_some();
        if pods::is_finished(pod) {
            // A pod that ended by itself is made anew, whatever it said.
            if !ending {
                plan.delete.push(pod);
            }
            return true;
        }
        if pods::phase(pod) == "Pending" {
            plan.pending.push((ordinal, pod));
        }
        let waits = ending || !self.is_available(pod);
        if !waits || !self.in_order() {
            plan.tend.push((ordinal, pod));
        }
        waits
    }

    fn in_order(&self) -> bool {
        self.set.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    /// Takes pods of other revisions away, from the greatest number on, as long as enough are available.
    fn roll(&self, replicas: &[Slot<'a>], in_order: bool, plan: &mut Plan<'a>) {
        let rolling = self.set.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or_default();
        let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let most = most.map_or(1, |most| scaled(Some(most), self.wanted(), Round::Down).max(1));
        let leaves = |pod: &Pod| {
            pod.metadata.deletion_timestamp.is_some() || plan.delete.iter().any(|one| std::ptr::eq(*one, pod))
        };
        let unavailable = |there: &Option<&Pod>| there.is_none_or(|pod| leaves(pod) || !self.is_available(pod));
        let missing = clamp(replicas.iter().filter(|(_, there)| unavailable(there)).count());
        let from = usize::try_from(partition).unwrap_or_default();
        let outdated: Vec<&Pod> = replicas
            .iter()
            .skip(from)
            .rev()
            .filter_map(|(_, there)| *there)
            .filter(|pod| pod::revision(pod) != self.update.name && !leaves(pod))
            .collect();
        let room = usize::try_from(most - missing).unwrap_or_default();
        if in_order {
            let chosen: Vec<&Pod> = outdated.into_iter().take(room).collect();
            plan.delete.extend(chosen);
            return;
        }
        // What serves nobody goes at once; of the others no more than there is room for.
        let (well, broken): (Vec<&Pod>, Vec<&Pod>) = outdated.into_iter().partition(|pod| self.is_available(pod));
        plan.delete.extend(broken);
        plan.delete.extend(well.into_iter().take(room));
    }

    /// The status as it is now.
    pub fn status(&self) -> StatefulSetStatus {
        let old = self.set.status.clone().unwrap_or_default();
        let name = self.set.name_any();
        let members: Vec<&&Pod> =
            self.pods.iter().filter(|pod| pod::ordinal(&name, &pod.name_any()).is_some()).collect();
        let count = |test: &dyn Fn(&Pod) -> bool| clamp(members.iter().filter(|pod| test(pod)).count());
        let stays = |pod: &Pod, revision: &Revision| {
            pod.metadata.deletion_timestamp.is_none() && pod::revision(pod) == revision.name
        };
        let ready = count(&is_running_and_ready);
        let updated = count(&|pod| stays(pod, self.update));
        let replicas = clamp(members.len());
        let mut current = (count(&|pod| stays(pod, self.current)), self.current.name.clone());
        if [updated, ready, replicas] == [self.wanted(); 3] {
            current = (updated, self.update.name.clone());
        }
        StatefulSetStatus {
            replicas,
            ready_replicas: unless_zero(ready),
            available_replicas: Some(count(&|pod| is_running_and_ready(pod) && self.is_available(pod))),
            current_replicas: unless_zero(current.0),
            current_revision: Some(current.1),
            updated_replicas: unless_zero(updated),
            update_revision: Some(self.update.name.clone()),
            observed_generation: self.set.metadata.generation,
            collision_count: Some(old.collision_count.unwrap_or_default()),
            conditions: old.conditions.filter(|conditions| !conditions.is_empty()),
        }
    }

    /// Pods within the size by number, and those beyond it from the greatest number on.
    fn by_ordinal(&self) -> (Vec<Slot<'a>>, Vec<(i32, &'a Pod)>) {
        let (start, name) = (pod::start(self.set), self.set.name_any());
        let mut replicas: Vec<Slot<'_>> = (start..start + self.wanted()).map(|ordinal| (ordinal, None)).collect();
        let mut condemned = Vec::new();
        for pod in self.pods.iter().copied() {
            let Some(ordinal) = pod::ordinal(&name, pod.metadata.name.as_deref().unwrap_or_default()) else { continue };
            match usize::try_from(ordinal - start).ok().and_then(|at| replicas.get_mut(at)) {
                Some((_, slot)) => *slot = Some(pod),
                None => condemned.push((ordinal, pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        (replicas, condemned)
    }

    /// Of all that are not well the one that everybody waits for: it may go although it is not ready.
    fn first_unavailable(&self, replicas: &[Slot<'a>], condemned: &[(i32, &'a Pod)]) -> Option<&'a Pod> {
        let unwell = |pod: &&Pod| !self.is_available(pod) || pod.metadata.deletion_timestamp.is_some();
        let within = replicas.iter().filter_map(|(_, there)| *there);
        within.chain(condemned.iter().rev().map(|(_, pod)| *pod)).find(unwell)
    }

    /// Below the partition pods stay as they were; without one, as many as there are of the current revision.
    fn source(&self, ordinal: i32) -> Source {
        let strategy = self.set.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let kept = match rolling {
            Some(rolling) => rolling.partition.unwrap_or_default(),
            None if self.strategy() == "RollingUpdate" => {
                self.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or_default()
            }
            None => 0,
        };
        if ordinal < pod::start(self.set) + kept { Source::Current } else { Source::Update }
    }

    fn strategy(&self) -> &str {
        let strategy = self.set.spec.update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()).unwrap_or("RollingUpdate")
    }

    fn wanted(&self) -> i32 {
        self.set.spec.replicas.unwrap_or(1).max(0)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        is_running_and_ready(pod)
            && pods::is_available(pod, self.set.spec.min_ready_seconds.unwrap_or_default(), self.now)
    }
}

fn is_running_and_ready(pod: &Pod) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}
