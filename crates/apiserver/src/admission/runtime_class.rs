//! RuntimeClass: a pod costs what its class says and goes only where the class exists.

use crate::call::Call;
use api::{
    error::ApiError,
    kinds::quantity::{Amounts, amounts},
    object::Fields,
};
use serde_json::{Value, json};

/// Writes overhead, node selector and tolerations of the class into a new pod.
pub(super) fn apply(call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    let Some(class) = class(call, pod)? else { return Ok(()) };
    merge(&class, pod).map_err(|why| ApiError::forbidden("pods", "", pod.str_at("metadata.name"), why))
}

/// Refuses a new pod whose overhead is not that of its class.
pub(super) fn check(call: &Call, pod: &Value) -> Result<(), ApiError> {
    let class = class(call, pod)?.unwrap_or_default();
    let why = match class.at("overhead.podFixed") {
        Value::Null if pod.at("spec.overhead").is_object() => {
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        }
        Value::Null => return Ok(()),
        fixed if same(fixed, pod.at("spec.overhead")) => return Ok(()),
        _ => MISMATCH,
    };
    Err(ApiError::forbidden("pods", "", pod.str_at("metadata.name"), why))
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn class(call: &Call, pod: &Value) -> Result<Option<Value>, ApiError> {
    let Some(name) = pod.at("spec.runtimeClassName").as_str().filter(|_| call.server.config.admission.runtime_class)
    else {
        return Ok(None);
    };
    let class = call.server.object(&format!("runtimeclasses/{name}"));
    class.map(Some).ok_or_else(|| {
        let why = format!("pod rejected: RuntimeClass {name:?} not found");
        ApiError::forbidden("pods", "", pod.str_at("metadata.name"), why)
    })
}

fn same(one: &Value, other: &Value) -> bool {
    let numbers = |map: &Value| -> Vec<(String, i128)> {
        let amounts: Amounts = amounts(map);
        amounts.into_iter().map(|(name, amount)| (name, amount.nanos)).collect()
    };
    numbers(one) == numbers(other)
}

fn merge(class: &Value, pod: &mut Value) -> Result<(), String> {
    let fixed = class.at("overhead.podFixed");
    if !fixed.is_null() {
        let given = pod.at("spec.overhead");
        if given.as_object().is_some_and(|given| !given.is_empty()) && !same(fixed, given) {
            return Err(MISMATCH.to_owned());
        }
        pod.set("spec.overhead", fixed.clone());
    }
    for (key, wanted) in class.map_at("scheduling.nodeSelector").into_iter().flatten() {
        let selector = pod.at_mut("spec.nodeSelector");
        if !selector.is_object() {
            *selector = json!({});
        }
        if let Some(given) = selector.get(key).filter(|given| *given != wanted) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(wanted),
                text(given)
            ));
        }
        selector[key] = wanted.clone();
    }
    let more = class.list_at("scheduling.tolerations");
    if !more.is_empty() {
        let all = [pod.list_at("spec.tolerations"), more].concat();
        pod.set("spec.tolerations", merged(&all));
    }
    Ok(())
}

/// The tolerations without those that another one covers.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let covered = kept.iter().any(|other| covers(other, one))
            || all[i + 1..].iter().any(|other| other != one && covers(other, one));
        if !covered {
            kept.push(one.clone());
        }
    }
    kept
}

fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let of = |toleration: &Value, field: &str| toleration.str_at(field).to_owned();
    let key = of(wide, "key") == of(narrow, "key") || (of(wide, "key").is_empty() && of(wide, "operator") == "Exists");
    let effect = of(wide, "effect") == of(narrow, "effect") || of(wide, "effect").is_empty();
    let seconds = match (of(wide, "effect").as_str(), wide.int_at("tolerationSeconds")) {
        ("NoExecute", Some(most)) => narrow.int_at("tolerationSeconds").is_some_and(|seconds| seconds <= most),
        _ => true,
    };
    key && effect
        && seconds
        && match of(wide, "operator").as_str() {
            "" | "Equal" => of(narrow, "operator") == "Equal" && of(wide, "value") == of(narrow, "value"),
            "Exists" => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_decides_cost_and_place() {
        let class = json!({"overhead": {"podFixed": {"cpu": "100m"}}, "scheduling": {"nodeSelector": {"kata": "yes"},
            "tolerations": [{"key": "kata", "operator": "Exists"}]}});
        let mut pod = json!({"spec": {"nodeSelector": {"zone": "a"}, "overhead": {"cpu": "0.1"}, "tolerations": [
            {"key": "kata", "operator": "Equal", "value": "x", "effect": "NoSchedule"}, {"key": "mine", "operator": "Exists"}]}});
        assert_eq!(merge(&class, &mut pod), Ok(()));
        assert_eq!(
            pod,
            json!({"spec": {"nodeSelector": {"zone": "a", "kata": "yes"}, "overhead": {"cpu": "100m"},
                "tolerations": [{"key": "mine", "operator": "Exists"}, {"key": "kata", "operator": "Exists"}]}})
        );
        let mut elsewhere = json!({"spec": {"nodeSelector": {"kata": "no"}}});
        assert_eq!(
            merge(&class, &mut elsewhere),
            Err("conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no"
                .to_owned())
        );
        assert_eq!(merge(&class, &mut json!({"spec": {"overhead": {"cpu": "1"}}})), Err(MISMATCH.to_owned()));
    }
}
