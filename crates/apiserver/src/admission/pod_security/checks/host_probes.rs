//! Probes and lifecycle hooks ask the pod itself: with a host of their own they would make the kubelet ask anyone.

use super::{super::pod::PodView, Violation, containers, plural, quoted, sorted};
use api::object::Fields;
use serde_json::Value;

const HANDLERS: [&str; 5] =
    ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop"];

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let mut hosts = Vec::new();
    let bad = sorted(pod.bad_containers(|container| {
        let before = hosts.len();
        hosts.extend(HANDLERS.into_iter().flat_map(|handler| named_hosts(container.at(handler))));
        hosts.len() > before
    }));
    let hosts = sorted(hosts);
    (!bad.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            containers(&bad),
            plural(&bad, "uses", "use"),
            plural(&hosts, "probe or lifecycle host", "probe or lifecycle hosts"),
            quoted(&hosts)
        ),
    })
}

fn named_hosts(handler: &Value) -> impl Iterator<Item = &str> {
    ["httpGet.host", "tcpSocket.host"].into_iter().map(|path| handler.str_at(path)).filter(|host| !host.is_empty())
}
