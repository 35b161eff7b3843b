//! Namespace: its own label, the finalizer that keeps it until its content is gone, the phase.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    edit::fill,
    meta, names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Label that every namespace carries with its own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Rules of v1 Namespace.
pub(super) struct Namespace;

impl Rules for Namespace {
    fn default(&self, namespace: &mut Value) {
        label(namespace);
        if !namespace.at("status").is_object() {
            namespace.set("status", json!({}));
        }
        fill(namespace.at_mut("status"), "phase", "Active");
    }

    fn prepare_create(&self, namespace: &mut Value) {
        // A generated name is known only now.
        label(namespace);
        namespace.set("status", json!({"phase": "Active"}));
        let mut finalizers = namespace.list_at("spec.finalizers").to_vec();
        if !finalizers.contains(&json!("kubernetes")) {
            finalizers.push(json!("kubernetes"));
        }
        namespace.set("spec.finalizers", finalizers);
    }

    fn prepare_update(&self, namespace: &mut Value, old: &Value) {
        namespace.set("spec", old.at("spec").clone());
        namespace.set("status", old.at("status").clone());
    }

    fn mark_deleting(&self, namespace: &mut Value) {
        namespace.set("status.phase", "Terminating");
    }

    fn validate(&self, namespace: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec").child("finalizers");
        for name in check::texts(namespace, "spec.finalizers") {
            check::qualified_name(&mut errors, &path, name);
            meta::known_finalizer(&mut errors, &path, name);
        }
        errors
    }

    fn validate_update(&self, _namespace: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    fn validate_status(&self, namespace: &Value, _old: &Value) -> Errors {
        let deleted = !namespace.at("metadata.deletionTimestamp").is_null();
        let (wanted, phase) = (if deleted { "Terminating" } else { "Active" }, namespace.str_at("status.phase"));
        if phase == wanted {
            return Errors::new();
        }
        let text = format!("must be {wanted}: the namespace is {}being deleted", if deleted { "" } else { "not " });
        vec![FieldError::invalid(&Path::new("status").child("Phase"), phase, text)]
    }

    fn name_mistakes(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns_label(name, prefix)
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("Status", "string", 0, "Active, or Terminating while its content goes"), AGE])
    }

    fn cells(&self, namespace: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![columns::name(namespace), namespace.at("status.phase").clone(), columns::age(namespace, now)]
    }
}

fn label(namespace: &mut Value) {
    let name = namespace.str_at("metadata.name").to_owned();
    if name.is_empty() {
        return;
    }
    let labels = namespace.at_mut("metadata.labels");
    if !labels.is_object() {
        *labels = json!({});
    }
    labels[NAME_LABEL] = name.into();
}
