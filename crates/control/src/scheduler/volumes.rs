//! Where a pod can have its volumes: those that are there, those that may be promised to it, those that would be made. Pure.

use crate::storage::{
    NO_PROVISIONER, claims_of, class_of, is_bound,
    matching::{Candidates, best, reaches},
    selected_node, volume_of, waits_for_consumer,
};
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use std::sync::Arc;

/// What there is to look up, in the pod's namespace.
pub(super) trait Storage {
    fn claim(&self, name: &str) -> Option<Arc<PersistentVolumeClaim>>;
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>>;
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
    fn volumes(&self) -> Vec<Arc<PersistentVolume>>;
    /// Whether another pod that runs has the claim.
    fn is_taken(&self, claim: &str) -> bool;
}

/// The volumes of one pod.
#[derive(Default)]
pub(super) struct Volumes {
    bound: Vec<Arc<PersistentVolume>>,
    /// Claims that wait for this pod, with their classes.
    waiting: Vec<(Arc<PersistentVolumeClaim>, Arc<StorageClass>)>,
    free: Vec<Arc<PersistentVolume>>,
}

/// What is written when the node is chosen.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// The volume becomes the claim's.
    Promise { volume: Arc<PersistentVolume>, claim: Arc<PersistentVolumeClaim> },
    /// The volume of this claim is to be made for the node.
    Select(Arc<PersistentVolumeClaim>),
}

impl Volumes {
    /// Looks them up; the error is why the pod can go nowhere yet.
    pub(super) fn of(pod: &Pod, storage: &impl Storage) -> Result<Self, String> {
        let mut volumes = Self::default();
        for name in claims_of(pod) {
            let claim = storage.claim(&name).ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            let modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
            if modes.into_iter().any(|mode| mode == "ReadWriteOncePod") && storage.is_taken(&name) {
                return Err("node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access \
                            mode"
                    .to_owned());
            }
            if is_bound(&claim) {
                let volume = storage.volume(volume_of(&claim)).ok_or_else(|| {
                    format!(
                        "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {:?}",
                        volume_of(&claim)
                    )
                })?;
                volumes.bound.push(volume);
                continue;
            }
            let class = storage.class(class_of(&claim));
            let waits = class.filter(|class| waits_for_consumer(class));
            match waits {
                Some(class) if volume_of(&claim).is_empty() => volumes.waiting.push((claim, class)),
                _ => return Err("pod has unbound immediate PersistentVolumeClaims".to_owned()),
            }
        }
        if !volumes.waiting.is_empty() {
            volumes.free = storage.volumes();
        }
        Ok(volumes)
    }

    /// Whether all of them are there.
    pub(super) fn are_there(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Why the pod cannot have them on this node.
    pub(super) fn objection(&self, node: &Node) -> Option<&'static str> {
        if !self.bound.iter().all(|volume| reaches(volume, node)) {
            return Some("node(s) didn't match PersistentVolume's node affinity");
        }
        if self.waiting.is_empty() || self.steps(node).is_some() {
            return None;
        }
        Some("node(s) didn't find available persistent volumes to bind")
    }

    /// What is to be written for this node; none when a claim cannot be met there.
    pub(super) fn steps(&self, node: &Node) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        let mut taken: Vec<&str> = Vec::new();
        for (claim, class) in &self.waiting {
            let name = |volume: &PersistentVolume| volume.metadata.name.clone().unwrap_or_default();
            let free = self.free.iter().filter(|volume| !taken.contains(&name(volume).as_str()));
            let found = best(claim, free.map(|volume| &**volume), Candidates::On(node));
            let found = found.and_then(|found| self.free.iter().find(|volume| name(volume) == name(found)));
            if let Some(chosen) = selected_node(claim) {
                if Some(chosen) != node.metadata.name.as_deref() {
                    return None;
                }
            } else if let Some(volume) = found {
                taken.push(volume.metadata.name.as_deref().unwrap_or_default());
                steps.push(Step::Promise { volume: Arc::clone(volume), claim: Arc::clone(claim) });
            } else if class.provisioner != NO_PROVISIONER && is_allowed(class, node) {
                steps.push(Step::Select(Arc::clone(claim)));
            } else {
                return None;
            }
        }
        Some(steps)
    }
}

/// Whether the class makes volumes for this node.
fn is_allowed(class: &StorageClass, node: &Node) -> bool {
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    terms.is_empty()
        || terms.iter().any(|term| {
            let mut rules = term.match_label_expressions.iter().flatten();
            rules.all(|rule| label(&rule.key).is_some_and(|value| rule.values.contains(value)))
        })
}
