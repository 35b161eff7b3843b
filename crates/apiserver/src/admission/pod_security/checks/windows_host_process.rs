//! Windows containers are not processes of the node.

use super::{super::pod::PodView, Violation, setters};
use api::object::Fields;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let bad = pod.bad_containers(|container| container.is_true("securityContext.windowsOptions.hostProcess"));
    let setters = setters(pod.security_context().is_true("windowsOptions.hostProcess"), &bad);
    (!setters.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters.join(" and ")),
    })
}
