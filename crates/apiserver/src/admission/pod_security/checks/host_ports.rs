//! Ports of the node are not taken.

use super::{super::pod::PodView, Violation, containers, plural, sorted};
use api::object::Fields;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let mut ports = Vec::new();
    let bad = pod.bad_containers(|container| {
        let before = ports.len();
        let given = container.list_at("ports").iter().filter_map(|port| port.int_at("hostPort"));
        ports.extend(given.filter(|port| *port != 0).map(|port| port.to_string()));
        ports.len() > before
    });
    let ports = sorted(ports.iter().map(String::as_str).collect());
    (!bad.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            containers(&bad),
            plural(&bad, "uses", "use"),
            plural(&ports, "hostPort", "hostPorts"),
            ports.join(", ")
        ),
    })
}
