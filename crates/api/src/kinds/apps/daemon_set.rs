//! Rules of DaemonSet.

use super::{
    CURRENT, DESIRED, READY, collisions_only_grow, fixed_selector, template, template_advice, template_defaults,
};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR},
        edit::fill,
        selector,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Where a DaemonSet keeps the generation of its template, for clients of older versions.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Rules of apps/v1 DaemonSet.
pub(in crate::kinds) struct DaemonSet;

impl Rules for DaemonSet {
    fn default(&self, set: &mut Value) {
        template_defaults(set);
        let strategy = set.at_mut("spec.updateStrategy");
        if !strategy.is_object() {
            *strategy = json!({});
        }
        fill(strategy, "type", "RollingUpdate");
        if strategy.str_at("type") == "RollingUpdate" {
            strategy.set_default("rollingUpdate.maxUnavailable", 1);
            strategy.set_default("rollingUpdate.maxSurge", 0);
        }
        set.set_default("spec.revisionHistoryLimit", 10);
    }

    fn prepare_create(&self, set: &mut Value) {
        let nothing = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        });
        set.set("status", nothing);
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    }

    fn prepare_update(&self, set: &mut Value, old: &Value) {
        set.set("status", old.at("status").clone());
        let changed = !check::same(set.at("spec.template"), old.at("spec.template"));
        set_template_generation(set, template_generation(old) + i64::from(changed));
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), set.at("spec"));
        selector::validate(&mut errors, &path.child("selector"), spec.at("selector"));
        if !spec.at("selector").is_null() && selector::is_empty(spec.at("selector")) {
            errors.push(FieldError::invalid(&path.child("selector"), json!({}), "must not be empty"));
        }
        template(&mut errors, spec);
        check::none_negative(&mut errors, &path, spec, &["minReadySeconds", "revisionHistoryLimit"]);
        daemon_strategy(&mut errors, &path.child("updateStrategy"), spec.at("updateStrategy"));
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(set);
        fixed_selector(&mut errors, set, old);
        errors
    }

    fn validate_status(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let numbers = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        check::none_negative(&mut errors, &Path::new("status"), set.at("status"), &numbers);
        collisions_only_grow(&mut errors, set, old);
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        template_advice(self, set, old, false)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            DESIRED,
            CURRENT,
            READY,
            ("Up-to-date", "integer", 0, "Pods of the current template"),
            ("Available", "integer", 0, "Pods that have been ready long enough"),
            ("Node Selector", "string", 0, "Labels of the nodes it runs on"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ])
    }

    fn cells(&self, set: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = columns::containers(set.at("spec.template"));
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        let mut cells = vec![columns::name(set)];
        cells.extend(counts.map(|count| columns::number(set.at("status"), count)));
        cells.extend([
            columns::labels(set.at("spec.template.spec.nodeSelector")).into(),
            columns::age(set, now),
            names,
            images,
            columns::or(selector::text(set.at("spec.selector")), "<none>").into(),
        ]);
        cells
    }
}

fn daemon_strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    let at = path.child("rollingUpdate");
    match strategy.str_at("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.push(FieldError::required(&at, "")),
        "RollingUpdate" => {
            for field in ["maxUnavailable", "maxSurge"] {
                check::int_or_percent(errors, &at.child(field), rolling.at(field));
                check::at_most_100_percent(errors, &at.child(field), rolling.at(field));
            }
            let given = |field: &str| check::number_or_percent(rolling.at(field)) != 0;
            match (given("maxUnavailable"), given("maxSurge")) {
                (true, true) => {
                    let text = "must be 0 when maxUnavailable is not";
                    errors.push(FieldError::invalid(&at.child("maxSurge"), rolling.at("maxSurge").clone(), text));
                }
                (false, false) => {
                    let text = "must not be 0 when maxSurge is 0: nothing could ever move";
                    errors.push(FieldError::required(&at.child("maxUnavailable"), text));
                }
                _ => {}
            }
        }
        _ => errors.push(FieldError::not_supported(path, strategy.clone(), &["RollingUpdate", "OnDelete"])),
    }
}

fn template_generation(set: &Value) -> i64 {
    let text = set.at("metadata.annotations").get(TEMPLATE_GENERATION).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = set.at_mut("metadata.annotations");
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[TEMPLATE_GENERATION] = generation.to_string().into();
}
