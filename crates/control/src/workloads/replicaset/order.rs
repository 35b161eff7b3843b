//! Which pod goes first when there are too many.

use super::super::pods;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use std::cmp::Ordering;

/// Users say here which pods are cheap to lose.
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Orders the more expendable pod first: unassigned, then not running, not ready, cheap, on a crowded node, ready for a
/// shorter time (compared by magnitude, so that among pods of about one age chance decides), restarting often, young.
pub(super) fn expendable(one: (&Pod, usize), other: (&Pod, usize), now: Timestamp) -> Ordering {
    let ((a, crowd_a), (b, crowd_b)) = (one, other);
    let unassigned = |pod: &Pod| pods::node_name(pod).is_empty();
    (unassigned(b).cmp(&unassigned(a)))
        .then_with(|| stage(a).cmp(&stage(b)))
        .then_with(|| pods::is_ready(a).cmp(&pods::is_ready(b)))
        .then_with(|| cost(a).cmp(&cost(b)))
        .then_with(|| crowd_b.cmp(&crowd_a))
        .then_with(|| younger(pods::ready_since(a), pods::ready_since(b), now))
        .then_with(|| pods::restarts(b).cmp(&pods::restarts(a)))
        .then_with(|| younger(created(a), created(b), now))
        .then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
}

fn stage(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    }
}

fn cost(pod: &Pod) -> i32 {
    let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(COST));
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn younger(one: Option<Timestamp>, other: Option<Timestamp>, now: Timestamp) -> Ordering {
    let magnitude = |time: Timestamp| match now.duration_since(time).as_nanos() {
        age if age <= 0 => -1,
        age => i64::from(age.ilog2()),
    };
    match (one, other) {
        // One that nobody has dated is taken for new.
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(one), Some(other)) => magnitude(one).cmp(&magnitude(other)),
    }
}
