//! JSON into CEL values, by the schema: formats become times and bytes, and only declared fields are seen.

use super::eval;
use crate::{
    structural::{Additional, Kind, Schema},
    walk::{META, format::Format},
};
use kube_cel::cel::{
    Value,
    objects::{Key, Map},
};
use serde_json::Value as Json;
use std::{collections::HashMap, sync::Arc};

/// The value that `self` is bound to.
pub(super) fn convert(json: &Json, schema: &Schema, is_resource: bool) -> Value {
    match (json, schema.kind) {
        (Json::String(text), Some(Kind::String)) => formatted(text, schema.checks.format),
        (Json::Number(number), Some(Kind::Number)) => Value::Float(number.as_f64().unwrap_or_default()),
        (Json::Array(list), _) => {
            let item = |item: &Json| match &schema.items {
                Some(items) => convert(item, items, items.embedded),
                None => plain(item),
            };
            Value::List(Arc::new(list.iter().map(item).collect()))
        }
        (Json::Object(_), Some(Kind::Object)) => object(json, schema, is_resource),
        _ => plain(json),
    }
}

/// A value that no schema describes.
pub(super) fn plain(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int(whole),
            // A schema that asks for an integer takes 1.0 for one.
            (None, Some(double)) if double.fract() == 0.0 && double.abs() < 9e15 => Value::Int(double as i64),
            (None, double) => Value::Float(double.unwrap_or_default()),
        },
        Json::String(value) => text(value),
        Json::Array(list) => Value::List(Arc::new(list.iter().map(plain).collect())),
        Json::Object(map) => made(map.iter().map(|(name, value)| (name.clone(), plain(value)))),
    }
}

/// A value as JSON; absent for what JSON has no form for, such as a type.
pub(super) fn to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::UInt(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::String(text) => text.as_str().into(),
        Value::List(list) => list.iter().map(to_json).collect::<Option<Vec<_>>>()?.into(),
        Value::Map(map) => {
            let entry = |(key, value): (&Key, &Value)| match key {
                Key::String(key) => Some((key.to_string(), to_json(value)?)),
                _ => None,
            };
            Json::Object(map.map.iter().map(entry).collect::<Option<_>>()?)
        }
        Value::Bytes(_) | Value::Timestamp(_) | Value::Duration(_) => {
            let Ok(Value::String(text)) = super::convert::convert("string", value) else { return None };
            text.as_str().into()
        }
        other => match eval::as_optional(other)?.value() {
            Some(inner) => to_json(inner)?,
            None => Json::Null,
        },
    })
}

fn object(json: &Json, schema: &Schema, is_resource: bool) -> Value {
    let Json::Object(map) = json else { return plain(json) };
    if let Some(Additional::Each(each)) = &schema.additional {
        return made(map.iter().map(|(key, value)| (key.clone(), convert(value, each, each.embedded))));
    }
    let field = |(name, value): (&String, &Json)| {
        if is_resource && META.contains(&name.as_str()) {
            return Some((name.clone(), if name == "metadata" { names_of(value) } else { plain(value) }));
        }
        let field = schema.properties.get(name).filter(|field| field.kind.is_some() || field.int_or_string)?;
        Some((escape(name)?, convert(value, field, field.embedded)))
    };
    made(map.iter().filter_map(field))
}

/// Of metadata, rules see the name alone.
fn names_of(metadata: &Json) -> Value {
    let names = ["name", "generateName"].into_iter();
    made(names.filter_map(|name| metadata.get(name).map(|value| (name.to_owned(), plain(value)))))
}

fn formatted(value: &str, format: Option<Format>) -> Value {
    let by = |function: &str| eval::convert_text(function, value);
    match format {
        Some(Format::DateTime) => by("timestamp"),
        Some(Format::Date) => eval::convert_text("timestamp", &format!("{value}T00:00:00Z")),
        Some(Format::Duration) => by("duration"),
        Some(Format::Byte) => by("base64.decode"),
        _ => text(value),
    }
}

pub(super) fn text(value: &str) -> Value {
    Value::String(Arc::new(value.to_owned()))
}

pub(super) fn made(entries: impl Iterator<Item = (String, Value)>) -> Value {
    let map: HashMap<Key, Value> = entries.map(|(key, value)| (Key::String(Arc::new(key)), value)).collect();
    Value::Map(Map { map: Arc::new(map) })
}

const KEYWORDS: [&str; 20] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];

/// The name of a field in rules: CEL knows letters, digits and underscores only. Absent when there is no such name.
pub(super) fn escape(name: &str) -> Option<String> {
    if KEYWORDS.contains(&name) || name == "while" {
        return Some(format!("__{name}__"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (written, length) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            c if c.is_ascii_alphanumeric() || c == '_' => (&rest[..1], 1),
            _ => return None,
        };
        escaped.push_str(written);
        rest = &rest[length..];
    }
    Some(escaped)
}
