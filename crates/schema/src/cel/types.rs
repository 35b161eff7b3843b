//! What is known of a value before it is there: its CEL type and how large it can get.
//!
//! Made from the schema once per version, by `Known::of_schema`. Bounds are counts of characters, items or keys; where the
//! schema sets none, the largest request does.

use super::{MAX_REQUEST, value};
use crate::{
    structural::{Additional, Kind, Schema},
    walk::format::Format,
};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A CEL type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    /// Not known before the rule runs.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Time,
    List(Arc<Known>),
    Map(Arc<Known>),
    /// Fields by their escaped names.
    Object(Arc<BTreeMap<String, Known>>),
    Optional(Arc<Known>),
    /// Of what `type(x)` is.
    Meta,
    Named(&'static str),
}

/// A type and the largest size of its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) of: Type,
    pub(super) most: u64,
}

impl Known {
    /// A value of one piece.
    pub(super) fn one(of: Type) -> Self {
        Self { of, most: 1 }
    }

    /// A value that only the size of the request bounds.
    pub(super) fn unsized_of(of: Type) -> Self {
        Self { of, most: MAX_REQUEST }
    }

    /// The type of an object's root, or of any value below it.
    pub(super) fn of_schema(schema: &Schema, is_resource: bool) -> Self {
        typed(schema, is_resource).0
    }
}

/// The fewest bytes that a value takes in JSON.
pub(super) fn least_bytes(schema: &Schema) -> u64 {
    typed(schema, schema.embedded).1
}

/// How many pieces of this many bytes, with a comma each, fit into a request.
fn fit(each: u64) -> u64 {
    MAX_REQUEST / (each + 1)
}

fn typed(schema: &Schema, is_resource: bool) -> (Known, u64) {
    let checks = &schema.checks;
    if schema.int_or_string {
        return (Known { of: Type::Dyn, most: checks.max_length.unwrap_or(MAX_REQUEST) }, 1);
    }
    match schema.kind {
        None => (Known::unsized_of(Type::Dyn), 1),
        Some(Kind::Boolean) => (Known::one(Type::Bool), 4),
        Some(Kind::Integer) => (Known::one(Type::Int), 1),
        Some(Kind::Number) => (Known::one(Type::Double), 1),
        Some(Kind::String) => text(schema),
        Some(Kind::Array) => {
            let (item, least) = match &schema.items {
                Some(items) => typed(items, items.embedded),
                None => (Known::unsized_of(Type::Dyn), 1),
            };
            let most = checks.max_items.unwrap_or_else(|| fit(least));
            (Known { of: Type::List(Arc::new(item)), most }, 2)
        }
        Some(Kind::Object) => object(schema, is_resource),
    }
}

fn text(schema: &Schema) -> (Known, u64) {
    let of = match schema.checks.format {
        Some(Format::Date | Format::DateTime) => return (Known::one(Type::Time), 10),
        Some(Format::Duration) => return (Known::one(Type::Duration), 4),
        Some(Format::Byte) => Type::Bytes,
        _ => Type::Text,
    };
    // An enum bounds the length as well as maxLength does.
    let longest =
        schema.checks.allowed.iter().filter_map(|value| value.as_str()).map(|text| text.chars().count() as u64);
    let most = schema.checks.max_length.or_else(|| longest.max()).unwrap_or(MAX_REQUEST - 2);
    (Known { of, most }, 2 + schema.checks.min_length.unwrap_or(0))
}

fn object(schema: &Schema, is_resource: bool) -> (Known, u64) {
    if let Some(Additional::Each(each)) = &schema.additional {
        let (value, least) = typed(each, each.embedded);
        // Each entry has a key in quotes and a colon.
        let most = schema.checks.max_properties.unwrap_or_else(|| fit(least + 3));
        return (Known { of: Type::Map(Arc::new(value)), most }, 2);
    }
    let mut fields = BTreeMap::new();
    let mut least = 2;
    for (name, field) in &schema.properties {
        let (known, bytes) = typed(field, field.embedded);
        if field.kind.is_some() || field.int_or_string {
            fields.extend(value::escape(name).map(|name| (name, known)));
        }
        if schema.checks.required.contains(name) && field.default.is_none() {
            least += name.len() as u64 + 4 + bytes;
        }
    }
    if is_resource {
        let text = || Known { of: Type::Text, most: 253 };
        let metadata = BTreeMap::from([("name".to_owned(), text()), ("generateName".to_owned(), text())]);
        fields.insert("apiVersion".to_owned(), text());
        fields.insert("kind".to_owned(), text());
        fields.insert("metadata".to_owned(), Known { of: Type::Object(Arc::new(metadata)), most: 2 });
    }
    let most = fields.len() as u64;
    (Known { of: Type::Object(Arc::new(fields)), most }, least)
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Time => f.write_str("timestamp"),
            Self::List(item) => write!(f, "list({})", item.of),
            Self::Map(value) => write!(f, "map(string, {})", value.of),
            Self::Object(_) => f.write_str("object"),
            Self::Optional(inner) => write!(f, "optional({})", inner.of),
            Self::Meta => f.write_str("type"),
            Self::Named(name) => f.write_str(name),
        }
    }
}
