//! Who owns the claims of a StatefulSet's pods, so that they go when the set asks for it. Pure.
//!
//! | `whenScaled` | `whenDeleted` | owner of the claim of a pod within the size | of one beyond it |
//! |---|---|---|---|
//! | Retain | Retain | nobody | nobody |
//! | Retain | Delete | the set | the set |
//! | Delete | Retain | nobody | the pod |
//! | Delete | Delete | the set | the pod |

use super::super::owned;
use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt};

/// Whether a pod of this set is within its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Within,
    Beyond,
}

fn policy(set: &StatefulSet) -> (bool, bool) {
    let policy = set.spec.persistent_volume_claim_retention_policy.clone().unwrap_or_default();
    (policy.when_scaled.as_deref() == Some("Delete"), policy.when_deleted.as_deref() == Some("Delete"))
}

/// Whether claims are taken along when pods go.
pub(super) fn go_when_scaled(set: &StatefulSet) -> bool {
    policy(set).0
}

/// The owners that a claim should have; nothing when they are right, or when the claim is not ours to touch.
pub fn owners(
    claim: &PersistentVolumeClaim,
    set: &StatefulSet,
    pod: &Pod,
    place: Place,
) -> Option<Vec<OwnerReference>> {
    let given = claim.owner_references();
    if is_stale(claim, set) || is_stale(claim, pod) {
        return None;
    }
    let wanted = match (policy(set), place) {
        ((true, _), Place::Beyond) => Some(owned::reference(pod)),
        ((false, true), _) | ((true, true), Place::Within) => Some(owned::reference(set)),
        ((false, false), _) | ((true, false), Place::Within) => None,
    };
    let ours = |one: &&OwnerReference| {
        Some(&one.uid) == set.metadata.uid.as_ref() || Some(&one.uid) == pod.metadata.uid.as_ref()
    };
    let (mine, mut others): (Vec<&OwnerReference>, Vec<OwnerReference>) =
        (given.iter().filter(ours).collect(), given.iter().filter(|one| !ours(one)).cloned().collect());
    // Somebody else controls it: we keep out.
    let wanted = wanted.filter(|_| others.iter().all(|one| one.controller != Some(true)));
    let right = match &wanted {
        Some(wanted) => mine.len() == 1 && mine[0].uid == wanted.uid && mine[0].controller == Some(true),
        None => mine.is_empty(),
    };
    if right {
        return None;
    }
    others.extend(wanted);
    Some(others)
}

/// Whether a claim belongs to an earlier object of the same name.
pub(super) fn is_stale<O: Resource<DynamicType = ()>>(claim: &PersistentVolumeClaim, owner: &O) -> bool {
    claim.owner_references().iter().any(|one| {
        one.kind == O::kind(&())
            && one.api_version == O::api_version(&())
            && one.name == owner.name_any()
            && Some(&one.uid) != owner.meta().uid.as_ref()
    })
}
