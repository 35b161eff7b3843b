//! The version 2 document in protobuf (gnostic's `openapi.v2` messages), which kubectl up to 1.26 asks for.
//!
//! Written by hand for the parts that `v2::document` makes; the numbers are those of `OpenAPIv2.proto`.

use api::protobuf::{put_bytes, put_double, put_number};
use serde_json::Value;

/// Encodes the document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, &document["swagger"]);
    let mut info = Vec::new();
    text(&mut info, 1, &document["info"]["title"]);
    text(&mut info, 2, &document["info"]["version"]);
    put_bytes(&mut out, 2, &info);
    let mut paths = Vec::new();
    named(&mut paths, 2, &document["paths"], path_item);
    put_bytes(&mut out, 8, &paths);
    let mut definitions = Vec::new();
    named(&mut definitions, 1, &document["definitions"], schema);
    put_bytes(&mut out, 9, &definitions);
    out
}

/// `{ name = 1, value = 2 }` for each entry of an object.
pub(super) fn named(out: &mut Vec<u8>, number: u32, map: &Value, encode: fn(&Value) -> Vec<u8>) {
    for (name, value) in map.as_object().into_iter().flatten() {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, name.as_bytes());
        put_bytes(&mut entry, 2, &encode(value));
        put_bytes(out, number, &entry);
    }
}

pub(super) fn text(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
        put_bytes(out, number, text.as_bytes());
    }
}

pub(super) fn texts(out: &mut Vec<u8>, number: u32, value: &Value) {
    for entry in value.as_array().into_iter().flatten() {
        put_bytes(out, number, entry.as_str().unwrap_or_default().as_bytes());
    }
}

pub(super) fn flag(out: &mut Vec<u8>, number: u32, value: &Value) {
    if value == &Value::Bool(true) {
        put_number(out, number, 1);
    }
}

/// Any value: `{ yaml = 2 }`; JSON is YAML.
pub(super) fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 2, value.to_string().as_bytes());
    out
}

pub(super) fn extensions(out: &mut Vec<u8>, number: u32, map: &Value) {
    for (name, value) in map.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, name.as_bytes());
        put_bytes(&mut entry, 2, &any(value));
        put_bytes(out, number, &entry);
    }
}

fn path_item(item: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, method) in
        [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")]
    {
        if let Some(value) = item.get(method) {
            put_bytes(&mut out, number, &operation(value));
        }
    }
    out
}

fn operation(operation: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    texts(&mut out, 1, &operation["tags"]);
    text(&mut out, 3, &operation["description"]);
    text(&mut out, 5, &operation["operationId"]);
    texts(&mut out, 6, &operation["produces"]);
    texts(&mut out, 7, &operation["consumes"]);
    for entry in operation["parameters"].as_array().into_iter().flatten() {
        let mut item = Vec::new();
        put_bytes(&mut item, 1, &parameter(entry));
        put_bytes(&mut out, 8, &item);
    }
    let mut responses = Vec::new();
    named(&mut responses, 1, &operation["responses"], response);
    put_bytes(&mut out, 9, &responses);
    texts(&mut out, 10, &operation["schemes"]);
    extensions(&mut out, 13, operation);
    out
}

/// `Parameter { body = 1, other = 2 { query = 3, path = 4 } }`.
fn parameter(parameter: &Value) -> Vec<u8> {
    let mut inner = Vec::new();
    let mut out = Vec::new();
    if parameter["in"] == "body" {
        text(&mut inner, 1, &parameter["description"]);
        text(&mut inner, 2, &parameter["name"]);
        text(&mut inner, 3, &parameter["in"]);
        flag(&mut inner, 4, &parameter["required"]);
        put_bytes(&mut inner, 5, &schema(&parameter["schema"]));
        put_bytes(&mut out, 1, &inner);
        return out;
    }
    // A query parameter has one field more than a path parameter, before its type.
    let (choice, kind, unique) = if parameter["in"] == "path" { (4, 5, 19) } else { (3, 6, 20) };
    flag(&mut inner, 1, &parameter["required"]);
    text(&mut inner, 2, &parameter["in"]);
    text(&mut inner, 3, &parameter["description"]);
    text(&mut inner, 4, &parameter["name"]);
    text(&mut inner, kind, &parameter["type"]);
    flag(&mut inner, unique, &parameter["uniqueItems"]);
    let mut other = Vec::new();
    put_bytes(&mut other, choice, &inner);
    put_bytes(&mut out, 2, &other);
    out
}

/// `ResponseValue { response = 1 { description = 1, schema = 2 { schema = 1 } } }`.
fn response(response: &Value) -> Vec<u8> {
    let mut inner = Vec::new();
    text(&mut inner, 1, &response["description"]);
    if let Some(value) = response.get("schema") {
        let mut item = Vec::new();
        put_bytes(&mut item, 1, &schema(value));
        put_bytes(&mut inner, 2, &item);
    }
    let mut out = Vec::new();
    put_bytes(&mut out, 1, &inner);
    out
}

fn schema(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        text(&mut out, number, &schema[key]);
    }
    for (number, key) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        if let Some(value) = schema[key].as_f64() {
            put_double(&mut out, number, value);
        }
    }
    for (number, key) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")] {
        flag(&mut out, number, &schema[key]);
    }
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, key) in counts {
        if let Some(value) = schema[key].as_u64() {
            put_number(&mut out, number, value);
        }
    }
    texts(&mut out, 19, &schema["required"]);
    for value in schema["enum"].as_array().into_iter().flatten() {
        put_bytes(&mut out, 20, &any(value));
    }
    if let Some(value) = schema.get("additionalProperties") {
        let mut item = Vec::new();
        match value {
            Value::Bool(allowed) => put_number(&mut item, 2, u64::from(*allowed)),
            value => put_bytes(&mut item, 1, &self::schema(value)),
        }
        put_bytes(&mut out, 21, &item);
    }
    if let Some(kind) = schema["type"].as_str() {
        let mut item = Vec::new();
        put_bytes(&mut item, 1, kind.as_bytes());
        put_bytes(&mut out, 22, &item);
    }
    if let Some(value) = schema.get("items") {
        let mut item = Vec::new();
        put_bytes(&mut item, 1, &self::schema(value));
        put_bytes(&mut out, 23, &item);
    }
    if let Some(value) = schema.get("properties") {
        let mut properties = Vec::new();
        named(&mut properties, 1, value, self::schema);
        put_bytes(&mut out, 25, &properties);
    }
    extensions(&mut out, 31, schema);
    out
}
