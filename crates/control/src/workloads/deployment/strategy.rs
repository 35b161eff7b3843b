//! What a Deployment's strategy allows: how many pods too many, how many too few.

use super::super::{Round, scaled};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

/// `spec.replicas`, which the API sets to one when nobody says.
pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// `spec.replicas` of a ReplicaSet.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// Available pods of a ReplicaSet.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default()
}

/// Whether old pods go before new ones come.
pub(super) fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

/// How many pods more than wanted there may be.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    limits(deployment).0
}

/// How many pods fewer than wanted there may be.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    let wanted = wanted(deployment);
    limits(deployment).1.min(wanted)
}

/// Both limits. Both zero would never get anywhere, so one pod may then be missing.
fn limits(deployment: &Deployment) -> (i32, i32) {
    if is_recreate(deployment) {
        return (0, 0);
    }
    let strategy = deployment.spec.strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default();
    let surge = scaled(rolling.max_surge.as_ref(), wanted(deployment), Round::Up);
    let unavailable = scaled(rolling.max_unavailable.as_ref(), wanted(deployment), Round::Down);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}
