//! The whole table against the OpenAPI document of Kubernetes, where one is at hand:
//! `KUBERNETES_SWAGGER=api/openapi-spec/swagger.json cargo test -p api swagger`.

use super::super::{Field, ListKind, MapKind, Shape, Struct, kinds, named};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

#[test]
fn every_type_agrees_with_the_swagger_document_if_one_is_named() {
    let Some(path) = std::env::var_os("KUBERNETES_SWAGGER") else { return };
    let text = std::fs::read(path).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    let mut differences = Vec::new();
    let mut checked = 0;
    for name in reachable() {
        if let Some(definition) = document["definitions"].get(name) {
            compare(named(name).unwrap(), definition, &mut differences);
            checked += 1;
        }
    }
    assert!(checked > 300, "only {checked} types were found in the document");
    assert_eq!(differences, Vec::<String>::new());
}

fn reachable() -> BTreeSet<&'static str> {
    fn add(shape: &Shape, seen: &mut BTreeSet<&'static str>) {
        match shape {
            Shape::Named(name) if seen.insert(name) => {
                named(name).unwrap().fields.values().for_each(|field| add(&field.shape, seen));
            }
            Shape::List(item, _) | Shape::Map(item, _) | Shape::Or(item, _) => add(item, seen),
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    kinds().for_each(|(_, _, _, name)| add(&Shape::Named(name), &mut seen));
    seen
}

fn compare(structure: &Struct, definition: &Value, differences: &mut Vec<String>) {
    let empty = Map::new();
    let properties = definition["properties"].as_object().unwrap_or(&empty);
    let mut note = |what: &str, ours: Value, theirs: &Value| {
        if &ours != theirs {
            differences.push(format!("{} {what}: {ours}, not {theirs}", structure.name));
        }
    };
    let required: BTreeSet<&str> =
        structure.fields.iter().filter(|(_, field)| field.required).map(|(name, _)| name.as_str()).collect();
    let theirs: BTreeSet<&str> =
        definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    note("required", json!(required), &json!(theirs));
    note("atomic", json!(structure.atomic), &json!(definition["x-kubernetes-map-type"] == "atomic"));
    note("fields", json!(structure.fields.keys().collect::<Vec<_>>()), &json!(properties.keys().collect::<Vec<_>>()));
    for (name, field) in &structure.fields {
        let Some(property) = properties.get(name) else { continue };
        note(&format!("{name} type"), shape(&field.shape), &type_of(property));
        note(&format!("{name} lists"), lists(field), &lists_of(property));
    }
}

/// Our shape in the words of the document.
fn shape(shape: &Shape) -> Value {
    let meta = |name: &str| json!({"$ref": format!("#/definitions/io.k8s.apimachinery.pkg.{name}")});
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Number => json!({"type": "number", "format": "double"}),
        Shape::String => json!({"type": "string"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Time => meta("apis.meta.v1.Time"),
        Shape::MicroTime => meta("apis.meta.v1.MicroTime"),
        Shape::Duration => meta("apis.meta.v1.Duration"),
        Shape::Quantity => meta("api.resource.Quantity"),
        Shape::IntOrString => meta("util.intstr.IntOrString"),
        Shape::Any | Shape::Or(..) => json!("any"),
        Shape::Named(name) => json!({"$ref": format!("#/definitions/{name}")}),
        Shape::Struct(_) => Value::Null,
        Shape::List(item, _) => json!({"type": "array", "items": self::shape(item)}),
        Shape::Map(item, _) => json!({"type": "object", "additionalProperties": self::shape(item)}),
    }
}

/// The type of a property, without descriptions; the free-form types are one.
fn type_of(property: &Value) -> Value {
    let free = ["RawExtension", "FieldsV1", ".JSON", "OrArray", "OrBool", "OrStringArray"];
    if property["$ref"].as_str().is_some_and(|name| free.iter().any(|free| name.ends_with(free))) {
        return json!("any");
    }
    let mut kept = Map::new();
    for key in ["$ref", "type", "format"] {
        if let Some(value) = property.get(key) {
            kept.insert(key.into(), value.clone());
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(value) = property.get(key) {
            kept.insert(key.into(), type_of(value));
        }
    }
    kept.into()
}

fn lists(field: &Field) -> Value {
    let (list, keys) = match &field.shape {
        Shape::List(_, ListKind::Set) => ("set", Value::Null),
        Shape::List(_, ListKind::Map(keys)) => ("map", json!(keys)),
        _ => ("atomic", Value::Null),
    };
    let map = matches!(field.shape, Shape::Map(_, MapKind::Atomic));
    json!([list, keys, map, field.patch.merge, field.patch.retain_keys, field.patch.merge_key])
}

fn lists_of(property: &Value) -> Value {
    let list = property["x-kubernetes-list-type"].as_str().unwrap_or("atomic");
    let map = property["x-kubernetes-map-type"] == "atomic";
    let strategy = property["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    let has = |word: &str| strategy.split(',').any(|one| one == word);
    json!([
        list,
        property["x-kubernetes-list-map-keys"],
        map,
        has("merge"),
        has("retainKeys"),
        property["x-kubernetes-patch-merge-key"]
    ])
}
