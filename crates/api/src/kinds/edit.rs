//! Changing what is there without making what is not: the write side of defaults and preparation.

use crate::object::Fields;
use serde_json::Value;
use std::borrow::Cow;

/// The value at a dotted path, if it is there and not null.
pub fn existing<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(object, |value, step| value.get_mut(step)).filter(|value| !value.is_null())
}

/// The items of the list at a dotted path.
pub fn items<'a>(object: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
    existing(object, path).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field of an object unless it has a value; empty text and 0 count as none, as they do in a Go struct.
pub fn fill(object: &mut Value, field: &str, value: impl Into<Value>) {
    let Some(map) = object.as_object_mut() else { return };
    let slot = map.entry(field).or_insert(Value::Null);
    if slot.is_null() || *slot == "" || *slot == 0 {
        *slot = value.into();
    }
}

/// The object in another version of its kind, which has the same fields: some are kept in an older one than they are served in.
pub fn in_version<'a>(object: &'a Value, version: &str) -> Cow<'a, Value> {
    let mut other = object.clone();
    other.set("apiVersion", version);
    Cow::Owned(other)
}
