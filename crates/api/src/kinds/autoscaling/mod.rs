//! HorizontalPodAutoscaler in its two versions: autoscaling/v2, which is stored, and autoscaling/v1.
//!
//! Mirrors `pkg/registry/autoscaling/horizontalpodautoscaler`. What v1 has no field for it keeps in annotations (`v1`).

mod cells;
mod v1;
mod validate;

use super::{
    check::{self, Errors},
    columns::{self, AGE, Def, NAME},
};
use crate::{
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Pods use this much of what they ask for when nobody says otherwise, in percent.
const CPU_UTILIZATION: i64 = 80;

/// Rules of autoscaling/v2 HorizontalPodAutoscaler.
pub(super) struct Autoscaler;

impl Rules for Autoscaler {
    fn default(&self, autoscaler: &mut Value) {
        autoscaler.set_default("spec.minReplicas", 1);
        if autoscaler.list_at("spec.metrics").is_empty() {
            autoscaler.set("spec.metrics", json!([cpu(CPU_UTILIZATION)]));
        }
        behavior(autoscaler);
    }

    fn prepare_create(&self, autoscaler: &mut Value) {
        v1::drop_annotations(autoscaler);
        autoscaler.set("status", no_status());
    }

    fn prepare_update(&self, autoscaler: &mut Value, old: &Value) {
        v1::drop_annotations(autoscaler);
        autoscaler.set("status", old.at("status").clone());
    }

    fn validate(&self, autoscaler: &Value) -> Errors {
        validate::validate(autoscaler, None)
    }

    fn validate_update(&self, autoscaler: &Value, old: &Value) -> Errors {
        validate::validate(autoscaler, Some(old))
    }

    fn validate_status(&self, autoscaler: &Value, _old: &Value) -> Errors {
        let (mut errors, path) = (Errors::new(), Path::new("status"));
        for (i, condition) in autoscaler.list_at("status.conditions").iter().enumerate() {
            check::not_negative(&mut errors, &path.child("conditions").index(i), condition, "observedGeneration");
        }
        check::none_negative(&mut errors, &path, autoscaler.at("status"), &["currentReplicas", "desiredReplicas"]);
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&COLUMNS)
    }

    fn cells(&self, autoscaler: &Value, now: jiff::Timestamp) -> Vec<Value> {
        cells::cells(autoscaler, now)
    }
}

/// Rules of autoscaling/v1 HorizontalPodAutoscaler: those of v2, for what it says in the words of v2.
pub(super) struct AutoscalerV1;

impl Rules for AutoscalerV1 {
    fn default(&self, autoscaler: &mut Value) {
        autoscaler.set_default("spec.minReplicas", 1);
    }

    fn prepare_create(&self, autoscaler: &mut Value) {
        autoscaler.set("status", json!({"currentReplicas": 0, "desiredReplicas": 0}));
        v1::drop_status_annotations(autoscaler);
    }

    fn prepare_update(&self, autoscaler: &mut Value, old: &Value) {
        autoscaler.set("status", old.at("status").clone());
        v1::keep_annotations(autoscaler, old, &v1::OF_STATUS);
    }

    fn prepare_status(&self, autoscaler: &mut Value, old: &Value) {
        crate::resource::carry_over_all_but_status(autoscaler, old);
        v1::keep_annotations(autoscaler, old, &v1::OF_SPEC);
    }

    fn validate(&self, autoscaler: &Value) -> Errors {
        Autoscaler.validate(&v1::stored(autoscaler))
    }

    fn validate_update(&self, autoscaler: &Value, old: &Value) -> Errors {
        Autoscaler.validate_update(&v1::stored(autoscaler), &v1::stored(old))
    }

    fn validate_status(&self, autoscaler: &Value, old: &Value) -> Errors {
        Autoscaler.validate_status(&v1::stored(autoscaler), &v1::stored(old))
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn generation_changes(&self, autoscaler: &Value, old: &Value) -> bool {
        v1::stored(autoscaler).at("spec") != v1::stored(old).at("spec")
    }

    fn to_stored<'a>(&self, autoscaler: &'a Value) -> Cow<'a, Value> {
        Cow::Owned(v1::stored(autoscaler))
    }

    fn show_stored(&self, autoscaler: &mut Value) {
        *autoscaler = v1::shown(autoscaler);
    }

    fn shows_as_stored(&self, _revision: u64) -> bool {
        false
    }

    fn stored_as(&self) -> Option<(&str, &str)> {
        Some(("autoscaling", "v2"))
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&COLUMNS)
    }

    fn cells(&self, autoscaler: &Value, now: jiff::Timestamp) -> Vec<Value> {
        cells::cells(&v1::stored(autoscaler), now)
    }
}

const COLUMNS: [Def; 7] = [
    NAME,
    ("Reference", "string", 0, "What is scaled"),
    ("Targets", "string", 0, "What is measured and what it should be"),
    ("MinPods", "string", 0, "No fewer"),
    ("MaxPods", "string", 0, "No more"),
    ("Replicas", "string", 0, "How many there are"),
    AGE,
];

fn no_status() -> Value {
    json!({"desiredReplicas": 0, "currentMetrics": null})
}

/// The metric that is meant when none is given.
fn cpu(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

/// Fills in the rules of a behavior that is given in part.
fn behavior(autoscaler: &mut Value) {
    if !autoscaler.at("spec.behavior").is_object() {
        return;
    }
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
        "policies": [policy("Pods", 4), policy("Percent", 100)]});
    // How long the past counts on the way down is for the controller manager to say (its flag).
    let down = json!({"selectPolicy": "Max", "policies": [policy("Percent", 100)]});
    for (direction, rules) in [("scaleUp", up), ("scaleDown", down)] {
        for (field, value) in rules.as_object().into_iter().flatten() {
            autoscaler.set_default(&format!("spec.behavior.{direction}.{field}"), value.clone());
        }
    }
}

#[cfg(test)]
mod tests;
