//! autoscaling/v1 in the words of v2 and back.
//!
//! v1 knows one metric, the utilization of cpu. The others, what was measured, conditions and behavior stand in annotations, so
//! that a client of v1 that writes back what it read changes nothing.

use super::{CPU_UTILIZATION, cpu};
use crate::object::Fields;
use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const DOWN_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-down-tolerance";
const UP_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-up-tolerance";

/// Annotations that stand for parts of the spec.
pub(super) const OF_SPEC: [&str; 4] = [METRICS, BEHAVIOR, DOWN_TOLERANCE, UP_TOLERANCE];
/// Annotations that stand for parts of the status.
pub(super) const OF_STATUS: [&str; 2] = [CURRENT_METRICS, CONDITIONS];

/// The object in the words of v2.
pub(super) fn stored(autoscaler: &Value) -> Value {
    let mut stored = autoscaler.clone();
    stored.set("apiVersion", "autoscaling/v2");
    let read = |name: &str| -> Option<Value> {
        serde_json::from_str(autoscaler.at("metadata.annotations").get(name)?.as_str()?).ok()
    };
    let list = |name: &str, convert: fn(&Value) -> Value| -> Option<Vec<Value>> {
        Some(read(name)?.as_array()?.iter().map(convert).collect())
    };
    let mut metrics = list(METRICS, spec_from_v1).unwrap_or_default();
    if let Some(percent) = stored.remove("spec.targetCPUUtilizationPercentage").and_then(|percent| percent.as_i64()) {
        metrics.push(cpu(percent));
    }
    if metrics.is_empty() {
        metrics.push(cpu(CPU_UTILIZATION));
    }
    stored.set("spec.metrics", metrics);
    if let Some(behavior) = read(BEHAVIOR).map(|behavior| renamed(&behavior, first_lower))
        && behavior.as_object().is_some_and(|behavior| !behavior.is_empty())
    {
        stored.set("spec.behavior", behavior);
    }
    let utilization = stored.remove("status.currentCPUUtilizationPercentage").and_then(|percent| percent.as_i64());
    let measured = list(CURRENT_METRICS, status_from_v1).or_else(|| {
        let current = json!({"averageUtilization": utilization?});
        Some(vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})])
    });
    if stored.at("status").is_object() {
        stored.set("status.currentMetrics", measured.map_or(Value::Null, Value::Array));
        if let Some(conditions) = read(CONDITIONS) {
            stored.set("status.conditions", conditions);
        }
    }
    drop_annotations(&mut stored);
    stored
}

/// A stored object in the words of v1.
pub(super) fn shown(autoscaler: &Value) -> Value {
    let mut shown = autoscaler.clone();
    shown.set("apiVersion", "autoscaling/v1");
    drop_annotations(&mut shown);
    let is_cpu = |metric: &&Value| metric.str_at("type") == "Resource" && metric.str_at("resource.name") == "cpu";
    let metrics = autoscaler.list_at("spec.metrics");
    let utilization = |metric: &&Value| is_cpu(metric) && !metric.at("resource.target.averageUtilization").is_null();
    if let Some(metric) = metrics.iter().find(utilization) {
        let percent = metric.at("resource.target.averageUtilization").clone();
        shown.set("spec.targetCPUUtilizationPercentage", percent);
    }
    let others: Vec<Value> = metrics.iter().filter(|metric| !utilization(metric)).map(spec_to_v1).collect();
    annotate(&mut shown, METRICS, &others);
    shown.remove("spec.metrics");
    if let Some(behavior) = shown.remove("spec.behavior") {
        annotate_text(&mut shown, BEHAVIOR, internal_behavior(&behavior).to_string());
    }
    if !autoscaler.at("status").is_object() {
        return shown;
    }
    shown.set_default("status.currentReplicas", 0);
    let measured = autoscaler.list_at("status.currentMetrics");
    let percent = measured.iter().rfind(is_cpu).map(|metric| metric.at("resource.current.averageUtilization").clone());
    if let Some(percent) = percent.filter(|percent| !percent.is_null()) {
        shown.set("status.currentCPUUtilizationPercentage", percent);
    }
    annotate(&mut shown, CURRENT_METRICS, &measured.iter().map(status_to_v1).collect::<Vec<_>>());
    annotate(&mut shown, CONDITIONS, autoscaler.list_at("status.conditions"));
    shown.remove("status.currentMetrics");
    shown.remove("status.conditions");
    shown
}

/// Takes all of them away: they mean something in v1 only.
pub(super) fn drop_annotations(autoscaler: &mut Value) {
    drop_named(autoscaler, &OF_SPEC);
    drop_named(autoscaler, &OF_STATUS);
}

/// Takes those away that stand for parts of the status.
pub(super) fn drop_status_annotations(autoscaler: &mut Value) {
    drop_named(autoscaler, &OF_STATUS);
}

/// Makes these what they were.
pub(super) fn keep_annotations(autoscaler: &mut Value, old: &Value, names: &[&str]) {
    drop_named(autoscaler, names);
    for name in names {
        if let Some(text) = old.at("metadata.annotations").get(name).and_then(Value::as_str) {
            annotate_text(autoscaler, name, text.to_owned());
        }
    }
}

fn drop_named(autoscaler: &mut Value, names: &[&str]) {
    let Some(Value::Object(annotations)) = autoscaler.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
    else {
        return;
    };
    annotations.retain(|name, _| !names.contains(&name.as_str()));
    if annotations.is_empty() {
        autoscaler.remove("metadata.annotations");
    }
}

fn annotate(autoscaler: &mut Value, name: &str, list: &[Value]) {
    if !list.is_empty() {
        annotate_text(autoscaler, name, Value::from(list).to_string());
    }
}

fn annotate_text(autoscaler: &mut Value, name: &str, text: String) {
    let annotations = autoscaler.at_mut("metadata.annotations");
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[name] = text.into();
}

/// The behavior with all fields of upstream's type, under the names that they have in Go.
fn internal_behavior(behavior: &Value) -> Value {
    let rules = |direction: &str| match behavior.at(direction) {
        Value::Null => Value::Null,
        rules => {
            let mut all = Map::new();
            for field in ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"] {
                all.insert(field.to_owned(), rules.at(field).clone());
            }
            Value::Object(all)
        }
    };
    renamed(&json!({"scaleUp": rules("scaleUp"), "scaleDown": rules("scaleDown")}), first_upper)
}

/// With other names of fields, and without those that are null.
fn renamed(value: &Value, rename: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => {
            let given = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(given.map(|(name, value)| (rename(name), renamed(value, rename))).collect())
        }
        Value::Array(list) => list.iter().map(|value| renamed(value, rename)).collect(),
        other => other.clone(),
    }
}

fn first_lower(name: &str) -> String {
    name[..1].to_lowercase() + &name[1..]
}

fn first_upper(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

/// A field of v1, the same in v2, and what v1 writes when there is none.
type Field = (&'static str, &'static str, Option<&'static str>);

const SPECS: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", "describedObject", None),
            ("metricName", "metric.name", None),
            ("targetValue", "target.value", Some("0")),
            ("selector", "metric.selector", None),
            ("averageValue", "target.averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name", None),
            ("targetAverageValue", "target.averageValue", Some("0")),
            ("selector", "metric.selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", None),
            ("targetAverageUtilization", "target.averageUtilization", None),
            ("targetAverageValue", "target.averageValue", None),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", None),
            ("targetAverageUtilization", "target.averageUtilization", None),
            ("targetAverageValue", "target.averageValue", None),
            ("container", "container", None),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name", None),
            ("metricSelector", "metric.selector", None),
            ("targetValue", "target.value", None),
            ("targetAverageValue", "target.averageValue", None),
        ],
    ),
];

const STATUSES: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", "describedObject", None),
            ("metricName", "metric.name", None),
            ("currentValue", "current.value", Some("0")),
            ("selector", "metric.selector", None),
            ("averageValue", "current.averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name", None),
            ("currentAverageValue", "current.averageValue", Some("0")),
            ("selector", "metric.selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", None),
            ("currentAverageUtilization", "current.averageUtilization", None),
            ("currentAverageValue", "current.averageValue", Some("0")),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", None),
            ("currentAverageUtilization", "current.averageUtilization", None),
            ("currentAverageValue", "current.averageValue", Some("0")),
            ("container", "container", None),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name", None),
            ("metricSelector", "metric.selector", None),
            ("currentValue", "current.value", Some("0")),
            ("currentAverageValue", "current.averageValue", None),
        ],
    ),
];

fn to_v1(metric: &Value, table: &[(&str, &[Field])]) -> Value {
    let mut old = json!({"type": metric.at("type")});
    for (source, fields) in table.iter().filter(|(source, _)| metric.at(source).is_object()) {
        for (v1, v2, instead) in *fields {
            match (metric.at(source).at(v2), instead) {
                (Value::Null, None) => {}
                (Value::Null, Some(instead)) => old.set(&format!("{source}.{v1}"), *instead),
                (value, _) => old.set(&format!("{source}.{v1}"), value.clone()),
            }
        }
    }
    old
}

fn from_v1(metric: &Value, table: &[(&str, &[Field])]) -> Value {
    let mut new = json!({"type": metric.at("type")});
    for (source, fields) in table.iter().filter(|(source, _)| metric.at(source).is_object()) {
        for (v1, v2, _) in *fields {
            if !metric.at(source).at(v1).is_null() {
                new.set(&format!("{source}.{v2}"), metric.at(source).at(v1).clone());
            }
        }
    }
    new
}

fn spec_to_v1(metric: &Value) -> Value {
    to_v1(metric, &SPECS)
}

fn status_to_v1(metric: &Value) -> Value {
    to_v1(metric, &STATUSES)
}

fn status_from_v1(metric: &Value) -> Value {
    from_v1(metric, &STATUSES)
}

/// v1 does not say of which type a target is: its fields do.
fn spec_from_v1(metric: &Value) -> Value {
    let mut new = from_v1(metric, &SPECS);
    for (source, _) in SPECS {
        if !new.at(source).is_object() {
            continue;
        }
        let target = new.at(source).at("target");
        let has = |field: &str| !target.at(field).is_null();
        let kind = match source {
            "object" if has("averageValue") => "AverageValue",
            "object" => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        let zero = source == "object" && kind == "AverageValue" && target.str_at("value") == "0";
        new.set(&format!("{source}.target.type"), kind);
        if zero {
            new.remove(&format!("{source}.target.value"));
        }
    }
    new
}
