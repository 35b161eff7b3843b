//! StorageVersionMigration: all objects of a resource are to be written anew, once.

use super::{
    check::{self, Errors},
    columns::{self, NAME},
    edit::in_version,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};
use std::borrow::Cow;

const ENDS: [&str; 2] = ["Succeeded", "Failed"];

/// Rules of storagemigration.k8s.io/v1 StorageVersionMigration.
pub(super) struct StorageVersionMigration;

impl Rules for StorageVersionMigration {
    fn prepare_create(&self, migration: &mut Value) {
        migration.set("status", json!({}));
    }

    fn prepare_update(&self, migration: &mut Value, old: &Value) {
        take_over(migration, old, "status");
    }

    fn validate(&self, migration: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, resource) = (Path::new("spec").child("resource"), migration.at("spec.resource"));
        match resource.str_at("resource") {
            "" => errors.push(FieldError::required(&path.child("resource"), "resource is required to be set")),
            name => check::dns_label(&mut errors, &path.child("resource"), name),
        }
        if !resource.str_at("group").is_empty() {
            check::dns_subdomain(&mut errors, &path.child("group"), resource.str_at("group"));
        }
        errors
    }

    fn validate_update(&self, migration: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(migration);
        check::immutable(&mut errors, &Path::new("spec"), migration.at("spec"), old.at("spec"));
        errors
    }

    fn validate_status(&self, migration: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("status");
        let (version, had) = (migration.str_at("status.resourceVersion"), old.str_at("status.resourceVersion"));
        if !version.is_empty() && version.parse::<u64>().is_err() {
            errors.push(FieldError::invalid(&path.child("resourceVersion"), version, "must be a number"));
        }
        if !had.is_empty() && version != had {
            errors.push(FieldError::invalid(&path.child("resourceVersion"), version, "field is immutable"));
        }
        check::conditions(&mut errors, &path.child("conditions"), migration.list_at("status.conditions"));
        let shown = || migration.at("status.conditions").clone();
        if ENDS.iter().all(|end| holds(migration, end)) {
            let text = "Both success and failed conditions cannot be true at the same time";
            errors.push(FieldError::invalid(&path.child("conditions"), shown(), text));
        }
        for end in ENDS.iter().filter(|end| holds(old, end) && !holds(migration, end)) {
            let text = format!("{end} condition cannot be set to false once it is true");
            errors.push(FieldError::invalid(&path.child("conditions"), shown(), text));
        }
        errors
    }

    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        in_version(object, "storagemigration.k8s.io/v1beta1")
    }

    fn show_stored(&self, object: &mut Value) {
        object.set("apiVersion", "storagemigration.k8s.io/v1");
    }

    fn shows_as_stored(&self, _revision: u64) -> bool {
        false
    }

    fn stored_as(&self) -> Option<(&str, &str)> {
        Some(("storagemigration.k8s.io", "v1beta1"))
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = columns::columns(&[
            NAME,
            ("Resource", "string", 0, "What is written anew"),
            ("Status", "string", 0, "How far it is"),
        ]);
        // Upstream does not mark it as the name.
        columns[0].format = String::new();
        columns
    }

    fn cells(&self, migration: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        let (group, resource) = (migration.str_at("spec.resource.group"), migration.str_at("spec.resource.resource"));
        let shown = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let state = ["Running", "Failed", "Succeeded"].into_iter().rfind(|state| holds(migration, state));
        vec![columns::name(migration), shown.into(), state.unwrap_or("Unknown").into()]
    }
}

fn holds(migration: &Value, kind: &str) -> bool {
    let mut conditions = migration.list_at("status.conditions").iter();
    conditions.any(|condition| condition.str_at("type") == kind && condition.str_at("status") == "True")
}
