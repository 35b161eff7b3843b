//! Which objects a quota is narrowed to.

use super::Counted;
use crate::{
    kinds::{pod, selector},
    object::Fields,
};
use serde_json::{Value, json};

/// Whether the object is in every scope of the quota.
#[must_use]
pub fn matches(quota: &Value, counted: Counted<'_>, object: &Value) -> bool {
    let plain = quota.list_at("spec.scopes").iter().filter_map(Value::as_str);
    plain.into_iter().all(|scope| is_in(scope, "Exists", &[], counted, object))
        && quota.list_at("spec.scopeSelector.matchExpressions").iter().all(|rule| {
            let values: Vec<&str> = rule.list_at("values").iter().filter_map(Value::as_str).collect();
            is_in(rule.str_at("scopeName"), rule.str_at("operator"), &values, counted, object)
        })
}

fn is_in(scope: &str, operator: &str, values: &[&str], counted: Counted<'_>, object: &Value) -> bool {
    match (counted.group, counted.plural) {
        ("", "pods") => pod_is_in(scope, operator, values, object),
        ("", "persistentvolumeclaims") if scope == "VolumeAttributesClass" => {
            let names = ["spec.volumeAttributesClassName", "status.currentVolumeAttributesClassName"]
                .iter()
                .chain(&["status.modifyVolumeStatus.targetVolumeAttributesClassName"])
                .map(|path| object.str_at(path))
                .filter(|name| !name.is_empty())
                .collect::<Vec<_>>();
            match names.as_slice() {
                [] => selects(operator, values, ""),
                names => names.iter().any(|name| selects(operator, values, name)),
            }
        }
        _ => false,
    }
}

fn pod_is_in(scope: &str, operator: &str, values: &[&str], object: &Value) -> bool {
    let terminates = object.int_at("spec.activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    let best_effort = || match object.str_at("status.qosClass") {
        "" => pod::quality(object) == "BestEffort",
        class => class == "BestEffort",
    };
    match scope {
        "Terminating" => terminates,
        "NotTerminating" => !terminates,
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => selects(operator, values, object.str_at("spec.priorityClassName")),
        "CrossNamespacePodAffinity" => looks_elsewhere(object),
        _ => false,
    }
}

/// Whether the name is one of those that the rule means; empty is no name.
fn selects(operator: &str, values: &[&str], name: &str) -> bool {
    let selector = json!({"matchExpressions": [{"key": "name", "operator": operator, "values": values}]});
    let labels = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    selector::matches(&selector, &labels)
}

/// Whether the pod's affinity is about pods of other namespaces.
fn looks_elsewhere(object: &Value) -> bool {
    let elsewhere = |term: &Value| !term.list_at("namespaces").is_empty() || !term.at("namespaceSelector").is_null();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = object.at("spec.affinity").at(kind);
        affinity.list_at("requiredDuringSchedulingIgnoredDuringExecution").iter().any(elsewhere)
            || affinity
                .list_at("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|wish| elsewhere(wish.at("podAffinityTerm")))
    })
}
