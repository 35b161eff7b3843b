//! The rules of the kind CustomResourceDefinition itself.

use super::{
    Definition,
    status::{CLEANUP_FINALIZER, is_true},
};
use crate::{structural::Kind, walk::format::Format};
use api::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What the engine asks about definitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefinitionRules;

impl Rules for DefinitionRules {
    /// Upstream counts them as stored in the version they began with.
    fn stored_as(&self) -> Option<(&str, &str)> {
        Some(("apiextensions.k8s.io", "v1beta1"))
    }

    fn default(&self, object: &mut Value) {
        let kind = object.str_at("spec.names.kind").to_owned();
        if !kind.is_empty() {
            for (field, name) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
                let path = format!("spec.names.{field}");
                if object.str_at(&path).is_empty() {
                    object.set(&path, name);
                }
            }
        }
        if object.at("spec").is_object() {
            object.set_default("spec.conversion", json!({"strategy": "None"}));
            let service = "spec.conversion.webhook.clientConfig.service";
            if object.at(service).is_object() {
                object.at_mut(service).set_default("port", 443);
            }
            for version in object.at_mut("spec.versions").as_array_mut().into_iter().flatten() {
                for flag in ["served", "storage"] {
                    if version.is_object() {
                        version.set_default(flag, false);
                    }
                }
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object.set("status", json!({"storedVersions": []}));
        remember_stored_version(object);
        hold(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        object.set("status", old.at("status").clone());
        remember_stored_version(object);
        if old.at("metadata.deletionTimestamp").is_null() {
            hold(object);
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Definition::read(object).err().unwrap_or_default();
        check_stored_versions(object, &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(object);
        let established = is_true(old, "Established");
        let fixed = [
            ("spec.group", true),
            ("spec.names.plural", true),
            ("spec.scope", established),
            ("spec.names.kind", established),
        ];
        for (field, _) in fixed.into_iter().filter(|(_, fixed)| *fixed) {
            if object.at(field) != old.at(field) {
                errors.push(FieldError::invalid(&Path::new(field), object.at(field).clone(), "field is immutable"));
            }
        }
        errors
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_stored_versions(object, &mut errors);
        errors
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

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut known = BTreeSet::new();
        old.into_iter().for_each(|old| unknown_formats(old.at("spec.versions"), &mut known));
        let mut formats = BTreeSet::new();
        unknown_formats(object.at("spec.versions"), &mut formats);
        formats.difference(&known).map(|format| format!("unrecognized format \"{format}\"")).collect()
    }

    fn columns(&self) -> Vec<Column> {
        let column = |name: &str, kind: &str, priority: i32, description: &str| Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: if name == "Name" { "name".to_owned() } else { String::new() },
            description: description.to_owned(),
            priority,
        };
        vec![
            column("Name", "string", 0, "Name of the definition: plural and group."),
            column("Scope", "string", 0, "Cluster or Namespaced."),
            column("Versions", "string", 0, "Served versions."),
            column("Created At", "date", 0, "Time when the definition was created."),
            column("Group", "string", 1, "API group."),
            column("Kind", "string", 1, "Kind of the objects."),
            column("ShortNames", "string", 1, "Short names."),
            column("Established", "boolean", 1, "Whether the kind is served."),
        ]
    }

    fn cells(&self, object: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        let shown = |version: &Value| {
            let mark = if version.is_true("storage") { "(storage)" } else { "" };
            format!("{}{mark}", version.str_at("name"))
        };
        let served = object.list_at("spec.versions").iter().filter(|version| version.is_true("served"));
        let mut versions: Vec<String> = served.map(shown).collect();
        versions.sort();
        let short: Vec<&str> = object.list_at("spec.names.shortNames").iter().filter_map(Value::as_str).collect();
        vec![
            object.at("metadata.name").clone(),
            object.at("spec.scope").clone(),
            versions.join(",").into(),
            object.at("metadata.creationTimestamp").clone(),
            object.at("spec.group").clone(),
            object.at("spec.names.kind").clone(),
            short.join(",").into(),
            is_true(object, "Established").into(),
        ]
    }
}

/// Formats that are written in schemas and enforced by nobody. A schema is an object with a type and a format.
fn unknown_formats(value: &Value, found: &mut BTreeSet<String>) {
    if let (Some(kind), Some(format)) = (value.get("type"), value.get("format").and_then(Value::as_str)) {
        let kind = Kind::ALL.into_iter().find(|known| *kind == known.name());
        // Every text is a password.
        if Format::of(format, kind).is_none() && format != "password" {
            found.insert(format.to_owned());
        }
    }
    match value {
        Value::Object(map) => {
            let schemas = map.iter().filter(|(key, _)| !["default", "enum", "example"].contains(&key.as_str()));
            schemas.for_each(|(_, value)| unknown_formats(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| unknown_formats(value, found)),
        _ => {}
    }
}

/// A definition stays until its objects are gone. Who wants it gone without that takes the finalizer off while it is being deleted.
fn hold(object: &mut Value) {
    let mut finalizers = object.list_at("metadata.finalizers").to_vec();
    if !finalizers.iter().any(|one| one == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
        object.set("metadata.finalizers", finalizers);
    }
}

/// Objects may be stored in every version that ever was the storage version, until somebody migrates them.
fn remember_stored_version(object: &mut Value) {
    let storage = object.list_at("spec.versions").iter().find(|version| version.is_true("storage"));
    let Some(name) = storage.map(|version| version.at("name").clone()) else { return };
    let mut stored = object.list_at("status.storedVersions").to_vec();
    if !stored.contains(&name) {
        stored.push(name);
        object.set("status.storedVersions", stored);
    }
}

fn check_stored_versions(object: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status").child("storedVersions");
    let stored = object.list_at("status.storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(&path, Vec::<Value>::new(), "must have at least one stored version"));
        return;
    }
    let versions = object.list_at("spec.versions");
    for version in versions.iter().filter(|version| version.is_true("storage")) {
        if !stored.contains(version.at("name")) {
            let detail = format!("must have the storage version {}", version.str_at("name"));
            errors.push(FieldError::invalid(&path, stored.to_vec(), detail));
        }
    }
    for (i, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.at("name") == name) {
            let detail = "objects may still be stored in it: it must stay in spec.versions until they are migrated and it is removed from here";
            errors.push(FieldError::invalid(&path.index(i), name.clone(), detail));
        }
    }
}
