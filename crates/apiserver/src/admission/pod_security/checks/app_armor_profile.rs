//! AppArmor: only the runtime's own profile or one from the node, by field or by the older annotation.

use super::{super::pod::PodView, Violation, plural, quoted, setters, sorted};
use api::object::Fields;
use serde_json::Value;

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let mut types = Vec::new();
    let pod_does = forbidden(pod.security_context()).inspect(|kind| types.push(*kind)).is_some();
    let bad = pod.bad_containers(|container| {
        forbidden(container.at("securityContext")).inspect(|kind| types.push(*kind)).is_some()
    });
    let mut values: Vec<String> = sorted(types).into_iter().map(str::to_owned).collect();
    let mut setters = setters(pod_does, &bad);
    let allowed = |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations = pod.annotations().filter(|(key, value)| key.starts_with(ANNOTATION) && !allowed(value));
    let mut annotations: Vec<String> = annotations.map(|(key, value)| format!("{key}={value:?}")).collect();
    if !annotations.is_empty() {
        annotations.sort_unstable();
        setters.push(plural(&annotations, "annotation", "annotations").to_owned());
        values.append(&mut annotations);
    }
    (!setters.is_empty()).then(|| Violation {
        reason: plural(&values, "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        detail: format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(&values)),
    })
}

fn forbidden(context: &Value) -> Option<&str> {
    let profile = context.at("appArmorProfile");
    let kind = profile.str_at("type");
    (profile.is_object() && !["RuntimeDefault", "Localhost"].contains(&kind)).then_some(kind)
}
