//! The typed round trip: what reading JSON into a Go struct and writing it again does to an object.
//!
//! Called on every object a client sends, before defaulting. In place and without copies: unknown fields go and are
//! reported, wrong types are mistakes, scalars get their canonical text, empty optional fields go, and fields that are
//! always written appear with their zero value.

use super::{Field, Omit, Shape, Struct, quantity, scalar, scalar::Scalar};
use crate::path::Path;
use serde_json::{Map, Value};
use std::fmt;

/// Upstream reports at most this many unknown fields, so that an answer stays readable.
const MOST_REPORTED: usize = 100;

/// What decoding found.
#[derive(Debug, Default, PartialEq)]
pub struct Decoded {
    /// Paths of the fields that were dropped because the type has none of that name.
    pub unknown: Vec<String>,
    /// Values of the wrong type, all of them.
    pub errors: Vec<Mistake>,
}

/// A value that does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where (`spec.ports[0].port`).
    pub path: String,
    /// What was found there.
    pub found: String,
    /// What would have been accepted.
    pub accepted: &'static str,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the body" } else { &self.path };
        write!(f, "{path}: found {}, accepted is {}", self.found, self.accepted)
    }
}

/// Brings `value` into the form that a typed server would write, and tells what did not fit.
pub fn decode(shape: &Shape, value: &mut Value) -> Decoded {
    let mut walk = Walk::default();
    walk.value(shape, value, &Step::Root);
    walk.0
}

/// The way from the root to a value, kept on the stack and turned into text only when there is something to say.
pub(super) enum Step<'a> {
    Root,
    Field(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl Step<'_> {
    pub(super) fn path(&self) -> Path {
        match self {
            Self::Root => Path::root(),
            Self::Field(parent, name) => parent.path().child(name),
            Self::Index(parent, index) => parent.path().index(*index),
        }
    }
}

#[derive(Default)]
struct Walk(Decoded);

impl Walk {
    fn value(&mut self, shape: &Shape, value: &mut Value, at: &Step<'_>) {
        if value.is_null() {
            *value = zero(shape);
            return;
        }
        match shape {
            Shape::Any => {}
            Shape::Named(_) | Shape::Struct(_) => match (shape.as_struct(), value) {
                (Some(structure), Value::Object(map)) => self.structure(structure, map, at),
                (None, _) => {}
                (_, other) => self.mistake(other, "an object", at),
            },
            Shape::List(item, _) => match value {
                Value::Array(items) => {
                    for (index, entry) in items.iter_mut().enumerate() {
                        self.value(item, entry, &Step::Index(at, index));
                    }
                }
                other => self.mistake(other, "a list", at),
            },
            Shape::Map(item, _) => match value {
                Value::Object(map) => {
                    for (key, entry) in map.iter_mut() {
                        match **item {
                            // A list that is a map's value is a message in storage and comes back empty, not absent.
                            Shape::List(..) if entry.is_null() => *entry = Value::Array(Vec::new()),
                            _ => self.value(item, entry, &Step::Field(at, key)),
                        }
                    }
                }
                other => self.mistake(other, "an object", at),
            },
            Shape::Or(object, other) => {
                // Upstream reads these unions with a decoder of their own, which drops unknown fields without a word.
                let reported = self.0.unknown.len();
                self.value(if value.is_object() { object } else { other }, value, at);
                self.0.unknown.truncate(reported);
            }
            _ => self.scalar(shape, value, at),
        }
    }

    fn structure(&mut self, structure: &Struct, map: &mut Map<String, Value>, at: &Step<'_>) {
        map.retain(|name, value| match structure.fields.get(name) {
            Some(field) => {
                // Absent and null are the same; what must be written although absent is filled in below.
                if value.is_null() {
                    return false;
                }
                self.value(&field.shape, value, &Step::Field(at, name));
                keep(field, value)
            }
            None if structure.open => true,
            None => {
                if self.0.unknown.len() < MOST_REPORTED {
                    self.0.unknown.push(Step::Field(at, name).path().to_string());
                }
                false
            }
        });
        fill(structure, map);
    }

    fn scalar(&mut self, shape: &Shape, value: &mut Value, at: &Step<'_>) {
        let replacement = match (shape, &*value) {
            (Shape::Bool, Value::Bool(_)) | (Shape::String, Value::String(_)) => Ok(None),
            (Shape::Bool, _) => Err("true or false"),
            (Shape::String, _) => Err("text"),
            (Shape::Int32, _) => int32(value).ok_or("a whole number of 32 bits").map(|_| None),
            (Shape::Int64, _) => value.as_i64().ok_or("a whole number of 64 bits").map(|_| None),
            (Shape::IntOrString, Value::String(_)) => Ok(None),
            (Shape::IntOrString, _) => int32(value).ok_or("a whole number of 32 bits, or text").map(|_| None),
            (Shape::Number, Value::Number(number)) => {
                Ok(number.as_f64().filter(|_| number.is_f64()).and_then(whole).map(Value::from))
            }
            (Shape::Number, _) => Err("a number"),
            (Shape::Bytes, Value::String(text)) => written(scalar::bytes(text)).ok_or("base64 text"),
            (Shape::Bytes, _) => Err("base64 text"),
            (Shape::Time, Value::String(text)) => written(scalar::time(text)).ok_or(TIME),
            (Shape::Time, _) => Err(TIME),
            (Shape::MicroTime, Value::String(text)) => written(scalar::micro_time(text)).ok_or(MICRO_TIME),
            (Shape::MicroTime, _) => Err(MICRO_TIME),
            (Shape::Duration, Value::String(text)) => written(scalar::duration(text)).ok_or(DURATION),
            (Shape::Duration, _) => Err(DURATION),
            (Shape::Quantity, Value::String(text)) => written(quantity::canonical(text)).ok_or(QUANTITY),
            (Shape::Quantity, Value::Number(number)) => {
                let text = number.to_string();
                let canonical = match quantity::canonical(&text) {
                    Some(Scalar::Same) => Some(text),
                    Some(Scalar::Text(canonical)) => Some(canonical),
                    _ => None,
                };
                canonical.ok_or(QUANTITY).map(|text| Some(Value::String(text)))
            }
            (Shape::Quantity, _) => Err(QUANTITY),
            _ => Ok(None),
        };
        match replacement {
            Ok(None) => {}
            Ok(Some(new)) => *value = new,
            Err(accepted) => self.mistake(value, accepted, at),
        }
    }

    fn mistake(&mut self, found: &Value, accepted: &'static str, at: &Step<'_>) {
        self.0.errors.push(Mistake { path: at.path().to_string(), found: describe(found), accepted });
    }
}

const TIME: &str = "a time like 2006-01-02T15:04:05Z";
const MICRO_TIME: &str = "a time like 2006-01-02T15:04:05.000000Z";
const DURATION: &str = "a duration like 1h30m";
const QUANTITY: &str = "a quantity like 500m or 1Gi";

fn int32(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

/// Go writes a float without fraction as a whole number.
pub(super) fn whole(float: f64) -> Option<i64> {
    // Above 2^53 a float no longer tells whole numbers apart.
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range, as the condition says")]
    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
}

fn written(scalar: Option<Scalar>) -> Option<Option<Value>> {
    scalar.map(|scalar| match scalar {
        Scalar::Same => None,
        Scalar::Text(text) => Some(Value::String(text)),
        Scalar::Zero => Some(Value::Null),
    })
}

/// A short form of what was found, for messages.
fn describe(value: &Value) -> String {
    const LONGEST: usize = 60;
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => format!("the number {value}"),
        Value::String(text) if text.chars().count() > LONGEST => {
            format!("the text {:?}...", text.chars().take(LONGEST).collect::<String>())
        }
        Value::String(text) => format!("the text {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Whether a decoded value is written at all.
fn keep(field: &Field, value: &mut Value) -> bool {
    if let Value::Array(list) = value
        && list.is_empty()
        && matches!(field.shape, Shape::List(..))
        && !field.pointer
    {
        // Storage does not tell an empty list from none, so neither may the answer to a create.
        *value = Value::Null;
    }
    match field.omit {
        Omit::Never => true,
        _ if field.pointer => true,
        Omit::Empty if is_struct(&field.shape) => true,
        Omit::Empty => !is_zero(value),
        Omit::Zero if is_struct(&field.shape) => value != &zero(&field.shape) && !value.is_null(),
        Omit::Zero => !is_zero(value),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Whether the original type is a struct, which `omitempty` never leaves out.
fn is_struct(shape: &Shape) -> bool {
    match shape {
        Shape::Bool
        | Shape::Int32
        | Shape::Int64
        | Shape::Number
        | Shape::String
        | Shape::Bytes
        | Shape::List(..)
        | Shape::Map(..) => false,
        Shape::Time
        | Shape::MicroTime
        | Shape::Duration
        | Shape::Quantity
        | Shape::IntOrString
        | Shape::Any
        | Shape::Or(..)
        | Shape::Named(_)
        | Shape::Struct(_) => true,
    }
}

/// Adds the fields that are written although nobody gave them.
fn fill(structure: &Struct, map: &mut Map<String, Value>) {
    for (name, field) in &structure.fields {
        let always = match field.omit {
            Omit::Never => true,
            Omit::Empty => !field.pointer && is_struct(&field.shape),
            Omit::Zero => false,
        };
        if always && !map.contains_key(name) {
            map.insert(name.clone(), if field.pointer { Value::Null } else { zero(&field.shape) });
        }
    }
}

/// How Go writes the zero value of a type.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => Value::from(0),
        Shape::String | Shape::Bytes => Value::String(String::new()),
        Shape::Quantity => Value::String("0".into()),
        Shape::Duration => Value::String("0s".into()),
        Shape::Time | Shape::MicroTime | Shape::Any | Shape::Or(..) | Shape::List(..) | Shape::Map(..) => Value::Null,
        Shape::Named(_) | Shape::Struct(_) => {
            let mut map = Map::new();
            if let Some(structure) = shape.as_struct() {
                fill(structure, &mut map);
            }
            Value::Object(map)
        }
    }
}
