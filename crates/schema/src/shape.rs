//! The `Shape` of a custom resource, for server-side apply.
//!
//! Values keep their JSON types: a `date-time` is text here, because it must come back as it was written.

use super::structural::{Additional, Kind, ListType, Schema};
use api::schema::{Field, ListKind, MapKind, Omit, Patch, Shape, Struct};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

/// Metadata of every object, by its name in the table of types.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// What decoding asks of any custom object: that it says what it is, and has metadata that is metadata.
pub static ANY_OBJECT: LazyLock<Shape> =
    LazyLock::new(|| of_resource(&Schema { preserve_unknown: true, ..Schema::default() }, ""));

/// The shape of an object of kind `name`.
pub fn of_resource(schema: &Schema, name: &str) -> Shape {
    Shape::Struct(Arc::new(structure(schema, name, true)))
}

fn of(schema: &Schema) -> Shape {
    if schema.int_or_string {
        return Shape::IntOrString;
    }
    match schema.kind {
        None => Shape::Any,
        Some(Kind::Boolean) => Shape::Bool,
        Some(Kind::Integer) => Shape::Int64,
        Some(Kind::Number) => Shape::Number,
        Some(Kind::String) => Shape::String,
        Some(Kind::Array) => {
            let items = schema.items.as_deref().map_or(Shape::Any, of);
            let kind = match &schema.list_type {
                Some(ListType::Set) => ListKind::Set,
                Some(ListType::Map(keys)) => ListKind::Map(keys.clone()),
                Some(ListType::Atomic) | None => ListKind::Atomic,
            };
            Shape::List(Box::new(items), kind)
        }
        Some(Kind::Object) => {
            let map = if schema.atomic_map { MapKind::Atomic } else { MapKind::Granular };
            match &schema.additional {
                Some(Additional::Each(each)) => Shape::Map(Box::new(of(each)), map),
                Some(Additional::Free) if schema.properties.is_empty() => Shape::Map(Box::new(Shape::Any), map),
                _ => Shape::Struct(Arc::new(structure(schema, "", schema.embedded))),
            }
        }
    }
}

fn structure(schema: &Schema, name: &str, is_resource: bool) -> Struct {
    let required = |name: &String| schema.checks.required.contains(name);
    let fields = schema.properties.iter();
    let mut fields: BTreeMap<String, Field> =
        fields.map(|(name, field)| (name.clone(), made(of(field), field, required(name)))).collect();
    if is_resource {
        let plain = Schema::default();
        fields.insert("apiVersion".to_owned(), made(Shape::String, &plain, false));
        fields.insert("kind".to_owned(), made(Shape::String, &plain, false));
        fields.insert("metadata".to_owned(), made(Shape::Named(OBJECT_META), &plain, false));
    }
    Struct { name: name.to_owned(), fields, atomic: schema.atomic_map, open: schema.preserve_unknown }
}

/// Absent, zero and null all differ in a custom resource: nothing is left out when it is written, and nothing added.
fn made(shape: Shape, schema: &Schema, required: bool) -> Field {
    let default = schema.default.clone();
    Field { shape, omit: Omit::Empty, pointer: true, required, number: 0, patch: Patch::default(), default }
}
