use super::{
    plan::{Plan, View, plan},
    status::status,
};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use serde_json::{Value, from_value, json};
use std::collections::HashMap;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A running, ready pod on a node, with differences.
fn pod(name: &str, differences: &Value) -> Pod {
    let mut value = json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    merge(&mut value, differences);
    from_value(value).unwrap()
}

fn merge(value: &mut Value, differences: &Value) {
    match (value, differences) {
        (Value::Object(fields), Value::Object(more)) => {
            for (name, field) in more {
                merge(fields.entry(name.as_str()).or_insert(Value::Null), field);
            }
        }
        (value, differences) => *value = differences.clone(),
    }
}

fn deleted(wanted: usize, pods: &[Pod], crowd: &[(&str, usize)]) -> Vec<String> {
    let active: Vec<&Pod> = pods.iter().collect();
    let crowd: HashMap<String, usize> = crowd.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect();
    match plan(&View { wanted, active: &active, crowd: &crowd, now: now() }) {
        Plan::Delete(pods) => pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_more_expendable_pod_goes_first() {
    let ready = |status: &str, since: &str| json!({"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]});
    let restarts = |count: i32| json!({"status": {"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": count}]}});
    for (why, victim, survivor) in [
        ("unassigned", json!({"spec": {"nodeName": ""}}), json!({})),
        ("pending", json!({"status": {"phase": "Pending"}}), json!({"status": {"phase": "Unknown"}})),
        ("unknown", json!({"status": {"phase": "Unknown"}}), json!({})),
        ("not ready", json!({"status": ready("False", "2026-01-01T00:00:00Z")}), json!({})),
        (
            "cheap",
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}),
            json!({}),
        ),
        ("crowded node", json!({"spec": {"nodeName": "n2"}}), json!({})),
        ("ready for a short time", json!({"status": ready("True", "2026-01-01T11:59:00Z")}), json!({})),
        ("restarting", restarts(7), restarts(2)),
        ("young", json!({"metadata": {"creationTimestamp": "2026-01-01T11:59:00Z"}}), json!({})),
        (
            "about the same age: the uid",
            json!({"metadata": {"uid": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
            json!({"metadata": {"uid": "b", "creationTimestamp": "2026-01-01T00:01:00Z"}}),
        ),
    ] {
        for pods in
            [[pod("victim", &victim), pod("survivor", &survivor)], [pod("survivor", &survivor), pod("victim", &victim)]]
        {
            let crowd = [("n1", 1), ("n2", 3)];
            assert_eq!(deleted(1, &pods, &crowd), ["victim"], "{why}");
        }
    }
}

#[test]
fn as_many_as_wanted() {
    let pods = [pod("a", &json!({})), pod("b", &json!({}))];
    let active: Vec<&Pod> = pods.iter().collect();
    let crowd = HashMap::new();
    for (wanted, expected) in [
        (2, Plan::Nothing),
        (5, Plan::Create(3)),
        (1, Plan::Delete(vec![&pods[0]])),
        (0, Plan::Delete(vec![&pods[0], &pods[1]])),
        (2000, Plan::Create(500)),
    ] {
        let view = View { wanted, active: &active, crowd: &crowd, now: now() };
        assert_eq!(plan(&view), expected, "{wanted} wanted");
    }
}

#[test]
fn the_status_counts_what_is_there() {
    let set: ReplicaSet = from_value(json!({
        "metadata": {"generation": 3},
        "spec": {"replicas": 4, "minReadySeconds": 60, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}}},
    }))
    .unwrap();
    let pods = [
        pod("full", &json!({"metadata": {"labels": {"tier": "front"}}})),
        pod(
            "fresh",
            &json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T11:59:30Z"}]}}),
        ),
        pod("starting", &json!({"status": {"conditions": []}})),
        pod("ending", &json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:30Z"}})),
        pod("ended", &json!({"status": {"phase": "Failed"}})),
    ];
    let all: Vec<&Pod> = pods.iter().collect();
    let status = status(&set, &all, None, now());
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({"replicas": 3, "fullyLabeledReplicas": 1, "readyReplicas": 2, "availableReplicas": 1,
            "terminatingReplicas": 1, "observedGeneration": 3}),
    );
}

#[test]
fn a_failure_is_a_condition_until_it_is_over() {
    let mut set: ReplicaSet = from_value(json!({"spec": {"replicas": 1, "selector": {}}})).unwrap();
    let failed = status(&set, &[], Some("quota exceeded"), now());
    let condition = failed.conditions.clone().unwrap().remove(0);
    assert_eq!(
        (condition.type_.as_deref(), condition.reason.as_deref()),
        (Some("ReplicaFailure"), Some("FailedCreate"))
    );
    set.status = Some(failed.clone());
    let later = "2026-01-01T13:00:00Z".parse().unwrap();
    assert_eq!(status(&set, &[], Some("quota still exceeded"), later), failed);
    assert_eq!(status(&set, &[], None, later).conditions, None);
}
