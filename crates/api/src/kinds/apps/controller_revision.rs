//! Rules of ControllerRevision.

use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::Value;

/// Rules of apps/v1 ControllerRevision.
pub(in crate::kinds) struct ControllerRevision;

impl Rules for ControllerRevision {
    fn validate(&self, revision: &Value) -> Errors {
        let mut errors = Errors::new();
        check::not_negative(&mut errors, &Path::root(), revision, "revision");
        if !revision.at("data").is_object() {
            errors.push(FieldError::required(&Path::new("data"), "a JSON object"));
        }
        errors
    }

    fn validate_update(&self, revision: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        check::not_negative(&mut errors, &Path::root(), revision, "revision");
        check::immutable(&mut errors, &Path::new("data"), revision.at("data"), old.at("data"));
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Controller", "string", 0, "The object it is a revision of"),
            ("Revision", "string", 0, "Number of the revision"),
            AGE,
        ])
    }

    fn cells(&self, revision: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let owner = revision.list_at("metadata.ownerReferences").iter().find(|owner| owner.is_true("controller"));
        let controller = owner.map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let group = owner.str_at("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
                let kind = crate::error::qualified(owner.str_at("kind"), group).to_lowercase();
                format!("{kind}/{}", owner.str_at("name"))
            },
        );
        let number = columns::number(revision, "revision");
        vec![columns::name(revision), controller.into(), number, columns::age(revision, now)]
    }
}
