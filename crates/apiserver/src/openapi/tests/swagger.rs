//! The documents against those of Kubernetes, where they are at hand:
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
            (_, Value::Array(list)) => list.iter().map(bare).collect(),
            _ => bare(value),
        };
        kept.insert(key.clone(), value);
    }
    if let (1, Some([only])) = (kept.len(), kept.get("allOf").and_then(Value::as_array).map(Vec::as_slice)) {
        return only.clone();
    }
    if kept == Map::from_iter([("type".to_owned(), "object".into())]) { json!({}) } else { kept.into() }
}

/// What is different, as sentences.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn note(&mut self, path: &str, ours: &Value, theirs: &Value) {
        if ours != theirs {
            self.0.push(format!("{path}: {ours}, not {theirs}"));
        }
    }

    fn types(&mut self, ours: &Value, theirs: &Value) {
        for (name, schema) in ours.as_object().unwrap() {
            let Some(other) = theirs.get(name) else { continue };
            let (schema, other) = (bare(schema), bare(other));
            for key in ["type", "format", "oneOf", "required", "x-kubernetes-map-type"] {
                self.note(&format!("{name} {key}"), &schema[key], &other[key]);
            }
            let fields = |schema: &Value| schema["properties"].as_object().cloned().unwrap_or_default();
            let (schema, other) = (fields(&schema), fields(&other));
            let names = |fields: &Map<String, Value>| json!(fields.keys().collect::<Vec<_>>());
            self.note(&format!("{name} fields"), &names(&schema), &names(&other));
            for (field, schema) in &schema {
                self.note(&format!("{name} {field}"), schema, other.get(field).unwrap_or(&Value::Null));
            }
        }
    }

    fn operations(&mut self, ours: &Value, theirs: &Value) {
        for (path, item) in ours.as_object().unwrap().iter().filter(|(path, _)| !path.contains("example.com")) {
            for (method, operation) in item.as_object().unwrap() {
                let other = &theirs[path][method];
                for key in ["operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind", "tags"] {
                    self.note(&format!("{method} {path} {key}"), &operation[key], &other[key]);
                }
                let codes = |operation: &Value| {
                    json!(operation["responses"].as_object().map(|all| all.keys().collect::<Vec<_>>()))
                };
                self.note(&format!("{method} {path} responses"), &codes(operation), &codes(other));
            }
        }
    }

    fn assert_none(self) {
        assert!(self.0.is_empty(), "{} differences:\n{}", self.0.len(), self.0.join("\n"));
    }
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn types_and_operations_agree_with_the_swagger_document_if_one_is_named() {
    let Some(path) = std::env::var_os("KUBERNETES_SWAGGER") else { return };
    let (ours, theirs) = (version_2(), read(path.as_ref()));
    let mut differences = Differences::default();
    differences.types(&ours["definitions"], &theirs["definitions"]);
    differences.operations(&ours["paths"], &theirs["paths"]);
    differences.assert_none();
}

#[test]
fn documents_of_version_3_agree_with_those_beside_the_swagger_document_if_one_is_named() {
    let Some(path) = std::env::var_os("KUBERNETES_SWAGGER") else { return };
    let folder = std::path::Path::new(&path).with_file_name("v3");
    let mut differences = Differences::default();
    for (key, ours) in version_3().iter().filter(|(key, _)| !key.contains("example.com")) {
        let theirs = read(&folder.join(format!("{}_openapi.json", key.replace('/', "__"))));
        differences.types(&ours["components"]["schemas"], &theirs["components"]["schemas"]);
        differences.operations(&ours["paths"], &theirs["paths"]);
    }
    differences.assert_none();
}
