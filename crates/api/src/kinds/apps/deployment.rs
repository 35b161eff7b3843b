//! Rules of Deployment.

use super::{collisions_only_grow, fixed_selector, no_more_than_all, replicated, template_advice, template_defaults};
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
    resource::{Column, Rules, carry_over_all_but_status, differs_beyond_status, take_over},
};
use serde_json::{Value, json};

/// Rules of apps/v1 Deployment.
pub(in crate::kinds) struct Deployment;

impl Rules for Deployment {
    fn kept_by_status(&self) -> &'static [&'static str] {
        &["spec", "metadata.labels"]
    }

    fn default(&self, deployment: &mut Value) {
        template_defaults(deployment);
        deployment.set_default("spec.replicas", 1);
        let strategy = deployment.at_mut("spec.strategy");
        if !strategy.is_object() {
            *strategy = json!({});
        }
        fill(strategy, "type", "RollingUpdate");
        if strategy.str_at("type") == "RollingUpdate" {
            strategy.set_default("rollingUpdate.maxUnavailable", "25%");
            strategy.set_default("rollingUpdate.maxSurge", "25%");
        }
        deployment.set_default("spec.revisionHistoryLimit", 10);
        deployment.set_default("spec.progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, deployment: &mut Value) {
        deployment.set("status", json!({}));
    }

    fn prepare_update(&self, deployment: &mut Value, old: &Value) {
        deployment.set("status", old.at("status").clone());
    }

    fn prepare_status(&self, deployment: &mut Value, old: &Value) {
        carry_over_all_but_status(deployment, old);
        take_over(deployment, old, "metadata.labels");
    }

    fn validate(&self, deployment: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), deployment.at("spec"));
        check::not_negative(&mut errors, &path, spec, "replicas");
        replicated(&mut errors, spec);
        deployment_strategy(&mut errors, &path.child("strategy"), spec.at("strategy"));
        let numbers = ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
        check::none_negative(&mut errors, &path, spec, &numbers);
        let ready = spec.int_at("minReadySeconds").unwrap_or_default();
        if let Some(deadline) = spec.int_at("progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
            let text = format!("must be more than minReadySeconds, {ready}");
            errors.push(FieldError::invalid(&path.child("progressDeadlineSeconds"), deadline, text));
        }
        errors
    }

    fn validate_update(&self, deployment: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(deployment);
        fixed_selector(&mut errors, deployment, old);
        errors
    }

    fn validate_status(&self, deployment: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let numbers = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        check::none_negative(&mut errors, &Path::new("status"), deployment.at("status"), &numbers);
        no_more_than_all(&mut errors, deployment, &["updatedReplicas", "readyReplicas", "availableReplicas"]);
        collisions_only_grow(&mut errors, deployment, old);
        errors
    }

    fn warnings(&self, deployment: &Value, old: Option<&Value>) -> Vec<String> {
        template_advice(self, deployment, old, true)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn generation_changes(&self, deployment: &Value, old: &Value) -> bool {
        let annotations = "metadata.annotations";
        differs_beyond_status(deployment, old) || !check::same(deployment.at(annotations), old.at(annotations))
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Ready", "string", 0, "Pods that are ready, of those wanted"),
            ("Up-to-date", "string", 0, "Pods of the current template"),
            ("Available", "string", 0, "Pods that have been ready long enough"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ])
    }

    fn cells(&self, deployment: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let number = |path: &str| columns::number(deployment, path);
        let [names, images] = columns::containers(deployment.at("spec.template"));
        vec![
            columns::name(deployment),
            format!("{}/{}", number("status.readyReplicas"), number("spec.replicas")).into(),
            number("status.updatedReplicas"),
            number("status.availableReplicas"),
            columns::age(deployment, now),
            names,
            images,
            selector::text(deployment.at("spec.selector")).into(),
        ]
    }
}

fn deployment_strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    let at = path.child("rollingUpdate");
    match strategy.str_at("type") {
        "Recreate" if !rolling.is_null() => {
            errors.push(FieldError::forbidden(&at, "only with type RollingUpdate"));
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_null() => errors.push(FieldError::required(&at, "")),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            check::int_or_percent(errors, &at.child("maxUnavailable"), unavailable);
            check::int_or_percent(errors, &at.child("maxSurge"), surge);
            if check::number_or_percent(unavailable) == 0 && check::number_or_percent(surge) == 0 {
                let text = "must not be 0 when maxSurge is 0: nothing could ever move";
                errors.push(FieldError::invalid(&at.child("maxUnavailable"), unavailable.clone(), text));
            }
            check::at_most_100_percent(errors, &at.child("maxUnavailable"), unavailable);
        }
        _ => errors.push(FieldError::not_supported(path, strategy.clone(), &["Recreate", "RollingUpdate"])),
    }
}
