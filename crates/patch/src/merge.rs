//! Merge patch (RFC 7386), with the one liberty that Kubernetes takes: nulls vanish also inside lists that replace a
//! value, because no typed object can hold them.
//!
//! Called by the engine for `application/merge-patch+json`.

use api::error::ApiError;
use serde_json::{Map, Value};

/// The document after the patch. Only an object is a patch: 400 otherwise.
pub fn apply(mut document: Value, patch: Value) -> Result<Value, ApiError> {
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request("a merge patch must be a JSON object"));
    };
    match &mut document {
        Value::Object(map) => merge(map, patch),
        other => {
            *other = Value::Object(patch);
            drop_nulls(other);
        }
    }
    Ok(document)
}

fn merge(map: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, mut value) in patch {
        if value.is_null() {
            map.remove(&key);
            continue;
        }
        match (map.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(patch)) => merge(below, patch),
            (Some(current @ Value::Object(_)), replacement) => *current = replacement,
            (_, replacement) => {
                value = replacement;
                drop_nulls(&mut value);
                map.insert(key, value);
            }
        }
    }
}

/// Removes fields that are null, at every depth; null items of lists stay.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_examples_of_the_standard_hold_for_objects() {
        for (document, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({"a": [1]}), json!({"a": [{"b": null, "c": 1}, null]}), json!({"a": [{"c": 1}, null]})),
        ] {
            assert_eq!(apply(document.clone(), patch.clone()), Ok(expected), "{patch} on {document}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_no_patch() {
        for patch in [json!(null), json!([]), json!("x"), json!(1)] {
            assert_eq!(apply(json!({}), patch).unwrap_err().code, 400);
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_standard_where_lists_hold_no_nulls(
            document in super::super::json::tests::document(),
            patch in super::super::json::tests::document(),
        ) {
            let mut expected = document.clone();
            json_patch::merge(&mut expected, &patch);
            prop_assert_eq!(apply(document, patch).unwrap(), expected);
        }
    }
}
