//! Capabilities: baseline lets containers add what runtimes give anyway; restricted has them drop all and add one.

use super::{super::pod::PodView, Violation, containers, quoted, sorted};
use api::object::Fields;
use serde_json::Value;

/// What container runtimes give by default, without NET_RAW.
const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn baseline(pod: PodView<'_>) -> Option<Violation> {
    let detail = added(pod, &DEFAULT)?;
    Some(Violation { reason: "non-default capabilities", detail })
}

pub(super) fn restricted(pod: PodView<'_>) -> Option<Violation> {
    let keeping = pod.bad_containers(|container| !listed(container, "drop").any(|name| name == "ALL"));
    let keeping = (!keeping.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    let details: Vec<String> = keeping.into_iter().chain(added(pod, &["NET_BIND_SERVICE"])).collect();
    (!details.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

/// Windows has no capabilities; validation refuses them there.
pub(super) fn restricted_unless_windows(pod: PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { restricted(pod) }
}

fn added(pod: PodView<'_>, allowed: &[&str]) -> Option<String> {
    let mut names = Vec::new();
    let bad = pod.bad_containers(|container| {
        let before = names.len();
        names.extend(listed(container, "add").filter(|name| !allowed.contains(name)));
        names.len() > before
    });
    (!bad.is_empty()).then(|| {
        format!("{} must not include {} in securityContext.capabilities.add", containers(&bad), quoted(&sorted(names)))
    })
}

fn listed<'a>(container: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    container.at("securityContext.capabilities").list_at(list).iter().filter_map(Value::as_str)
}
