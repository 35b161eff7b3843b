//! Rules of ReplicaSet.

use super::{
    CURRENT, DESIRED, READY, fixed_selector, no_more_than_all, replicated, template_advice, template_defaults,
};
use crate::{
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR},
        selector,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Rules of apps/v1 ReplicaSet.
pub(in crate::kinds) struct ReplicaSet;

impl Rules for ReplicaSet {
    fn default(&self, set: &mut Value) {
        template_defaults(set);
        set.set_default("spec.replicas", 1);
    }

    fn prepare_create(&self, set: &mut Value) {
        set.set("status", json!({"replicas": 0}));
    }

    fn prepare_update(&self, set: &mut Value, old: &Value) {
        set.set("status", old.at("status").clone());
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = Errors::new();
        check::none_negative(&mut errors, &Path::new("spec"), set.at("spec"), &["replicas", "minReadySeconds"]);
        replicated(&mut errors, set.at("spec"));
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(set);
        fixed_selector(&mut errors, set, old);
        errors
    }

    fn validate_status(&self, set: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let numbers = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ];
        check::none_negative(&mut errors, &Path::new("status"), set.at("status"), &numbers);
        no_more_than_all(&mut errors, set, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        template_advice(self, set, old, true)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR])
    }

    fn cells(&self, set: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = columns::containers(set.at("spec.template"));
        vec![
            columns::name(set),
            columns::number(set, "spec.replicas"),
            columns::number(set, "status.replicas"),
            columns::number(set, "status.readyReplicas"),
            columns::age(set, now),
            names,
            images,
            columns::or(selector::text(set.at("spec.selector")), "<none>").into(),
        ]
    }
}
