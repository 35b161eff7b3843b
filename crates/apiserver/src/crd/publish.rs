//! The schema of a custom resource as `/openapi` shows it: what its author wrote, and what every object has.

use super::definition::{Definition, Version};
use serde_json::{Map, Value, json};

/// The published schema of one version. Author's properties named apiVersion, kind or metadata give way to those of Kubernetes.
pub fn published_schema(definition: &Definition, version: &Version) -> Value {
    let mut schema = version.source.as_object().cloned().unwrap_or_default();
    let mut properties = match schema.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    properties.insert(
        "apiVersion".to_owned(),
        json!({"type": "string", "description": "Version of the schema that this object is written in."}),
    );
    properties.insert(
        "kind".to_owned(),
        json!({"type": "string", "description": "Name of the REST resource that this object is, in CamelCase."}),
    );
    let meta = format!("#/components/schemas/{}", super::shape::OBJECT_META);
    properties.insert(
        "metadata".to_owned(),
        json!({"description": "Standard object metadata.", "allOf": [{"$ref": meta}]}),
    );
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("type".to_owned(), "object".into());
    schema.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!([{"group": definition.group, "kind": definition.names.kind, "version": version.name}]),
    );
    schema.into()
}
