//! Rules of RuntimeClass: the name of a way to run pods, what it costs and on which nodes it exists.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    pod, resources,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::Value;

/// Rules of node.k8s.io/v1 RuntimeClass.
pub(super) struct RuntimeClass;

impl Rules for RuntimeClass {
    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        match class.str_at("handler") {
            "" => errors.push(FieldError::required(&Path::new("handler"), "what the container runtime calls it")),
            handler => check::dns_label(&mut errors, &Path::new("handler"), handler),
        }
        resources::overhead(&mut errors, &Path::new("overhead"), class.at("overhead.podFixed"));
        let path = Path::new("scheduling");
        check::labels(&mut errors, &path.child("nodeSelector"), class.at("scheduling.nodeSelector"));
        let tolerations = class.list_at("scheduling.tolerations");
        let at = path.child("tolerations");
        pod::scheduling::tolerations(&mut errors, &at, tolerations);
        let key = |one: &Value| ["key", "operator", "value", "effect"].map(|field| one.str_at(field).to_owned());
        for (i, toleration) in tolerations.iter().enumerate() {
            if tolerations[..i].iter().any(|other| key(other) == key(toleration)) {
                errors.push(FieldError::duplicate(&at.index(i), toleration.clone()));
            }
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(class);
        check::immutable(&mut errors, &Path::new("handler"), class.at("handler"), old.at("handler"));
        errors
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("Handler", "string", 0, "What the container runtime calls it"), AGE])
    }

    fn cells(&self, class: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![columns::name(class), class.str_at("handler").into(), columns::age(class, now)]
    }
}
