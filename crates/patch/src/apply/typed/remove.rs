//! An object without the fields of a set.

use super::{View, step_of, view};
use crate::apply::{path::Step, set::FieldSet};
use api::schema::Shape;
use serde_json::{Map, Value};

/// The object without the members of `gone`. What loses everything below it becomes null, which the typed round trip
/// takes for absent.
pub(in crate::apply) fn remove(shape: &Shape, object: &Value, gone: &FieldSet) -> Value {
    if gone.is_empty() {
        return object.clone();
    }
    match (view(shape, object), object) {
        (View::Items(item, keys), Value::Array(list)) => {
            let left: Vec<Value> = list
                .iter()
                .filter_map(|value| match step_of(item, keys, value).ok().and_then(|step| gone.node(&step)) {
                    None => Some(value.clone()),
                    Some(node) if node.owned => None,
                    Some(node) => Some(remove(item, value, &node.below)),
                })
                .collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (View::Entries(entries), Value::Object(map)) => {
            let left: Map<String, Value> = map
                .iter()
                .filter_map(|(key, value)| {
                    let left = match gone.node(&Step::field(key)) {
                        None => value.clone(),
                        Some(node) if node.owned => return None,
                        Some(node) => remove(entries.lenient(key).0, value, &node.below),
                    };
                    Some((key.clone(), left))
                })
                .collect();
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        // A set that reaches below an atomic list or object is about all of it.
        (_, Value::Array(_) | Value::Object(_)) => Value::Null,
        (_, scalar) => scalar.clone(),
    }
}
