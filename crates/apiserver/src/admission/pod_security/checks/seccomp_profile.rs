//! Seccomp: baseline refuses to go without a filter, restricted wants one named. Before 1.19 annotations said it.

use super::{super::pod::PodView, Violation, containers, plural, quoted, setters, sorted};
use api::object::Fields;
use serde_json::Value;

const POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";
const REASON: &str = "seccompProfile";

pub(super) fn annotations(pod: PodView<'_>) -> Option<Violation> {
    let allowed =
        |value: &str| ["runtime/default", "docker/default"].contains(&value) || value.starts_with("localhost/");
    let of_containers = pod.containers().map(|container| format!("{CONTAINER_ANNOTATION}{}", container.str_at("name")));
    let keys = std::iter::once(POD_ANNOTATION.to_owned()).chain(of_containers);
    let given = keys.filter_map(|key| Some((pod.annotation(&key)?, key))).filter(|(value, _)| !allowed(value));
    let forbidden: Vec<String> = given.map(|(value, key)| format!("{key}={value:?}")).collect();
    let forbidden = sorted(forbidden.iter().map(String::as_str).collect());
    (!forbidden.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!("forbidden {} {}", plural(&forbidden, "annotation", "annotations"), forbidden.join(", ")),
    })
}

pub(super) fn baseline(pod: PodView<'_>) -> Option<Violation> {
    let mut types = Vec::new();
    let pod_does = forbidden(pod.security_context()).inspect(|kind| types.push(*kind)).is_some();
    let bad = pod.bad_containers(|container| {
        forbidden(container.at("securityContext")).inspect(|kind| types.push(*kind)).is_some()
    });
    let setters = setters(pod_does, &bad);
    (!setters.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            setters.join(" and "),
            quoted(&sorted(types))
        ),
    })
}

pub(super) fn restricted(pod: PodView<'_>) -> Option<Violation> {
    if let Some(violation) = baseline(pod) {
        return Some(violation);
    }
    let names_one = |context: &Value| context.at("seccompProfile").is_object();
    if names_one(pod.security_context()) {
        return None;
    }
    let silent = pod.bad_containers(|container| !names_one(container.at("securityContext")));
    (!silent.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&silent)
        ),
    })
}

/// Windows has no seccomp; validation refuses it there.
pub(super) fn restricted_unless_windows(pod: PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { restricted(pod) }
}

fn forbidden(context: &Value) -> Option<&str> {
    let profile = context.at("seccompProfile");
    let kind = profile.str_at("type");
    (profile.is_object() && !["RuntimeDefault", "Localhost"].contains(&kind)).then_some(kind)
}
