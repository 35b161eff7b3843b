//! Drops fields that the schema does not know.
//!
//! Runs on every decoded object before defaulting. apiVersion, kind and metadata are never pruned: not at the root, and not
//! of an embedded resource.

use super::META;
use crate::structural::{Additional, Schema};
use api::path::Path;
use serde_json::{Map, Value};

/// Prunes a whole object and returns the paths of what was dropped, sorted.
pub fn object(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner { dropped: Vec::new() };
    match object {
        Value::Object(map) if schema.preserve_unknown => pruner.known_fields(map, schema, true, &Path::root()),
        Value::Object(map) => pruner.fields(map, schema, true, &Path::root()),
        _ => {}
    }
    pruner.sorted()
}

/// Prunes a value inside an object and returns the paths of what was dropped, sorted.
pub fn value(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner { dropped: Vec::new() };
    pruner.value(value, Some(schema), &Path::root());
    pruner.sorted()
}

struct Pruner {
    dropped: Vec<String>,
}

impl Pruner {
    fn sorted(mut self) -> Vec<String> {
        self.dropped.sort();
        self.dropped
    }

    /// Without a schema nothing of an object is known.
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>, path: &Path) {
        match (value, schema) {
            (Value::Object(map), None) => {
                self.dropped.extend(map.keys().map(|name| path.child(name).to_string()));
                map.clear();
            }
            (Value::Object(map), Some(schema)) if schema.preserve_unknown => {
                self.known_fields(map, schema, schema.embedded, path);
            }
            (Value::Object(map), Some(schema)) => self.fields(map, schema, schema.embedded, path),
            (Value::Array(list), Some(schema)) if schema.preserve_unknown => self.kept_items(list, schema, path),
            (Value::Array(list), schema) => {
                let items = schema.and_then(|schema| schema.items.as_deref());
                for (i, item) in list.iter_mut().enumerate() {
                    self.value(item, items, &path.index(i));
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, map: &mut Map<String, Value>, schema: &Schema, has_meta: bool, path: &Path) {
        map.retain(|name, value| {
            if has_meta && META.contains(&name.as_str()) {
                return true;
            }
            let path = path.child(name);
            let below = match (schema.properties.get(name), &schema.additional) {
                (Some(field), _) => Some(field),
                (None, Some(Additional::Each(each))) => Some(&**each),
                (None, Some(Additional::Free | Additional::Nothing)) => None,
                (None, None) => {
                    self.dropped.push(path.to_string());
                    return false;
                }
            };
            self.value(value, below, &path);
            true
        });
    }

    /// Unknown fields stay, but what is known is still pruned inside.
    fn known_fields(&mut self, map: &mut Map<String, Value>, schema: &Schema, has_meta: bool, path: &Path) {
        for (name, value) in map.iter_mut().filter(|(name, _)| !(has_meta && META.contains(&name.as_str()))) {
            if let Some(field) = schema.field(name) {
                self.value(value, Some(field), &path.child(name));
            }
        }
    }

    /// A list that is kept as it is passes this on to its items.
    fn kept_items(&mut self, list: &mut [Value], schema: &Schema, path: &Path) {
        let Some(items) = schema.items.as_deref() else { return };
        for (i, item) in list.iter_mut().enumerate() {
            match item {
                Value::Object(map) => self.known_fields(map, items, items.embedded, &path.index(i)),
                Value::Array(list) => self.kept_items(list, items, &path.index(i)),
                _ => {}
            }
        }
    }
}
