//! How many, and how fast: tables after upstream's.

use super::{
    count::{self, Basis, PodMetric, PodMetrics, Tolerances},
    pace::{Bounds, History},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, from_value, json};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// A pod that asks for a whole processor.
fn pod(name: &str, phase: &str, ready: &str) -> Pod {
    from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z", "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:10Z"}]},
    }))
    .unwrap()
}

fn basis(pods: &[Pod], current: i32) -> Basis<'_> {
    Basis {
        pods,
        current,
        tolerances: Tolerances { down: 0.1, up: 0.1 },
        initialization: SignedDuration::from_mins(5),
        readiness_delay: SignedDuration::from_secs(30),
        now: now(),
    }
}

fn metrics(values: &[i64]) -> PodMetrics {
    let metric = |milli: &i64| PodMetric { at: now(), window: SignedDuration::from_secs(60), milli: *milli };
    values.iter().enumerate().map(|(i, milli)| (format!("p{i}"), metric(milli))).collect()
}

fn running(count: usize) -> Vec<Pod> {
    (0..count).map(|i| pod(&format!("p{i}"), "Running", "True")).collect()
}

#[test]
fn utilization_decides_how_many() {
    for (used, pods, target, expected) in [
        (vec![300, 500, 700], running(3), 30, (5, 50)),
        (vec![100, 300, 500], running(3), 50, (2, 30)),
        (vec![1010, 1030, 1020], running(3), 100, (3, 102)),
        // One without a metric is taken to use nothing on the way up, and all it asks for on the way down.
        (vec![900, 900], running(3), 50, (4, 90)),
        (vec![100, 100], running(3), 50, (3, 10)),
        // Those that are not ready count as nothing on the way up.
        (vec![900, 900, 10], [running(2), vec![pod("p2", "Running", "False")]].concat(), 50, (4, 90)),
        (vec![900, 900], [running(2), vec![pod("p2", "Pending", "False")]].concat(), 50, (4, 90)),
        (vec![900, 900, 5], [running(2), vec![pod("p2", "Failed", "False")]].concat(), 50, (4, 90)),
    ] {
        let current = i32::try_from(pods.len()).unwrap();
        let found = count::by_utilization(basis(&pods, current), metrics(&used), "cpu", "", target).unwrap();
        assert_eq!((found.replicas, found.percent.unwrap()), expected, "{used:?} {target}");
    }
    let pods = running(1);
    assert_eq!(
        count::by_utilization(basis(&pods, 1), metrics(&[1]), "memory", "", 50),
        Err("missing request for memory in container c of Pod p0".to_owned())
    );
    assert_eq!(
        count::by_utilization(basis(&pods, 1), metrics(&[1]), "cpu", "other", 50),
        Err("container other not found in Pod p0".to_owned())
    );
    let pending = [pod("p0", "Pending", "False")];
    assert_eq!(
        count::by_utilization(basis(&pending, 1), metrics(&[1]), "cpu", "", 50),
        Err("did not receive metrics for targeted pods (pods might be unready)".to_owned())
    );
    assert_eq!(
        count::by_utilization(basis(&[], 1), metrics(&[1]), "cpu", "", 50),
        Err("no pods returned by selector while calculating replica count".to_owned())
    );
}

#[test]
fn averages_and_totals_decide_how_many() {
    let pods = running(3);
    let usage = |used: &[i64], target| count::by_usage(basis(&pods, 3), metrics(used), "", target).unwrap().replicas;
    assert_eq!(usage(&[20_000, 10_000, 30_000], 15_000), 4);
    assert_eq!(usage(&[10_000, 10_000, 10_000], 10_000), 3);
    assert_eq!(count::by_value(basis(&pods, 3), 20_000, 15_000).unwrap().replicas, 4);
    assert_eq!(count::by_value(basis(&pods, 3), 15_100, 15_000).unwrap().replicas, 3);
    assert_eq!(count::by_value(basis(&[], 0), 30_000, 15_000).unwrap().replicas, 2, "from nothing");
    let share = count::by_share(basis(&pods, 3), 9_000, 2_000, 3);
    assert_eq!((share.replicas, share.milli), (5, 3_000));
}

fn policies(list: Value, select: &str, window: i64) -> Value {
    json!({"selectPolicy": select, "policies": list, "stabilizationWindowSeconds": window})
}

#[test]
fn without_a_behavior_growth_is_at_most_double_and_shrinking_waits() {
    let window = SignedDuration::from_mins(5);
    let bounds = |current| Bounds { least: 2, most: 10, current };
    let pace = |history: &mut History, desired, current, now| {
        history.pace(desired, bounds(current), &Value::Null, window, now)
    };
    let mut history = History::default();
    history.begin(3, now());
    let up = pace(&mut history, 9, 3, now());
    assert_eq!((up.replicas, up.limited.1, up.able.0), (6, "ScaleUpLimit", "ReadyForNewScale"));
    let down = pace(&mut history, 1, 6, now() + SignedDuration::from_mins(1));
    assert_eq!((down.replicas, down.able.0), (9, "ScaleDownStabilized"), "a higher one is recent");
    let later = pace(&mut history, 1, 6, now() + SignedDuration::from_mins(20));
    assert_eq!((later.replicas, later.limited.1), (2, "TooFewReplicas"));
    let full = pace(&mut History::default(), 50, 9, now());
    assert_eq!((full.replicas, full.limited.1), (10, "TooManyReplicas"));
}

#[test]
fn policies_say_how_fast() {
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 60});
    let bounds = |current| Bounds { least: 1, most: 100, current };
    let behavior = |up: Value, down: Value| json!({"scaleUp": up, "scaleDown": down});
    let both = json!([policy("Pods", 4), policy("Percent", 50)]);
    for (select, desired, current, expected, why) in [
        ("Max", 90, 10, 15, "ScaleUpLimit"),
        ("Min", 90, 10, 14, "ScaleUpLimit"),
        ("Disabled", 90, 10, 10, "ScaleUpLimit"),
        ("Max", 12, 10, 12, "DesiredWithinRange"),
        ("Max", 1, 10, 5, "ScaleDownLimit"),
        ("Min", 1, 10, 6, "ScaleDownLimit"),
        ("Disabled", 1, 10, 10, "ScaleDownLimit"),
    ] {
        let rules = policies(both.clone(), select, 0);
        let found = History::default().pace(
            desired,
            bounds(current),
            &behavior(rules.clone(), rules),
            SignedDuration::ZERO,
            now(),
        );
        assert_eq!((found.replicas, found.limited.1), (expected, why), "{select} {desired}");
    }
    let mut history = History::default();
    history.note_change(10, 14, now());
    let rules = policies(json!([policy("Pods", 4)]), "Max", 0);
    let again = history.pace(90, bounds(14), &behavior(rules.clone(), rules.clone()), SignedDuration::ZERO, now());
    assert_eq!(again.replicas, 14, "four came within this minute");
    let later = now() + SignedDuration::from_secs(61);
    let again = history.pace(90, bounds(14), &behavior(rules.clone(), rules), SignedDuration::ZERO, later);
    assert_eq!(again.replicas, 18);
}

#[test]
fn windows_choose_among_recent_recommendations() {
    let wide = |window| policies(json!([{"type": "Percent", "value": 1000, "periodSeconds": 15}]), "Max", window);
    let behavior = json!({"scaleUp": wide(60), "scaleDown": wide(60)});
    let bounds = |current| Bounds { least: 1, most: 100, current };
    let at = |seconds| now() + SignedDuration::from_secs(seconds);
    let mut history = History::default();
    history.begin(5, at(0));
    let up = history.pace(9, bounds(5), &behavior, SignedDuration::ZERO, at(10));
    assert_eq!((up.replicas, up.able.0), (5, "ScaleUpStabilized"));
    let up = history.pace(8, bounds(5), &behavior, SignedDuration::ZERO, at(65));
    assert_eq!((up.replicas, up.able.0), (8, "ReadyForNewScale"), "the first one is old");
    let down = history.pace(2, bounds(8), &behavior, SignedDuration::ZERO, at(80));
    assert_eq!((down.replicas, down.able.0), (8, "ScaleDownStabilized"));
}
