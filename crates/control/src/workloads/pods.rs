//! What a pod's status says about it: active, ready, available. Used by all workloads, disruption budgets and housekeeping.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// The phase, or `Pending` while nobody has written one.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether all containers have ended for good.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether it counts as a replica: it has not ended and nobody has asked it to.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether it has been asked to end and has not ended yet.
pub fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_some()
}

/// The node it is bound to; empty while there is none.
pub fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// A condition by its type.
pub fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition `Ready` is true.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// Since when it has been ready.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// How long until a ready pod counts as available; nothing for a pod that is not ready.
pub fn available_in(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<SignedDuration> {
    if !is_ready(pod) {
        return None;
    }
    if min_ready_seconds <= 0 {
        return Some(SignedDuration::ZERO);
    }
    let due = ready_since(pod)?.saturating_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()?;
    Some(due.duration_since(now).max(SignedDuration::ZERO))
}

/// Whether it has been ready for `min_ready_seconds`.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_in(pod, min_ready_seconds, now) == Some(SignedDuration::ZERO)
}

/// How often the container that restarts most has been restarted: sidecars, then all others.
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_ready_pod_becomes_available_after_its_time() {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
            .unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_active(&pod) && is_ready(&pod));
        assert!(is_available(&pod, 0, at("2026-01-01T00:00:00Z")));
        assert!(!is_available(&pod, 10, at("2026-01-01T00:00:09Z")));
        assert_eq!(available_in(&pod, 10, at("2026-01-01T00:00:04Z")), Some(SignedDuration::from_secs(6)));
        assert!(is_available(&pod, 10, at("2026-01-01T00:00:10Z")));
    }

    #[test]
    fn ended_and_ending_pods_are_no_replicas() {
        for (phase, deleted, active, terminating) in [
            ("Running", false, true, false),
            ("Pending", false, true, false),
            ("Running", true, false, true),
            ("Succeeded", false, false, false),
            ("Failed", true, false, false),
        ] {
            let mut pod: Pod = serde_json::from_value(json!({"status": {"phase": phase}})).unwrap();
            pod.metadata.deletion_timestamp =
                deleted.then_some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
            assert_eq!((is_active(&pod), is_terminating(&pod)), (active, terminating), "{phase} {deleted}");
        }
    }
}
