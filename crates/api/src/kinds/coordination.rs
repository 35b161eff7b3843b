//! Small kinds about running pods side by side: Lease, PodDisruptionBudget, PriorityClass.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    names, selector,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Rules of coordination.k8s.io/v1 Lease.
pub(super) struct Lease;

impl Rules for Lease {
    fn prepare_create(&self, lease: &mut Value) {
        drop_coordination(lease, &Value::Null);
    }

    fn prepare_update(&self, lease: &mut Value, old: &Value) {
        drop_coordination(lease, old);
    }

    fn validate(&self, lease: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec");
        if let Some(seconds) = lease.int_at("spec.leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            errors.push(FieldError::invalid(&path.child("leaseDurationSeconds"), seconds, "must be 1 or more"));
        }
        check::not_negative(&mut errors, &path, lease.at("spec"), "leaseTransitions");
        errors
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("Holder", "string", 0, "Who holds it"), AGE])
    }

    fn cells(&self, lease: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![columns::name(lease), lease.str_at("spec.holderIdentity").into(), columns::age(lease, now)]
    }
}

/// Coordinated leader election is off, as it is upstream: its fields stay only where they are already.
fn drop_coordination(lease: &mut Value, old: &Value) {
    for field in ["spec.strategy", "spec.preferredHolder"] {
        if old.at(field).is_null() {
            lease.remove(field);
        }
    }
}

/// Rules of policy/v1 PodDisruptionBudget.
pub(super) struct DisruptionBudget;

impl Rules for DisruptionBudget {
    fn prepare_create(&self, budget: &mut Value) {
        let nothing = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        budget.set("status", nothing);
    }

    fn prepare_update(&self, budget: &mut Value, old: &Value) {
        budget.set("status", old.at("status").clone());
    }

    fn validate(&self, budget: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), budget.at("spec"));
        let limits = ["minAvailable", "maxUnavailable"];
        if limits.iter().all(|field| !spec.at(field).is_null()) {
            errors.push(FieldError::invalid(
                &path,
                spec.clone(),
                "must have one of minAvailable and maxUnavailable, not both",
            ));
        }
        for field in limits.into_iter().filter(|field| !spec.at(field).is_null()) {
            check::int_or_percent(&mut errors, &path.child(field), spec.at(field));
            check::at_most_100_percent(&mut errors, &path.child(field), spec.at(field));
        }
        selector::validate(&mut errors, &path.child("selector"), spec.at("selector"));
        if let Some(policy) = spec.at("unhealthyPodEvictionPolicy").as_str() {
            let at = path.child("unhealthyPodEvictionPolicy");
            check::one_of(&mut errors, &at, policy, &["AlwaysAllow", "IfHealthyBudget"]);
        }
        errors
    }

    fn validate_status(&self, budget: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let numbers = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        check::none_negative(&mut errors, &Path::new("status"), budget.at("status"), &numbers);
        check::conditions(&mut errors, &Path::new("status").child("conditions"), budget.list_at("status.conditions"));
        errors
    }

    fn name_mistakes(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Min Available", "string", 0, "Pods that must stay"),
            ("Max Unavailable", "string", 0, "Pods that may be away"),
            ("Allowed Disruptions", "integer", 0, "Pods that may be evicted now"),
            AGE,
        ])
    }

    fn cells(&self, budget: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let limit = |path: &str| columns::or(crate::resource::scalar_text(budget.at(path)), "N/A");
        vec![
            columns::name(budget),
            limit("spec.minAvailable").into(),
            limit("spec.maxUnavailable").into(),
            columns::number(budget, "status.disruptionsAllowed"),
            columns::age(budget, now),
        ]
    }
}

/// Highest priority that users may give; those above are for the system.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
/// The classes that Kubernetes itself has.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Rules of scheduling.k8s.io/v1 PriorityClass.
pub(super) struct PriorityClass;

impl Rules for PriorityClass {
    fn default(&self, class: &mut Value) {
        class.set_default("preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let (name, value) = (class.str_at("metadata.name"), class.int_at("value").unwrap_or_default());
        if name.starts_with("system-") {
            let known = SYSTEM_CLASSES.contains(&(name, value)) && !class.is_true("globalDefault");
            if !known {
                let path = Path::new("metadata").child("name");
                let text = "names that begin with 'system-' are kept for Kubernetes; choose another";
                errors.push(FieldError::forbidden(&path, text));
            }
        } else if value > USER_PRIORITY_MAX {
            let text = format!("at most {USER_PRIORITY_MAX} is accepted; higher ones are kept for the system");
            errors.push(FieldError::forbidden(&Path::new("value"), text));
        }
        if let Some(policy) = class.at("preemptionPolicy").as_str() {
            let accepted = ["PreemptLowerPriority", "Never"];
            check::required_one_of(&mut errors, &Path::new("preemptionPolicy"), policy, &accepted);
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        if class.at("value") != old.at("value") {
            errors.push(FieldError::forbidden(&Path::new("value"), "cannot be changed"));
        }
        let path = Path::new("preemptionPolicy");
        check::immutable(&mut errors, &path, class.at("preemptionPolicy"), old.at("preemptionPolicy"));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn generation_changes(&self, _class: &Value, _old: &Value) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Value", "integer", 0, "Priority of pods of this class"),
            ("Global-Default", "boolean", 0, "Whether pods without a class get this one"),
            AGE,
            ("PreemptionPolicy", "string", 0, "Whether pods of this class push others out"),
        ])
    }

    fn cells(&self, class: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            columns::name(class),
            columns::number(class, "value"),
            class.is_true("globalDefault").into(),
            columns::age(class, now),
            class.str_at("preemptionPolicy").into(),
        ]
    }
}
