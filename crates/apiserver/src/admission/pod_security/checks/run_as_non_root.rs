//! Containers must be known not to run as root: by a promise of their own or of the pod.

use super::{super::pod::PodView, Violation, containers, setters};
use api::object::Fields;
use serde_json::Value;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let given = |context: &Value| context.at("runAsNonRoot").as_bool();
    let of_pod = given(pod.security_context());
    let refusing = pod.bad_containers(|container| given(container.at("securityContext")) == Some(false));
    let setters = setters(of_pod == Some(false), &refusing);
    let detail = if setters.is_empty() {
        let silent = pod.bad_containers(|container| given(container.at("securityContext")).is_none());
        if of_pod == Some(true) || silent.is_empty() {
            return None;
        }
        format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent))
    } else {
        format!("{} must not set securityContext.runAsNonRoot=false", setters.join(" and "))
    };
    Some(Violation { reason: "runAsNonRoot != true", detail })
}

/// Root of a pod with its own users is nobody on the node.
pub(super) fn unless_own_users(pod: PodView<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { check(pod) }
}
