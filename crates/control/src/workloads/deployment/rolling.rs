//! One step of a rolling update: grow the new ReplicaSet as far as the surge allows, then shrink the old ones as far as
//! enough pods stay available.

use super::strategy::{available, max_surge, max_unavailable, size, wanted};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

/// The size that the new ReplicaSet may have beside the old ones.
pub(super) fn new_size(deployment: &Deployment, now: i32, old: &[&ReplicaSet]) -> i32 {
    let target = wanted(deployment);
    if now >= target {
        return target;
    }
    let total = now + old.iter().map(|set| size(set)).sum::<i32>();
    let room = target + max_surge(deployment) - total;
    now + room.clamp(0, target - now)
}

/// The sizes of old ReplicaSets that may shrink. Pods that serve nobody go first.
pub(super) fn shrink<'a>(
    deployment: &Deployment,
    new: &ReplicaSet,
    old: &[&'a ReplicaSet],
) -> Vec<(&'a ReplicaSet, i32)> {
    let mut sizes: Vec<(&ReplicaSet, i32)> = old.iter().map(|set| (*set, size(set))).collect();
    let total = size(new) + sizes.iter().map(|(_, size)| size).sum::<i32>();
    let enough = wanted(deployment) - max_unavailable(deployment);
    let new_missing = size(new) - available(new);
    let mut room = total - enough - new_missing;
    if room <= 0 {
        return Vec::new();
    }
    for (set, size) in &mut sizes {
        let unhealthy = (*size - available(set)).clamp(0, room);
        *size -= unhealthy;
        room -= unhealthy;
    }
    let serving = available(new) + old.iter().map(|set| available(set)).sum::<i32>();
    let mut spare = (serving - enough).max(0);
    for (_, size) in &mut sizes {
        let gone = (*size).clamp(0, spare);
        *size -= gone;
        spare -= gone;
    }
    sizes.retain(|(set, after)| *after != size(set));
    sizes
}
