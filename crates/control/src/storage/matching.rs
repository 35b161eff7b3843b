//! Which volume fits a claim, and which node fits a volume. Pure; asked by the binder and by the scheduler.

use super::{amount, claim_ref, class_of};
use crate::{framework::matches_labels, scheduler::fit};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};

/// Which of the volumes without an owner count.
#[derive(Clone, Copy)]
pub enum Candidates<'a> {
    /// Those that are promised to the claim by name alone: it waits for its first consumer.
    Promised,
    /// All.
    All,
    /// Those that can be used on this node.
    On(&'a Node),
}

/// The smallest volume that does for the claim; one that is promised to it comes first.
#[must_use]
pub fn best<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl IntoIterator<Item = &'a PersistentVolume>,
    candidates: Candidates<'_>,
) -> Option<&'a PersistentVolume> {
    let fitting = volumes.into_iter().filter(|volume| fits(claim, volume, candidates));
    fitting.min_by_key(|volume| {
        let size = volume.spec.as_ref().map(|spec| amount(spec.capacity.as_ref())).unwrap_or_default();
        (!is_promised(claim, volume), size, volume.metadata.name.clone())
    })
}

/// Whether the volume names this claim.
#[must_use]
pub fn is_promised(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim_ref(volume).is_some_and(|owner| {
        owner.name == claim.metadata.name
            && owner.namespace == claim.metadata.namespace
            && owner.uid.as_ref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
    })
}

fn fits(claim: &PersistentVolumeClaim, volume: &PersistentVolume, candidates: Candidates<'_>) -> bool {
    let (Some(wanted), Some(spec)) = (&claim.spec, &volume.spec) else { return false };
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let modes = wanted.access_modes.iter().flatten();
    let wanted_size = amount(wanted.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    if volume.metadata.deletion_timestamp.is_some()
        || mode(&wanted.volume_mode) != mode(&spec.volume_mode)
        || amount(spec.capacity.as_ref()) < wanted_size
        || !modes.clone().all(|mode| spec.access_modes.iter().flatten().any(|known| known == mode))
        || wanted.volume_attributes_class_name != spec.volume_attributes_class_name
    {
        return false;
    }
    if is_promised(claim, volume) {
        return true;
    }
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let free = claim_ref(volume).is_none()
        && phase == "Available"
        && spec.storage_class_name.as_deref().unwrap_or_default() == class_of(claim)
        && wanted.selector.as_ref().is_none_or(|selector| matches_labels(selector, volume.metadata.labels.as_ref()));
    free && match candidates {
        Candidates::Promised => false,
        Candidates::All => true,
        Candidates::On(node) => reaches(volume, node),
    }
}

/// Whether the volume can be used on the node.
#[must_use]
pub fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    affinity.and_then(|affinity| affinity.required.as_ref()).is_none_or(|required| fit::meets_one(required, node))
}
