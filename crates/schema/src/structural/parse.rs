//! `openAPIV3Schema` as JSON into `Schema`: the rules that can be checked node by node.
//!
//! Mirrors the apiextensions validation of schemas and the invariants of structural schemas; paths and reasons are theirs.

use super::{
    Additional, Kind, MAX_DEPTH, Schema, extensions,
    keywords::Keywords,
    nested::{self, Reader},
    rule,
};
use api::{error::FieldError, path::Path};
use serde_json::{Map, Value};

/// Keywords that may stand at the root when status is checked on its own.
const ROOT_WITH_STATUS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What a node is part of; decides which message a missing type gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Where in the tree a node stands.
#[derive(Clone, Copy)]
struct Position {
    level: Level,
    depth: usize,
    /// Inside apiVersion, kind or metadata of the object or of an embedded one.
    in_meta: bool,
    /// Why a default is refused here.
    no_default: Option<&'static str>,
}

/// The whole schema. What is wrong is reported and left out.
pub(super) fn root(raw: &Value, path: &Path, status: bool, errors: &mut Vec<FieldError>) -> Schema {
    if let Value::Object(map) = raw {
        check_root(map, path, status, errors);
    }
    let position = Position { level: Level::Root, depth: 0, in_meta: false, no_default: None };
    schema(raw, path, position, &mut Reader::new(errors))
}

fn check_root(map: &Map<String, Value>, path: &Path, status: bool, errors: &mut Vec<FieldError>) {
    if map.get("nullable") == Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(&path.child("nullable"), "the root cannot be null"));
    }
    let refused = map.iter().filter(|(key, value)| !ROOT_WITH_STATUS.contains(&key.as_str()) && !is_zero(value));
    for (key, _) in refused.filter(|(key, _)| status && is_known(key)) {
        errors.push(FieldError::forbidden(
            &path.child(key),
            "must not stand at the root if the status subresource is enabled, because status is then checked alone",
        ));
    }
}

/// Keywords of the API; others are dropped when the definition is decoded.
fn is_known(key: &str) -> bool {
    matches!(
        key,
        "default"
            | "enum"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "additionalProperties"
            | "maxProperties"
            | "minProperties"
    ) || key.starts_with("x-kubernetes-")
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn schema(raw: &Value, path: &Path, position: Position, reader: &mut Reader<'_>) -> Schema {
    if position.depth > MAX_DEPTH {
        let detail = format!("is nested too deep; at most {MAX_DEPTH} levels are accepted");
        reader.errors.push(FieldError::forbidden(path, detail));
        return Schema::default();
    }
    let Some(node) = Keywords::of(raw, path, reader.errors) else { return Schema::default() };
    nested::refuse_unsupported(&node, reader.errors);

    let mut schema = Schema {
        kind: nested::kind(&node, reader.errors),
        nullable: node.flag("nullable", reader.errors),
        default: default(&node, position, reader.errors),
        rules: rule::parse(&node, reader.errors),
        ..Schema::default()
    };
    extensions::read(&node, &mut schema, reader.errors);
    children(&node, &mut schema, position, reader);
    schema.checks = nested::checks(&node, schema.kind, position.depth, reader);
    extensions::check(&node, &schema, reader.errors);
    check_type(&node, &schema, position, reader.errors);
    check_meta(&node, &schema, position, reader.errors);
    schema
}

fn default(node: &Keywords<'_>, position: Position, errors: &mut Vec<FieldError>) -> Option<Value> {
    let default = node.get("default")?;
    if let Some(why) = position.no_default {
        errors.push(FieldError::forbidden(&node.at("default"), format!("must not be set {why}")));
        return None;
    }
    Some(default.clone())
}

fn children(node: &Keywords<'_>, schema: &mut Schema, position: Position, reader: &mut Reader<'_>) {
    let below = Position { depth: position.depth + 1, ..position };
    match node.get("items") {
        None => {}
        Some(Value::Array(_)) => {
            reader.errors.push(FieldError::forbidden(&node.at("items"), "must be a schema, not a list of schemas"));
        }
        Some(raw) => {
            let position = Position { level: Level::Item, ..below };
            schema.items = Some(Box::new(self::schema(raw, &node.at("items"), position, reader)));
        }
    }
    let properties = node.object("properties", reader.errors);
    for (name, raw) in properties.into_iter().flatten() {
        let mut position = Position { level: Level::Field, ..below };
        if META.contains(&name.as_str()) && (below.depth == 1 || schema.embedded) {
            position.in_meta = true;
            if below.depth == 1 {
                position.no_default = Some("in top-level apiVersion, kind or metadata");
            }
        }
        let path = node.at("properties").key(name);
        schema.properties.insert(name.clone(), self::schema(raw, &path, position, reader));
    }
    let path = node.at("additionalProperties");
    let additional = match node.get("additionalProperties") {
        None => return,
        Some(Value::Bool(true)) => Additional::Free,
        Some(Value::Bool(false)) => Additional::Nothing,
        Some(raw) => {
            let mut position = Position { level: Level::Field, ..below };
            if position.in_meta {
                position.no_default = Some("inside additionalProperties that apply to object metadata");
            }
            Additional::Each(Box::new(self::schema(raw, &path, position, reader)))
        }
    };
    if position.level == Level::Root {
        reader.errors.push(FieldError::forbidden(&path, "must not be used at the root"));
    }
    if schema.embedded {
        reader.errors.push(FieldError::forbidden(&path, "must not be used with x-kubernetes-embedded-resource"));
    }
    if !schema.properties.is_empty() && !matches!(additional, Additional::Free) {
        reader.errors.push(FieldError::forbidden(&path, "properties and additionalProperties exclude each other"));
        return;
    }
    schema.additional = Some(additional);
}

fn check_type(node: &Keywords<'_>, schema: &Schema, position: Position, errors: &mut Vec<FieldError>) {
    let path = node.at("type");
    if schema.kind == Some(Kind::Array) && schema.items.is_none() && !matches!(node.get("items"), Some(Value::Array(_)))
    {
        errors.push(FieldError::required(&node.at("items"), "must be given for arrays"));
    }
    // A type that is there but wrong was reported already.
    if schema.kind.is_none() && node.get("type").is_some_and(|raw| !is_zero(raw)) {
        return;
    }
    match (schema.kind, position.level) {
        (None, _) if schema.embedded => {
            errors.push(FieldError::required(&path, "must be object if x-kubernetes-embedded-resource is true"));
        }
        (Some(kind), _) if schema.embedded && kind != Kind::Object => {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            errors.push(FieldError::invalid(&path, kind.name(), detail));
        }
        (None, _) if schema.int_or_string || schema.preserve_unknown => {}
        (None, Level::Root) => errors.push(FieldError::required(&path, "must not be empty at the root")),
        (None, Level::Item) => errors.push(FieldError::required(&path, "must not be empty for array items")),
        (None, Level::Field) => errors.push(FieldError::required(&path, "must not be empty for object fields")),
        (Some(_), _) => {}
    }
    if let (Some(kind), Level::Root) = (schema.kind, position.level)
        && kind != Kind::Object
    {
        errors.push(FieldError::invalid(&path, kind.name(), "must be object at the root"));
    }
}

/// apiVersion, kind and metadata belong to Kubernetes: a schema may restrict names and nothing else.
fn check_meta(node: &Keywords<'_>, schema: &Schema, position: Position, errors: &mut Vec<FieldError>) {
    let root = position.level == Level::Root;
    if position.in_meta && schema.embedded {
        let path = node.at("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(&path, "must not be used inside of resource metadata"));
    }
    if schema.embedded && !schema.preserve_unknown && schema.properties.is_empty() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&node.at("properties"), detail));
    }
    if !root && !schema.embedded {
        return;
    }
    for (name, kind) in [("kind", Kind::String), ("apiVersion", Kind::String), ("metadata", Kind::Object)] {
        let Some(field) = schema.properties.get(name) else { continue };
        if field.kind != Some(kind) {
            let path = node.at("properties").key(name).child("type");
            let given = field.kind.map_or("", Kind::name);
            errors.push(FieldError::invalid(&path, given, format!("must be {}", kind.name())));
        }
    }
    let metadata = node.get("properties").and_then(|all| all.get("metadata")).and_then(Value::as_object);
    if root && metadata.is_some_and(|metadata| !restricts_names_only(metadata)) {
        let path = node.at("properties").key("metadata");
        errors.push(FieldError::forbidden(&path, "must not specify anything but name and generateName"));
    }
}

fn restricts_names_only(metadata: &Map<String, Value>) -> bool {
    metadata.iter().filter(|(_, value)| !is_zero(value)).all(|(key, value)| match key.as_str() {
        // A default was refused above.
        "type" | "default" => true,
        "properties" => {
            value.as_object().is_some_and(|all| all.keys().all(|name| name == "name" || name == "generateName"))
        }
        _ => false,
    })
}
