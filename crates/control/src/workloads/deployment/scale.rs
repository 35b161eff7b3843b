//! A Deployment that is scaled in the middle of a rollout: every ReplicaSet gets its share.

use super::{
    revision::{self, MAXIMUM},
    strategy::{available, is_recreate, max_surge, size, wanted},
};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

/// The new sizes. A ReplicaSet that keeps its size is listed too when its annotations have to follow the Deployment.
pub(super) fn scale<'a>(
    deployment: &Deployment,
    new: Option<&'a ReplicaSet>,
    old: &[&'a ReplicaSet],
) -> Vec<(&'a ReplicaSet, i32)> {
    let target = wanted(deployment);
    let mut active: Vec<&ReplicaSet> = old.iter().copied().chain(new).filter(|set| size(set) > 0).collect();
    // Only one to scale: the active one, or the newest when all are empty.
    let only = match active.as_slice() {
        [] => new.or_else(|| old.last().copied()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(only) = only {
        return vec![(only, target)];
    }
    if new.is_some_and(|new| is_saturated(deployment, new)) {
        return old.iter().filter(|set| size(set) > 0).map(|set| (*set, 0)).collect();
    }
    if is_recreate(deployment) || active.is_empty() {
        return Vec::new();
    }
    let allowed = if target > 0 { target + max_surge(deployment) } else { 0 };
    let missing = allowed - active.iter().map(|set| size(set)).sum::<i32>();
    // The largest take the remainder; among equals the newest grow and the oldest shrink.
    active.sort_by(|one, other| {
        let by_age = if missing > 0 { revision::older(other, one) } else { revision::older(one, other) };
        size(other).cmp(&size(one)).then(by_age)
    });
    let mut added = 0;
    let mut sizes: Vec<(&ReplicaSet, i32)> = Vec::new();
    for set in active {
        let share = share(deployment, set, missing, added);
        added += share;
        sizes.push((set, size(set) + share));
    }
    if let Some(first) = sizes.first_mut() {
        first.1 = (first.1 + missing - added).max(0);
    }
    sizes
}

/// What one ReplicaSet gets of the `missing` (negative: too many) pods, of which `added` have been given away.
fn share(deployment: &Deployment, set: &ReplicaSet, missing: i32, added: i32) -> i32 {
    let left = missing - added;
    if left == 0 {
        return 0;
    }
    let fraction = fraction(deployment, set);
    if missing > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    let target = wanted(deployment);
    if target == 0 {
        return -size(set);
    }
    let seen = deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
    let before = revision::number(set, MAXIMUM).filter(|before| *before > 0).unwrap_or(seen);
    if before == 0 {
        return 0;
    }
    let most = f64::from(target + max_surge(deployment));
    let share = (f64::from(size(set)) * most / f64::from(before)).round();
    share as i32 - size(set)
}

fn is_saturated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let target = wanted(deployment);
    size(set) == target && available(set) == target && revision::number(set, revision::DESIRED) == Some(target)
}
