//! The document of version 2 with what other servers add to it: their paths, and their types under names of their own where ours
//! say something else.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

const REFERENCE: &str = "#/definitions/";
/// Differs from server to server without meaning anything.
const BESIDE_THE_POINT: [&str; 2] = ["description", "x-kubernetes-group-version-kind"];

/// Adds what another server says. A path that is there stays as it is.
pub(super) fn add(document: &mut Value, other: &Value) {
    let empty = Map::new();
    let theirs = other["definitions"].as_object().unwrap_or(&empty);
    let mut renamed: BTreeMap<&str, String> = BTreeMap::new();
    for (name, definition) in theirs {
        let ours = &document["definitions"];
        let mut free = name.clone();
        let mut number = 1;
        while ours.get(&free).is_some_and(|known| meaning(known) != meaning(definition)) {
            number += 1;
            free = format!("{name}_v{number}");
        }
        if free != *name {
            renamed.insert(name, free);
        }
    }
    for (name, definition) in theirs {
        let name = renamed.get(name.as_str()).unwrap_or(name);
        let definitions = document["definitions"].as_object_mut();
        if let Some(definitions) = definitions.filter(|definitions| !definitions.contains_key(name)) {
            definitions.insert(name.clone(), led_to(definition, &renamed));
        }
    }
    for (path, operations) in other["paths"].as_object().unwrap_or(&empty) {
        if let Some(paths) = document["paths"].as_object_mut().filter(|paths| !paths.contains_key(path)) {
            paths.insert(path.clone(), led_to(operations, &renamed));
        }
    }
}

fn meaning(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| !BESIDE_THE_POINT.contains(&key.as_str()) || is_schema(value));
            Value::Object(kept.map(|(key, value)| (key.clone(), meaning(value))).collect())
        }
        Value::Array(list) => list.iter().map(meaning).collect(),
        other => other.clone(),
    }
}

/// A property may be called `description`.
fn is_schema(value: &Value) -> bool {
    value.is_object()
}

fn led_to(value: &Value, renamed: &BTreeMap<&str, String>) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let to = value.as_str().filter(|_| key == "$ref").and_then(|to| to.strip_prefix(REFERENCE));
                    let led = match to.and_then(|to| renamed.get(to)) {
                        Some(name) => format!("{REFERENCE}{name}").into(),
                        None => led_to(value, renamed),
                    };
                    (key.clone(), led)
                })
                .collect(),
        ),
        Value::Array(list) => list.iter().map(|value| led_to(value, renamed)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_that_mean_something_else_get_names_of_their_own() {
        let mut document = json!({
            "paths": {"/a": {"get": 1}},
            "definitions": {"Same": {"type": "object", "description": "ours"}, "Other": {"type": "string"}},
        });
        let other = json!({
            "paths": {"/a": {"get": 2}, "/b": {"get": {"$ref": "#/definitions/Other"}}},
            "definitions": {
                "Same": {"type": "object", "description": "theirs"},
                "Other": {"type": "object", "properties": {"x": {"$ref": "#/definitions/Same"}, "y": {"$ref": "#/definitions/New"}}},
                "New": {"items": {"$ref": "#/definitions/Other"}},
            },
        });
        add(&mut document, &other);
        let want = json!({
            "paths": {"/a": {"get": 1}, "/b": {"get": {"$ref": "#/definitions/Other_v2"}}},
            "definitions": {
                "Same": {"type": "object", "description": "ours"},
                "Other": {"type": "string"},
                "Other_v2": {"type": "object", "properties": {"x": {"$ref": "#/definitions/Same"}, "y": {"$ref": "#/definitions/New"}}},
                "New": {"items": {"$ref": "#/definitions/Other_v2"}},
            },
        });
        assert_eq!(document, want);
    }
}
