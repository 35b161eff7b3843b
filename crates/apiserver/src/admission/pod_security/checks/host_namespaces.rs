//! The node's network, processes and IPC are not shared.

use super::{super::pod::PodView, Violation};
use api::object::Fields;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec().is_true(field));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") })
}
