//! The documents of version 3 in protobuf (gnostic's `openapi.v3` messages), which clients of Go's `openapi3` package may ask for.
//!
//! Written by hand for the parts that `v3::document` makes; the numbers are those of `OpenAPIv3.proto`.

use super::gnostic::{any, extensions, flag, named, text, texts};
use api::protobuf::{put_bytes, put_double, put_number};
use serde_json::Value;

/// Encodes the document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, &document["openapi"]);
    let mut info = Vec::new();
    text(&mut info, 1, &document["info"]["title"]);
    text(&mut info, 6, &document["info"]["version"]);
    put_bytes(&mut out, 2, &info);
    let mut paths = Vec::new();
    named(&mut paths, 1, &document["paths"], path_item);
    put_bytes(&mut out, 4, &paths);
    let mut components = Vec::new();
    for (number, part, encode) in
        [(1, "schemas", either as fn(&Value) -> Vec<u8>), (7, "securitySchemes", security_scheme)]
    {
        let mut entries = Vec::new();
        named(&mut entries, 1, &document["components"][part], encode);
        put_bytes(&mut components, number, &entries);
    }
    put_bytes(&mut out, 5, &components);
    out
}

/// The first of two choices: `{ it = 1, reference = 2 }`.
fn given(inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, inner);
    out
}

fn path_item(item: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, method) in
        [(4, "get"), (5, "put"), (6, "post"), (7, "delete"), (8, "options"), (9, "head"), (10, "patch")]
    {
        if let Some(value) = item.get(method) {
            put_bytes(&mut out, number, &operation(value));
        }
    }
    for entry in item["parameters"].as_array().into_iter().flatten() {
        put_bytes(&mut out, 13, &parameter(entry));
    }
    out
}

fn operation(operation: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    texts(&mut out, 1, &operation["tags"]);
    text(&mut out, 3, &operation["description"]);
    text(&mut out, 5, &operation["operationId"]);
    for entry in operation["parameters"].as_array().into_iter().flatten() {
        put_bytes(&mut out, 6, &parameter(entry));
    }
    if let Some(body) = operation.get("requestBody") {
        let mut inner = Vec::new();
        content(&mut inner, 2, body);
        flag(&mut inner, 3, &body["required"]);
        put_bytes(&mut out, 7, &given(&inner));
    }
    let mut responses = Vec::new();
    named(&mut responses, 2, &operation["responses"], response);
    put_bytes(&mut out, 8, &responses);
    flag(&mut out, 10, &operation["deprecated"]);
    extensions(&mut out, 13, operation);
    out
}

fn parameter(parameter: &Value) -> Vec<u8> {
    let mut inner = Vec::new();
    text(&mut inner, 1, &parameter["name"]);
    text(&mut inner, 2, &parameter["in"]);
    text(&mut inner, 3, &parameter["description"]);
    flag(&mut inner, 4, &parameter["required"]);
    put_bytes(&mut inner, 10, &either(&parameter["schema"]));
    given(&inner)
}

fn response(response: &Value) -> Vec<u8> {
    let mut inner = Vec::new();
    text(&mut inner, 1, &response["description"]);
    content(&mut inner, 3, response);
    given(&inner)
}

fn content(out: &mut Vec<u8>, number: u32, of: &Value) {
    if let Some(types) = of.get("content") {
        let mut entries = Vec::new();
        named(&mut entries, 1, types, |media| given(&either(&media["schema"])));
        put_bytes(out, number, &entries);
    }
}

fn security_scheme(scheme: &Value) -> Vec<u8> {
    let mut inner = Vec::new();
    for (number, key) in [(1, "type"), (2, "description"), (3, "name"), (4, "in")] {
        text(&mut inner, number, &scheme[key]);
    }
    given(&inner)
}

/// `SchemaOrReference { schema = 1, reference = 2 { _ref = 1 } }`.
fn either(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match schema.get("$ref") {
        Some(to) => {
            let mut reference = Vec::new();
            text(&mut reference, 1, to);
            put_bytes(&mut out, 2, &reference);
        }
        None => put_bytes(&mut out, 1, &self::schema(schema)),
    }
    out
}

fn schema(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, key) in [
        (1, "nullable"),
        (3, "readOnly"),
        (4, "writeOnly"),
        (8, "deprecated"),
        (12, "exclusiveMaximum"),
        (14, "exclusiveMinimum"),
        (20, "uniqueItems"),
    ] {
        flag(&mut out, number, &schema[key]);
    }
    for (number, key) in [(9, "title"), (17, "pattern"), (25, "type"), (34, "description"), (35, "format")] {
        text(&mut out, number, &schema[key]);
    }
    for (number, key) in [(10, "multipleOf"), (11, "maximum"), (13, "minimum")] {
        if let Some(value) = schema[key].as_f64() {
            put_double(&mut out, number, value);
        }
    }
    let counts = [
        (15, "maxLength"),
        (16, "minLength"),
        (18, "maxItems"),
        (19, "minItems"),
        (21, "maxProperties"),
        (22, "minProperties"),
    ];
    for (number, key) in counts {
        if let Some(value) = schema[key].as_u64() {
            put_number(&mut out, number, value);
        }
    }
    texts(&mut out, 23, &schema["required"]);
    for value in schema["enum"].as_array().into_iter().flatten() {
        put_bytes(&mut out, 24, &any(value));
    }
    for (number, key) in [(26, "allOf"), (27, "oneOf"), (28, "anyOf")] {
        for value in schema[key].as_array().into_iter().flatten() {
            put_bytes(&mut out, number, &either(value));
        }
    }
    if let Some(value) = schema.get("not") {
        put_bytes(&mut out, 29, &self::schema(value));
    }
    if let Some(value) = schema.get("items") {
        put_bytes(&mut out, 30, &given(&either(value)));
    }
    if let Some(value) = schema.get("properties") {
        let mut properties = Vec::new();
        named(&mut properties, 1, value, either);
        put_bytes(&mut out, 31, &properties);
    }
    if let Some(value) = schema.get("additionalProperties") {
        let mut item = Vec::new();
        match value {
            Value::Bool(allowed) => put_number(&mut item, 2, u64::from(*allowed)),
            value => put_bytes(&mut item, 1, &either(value)),
        }
        put_bytes(&mut out, 32, &item);
    }
    default(&mut out, &schema["default"]);
    extensions(&mut out, 36, schema);
    out
}

/// `DefaultType { number = 1, boolean = 2, string = 3 }`; there is none for lists and objects, which gnostic leaves out too.
fn default(out: &mut Vec<u8>, value: &Value) {
    let mut item = Vec::new();
    match value {
        Value::Number(number) => put_double(&mut item, 1, number.as_f64().unwrap_or_default()),
        Value::Bool(value) => put_number(&mut item, 2, u64::from(*value)),
        Value::String(text) => put_bytes(&mut item, 3, text.as_bytes()),
        Value::Null | Value::Array(_) | Value::Object(_) => return,
    }
    put_bytes(out, 33, &item);
}
