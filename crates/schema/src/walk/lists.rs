//! Lists that are sets or maps hold each item, or each key, once.

use crate::structural::{ListType, Schema};
use api::{error::FieldError, path::Path};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Reports the second appearance of every item that stands more than once.
pub fn check(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match (schema.properties.get(name), schema.field(name)) {
                    (Some(field), _) => check(value, field, &path.child(name), errors),
                    (None, Some(each)) => check(value, each, &path.key(name), errors),
                    (None, None) => {}
                }
            }
        }
        Value::Array(list) => {
            match &schema.list_type {
                Some(ListType::Set) => duplicates(list.iter().cloned(), path, errors),
                Some(ListType::Map(keys)) => map(list, keys, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(items) = &schema.items {
                for (i, item) in list.iter().enumerate() {
                    check(item, items, &path.index(i), errors);
                }
            }
        }
        _ => {}
    }
}

fn map(list: &[Value], keys: &[String], path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(i) = list.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object, as an item of a list of type map";
        errors.push(FieldError::invalid(&path.index(i), list[i].clone(), detail));
        return;
    }
    let key_of = |item: &Value| {
        let known = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
        Value::Object(known.collect::<Map<_, _>>())
    };
    duplicates(list.iter().map(key_of), path, errors);
}

fn duplicates(items: impl Iterator<Item = Value>, path: &Path, errors: &mut Vec<FieldError>) {
    let items: Vec<Value> = items.collect();
    let mut seen: HashMap<&Value, usize> = HashMap::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let times = seen.entry(item).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(&path.index(i), item.clone()));
        }
    }
}
