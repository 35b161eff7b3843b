//! Definitions as earlier releases left them.

use crate::Kubectl;
use serde_json::{Value, json};

/// Makes a definition as `manager` of a release did that did not know `field` of the spec yet, and waits until it is served.
pub fn make_older(kubectl: &Kubectl, mut definition: Value, manager: &str, field: &str) {
    let known = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties");
    let known = known.and_then(Value::as_object_mut).expect("fields of the spec");
    known.remove(field).expect("a field of this name");
    kubectl.ok_with(&["create", "-f", "-", &format!("--field-manager={manager}")], &definition.to_string());
    kubectl.ok(&[
        "wait",
        "--for=condition=established",
        "--timeout=60s",
        &format!("crd/{}", definition["metadata"]["name"].as_str().expect("a name")),
    ]);
}

/// Whether a field of an object's spec that is set is kept: else it is pruned, as the API does with what it does not know.
pub fn is_known(kubectl: &Kubectl, object: &[&str], field: &str, value: &Value) -> bool {
    let patch = json!({"spec": {field: value}}).to_string();
    let answer = kubectl.run(&[&["patch"], object, &["--type=merge", "-o", "json", "-p", &patch]].concat());
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
    answer["spec"][field] == *value
}
