//! Fills in defaults, and drops nulls where null is no value.
//!
//! Runs on every object that a client sends and on every object that is read from storage, so that a default added to the
//! schema later shows up on objects stored before. Idempotent.

use crate::structural::{Additional, Schema};
use serde_json::Value;

/// Drops what null means "absent" for, then fills in.
pub fn object(object: &mut Value, schema: &Schema) {
    drop_nulls(object, Some(schema));
    fill(object, schema);
}

/// A null that is neither accepted nor replaced by a default says the same as no field. List items stay, because dropping
/// one would move the others.
fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let field = schema.field(name);
            if value.is_null() && field.is_some_and(|field| !field.nullable && field.default.is_none()) {
                return false;
            }
            drop_nulls(value, field);
            true
        }),
        Value::Array(list) => list.iter_mut().for_each(|item| drop_nulls(item, schema.items.as_deref())),
        _ => {}
    }
}

fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (name, field) in &schema.properties {
                if let Some(default) = &field.default
                    && map.get(name).is_none_or(|value| value.is_null() && !field.nullable)
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(field) = schema.properties.get(name) {
                    fill(value, field);
                } else if let Some(Additional::Each(each)) = &schema.additional {
                    fill_one(value, each);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                list.iter_mut().for_each(|item| fill_one(item, items));
            }
        }
        _ => {}
    }
}

fn fill_one(value: &mut Value, schema: &Schema) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
    fill(value, schema);
}
