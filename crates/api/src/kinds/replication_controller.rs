//! Rules of ReplicationController, and of PodTemplate.
//!
//! A ReplicationController is a ReplicaSet whose selector is a plain map; what both check is in `apps`.

use super::{
    apps::{CURRENT, DESIRED, READY, no_more_than_all, template, template_advice, template_defaults},
    check::{self, Errors},
    columns::{self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR},
    pod,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Rules of v1 ReplicationController.
pub(super) struct ReplicationController;

impl Rules for ReplicationController {
    fn default(&self, controller: &mut Value) {
        template_defaults(controller);
        let labels = controller.at("spec.template.metadata.labels").clone();
        if labels.is_object() {
            for path in ["spec.selector", "metadata.labels"] {
                if controller.map_at(path).is_none_or(serde_json::Map::is_empty) {
                    controller.set(path, labels.clone());
                }
            }
        }
        controller.set_default("spec.replicas", 1);
    }

    fn prepare_create(&self, controller: &mut Value) {
        controller.set("status", json!({"replicas": 0}));
    }

    fn prepare_update(&self, controller: &mut Value, old: &Value) {
        controller.set("status", old.at("status").clone());
    }

    fn validate(&self, controller: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), controller.at("spec"));
        check::none_negative(&mut errors, &path, spec, &["replicas", "minReadySeconds"]);
        let empty = spec.map_at("selector").is_none_or(serde_json::Map::is_empty);
        if empty {
            errors.push(FieldError::required(&path.child("selector"), "labels of the pods that belong to it"));
        }
        if spec.at("template").is_null() {
            errors.push(FieldError::required(&path.child("template"), ""));
        } else {
            // An empty one is told above; here it lets every template pass.
            let selector = if empty { json!({}) } else { json!({"matchLabels": spec.at("selector")}) };
            template(&mut errors, &json!({"selector": selector, "template": spec.at("template")}));
        }
        errors
    }

    fn validate_status(&self, controller: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        check::none_negative(&mut errors, &Path::new("status"), controller.at("status"), &counts);
        let numbers = ["replicas", "observedGeneration"];
        check::none_negative(&mut errors, &Path::new("status"), controller.at("status"), &numbers);
        no_more_than_all(&mut errors, controller, &counts);
        errors
    }

    fn warnings(&self, controller: &Value, old: Option<&Value>) -> Vec<String> {
        template_advice(self, controller, old, true)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn orphans_by_default(&self) -> bool {
        true
    }

    fn selected(&self, controller: &Value, path: &str) -> String {
        controller.int_at(path).unwrap_or_default().to_string()
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR])
    }

    fn cells(&self, controller: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = columns::containers(controller.at("spec.template"));
        vec![
            columns::name(controller),
            columns::number(controller, "spec.replicas"),
            columns::number(controller, "status.replicas"),
            columns::number(controller, "status.readyReplicas"),
            columns::age(controller, now),
            names,
            images,
            columns::labels(controller.at("spec.selector")).into(),
        ]
    }
}

/// Rules of v1 PodTemplate: kept for those who want to keep templates; nothing acts on it.
pub(super) struct PodTemplate;

impl Rules for PodTemplate {
    fn default(&self, template: &mut Value) {
        if template.at("template").is_object() {
            if !template.at("template.spec").is_object() {
                template.set("template.spec", json!({}));
            }
            pod::defaults::spec(template.at_mut("template.spec"));
        }
    }

    fn validate(&self, template: &Value) -> Errors {
        let mut errors = Errors::new();
        pod::template(&mut errors, &Path::new("template"), template.at("template"), None);
        errors
    }

    fn warnings(&self, template: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| !self.generation_changes(template, old)) {
            return Vec::new();
        }
        pod::advice::spec(&Path::new("template").child("spec"), template.at("template.spec"))
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Containers", "string", 0, "Names of the containers of the template"),
            ("Images", "string", 0, "Images of the containers of the template"),
            ("Pod Labels", "string", 0, "Labels of pods that are made from it"),
        ])
    }

    fn cells(&self, template: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = columns::containers(template.at("template"));
        vec![columns::name(template), names, images, columns::labels(template.at("template.metadata.labels")).into()]
    }
}
