//! Embedded resources are Kubernetes objects: they say what they are, and their metadata is metadata.

use crate::structural::Schema;
use api::{error::FieldError, path::Path};
use serde_json::Value;

/// Fields of ObjectMeta and their JSON types.
const OBJECT_META: [(&str, MetaType); 15] = [
    ("name", MetaType::Text),
    ("generateName", MetaType::Text),
    ("namespace", MetaType::Text),
    ("selfLink", MetaType::Text),
    ("uid", MetaType::Text),
    ("resourceVersion", MetaType::Text),
    ("generation", MetaType::Whole),
    ("creationTimestamp", MetaType::Text),
    ("deletionTimestamp", MetaType::Text),
    ("deletionGracePeriodSeconds", MetaType::Whole),
    ("labels", MetaType::Texts),
    ("annotations", MetaType::Texts),
    ("ownerReferences", MetaType::List),
    ("finalizers", MetaType::List),
    ("managedFields", MetaType::List),
];

#[derive(Clone, Copy)]
enum MetaType {
    Text,
    Whole,
    Texts,
    List,
}

/// Drops fields of embedded metadata that ObjectMeta does not have, and returns their paths, sorted.
pub fn prune(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut dropped = Vec::new();
    prune_at(value, schema, &Path::root(), &mut dropped);
    dropped.sort();
    dropped
}

fn prune_at(value: &mut Value, schema: &Schema, path: &Path, dropped: &mut Vec<String>) {
    if schema.embedded
        && let Some(Value::Object(metadata)) = value.get_mut("metadata")
    {
        let path = path.child("metadata");
        metadata.retain(|name, _| {
            let known = OBJECT_META.iter().any(|(known, _)| known == name);
            if !known {
                dropped.push(path.child(name).to_string());
            }
            known
        });
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(field) = schema.field(name) {
                    prune_at(value, field, &path.child(name), dropped);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (i, item) in list.iter_mut().enumerate() {
                    prune_at(item, items, &path.index(i), dropped);
                }
            }
        }
        _ => {}
    }
}

/// Mistakes in apiVersion, kind and metadata of every embedded resource.
pub fn check(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if schema.embedded {
                resource(value, path, errors);
            }
            for (name, value) in map {
                match (schema.properties.get(name), schema.field(name)) {
                    (Some(field), _) => check(value, field, &path.child(name), errors),
                    (None, Some(each)) => check(value, each, &path.key(name), errors),
                    (None, None) => {}
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (i, item) in list.iter().enumerate() {
                    check(item, items, &path.index(i), errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let path = path.child(name);
        match value.get(name) {
            None => errors.push(FieldError::required(&path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&path, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "kind" && !is_kind(text) => {
                let detail = "must start with a letter and consist of letters, digits and dashes, at most 63";
                errors.push(FieldError::invalid(&path, text.as_str(), detail));
            }
            Some(Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                errors.push(FieldError::invalid(&path, text.as_str(), "must be version or group/version"));
            }
            Some(Value::String(_)) => {}
            Some(other) => errors.push(FieldError::invalid(&path, other.clone(), "must be a string")),
        }
    }
    let path = path.child("metadata");
    match value.get("metadata") {
        None => {}
        Some(Value::Object(metadata)) => {
            for (name, of_type) in OBJECT_META {
                if let Some(value) = metadata.get(name).filter(|value| !value.is_null()) {
                    meta_field(value, of_type, &path.child(name), errors);
                }
            }
            let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
            if name == "." || name == ".." || name.contains(['/', '%']) {
                let detail = "must not be '.' or '..' or contain '/' or '%'";
                errors.push(FieldError::invalid(&path.child("name"), name, detail));
            }
        }
        Some(other) => errors.push(FieldError::invalid(&path, other.clone(), "must be an object")),
    }
}

fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn meta_field(value: &Value, of_type: MetaType, path: &Path, errors: &mut Vec<FieldError>) {
    let (fits, wanted) = match of_type {
        MetaType::Text => (value.is_string(), "a string"),
        MetaType::Whole => (value.is_i64(), "a whole number"),
        MetaType::Texts => {
            (value.as_object().is_some_and(|map| map.values().all(Value::is_string)), "a map of strings")
        }
        MetaType::List => (value.is_array(), "a list"),
    };
    if !fits {
        errors.push(FieldError::invalid(path, value.clone(), format!("must be {wanted}")));
    }
}
