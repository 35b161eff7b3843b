//! Autoscalers: defaults, the two versions of one object, mistakes, rows.

use super::*;

fn autoscaler(spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

#[test]
fn what_is_left_out_is_filled_in() {
    let mut object = autoscaler(&json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}));
    Autoscaler.default(&mut object);
    assert_eq!(object["spec"]["minReplicas"], 1);
    assert_eq!(object["spec"]["metrics"], json!([cpu(80)]));
    assert_eq!(
        object["spec"]["behavior"],
        json!({
            "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]},
            "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 15}]},
        })
    );
}

#[test]
fn what_v1_has_no_field_for_survives_a_round_trip() {
    let metrics = json!([
        {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
        {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"},
            "target": {"type": "Value", "value": "3"}}},
        {"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "7"}}},
        {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 50}}},
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
    ]);
    let mut object = autoscaler(&json!({"metrics": metrics, "behavior": {"scaleUp": {"selectPolicy": "Min"}}}));
    Autoscaler.default(&mut object);
    object["status"] = json!({"currentReplicas": 2, "desiredReplicas": 3,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 66, "averageValue": "66m"}}}],
        "conditions": [{"type": "AbleToScale", "status": "True"}]});
    let mut shown = object.clone();
    AutoscalerV1.show_stored(&mut shown);
    assert_eq!(shown["apiVersion"], "autoscaling/v1");
    assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(
        shown["status"],
        json!({"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 66})
    );
    let annotation = |name: &str| -> Value {
        serde_json::from_str(shown["metadata"]["annotations"][name].as_str().unwrap()).unwrap()
    };
    assert_eq!(
        annotation("autoscaling.alpha.kubernetes.io/metrics")[0],
        json!({"type": "Pods", "pods": {"metricName": "rps", "targetAverageValue": "10"}})
    );
    assert_eq!(annotation("autoscaling.alpha.kubernetes.io/behavior")["ScaleUp"]["SelectPolicy"], "Min");
    assert_eq!(v1::stored(&shown), object);
}

#[test]
fn a_plain_v1_autoscaler_has_one_metric() {
    let mut plain = autoscaler(&json!({}));
    plain["apiVersion"] = "autoscaling/v1".into();
    AutoscalerV1.default(&mut plain);
    assert_eq!(v1::stored(&plain)["spec"]["metrics"], json!([cpu(80)]));
    plain["spec"]["targetCPUUtilizationPercentage"] = 55.into();
    assert_eq!(v1::stored(&plain)["spec"]["metrics"], json!([cpu(55)]));
}

#[test]
fn mistakes_are_told_together() {
    for (spec, expected) in [
        (json!({}), vec![]),
        (json!({"maxReplicas": 0, "minReplicas": -1}), vec!["spec.minReplicas", "spec.maxReplicas"]),
        (json!({"minReplicas": 6}), vec!["spec.maxReplicas"]),
        (json!({"minReplicas": 0}), vec!["spec.metrics"]),
        (
            json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "", "name": "a/b"}}),
            vec!["spec.scaleTargetRef.kind", "spec.scaleTargetRef.name", "spec.scaleTargetRef.apiVersion"],
        ),
        (json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "a"}}), vec![]),
        (
            json!({"metrics": [{"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]}),
            vec!["spec.metrics[0].resource.target.averageUtilization", "spec.metrics[0].pods"],
        ),
        (
            json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 0, "averageValue": "0"}}}]}),
            vec![
                "spec.metrics[0].resource.target.averageValue",
                "spec.metrics[0].resource.target.averageUtilization",
                "spec.metrics[0].resource.target.averageValue",
            ],
        ),
        (
            json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "selectPolicy": "x", "policies": [
            {"type": "Pods", "value": 0, "periodSeconds": 1801}]}}}),
            vec![
                "spec.behavior.scaleUp.stabilizationWindowSeconds",
                "spec.behavior.scaleUp.selectPolicy",
                "spec.behavior.scaleUp.policies[0].value",
                "spec.behavior.scaleUp.policies[0].periodSeconds",
            ],
        ),
    ] {
        let mut object = autoscaler(&spec);
        Autoscaler.default(&mut object);
        let found: Vec<String> = Autoscaler.validate(&object).iter().map(|error| error.field.to_string()).collect();
        assert_eq!(found, expected, "{spec}");
    }
}

#[test]
fn a_row_shows_what_is_measured() {
    let mut object = autoscaler(&json!({"metrics": [cpu(80), {"type": "Pods", "pods": {"metric": {"name": "rps"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}, cpu(1)]}));
    object["status"] = json!({"currentReplicas": 2, "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 12, "averageValue": "12m"}}}]});
    let cells = Autoscaler.cells(&object, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(
        cells[..6],
        [
            json!("web"),
            json!("Deployment/web"),
            json!("cpu: 12%/80%, <unknown>/10 + 1 more..."),
            json!("<unset>"),
            json!(5),
            json!(2)
        ]
    );
}
