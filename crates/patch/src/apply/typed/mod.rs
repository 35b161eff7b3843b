//! Objects seen through their type: what is a leaf, what tells list items apart, what a set of fields means in an object.
//!
//! Used by `ownership` and `last_applied`. Mirrors structured-merge-diff's `typed` package; each walk is a file.

mod atomic;
mod check;
mod compare;
mod fields;
mod merge;
mod remove;
mod zero;

pub(super) use atomic::atomics;
pub(super) use check::{Duplicates, check};
pub(super) use compare::{Comparison, compare};
pub(super) use fields::{collapse, fields, with_named};
pub(super) use merge::merge;
pub(super) use remove::remove;
pub(super) use zero::zero;

use super::path::{Scalar, Step};
use api::schema::{ListKind, MapKind, Shape, Struct};
use serde_json::{Map, Value};

/// What a type is to ownership.
#[derive(Clone, Copy)]
enum View<'a> {
    /// Owned as a whole: scalars, atomic lists, maps and structs.
    Leaf,
    /// A list whose items are owned one by one.
    Items(&'a Shape, Keys<'a>),
    /// An object whose fields are owned one by one.
    Entries(Entries<'a>),
}

/// What tells the items of a list apart.
#[derive(Clone, Copy)]
enum Keys<'a> {
    Value,
    /// These fields.
    Fields(&'a [String]),
}

/// The fields of an object.
#[derive(Clone, Copy)]
enum Entries<'a> {
    Struct(&'a Struct),
    Map(&'a Shape),
}

impl<'a> Entries<'a> {
    /// The type of a field and whether the type names it, as structs do and maps do not. `None`: there is no such field.
    fn field(self, key: &str) -> Option<(&'a Shape, bool)> {
        match self {
            Self::Map(values) => Some((values, false)),
            Self::Struct(known) => match known.fields.get(key) {
                Some(field) => Some((&field.shape, true)),
                None => known.open.then_some((&Shape::Any, false)),
            },
        }
    }

    /// As `field`, for objects that were checked before: what is unknown is taken as it is.
    fn lenient(self, key: &str) -> (&'a Shape, bool) {
        self.field(key).unwrap_or((&Shape::Any, false))
    }
}

/// The view of a type; where a type leaves it open (`Any`, `Or`), the value decides.
fn view<'a>(shape: &'a Shape, value: &Value) -> View<'a> {
    match shape {
        Shape::Any if value.is_object() => View::Entries(Entries::Map(&Shape::Any)),
        Shape::Or(object, _) if value.is_object() => view(object, value),
        Shape::Or(_, other) => view(other, value),
        Shape::List(item, ListKind::Set) => View::Items(item, Keys::Value),
        Shape::List(item, ListKind::Map(keys)) => View::Items(item, Keys::Fields(keys)),
        Shape::Map(values, MapKind::Granular) => View::Entries(Entries::Map(values)),
        Shape::Named(_) | Shape::Struct(_) => match shape.as_struct() {
            Some(known) if !known.atomic => View::Entries(Entries::Struct(known)),
            _ => View::Leaf,
        },
        _ => View::Leaf,
    }
}

/// The view for a pair of values, at least one of which is there; null goes with anything. `None`: one is an object, the
/// other is not, and the type allows both.
fn view_of_pair<'a>(shape: &'a Shape, old: Option<&Value>, new: Option<&Value>) -> Option<View<'a>> {
    let given = |value: &&Value| !value.is_null();
    let (old, new) = (old.filter(given), new.filter(given));
    let open = matches!(shape, Shape::Any | Shape::Or(..));
    match (old, new) {
        (Some(old), Some(new)) if open && old.is_object() != new.is_object() => None,
        _ => Some(view(shape, new.or(old).unwrap_or(&Value::Null))),
    }
}

/// Whether an item of a list can be told from the others, or why not.
fn distinguishable(item: &Shape, keys: Keys<'_>, value: &Value) -> Result<(), String> {
    match (keys, value) {
        (Keys::Value, Value::Null | Value::Object(_) | Value::Array(_)) => {
            Err(format!("the items of a set must be scalars, got {value}"))
        }
        (Keys::Value, _) => Ok(()),
        (Keys::Fields(names), Value::Object(map)) => {
            let has = |name: &String| map.contains_key(name) || item.field(name).is_some_and(zero::has_key_default);
            if names.iter().any(has) { Ok(()) } else { Err(format!("must have {}", names.join(", "))) }
        }
        (Keys::Fields(names), _) => Err(format!("must be an object with {}, got {value}", names.join(", "))),
    }
}

/// The step to an item of a list, or why there is none.
fn step_of(item: &Shape, keys: Keys<'_>, value: &Value) -> Result<Step, String> {
    distinguishable(item, keys, value)?;
    match keys {
        Keys::Value => Ok(Step::Value(Scalar(value.clone()))),
        Keys::Fields(names) => {
            let mut key: Vec<_> = names
                .iter()
                .filter_map(|name| {
                    let default = || item.field(name).and_then(zero::key_default);
                    value.get(name).cloned().or_else(default).map(|value| (name.clone(), Scalar(value)))
                })
                .collect();
            key.sort();
            Ok(Step::Key(key))
        }
    }
}

fn as_list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|map| !map.is_empty())
}

/// All keys of two objects, each once.
fn keys_of<'a>(one: Option<&'a Map<String, Value>>, other: Option<&'a Map<String, Value>>) -> Vec<&'a String> {
    let mut keys: Vec<&String> = one.into_iter().chain(other).flat_map(Map::keys).collect();
    keys.sort();
    keys.dedup();
    keys
}
