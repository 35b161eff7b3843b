//! No container is privileged.

use super::{super::pod::PodView, Violation, containers};
use api::object::Fields;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let bad = pod.bad_containers(|container| container.is_true("securityContext.privileged"));
    (!bad.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", containers(&bad)),
    })
}
