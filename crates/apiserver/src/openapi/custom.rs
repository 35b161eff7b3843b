//! The type of a custom resource, from the schema in its definition.

use super::{Dialect, definitions::Definitions};
use api::resource::Resource;
use serde_json::{Map, Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// `stable.example.com`, `v1`, `CronTab` -> `com.example.stable.v1.CronTab`.
pub(super) fn type_name(group: &str, version: &str, kind: &str) -> String {
    let group = group.rsplit('.').collect::<Vec<_>>().join(".");
    format!("{group}.{version}.{kind}")
}

/// Adds the types of a custom resource and of its list.
pub(super) fn add(definitions: &mut Definitions, dialect: Dialect, resource: &Resource, schema: Option<&Value>) {
    let name = type_name(&resource.group, &resource.version, &resource.kind);
    let mut object = schema.cloned().unwrap_or_else(|| json!({"x-kubernetes-preserve-unknown-fields": true}));
    if dialect == Dialect::V2 {
        for_version_2(&mut object);
    }
    let metadata = definitions.reference(&format!("{META}.ObjectMeta"));
    if let Value::Object(map) = &mut object {
        map.insert("type".into(), "object".into());
        if let Value::Object(properties) = map.entry("properties").or_insert_with(|| json!({})) {
            properties.insert("apiVersion".into(), json!({"type": "string"}));
            properties.insert("kind".into(), json!({"type": "string"}));
            properties.insert("metadata".into(), metadata);
        }
    }
    let item = definitions.add(&name, object);
    definitions.kinds(&name, &[(&resource.group, &resource.version, &resource.kind)]);
    let list_metadata = definitions.reference(&format!("{META}.ListMeta"));
    let list = type_name(&resource.group, &resource.version, &resource.list_kind);
    definitions.add(
        &list,
        json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": list_metadata,
                "items": {"type": "array", "items": item},
            },
        }),
    );
    definitions.kinds(&list, &[(&resource.group, &resource.version, &resource.list_kind)]);
}

/// Takes out what version 2 cannot say, so that a client that validates by it refuses nothing that the server accepts.
fn for_version_2(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for unsaid in ["oneOf", "anyOf", "allOf", "not", "x-kubernetes-validations"] {
        map.remove(unsaid);
    }
    let is_true = |map: &Map<String, Value>, name: &str| map.get(name) == Some(&Value::Bool(true));
    let nullable = map.remove("nullable") == Some(Value::Bool(true));
    if nullable || is_true(map, "x-kubernetes-int-or-string") {
        for constraint in ["type", "items", "properties", "additionalProperties", "required"] {
            map.remove(constraint);
        }
    }
    if is_true(map, "x-kubernetes-preserve-unknown-fields") {
        for constraint in ["items", "properties", "additionalProperties", "required"] {
            map.remove(constraint);
        }
    }
    // A default is the server's business, and a boolean here is not a schema.
    map.remove("default");
    if map.get("additionalProperties").is_some_and(Value::is_boolean) {
        map.remove("additionalProperties");
    }
    for (key, inner) in map.iter_mut() {
        match (key.as_str(), inner) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(for_version_2),
            ("items" | "additionalProperties", inner) => for_version_2(inner),
            _ => {}
        }
    }
}
