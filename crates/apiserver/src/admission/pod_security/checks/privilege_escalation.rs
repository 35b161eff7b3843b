//! No process gets more rights than its parent, such as by a set-user-id file.

use super::{super::pod::PodView, Violation, containers};
use api::object::Fields;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let bad = pod.bad_containers(|container| *container.at("securityContext.allowPrivilegeEscalation") != false);
    (!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&bad)),
    })
}

/// Windows does not know the setting; validation refuses it there.
pub(super) fn unless_windows(pod: PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
