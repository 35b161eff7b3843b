//! The `x-kubernetes-*` keywords of a structural node and how they must agree with the rest of it.

use super::{Kind, ListType, Schema, keywords::Keywords};
use api::error::FieldError;
use serde_json::Value;

/// Reads the extensions, before the children: embedded resources treat some of them differently.
pub(super) fn read(node: &Keywords<'_>, schema: &mut Schema, errors: &mut Vec<FieldError>) {
    schema.int_or_string = node.flag("x-kubernetes-int-or-string", errors);
    schema.embedded = node.flag("x-kubernetes-embedded-resource", errors);
    schema.preserve_unknown = node.flag("x-kubernetes-preserve-unknown-fields", errors);
    if node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let path = node.at("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&path, false, "must be true or undefined"));
    }
    let keys = node.texts("x-kubernetes-list-map-keys", errors);
    schema.list_type = match node.text("x-kubernetes-list-type", errors) {
        None => None,
        Some("atomic") => Some(ListType::Atomic),
        Some("set") => Some(ListType::Set),
        Some("map") => Some(ListType::Map(keys.clone())),
        Some(other) => {
            let path = node.at("x-kubernetes-list-type");
            errors.push(FieldError::not_supported(&path, other, &["atomic", "set", "map"]));
            None
        }
    };
    schema.atomic_map = match node.text("x-kubernetes-map-type", errors) {
        None | Some("granular") => false,
        Some("atomic") => true,
        Some(other) => {
            let path = node.at("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(&path, other, &["atomic", "granular"]));
            false
        }
    };
    if !keys.is_empty() && !matches!(schema.list_type, Some(ListType::Map(_))) {
        let path = node.at("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is not empty";
        errors.push(match node.get("x-kubernetes-list-type") {
            None => FieldError::required(&path, detail),
            Some(given) => FieldError::invalid(&path, given.clone(), detail),
        });
    }
}

/// Checks the extensions against the node and its children.
pub(super) fn check(node: &Keywords<'_>, schema: &Schema, errors: &mut Vec<FieldError>) {
    if schema.int_or_string && schema.preserve_unknown {
        let path = node.at("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&path, true, "must be false if x-kubernetes-int-or-string is true"));
    }
    if schema.int_or_string && schema.embedded {
        let path = node.at("x-kubernetes-embedded-resource");
        errors.push(FieldError::invalid(&path, true, "must be false if x-kubernetes-int-or-string is true"));
    }
    for (key, kind) in [("x-kubernetes-map-type", Kind::Object), ("x-kubernetes-list-type", Kind::Array)] {
        if node.text(key, &mut Vec::new()).is_none() || schema.kind == Some(kind) {
            continue;
        }
        let detail = format!("must be {} if {key} is specified", kind.name());
        errors.push(match schema.kind {
            None => FieldError::required(&node.at("type"), detail),
            Some(given) => FieldError::invalid(&node.at("type"), given.name(), detail),
        });
    }
    match &schema.list_type {
        Some(ListType::Set) => set(node, schema, errors),
        Some(ListType::Map(keys)) => map(node, schema, keys, errors),
        Some(ListType::Atomic) | None => {}
    }
}

/// Items of a set are compared as wholes, so they must be wholes for apply too.
fn set(node: &Keywords<'_>, schema: &Schema, errors: &mut Vec<FieldError>) {
    let Some(items) = &schema.items else { return };
    let detail = "must be atomic for items of a list with x-kubernetes-list-type=set";
    let path = node.at("items");
    match items.kind {
        Some(Kind::Array) if matches!(items.list_type, Some(ListType::Set | ListType::Map(_))) => {
            errors.push(FieldError::invalid(&path.child("x-kubernetes-list-type"), Value::Null, detail));
        }
        Some(Kind::Object) if !items.atomic_map => {
            errors.push(FieldError::invalid(&path.child("x-kubernetes-map-type"), Value::Null, detail));
        }
        _ => {}
    }
    if items.nullable {
        errors.push(FieldError::forbidden(&path.child("nullable"), "items of a set cannot be null"));
    }
}

fn map(node: &Keywords<'_>, schema: &Schema, keys: &[String], errors: &mut Vec<FieldError>) {
    let at_keys = node.at("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&at_keys, "must not be empty if x-kubernetes-list-type is map"));
    }
    let path = node.at("items");
    let Some(items) = &schema.items else {
        errors.push(FieldError::required(&path, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    if items.nullable {
        errors.push(FieldError::forbidden(&path.child("nullable"), "items of a map list cannot be null"));
    }
    if items.kind != Some(Kind::Object) {
        let given = items.kind.map_or("", Kind::name);
        let detail = "must be object if the list has x-kubernetes-list-type=map";
        errors.push(FieldError::invalid(&path.child("type"), given, detail));
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        if keys[..i].contains(key) {
            errors.push(FieldError::invalid(&at_keys, keys.to_vec(), "must not contain duplicate entries"));
        }
        let Some(field) = items.properties.get(key) else {
            errors.push(FieldError::invalid(&at_keys, keys.to_vec(), "must all be names of item properties"));
            continue;
        };
        let path = path.child("properties").key(key);
        if let Some(kind @ (Kind::Array | Kind::Object)) = field.kind {
            let detail = "must be a scalar if the list has x-kubernetes-list-type=map";
            errors.push(FieldError::invalid(&path.child("type"), kind.name(), detail));
        }
        if field.default.is_none() && !items.checks.required.contains(key) {
            let detail = "a key of a map list must be required or have a default";
            errors.push(FieldError::required(&path.child("default"), detail));
        }
        if field.nullable {
            errors.push(FieldError::forbidden(&path.child("nullable"), "a key of a map list cannot be null"));
        }
    }
}
