//! An object of a type with nothing set, as Go writes it.

use api::schema::{Field, Omit, Shape};
use serde_json::{Map, Value, json};

/// What a new object is compared with: the fields that a built-in type always writes are there already, and so are not
/// owned by whoever creates the object. Types made at run time write nothing by themselves.
pub(in crate::apply) fn zero(shape: &Shape) -> Value {
    let mut object = Map::new();
    if let Shape::Named(_) = shape {
        for (name, field) in shape.as_struct().into_iter().flat_map(|known| &known.fields) {
            if let Some(value) = written(field) {
                object.insert(name.clone(), value);
            }
        }
    }
    Value::Object(object)
}

/// The value of a key field that an item leaves out.
pub(super) fn key_default(field: &Field) -> Option<Value> {
    field.default.clone().or_else(|| written(field).filter(|value| !value.is_null()))
}

/// Whether there is such a value.
pub(super) fn has_key_default(field: &Field) -> bool {
    field.default.is_some() || written(field).is_some_and(|value| !value.is_null())
}

fn written(field: &Field) -> Option<Value> {
    let value = if field.pointer { Value::Null } else { zero_value(&field.shape) };
    let left_out = match field.omit {
        Omit::Never => false,
        Omit::Empty => !value.is_object(),
        Omit::Zero => true,
    };
    (!left_out).then_some(value)
}

fn zero_value(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!(false),
        Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => json!(0),
        Shape::String => json!(""),
        Shape::Duration => json!("0s"),
        Shape::Quantity => json!("0"),
        Shape::Named(_) | Shape::Struct(_) => zero(shape),
        Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::Any
        | Shape::Or(..)
        | Shape::List(..)
        | Shape::Map(..) => Value::Null,
    }
}
