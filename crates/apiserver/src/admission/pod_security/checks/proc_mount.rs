//! /proc stays masked.

use super::{super::pod::PodView, Violation, containers, quoted, sorted};
use api::object::Fields;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let mut types = Vec::new();
    let bad = pod.bad_containers(|container| {
        let given = container.at("securityContext.procMount").as_str();
        given.filter(|kind| *kind != "Default").inspect(|kind| types.push(*kind)).is_some()
    });
    (!bad.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!("{} must not set securityContext.procMount to {}", containers(&bad), quoted(&sorted(types))),
    })
}

/// In a pod with its own users an unmasked /proc shows nothing of the node's root.
pub(super) fn unless_own_users(pod: PodView<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { check(pod) }
}
