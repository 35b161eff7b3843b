//! The types of a document: every struct that the served kinds refer to, as JSON schemas.
//!
//! Called by `v2` and `v3`, which differ in how a reference is written, in defaults, and in the free-form types.

use super::{Dialect, descriptions};
use api::schema::{Field, ListKind, MapKind, Omit, Shape, Struct, named};
use serde_json::{Map, Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Types of one document as they are collected.
pub(super) struct Definitions {
    dialect: Dialect,
    types: Map<String, Value>,
}

impl Definitions {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, types: Map::new() }
    }

    /// All that was asked for and what it refers to.
    pub(super) fn into_types(self) -> Map<String, Value> {
        self.types
    }

    /// A reference to a built-in type, which becomes part of the document.
    pub(super) fn reference(&mut self, name: &str) -> Value {
        if !self.types.contains_key(name) {
            // Stands for the type while it is made, because types refer to themselves.
            self.types.insert(name.to_owned(), Value::Null);
            let made = match named(name) {
                Some(structure) => self.structure(structure),
                None => self.scalar(name),
            };
            self.types.insert(name.to_owned(), made);
        }
        self.pointer(name)
    }

    /// A reference to a type that is added as it is (custom resources).
    pub(super) fn add(&mut self, name: &str, schema: Value) -> Value {
        self.types.insert(name.to_owned(), schema);
        self.pointer(name)
    }

    /// Says which kinds a type stands for.
    pub(super) fn kinds(&mut self, name: &str, kinds: &[(&str, &str, &str)]) {
        if let Some(Value::Object(definition)) = self.types.get_mut(name) {
            let list: Vec<Value> = kinds
                .iter()
                .map(|(group, version, kind)| json!({"group": group, "version": version, "kind": kind}))
                .collect();
            definition.insert("x-kubernetes-group-version-kind".into(), list.into());
        }
    }

    fn pointer(&self, name: &str) -> Value {
        match self.dialect {
            Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Dialect::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }

    /// The types that are no structs but have a name.
    fn scalar(&self, name: &str) -> Value {
        let mut schema = match (name.rsplit('.').next().unwrap_or_default(), self.dialect) {
            ("Time" | "MicroTime", _) => json!({"type": "string", "format": "date-time"}),
            ("Quantity", Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ("IntOrString", Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
            ("IntOrString", Dialect::V3) => {
                json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
            }
            ("Patch", _) => json!({"type": "object"}),
            _ => json!({"type": "string"}),
        };
        describe(&mut schema, descriptions::of_type(name));
        schema
    }

    fn structure(&mut self, structure: &Struct) -> Value {
        let mut schema = json!({"type": "object"});
        describe(&mut schema, descriptions::of_type(&structure.name));
        if structure.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        let required: Vec<&String> =
            structure.fields.iter().filter(|(_, f)| f.required).map(|(name, _)| name).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        let properties: Map<String, Value> =
            structure.fields.iter().map(|(name, field)| (name.clone(), self.field(structure, name, field))).collect();
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        schema
    }

    fn field(&mut self, structure: &Struct, name: &str, field: &Field) -> Value {
        // JSON schemas hold any JSON; everywhere else the free form is an object.
        let schema = match field.shape {
            Shape::Any if structure.name != SCHEMA => json!({"type": "object"}),
            _ => self.shape(&field.shape),
        };
        let mut more = Map::new();
        if let Some(text) = descriptions::of_field(&structure.name, name) {
            more.insert("description".into(), text.into());
        }
        if self.dialect == Dialect::V3
            && let Some(default) = field.default.clone().or_else(|| zero(field))
        {
            more.insert("default".into(), default);
        }
        match &field.shape {
            // The list of a kind is no field that anybody applies.
            Shape::List(..) if name == "items" && structure.name.ends_with("List") => {}
            Shape::List(_, kind) => {
                let (list, keys) = match kind {
                    ListKind::Atomic => ("atomic", None),
                    ListKind::Set => ("set", None),
                    ListKind::Map(keys) => ("map", Some(keys)),
                };
                more.insert("x-kubernetes-list-type".into(), list.into());
                if let Some(keys) = keys {
                    more.insert("x-kubernetes-list-map-keys".into(), json!(keys));
                }
            }
            Shape::Map(_, MapKind::Atomic) => _ = more.insert("x-kubernetes-map-type".into(), "atomic".into()),
            _ => {}
        }
        let strategy = [("merge", field.patch.merge), ("retainKeys", field.patch.retain_keys)];
        let strategy: Vec<&str> = strategy.iter().filter(|(_, set)| *set).map(|(word, _)| *word).collect();
        if !strategy.is_empty() {
            more.insert("x-kubernetes-patch-strategy".into(), strategy.join(",").into());
        }
        if let Some(key) = &field.patch.merge_key {
            more.insert("x-kubernetes-patch-merge-key".into(), key.as_str().into());
        }
        self.with(schema, more)
    }

    /// A schema with a description of this place.
    pub(super) fn described(&self, schema: Value, text: Option<&str>) -> Value {
        self.with(schema, text.map(|text| ("description".to_owned(), text.into())).into_iter().collect())
    }

    /// Adds to a schema; in version 3 a reference may have nothing beside it.
    fn with(&self, schema: Value, more: Map<String, Value>) -> Value {
        let mut schema = match schema {
            reference if self.dialect == Dialect::V3 && reference.get("$ref").is_some() && !more.is_empty() => {
                json!({"allOf": [reference]})
            }
            other => other,
        };
        if let Value::Object(map) = &mut schema {
            map.extend(more);
        }
        schema
    }

    fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Int32 => json!({"type": "integer", "format": "int32"}),
            Shape::Int64 => json!({"type": "integer", "format": "int64"}),
            Shape::Number => json!({"type": "number", "format": "double"}),
            Shape::String => json!({"type": "string"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Time => self.reference(&format!("{META}.Time")),
            Shape::MicroTime => self.reference(&format!("{META}.MicroTime")),
            Shape::Duration => self.reference(&format!("{META}.Duration")),
            Shape::Quantity => self.reference("io.k8s.apimachinery.pkg.api.resource.Quantity"),
            Shape::IntOrString => self.reference("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            Shape::Any | Shape::Or(..) => json!({}),
            Shape::Named(name) => self.reference(name),
            Shape::Struct(made) => self.structure(made),
            Shape::List(item, _) => json!({"type": "array", "items": self.shape(item)}),
            Shape::Map(value, _) => json!({"type": "object", "additionalProperties": self.shape(value)}),
        }
    }
}

fn describe(schema: &mut Value, text: Option<String>) {
    if let Some(text) = text {
        schema["description"] = text.into();
    }
}

/// Version 3 documents say what is written for a field that nobody gave: structs, and scalars that are always written.
fn zero(field: &Field) -> Option<Value> {
    let shown = match field.shape {
        Shape::Named(_) | Shape::Struct(_) => true,
        _ => field.omit == Omit::Never,
    };
    zero_of(&field.shape).filter(|_| shown && !field.pointer)
}

fn zero_of(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Bool => Some(json!(false)),
        Shape::Int32 | Shape::Int64 | Shape::Number => Some(json!(0)),
        Shape::String => Some(json!("")),
        Shape::Named(_) | Shape::Struct(_) => Some(json!({})),
        _ => None,
    }
}
