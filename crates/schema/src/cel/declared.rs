//! What a schema tells rules about a value: its type, how large it can get, and how small it can be written.
//!
//! Made once per version. Sizes are upstream's, because they decide which rules a definition may have: characters are
//! counted as the bytes that they may take, a time as long as its longest text, and what the schema leaves open is bounded
//! by the largest request.

use super::{
    MAX_REQUEST,
    types::{Object, Type},
    value,
};
use crate::{
    structural::{Additional, Kind, Schema},
    walk::format::Format,
};
use std::{collections::BTreeMap, sync::Arc};

/// Bytes that one character may take.
const BYTES_PER_CHARACTER: u64 = 4;
/// Longest text of a duration or of a time with a date, in quotes.
const TIME_TEXT: u64 = 32;
/// A date in quotes.
const DATE_TEXT: u64 = 12;
/// `metadata.name`; a generated one leaves room for at least one more character.
const NAME_LENGTH: u64 = 253;

/// A value as rules see it.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) of: Type,
    /// Most characters, items or keys; nothing for what has no size.
    pub(super) most: u64,
    /// The fewest bytes that a value takes in JSON.
    pub(super) least_bytes: u64,
    /// Items of a list, values of a map.
    pub(super) each: Option<Arc<Self>>,
}

impl Declared {
    /// A value of which only the type is known.
    pub(super) fn plain(of: Type) -> Self {
        Self { of, most: 0, least_bytes: 0, each: None }
    }

    /// What rules may know of a value with this schema; nothing if they cannot see it. `name` is where it stands.
    pub(super) fn of_schema(schema: &Schema, is_resource: bool, name: &str) -> Option<Self> {
        let checks = &schema.checks;
        if schema.int_or_string {
            let most = checks.max_length.map_or(MAX_REQUEST - 2, in_bytes);
            return Some(Self { of: Type::Dyn, most, least_bytes: 1, each: None });
        }
        let plain = |of, least_bytes| Some(Self { of, most: 0, least_bytes, each: None });
        match schema.kind? {
            Kind::Boolean => plain(Type::Bool, 4),
            Kind::Integer => plain(Type::Int, 1),
            Kind::Number => plain(Type::Double, 1),
            Kind::String => Some(Self::text(schema)),
            Kind::Array => {
                let items = schema.items.as_deref()?;
                let item = Self::of_schema(items, items.embedded, &format!("{name}.@idx"))?;
                let most = checks.max_items.unwrap_or((MAX_REQUEST - 2) / (item.least_bytes + 1));
                Some(Self { of: Type::list(item.of.clone()), most, least_bytes: 2, each: Some(Arc::new(item)) })
            }
            Kind::Object => match &schema.additional {
                Some(Additional::Each(each)) => {
                    let value = Self::of_schema(each, each.embedded, &format!("{name}.@elem"))?;
                    // Each entry has a key of two characters, quotes, a colon and a comma.
                    let most = checks.max_properties.unwrap_or((MAX_REQUEST - 2) / (value.least_bytes + 6));
                    let of = Type::map(Type::Text, value.of.clone());
                    Some(Self { of, most, least_bytes: 2, each: Some(Arc::new(value)) })
                }
                _ => Some(Self::object(schema, is_resource, name)),
            },
        }
    }

    /// What a step of a path leads to: a field, `@items` or `@values`. Keys of maps are texts of no known length.
    pub(super) fn step(&self, step: &str) -> Option<Step<'_>> {
        match step {
            "@items" | "@values" => self.each.as_deref().map(Step::Value),
            "@keys" => matches!(self.of, Type::Map(_)).then_some(Step::Key),
            field => match &self.of {
                Type::Object(object) => object.fields.get(field).map(|field| Step::Value(field)),
                _ => None,
            },
        }
    }

    fn text(schema: &Schema) -> Self {
        let checks = &schema.checks;
        let timed = |of, most, least_bytes| Self { of, most, least_bytes, each: None };
        let bounded = checks.max_length.map(in_bytes);
        let unbounded = MAX_REQUEST - 2;
        match checks.format {
            Some(Format::Byte) => timed(Type::Bytes, checks.max_length.unwrap_or(unbounded), 2),
            Some(Format::Duration) => timed(Type::Duration, TIME_TEXT, 3),
            Some(Format::Date) => timed(Type::Time, DATE_TEXT, DATE_TEXT),
            Some(Format::DateTime) => timed(Type::Time, TIME_TEXT, 21),
            _ => {
                let choices = checks.allowed.iter().map(|value| value.as_str().map_or(0, |text| text.len() as u64));
                let most = bounded.or_else(|| choices.max()).unwrap_or(unbounded);
                timed(Type::Text, most, 2)
            }
        }
    }

    fn object(schema: &Schema, is_resource: bool, name: &str) -> Self {
        let own = |field: &str| {
            let field_schema = schema.properties.get(field)?;
            Self::of_schema(field_schema, field_schema.embedded, &format!("{name}.{}", value::escape(field)?))
        };
        let meta = if is_resource && !describes_resource(schema) { meta_fields(schema, name) } else { Vec::new() };
        let mut fields = BTreeMap::new();
        let mut least_bytes = 2;
        let is_meta = |field: &str| meta.iter().any(|(name, _)| *name == field);
        for (field, declared) in schema.properties.keys().filter(|field| !is_meta(field)).map(|name| (name, own(name)))
        {
            // A field whose name cannot be written in CEL is not seen, but it takes its place.
            let hidden = || {
                let field_schema = schema.properties.get(field)?;
                Self::of_schema(field_schema, field_schema.embedded, name)
            };
            let Some(bytes) = declared.as_ref().map(|field| field.least_bytes).or_else(|| Some(hidden()?.least_bytes))
            else {
                continue;
            };
            if schema.checks.required.contains(field) && schema.properties[field].default.is_none() {
                least_bytes += field.len() as u64 + bytes + 4;
            }
            if let (Some(declared), Some(escaped)) = (declared, value::escape(field)) {
                fields.insert(escaped, Arc::new(declared));
            }
        }
        for (field, declared) in meta {
            if schema.checks.required.iter().any(|required| required == field) {
                least_bytes += field.len() as u64 + declared.least_bytes + 4;
            }
            fields.insert(field.to_owned(), Arc::new(declared));
        }
        let of = Type::Object(Arc::new(Object { name: name.to_owned(), fields }));
        Self { of, most: 0, least_bytes, each: None }
    }
}

/// Where a step of a path ends.
pub(super) enum Step<'d> {
    Value(&'d Declared),
    Key,
}

fn in_bytes(characters: u64) -> u64 {
    characters.saturating_mul(BYTES_PER_CHARACTER)
}

/// Whether the schema of a resource spells out all that rules see of its head; then its own bounds count.
fn describes_resource(schema: &Schema) -> bool {
    let is =
        |of: &Schema, field: &str, kind: Kind| of.properties.get(field).is_some_and(|field| field.kind == Some(kind));
    is(schema, "kind", Kind::String)
        && is(schema, "apiVersion", Kind::String)
        && is(schema, "metadata", Kind::Object)
        && is(&schema.properties["metadata"], "name", Kind::String)
        && is(&schema.properties["metadata"], "generateName", Kind::String)
}

/// Of every resource, rules see kind, apiVersion and two names.
fn meta_fields(schema: &Schema, name: &str) -> Vec<(&'static str, Declared)> {
    let text = |most: u64| Declared { of: Type::Text, most, least_bytes: 2, each: None };
    let own = |field: &str| schema.properties.get("metadata")?.properties.get(field)?.checks.max_length;
    let capped = |field: &str, most: u64| text(in_bytes(own(field).map_or(most, |own| own.min(most))));
    let names = BTreeMap::from([
        ("name".to_owned(), Arc::new(capped("name", NAME_LENGTH))),
        ("generateName".to_owned(), Arc::new(capped("generateName", NAME_LENGTH - 1))),
    ]);
    let metadata = Type::Object(Arc::new(Object { name: format!("{name}.metadata"), fields: names }));
    vec![
        ("apiVersion", text(MAX_REQUEST - 2)),
        ("kind", text(MAX_REQUEST - 2)),
        ("metadata", Declared { of: metadata, most: 0, least_bytes: 2, each: None }),
    ]
}
