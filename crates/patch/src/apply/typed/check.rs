//! Whether a value fits its type well enough to own its fields.

use super::{Entries, Keys, View, distinguishable, step_of, view};
use crate::apply::path::Step;
use api::schema::Shape;
use serde_json::Value;
use std::{collections::BTreeSet, fmt};

/// Whether list items may share a key: live objects may, applied configurations may not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::apply) enum Duplicates {
    Allowed,
    Refused,
}

/// All mistakes, each with the path it is at.
pub(in crate::apply) fn check(shape: &Shape, object: &Value, duplicates: Duplicates) -> Vec<String> {
    let mut mistakes = Vec::new();
    Checker { duplicates, mistakes: &mut mistakes }.value(shape, object, &FieldPath::Root);
    mistakes
}

/// Where a value stands. It becomes text only for a mistake: most objects have none, and are checked at every write.
enum FieldPath<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, &'a Step),
    Index(&'a Self, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, step) => write!(f, "{parent}{step}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

struct Checker<'a> {
    duplicates: Duplicates,
    mistakes: &'a mut Vec<String>,
}

impl Checker<'_> {
    fn report(&mut self, path: &FieldPath<'_>, what: impl fmt::Display) {
        self.mistakes.push(format!("{path}: {what}"));
    }

    fn value(&mut self, shape: &Shape, value: &Value, path: &FieldPath<'_>) {
        if value.is_null() {
            return;
        }
        match (view(shape, value), value) {
            (View::Entries(entries), Value::Object(_)) => self.entries(entries, value, path),
            (View::Entries(_), _) => self.report(path, format_args!("must be an object, got {value}")),
            (View::Items(item, keys), Value::Array(list)) => self.items(item, keys, list, path),
            (View::Items(..), _) => self.report(path, format_args!("must be a list, got {value}")),
            (View::Leaf, _) => self.leaf(shape, value, path),
        }
    }

    fn leaf(&mut self, shape: &Shape, value: &Value, path: &FieldPath<'_>) {
        let accepted = match shape {
            Shape::Or(_, other) => return self.value(other, value, path),
            Shape::List(item, _) => match value {
                Value::Array(list) => {
                    for (index, value) in list.iter().enumerate() {
                        self.value(item, value, &FieldPath::Index(path, index));
                    }
                    return;
                }
                _ => "a list",
            },
            Shape::Map(values, _) if value.is_object() => return self.entries(Entries::Map(values), value, path),
            Shape::Map(..) => "an object",
            Shape::Named(_) | Shape::Struct(_) => match (shape.as_struct(), value) {
                (Some(known), Value::Object(_)) => return self.entries(Entries::Struct(known), value, path),
                (None, _) => return,
                _ => "an object",
            },
            Shape::Bool if !value.is_boolean() => "true or false",
            Shape::Int32 | Shape::Int64 | Shape::Number if !value.is_number() => "a number",
            Shape::String | Shape::Bytes | Shape::Duration if !value.is_string() => "a string",
            Shape::Time | Shape::MicroTime | Shape::Quantity | Shape::IntOrString
                if value.is_object() || value.is_array() =>
            {
                "a scalar"
            }
            _ => return,
        };
        self.report(path, format_args!("must be {accepted}, got {value}"));
    }

    fn entries(&mut self, entries: Entries<'_>, value: &Value, path: &FieldPath<'_>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let path = FieldPath::Field(path, key);
            match entries.field(key) {
                Some((shape, _)) => self.value(shape, value, &path),
                None => self.report(&path, "field not declared in schema"),
            }
        }
    }

    fn items(&mut self, item: &Shape, keys: Keys<'_>, list: &[Value], path: &FieldPath<'_>) {
        let mut seen = BTreeSet::new();
        for (index, value) in list.iter().enumerate() {
            let numbered = FieldPath::Index(path, index);
            if self.duplicates == Duplicates::Allowed {
                match distinguishable(item, keys, value) {
                    Ok(()) => self.value(item, value, &numbered),
                    Err(why) => self.report(&numbered, why),
                }
                continue;
            }
            match step_of(item, keys, value) {
                Err(why) => self.report(&numbered, why),
                Ok(step) => {
                    let path = FieldPath::Item(path, &step);
                    self.value(item, value, &path);
                    if seen.contains(&step) {
                        self.report(&path, "stands twice in the list");
                    }
                    seen.insert(step);
                }
            }
        }
    }
}
