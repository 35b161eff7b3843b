//! The type of a custom resource, from the schema in its definition.

use super::{Dialect, definitions::Definitions, descriptions};
use api::resource::Resource;
use serde_json::{Map, Value, json};

const PRESERVED: &str = "x-kubernetes-preserve-unknown-fields";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// `stable.example.com`, `v1`, `CronTab` -> `com.example.stable.v1.CronTab`.
pub(super) fn type_name(group: &str, version: &str, kind: &str) -> String {
    let group = group.rsplit('.').collect::<Vec<_>>().join(".");
    format!("{group}.{version}.{kind}")
}

/// Adds the types of a custom resource and of its list.
pub(super) fn add(definitions: &mut Definitions, dialect: Dialect, resource: &Resource, schema: Option<Value>) {
    let Resource { group, version, kind, list_kind, .. } = resource;
    let mut object = match schema {
        Some(Value::Object(schema)) => schema,
        _ => Map::from_iter([(PRESERVED.to_owned(), true.into())]),
    };
    if dialect == Dialect::V2 && is_true(&object, PRESERVED) {
        // Nothing is said of what may be anything: not even of its head, as upstream has it.
        object.clear();
    } else {
        if dialect == Dialect::V2 {
            for_version_2(&mut object);
        }
        let mut properties = match object.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        properties.extend(head(definitions, "ObjectMeta"));
        object.insert("properties".into(), properties.into());
    }
    object.insert("type".into(), "object".into());
    let name = type_name(group, version, kind);
    let item = definitions.add(&name, object.into());
    definitions.kinds(&name, &[(group, version, kind)]);

    let mut properties = head(definitions, "ListMeta");
    let items = definitions.described(json!({"type": "array", "items": item}), descriptions::of_field("List", "items"));
    properties.insert("items".into(), items);
    let description = descriptions::of_list(kind);
    let list = json!({"type": "object", "description": description, "required": ["items"], "properties": properties});
    let name = type_name(group, version, list_kind);
    definitions.add(&name, list);
    definitions.kinds(&name, &[(group, version, list_kind)]);
}

/// The fields that every object and every list begins with.
fn head(definitions: &mut Definitions, metadata: &str) -> Map<String, Value> {
    let metadata = definitions.reference(&format!("{META}.{metadata}"));
    let text = json!({"type": "string"});
    [("apiVersion", text.clone()), ("kind", text), ("metadata", metadata)]
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), definitions.described(schema, descriptions::of_field("", name))))
        .collect()
}

fn is_true(map: &Map<String, Value>, name: &str) -> bool {
    map.get(name) == Some(&Value::Bool(true))
}

/// Takes out what version 2 cannot say, so that a client that validates by it refuses nothing that the server accepts.
fn for_version_2(map: &mut Map<String, Value>) {
    for unsaid in ["oneOf", "anyOf", "allOf", "not", "x-kubernetes-validations"] {
        map.remove(unsaid);
    }
    let nullable = map.remove("nullable") == Some(Value::Bool(true));
    if nullable || is_true(map, "x-kubernetes-int-or-string") {
        for constraint in ["type", "items", "properties", "additionalProperties", "required"] {
            map.remove(constraint);
        }
    }
    if is_true(map, PRESERVED) {
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
            ("properties", Value::Object(properties)) => {
                properties.values_mut().filter_map(Value::as_object_mut).for_each(for_version_2);
            }
            ("items" | "additionalProperties", Value::Object(inner)) => for_version_2(inner),
            _ => {}
        }
    }
}
