//! Whether an object is as it is wanted, and what to apply where it is not. Pure.

use serde_json::{Value, json};

/// What an object was written from.
const APPLIED: &str = "twinstack.dev/applied-from";

/// What to apply; nothing where everything that is wanted is there, and nothing else of ours.
pub(super) fn difference(mut wanted: Value, live: Option<&Value>, manager: &str) -> Option<Value> {
    prune(&mut wanted);
    wanted["metadata"]["annotations"][APPLIED] = json!(fingerprint(&json!([manager, wanted])));
    let Some(live) = live else { return Some(wanted) };
    // Finalizers are put there at creation; from then on they are everybody's.
    let left = live["metadata"]["finalizers"].as_array();
    if let Some(finalizers) = wanted["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|wanted| left.is_some_and(|left| left.contains(wanted)));
    }
    let mut compared = wanted.clone();
    if let Some(metadata) = compared["metadata"].as_object_mut() {
        metadata.remove("finalizers");
    }
    let going = !live["metadata"]["deletionTimestamp"].is_null();
    (!going && !contains(live, &compared)).then_some(wanted)
}

/// Takes out what is null: by apply, it would be owned.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether everything that is wanted is there. What the API server or somebody else has added does not matter.
#[must_use]
pub fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| contains(live.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        // What is empty is the same as absent, which is how the API server stores it.
        (Value::Null, Value::String(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Object(wanted)) => wanted.values().all(|wanted| contains(&Value::Null, wanted)),
        (live, wanted) => live == wanted,
    }
}

/// Tells values apart; not for what somebody might forge.
#[must_use]
pub fn fingerprint(value: &Value) -> String {
    format!("{:016x}", crate::stable_hash(value.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_adds_is_no_difference() {
        let live = json!({"spec": {"a": 1, "added": true, "list": [{"name": "x", "added": 1}]}, "metadata": {"labels": {"theirs": "1"}}});
        for (wanted, same) in [
            (json!({"spec": {"a": 1}}), true),
            (json!({"spec": {"list": [{"name": "x"}]}}), true),
            (json!({"spec": {"empty": [], "none": {}, "text": ""}}), true),
            (json!({"spec": {"a": 2}}), false),
            (json!({"spec": {"list": [{"name": "x"}, {"name": "y"}]}}), false),
            (json!({"spec": {"list": []}}), false),
            (json!({"metadata": {"labels": {"ours": "1"}}}), false),
        ] {
            assert_eq!(contains(&live, &wanted), same, "{wanted}");
        }
    }

    #[test]
    fn only_what_differs_is_applied() {
        let wanted =
            |data: Value| json!({"kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["f"]}, "data": data});
        let first = difference(wanted(json!({"a": "1", "b": null})), None, "me").unwrap();
        assert_eq!(first["data"], json!({"a": "1"}));
        assert_eq!(difference(wanted(json!({"a": "1"})), Some(&first), "me"), None);
        // Less than before, though all of it is there.
        let less = difference(wanted(json!({})), Some(&first), "me").unwrap();
        assert_eq!((&less["data"], &less["metadata"]["finalizers"]), (&json!({}), &json!(["f"])));
        let mut live = first.clone();
        live["metadata"]["finalizers"] = json!(["g"]);
        assert_eq!(difference(wanted(json!({"a": "1"})), Some(&live), "me"), None, "finalizers are everybody's");
        let again = difference(wanted(json!({"a": "2"})), Some(&live), "me").unwrap();
        assert_eq!(again["metadata"]["finalizers"], json!([]), "what is gone is not put back");
        live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(difference(wanted(json!({"a": "2"})), Some(&live), "me"), None, "what is going goes");
    }
}
