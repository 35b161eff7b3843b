//! The version 2 document against that of Kubernetes, where one is at hand:
//! `KUBERNETES_SWAGGER=api/openapi-spec/swagger.json cargo test -p apiserver swagger`.

use super::*;
use serde_json::Map;

/// Types that may hold anything: references there, written out here.
const FREE: [&str; 6] = [
    "RawExtension",
    "FieldsV1",
    ".JSON",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
];

/// A schema without what is said for people, with free types as `{}` and required fields sorted.
fn bare(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    if map.get("$ref").and_then(Value::as_str).is_some_and(|name| FREE.iter().any(|free| name.ends_with(free))) {
        return json!({});
    }
    let mut kept = Map::new();
    for (key, value) in map {
        let value = match (key.as_str(), value) {
            ("description", Value::String(_)) => continue,
            // What a patch does anyway.
            ("x-kubernetes-patch-strategy", Value::String(strategy)) if strategy == "replace" => continue,
            ("required", Value::Array(names)) => {
                let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                names.sort_unstable();
                json!(names)
            }
            _ => bare(value),
        };
        kept.insert(key.clone(), value);
    }
    if kept == Map::from_iter([("type".to_owned(), "object".into())]) { json!({}) } else { kept.into() }
}

#[test]
fn types_and_operations_agree_with_the_swagger_document_if_one_is_named() {
    let Some(path) = std::env::var_os("KUBERNETES_SWAGGER") else { return };
    let theirs: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let ours = version_2();
    let mut differences = Vec::new();
    let mut note = |place: String, ours: &Value, theirs: &Value| {
        if ours != theirs {
            differences.push(format!("{place}: {ours}, not {theirs}"));
        }
    };
    for (name, schema) in ours["definitions"].as_object().unwrap() {
        let Some(other) = theirs["definitions"].get(name) else { continue };
        let (schema, other) = (bare(schema), bare(other));
        for key in ["type", "format", "required", "x-kubernetes-map-type"] {
            note(format!("{name} {key}"), &schema[key], &other[key]);
        }
        let empty = Map::new();
        let fields = |schema: &Value| schema["properties"].as_object().cloned().unwrap_or_else(|| empty.clone());
        let (schema, other) = (fields(&schema), fields(&other));
        note(
            format!("{name} fields"),
            &json!(schema.keys().collect::<Vec<_>>()),
            &json!(other.keys().collect::<Vec<_>>()),
        );
        for (field, schema) in &schema {
            note(format!("{name} {field}"), schema, &other[field]);
        }
    }
    for (path, item) in ours["paths"].as_object().unwrap().iter().filter(|(path, _)| !path.contains("example.com")) {
        for (method, operation) in item.as_object().unwrap() {
            let other = &theirs["paths"][path][method];
            for key in ["operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind", "tags"] {
                note(format!("{method} {path} {key}"), &operation[key], &other[key]);
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
