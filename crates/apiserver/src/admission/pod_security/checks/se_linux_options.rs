//! SELinux: types made for containers only, no user and no role.

use super::{super::pod::PodView, Violation, plural, quoted, setters, sorted};
use api::object::Fields;
use serde_json::Value;

const TYPES_1_0: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];
const TYPES_1_31: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

pub(super) fn v1_0(pod: PodView<'_>) -> Option<Violation> {
    check(pod, &TYPES_1_0)
}

pub(super) fn v1_31(pod: PodView<'_>) -> Option<Violation> {
    check(pod, &TYPES_1_31)
}

fn check(pod: PodView<'_>, allowed: &[&str]) -> Option<Violation> {
    let (mut types, mut user, mut role) = (Vec::new(), false, false);
    let mut is_bad = |context: &'_ Value| {
        let options = context.at("seLinuxOptions");
        let kind = options.str_at("type");
        let bad_type = !allowed.contains(&kind);
        if bad_type {
            types.push(kind.to_owned());
        }
        let (has_user, has_role) = (!options.str_at("user").is_empty(), !options.str_at("role").is_empty());
        user |= has_user;
        role |= has_role;
        bad_type || has_user || has_role
    };
    let pod_does = is_bad(pod.security_context());
    let bad = pod.bad_containers(|container| is_bad(container.at("securityContext")));
    let setters = setters(pod_does, &bad);
    if setters.is_empty() {
        return None;
    }
    let types = sorted(types.iter().map(String::as_str).collect());
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural(&types, "type", "types"), quoted(&types)));
    }
    data.extend(user.then(|| "user may not be set".to_owned()));
    data.extend(role.then(|| "role may not be set".to_owned()));
    let (setters, data) = (setters.join(" and "), data.join("; "));
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {data}");
    Some(Violation { reason: "seLinuxOptions", detail })
}
