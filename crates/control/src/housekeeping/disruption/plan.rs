//! How many pods a disruption budget can spare. Pure.

use crate::workloads::{Round, pods, scaled};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};
use std::collections::BTreeMap;

/// An eviction that has not become a deletion within this time is forgotten.
const PATIENCE: SignedDuration = SignedDuration::from_secs(120);

/// The status. `expected` is how many pods their owners want altogether.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    expected: i32,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let spec = budget.spec.clone().unwrap_or_default();
    let old = budget.status.clone().unwrap_or_default();
    let (expected, desired) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => (expected, (expected - scaled(Some(most), expected, Round::Up)).max(0)),
        (None, Some(IntOrString::Int(fewest))) => (count(pods.len()), *fewest),
        (None, Some(fewest)) => (expected, scaled(Some(fewest), expected, Round::Up)),
        (None, None) => (count(pods.len()), 0),
    };
    let disrupted = disrupted(&old, pods, now);
    let healthy = pods.iter().filter(|pod| {
        let leaves = pod.metadata.name.as_ref().is_some_and(|name| disrupted.contains_key(name));
        pod.metadata.deletion_timestamp.is_none() && !leaves && pods::is_ready(pod)
    });
    let healthy = count(healthy.count());
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    PodDisruptionBudgetStatus {
        observed_generation: budget.metadata.generation,
        expected_pods: Some(expected),
        desired_healthy: Some(desired),
        current_healthy: Some(healthy),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        conditions: Some(conditions(budget, &old, allowed, now)),
    }
}

/// When an eviction that is under way will be forgotten.
pub(super) fn look_again_in(status: &PodDisruptionBudgetStatus, now: Timestamp) -> Option<SignedDuration> {
    let times = status.disrupted_pods.iter().flat_map(BTreeMap::values);
    times.map(|time| PATIENCE - now.duration_since(time.0) + SignedDuration::from_secs(1)).min()
}

/// Evictions that have been granted and are not deletions yet.
fn disrupted(old: &PodDisruptionBudgetStatus, pods: &[&Pod], now: Timestamp) -> BTreeMap<String, Time> {
    let stays = |name: &String| {
        pods.iter().any(|pod| pod.metadata.name.as_ref() == Some(name) && pod.metadata.deletion_timestamp.is_none())
    };
    let recent = |time: &Time| now.duration_since(time.0) <= PATIENCE;
    let entries = old.disrupted_pods.iter().flatten();
    entries
        .filter(|(name, time)| stays(name) && recent(time))
        .map(|(name, time)| (name.clone(), time.clone()))
        .collect()
}

fn conditions(
    budget: &PodDisruptionBudget,
    old: &PodDisruptionBudgetStatus,
    allowed: i32,
    now: Timestamp,
) -> Vec<Condition> {
    const KIND: &str = "DisruptionAllowed";
    let (status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let mut conditions = old.conditions.clone().unwrap_or_default();
    let known = conditions.iter().find(|one| one.type_ == KIND && one.status == status);
    let since = known.map_or(Time(now), |known| known.last_transition_time.clone());
    conditions.retain(|one| one.type_ != KIND);
    conditions.push(Condition {
        type_: KIND.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: budget.metadata.generation,
        last_transition_time: since,
    });
    conditions
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    fn pods(ready: usize, broken: usize) -> Vec<Pod> {
        let pod = |index: usize| {
            let status = if index < ready { "True" } else { "False" };
            from_value(json!({"metadata": {"name": format!("p{index}")}, "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": status}]}}))
            .unwrap()
        };
        (0..ready + broken).map(pod).collect()
    }

    fn budget(spec: Value) -> PodDisruptionBudget {
        from_value(json!({"metadata": {"name": "b", "generation": 1}, "spec": spec})).unwrap()
    }

    #[test]
    fn what_can_be_spared() {
        for (spec, ready, broken, wanted, expected) in [
            // expected pods, desired, healthy, allowed
            (json!({"minAvailable": 2}), 3, 0, 3, [3, 2, 3, 1]),
            (json!({"minAvailable": 2}), 2, 1, 3, [3, 2, 2, 0]),
            (json!({"minAvailable": "50%"}), 5, 0, 5, [5, 3, 5, 2]),
            (json!({"minAvailable": "100%"}), 5, 0, 5, [5, 5, 5, 0]),
            (json!({"maxUnavailable": 1}), 5, 0, 5, [5, 4, 5, 1]),
            (json!({"maxUnavailable": 1}), 4, 0, 5, [5, 4, 4, 0]),
            (json!({"maxUnavailable": "30%"}), 5, 0, 5, [5, 3, 5, 2]),
            (json!({"maxUnavailable": 7}), 5, 0, 5, [5, 0, 5, 5]),
            (json!({"minAvailable": 1}), 0, 0, 0, [0, 1, 0, 0]),
        ] {
            let pods = pods(ready, broken);
            let pods: Vec<&Pod> = pods.iter().collect();
            let status = status(&budget(spec.clone()), &pods, wanted, now());
            let found =
                [status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed];
            assert_eq!(found.map(Option::unwrap), expected, "{spec}");
        }
    }

    #[test]
    fn granted_evictions_count_until_they_happen_or_are_forgotten() {
        let mut budget = budget(json!({"minAvailable": 1}));
        budget.status = from_value(json!({"disruptedPods": {"p0": "2026-01-01T00:09:00Z", "p1": "2026-01-01T00:07:00Z", "gone": "2026-01-01T00:09:00Z"}})).unwrap();
        let pods = pods(3, 0);
        let pods: Vec<&Pod> = pods.iter().collect();
        let status = status(&budget, &pods, 3, now());
        let left: Vec<&String> = status.disrupted_pods.iter().flat_map(BTreeMap::keys).collect();
        assert_eq!(left, ["p0"]);
        assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(2), Some(1)));
        assert_eq!(look_again_in(&status, now()), Some(SignedDuration::from_secs(61)));
    }
}
