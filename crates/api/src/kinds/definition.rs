//! CustomResourceDefinition: defaults and columns.
//!
//! Its validation needs schemas and CEL, which the API server has: it puts its own rules in the place of these with
//! `Resource::with_rules`, and calls these for what is here.

use super::{columns, edit::items};
use crate::{
    object::Fields,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Rules of apiextensions.k8s.io/v1 CustomResourceDefinition, as far as they need nothing but the object.
pub struct Definition;

impl Rules for Definition {
    fn default(&self, definition: &mut Value) {
        let kind = definition.str_at("spec.names.kind").to_owned();
        if !kind.is_empty() {
            for (field, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
                let path = format!("spec.names.{field}");
                if definition.str_at(&path).is_empty() {
                    definition.set(&path, value);
                }
            }
        }
        definition.set_default("spec.conversion", json!({"strategy": "None"}));
        if definition.list_at("status.storedVersions").is_empty() {
            let stored = definition.list_at("spec.versions").iter().find(|version| version.is_true("storage"));
            if let Some(name) = stored.map(|version| version.at("name").clone()) {
                definition.set("status.storedVersions", vec![name]);
            }
        }
        for hook in items(definition, "spec.conversion.webhook.clientConfig") {
            hook.set_default("service.port", 443);
        }
    }

    fn prepare_create(&self, definition: &mut Value) {
        let stored: Vec<Value> = definition
            .list_at("spec.versions")
            .iter()
            .filter(|version| version.is_true("storage"))
            .map(|version| version.at("name").clone())
            .collect();
        definition.set(
            "status",
            json!({"conditions": null, "storedVersions": stored, "acceptedNames": {"plural": "", "kind": ""}}),
        );
    }

    fn prepare_update(&self, definition: &mut Value, old: &Value) {
        definition.set("status", old.at("status").clone());
        let storage = definition.list_at("spec.versions").iter().find(|version| version.is_true("storage"));
        let Some(name) = storage.map(|version| version.at("name").clone()) else { return };
        let mut stored = definition.list_at("status.storedVersions").to_vec();
        if !stored.contains(&name) {
            stored.push(name);
            definition.set("status.storedVersions", stored);
        }
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::name_and_creation()
    }

    fn cells(&self, definition: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        columns::name_and_creation_cells(definition)
    }
}
