//! Nobody asks for user 0.

use super::{super::pod::PodView, Violation, setters};
use api::object::Fields;
use serde_json::Value;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let is_root = |context: &Value| context.int_at("runAsUser") == Some(0);
    let bad = pod.bad_containers(|container| is_root(container.at("securityContext")));
    let setters = setters(is_root(pod.security_context()), &bad);
    (!setters.is_empty()).then(|| Violation {
        reason: "runAsUser=0",
        detail: format!("{} must not set runAsUser=0", setters.join(" and ")),
    })
}

/// Root of a pod with its own users is nobody on the node.
pub(super) fn unless_own_users(pod: PodView<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { check(pod) }
}
