//! How the group shows itself beside those of the registry.

use super::{GROUP, VERSION};
use serde_json::{Value, json};

const RESOURCES: [(&str, &str, bool); 2] = [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];

fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "preferredVersion": version, "versions": [version]})
}

/// Adds it to `/apis`, in either form.
pub(crate) fn groups(mut document: Value) -> Value {
    if let Some(groups) = document["groups"].as_array_mut() {
        groups.push(group());
    } else if let Some(items) = document["items"].as_array_mut() {
        let resources: Vec<Value> = RESOURCES
            .iter()
            .map(|(plural, kind, namespaced)| {
                let scope = if *namespaced { "Namespaced" } else { "Cluster" };
                json!({"resource": plural, "responseKind": {"group": GROUP, "version": VERSION, "kind": kind},
                       "scope": scope, "singularResource": "", "verbs": ["get", "list"]})
            })
            .collect();
        let version = json!({"version": VERSION, "resources": resources, "freshness": "Current"});
        items.push(json!({"metadata": {"name": GROUP, "creationTimestamp": null}, "versions": [version]}));
    }
    document
}

/// `/apis/metrics.k8s.io`.
pub(crate) fn one_group() -> Value {
    let mut value = group();
    (value["kind"], value["apiVersion"]) = ("APIGroup".into(), "v1".into());
    value
}

/// `/apis/metrics.k8s.io/v1beta1`.
pub(crate) fn resources() -> Value {
    let list: Vec<Value> = RESOURCES
        .iter()
        .map(|(plural, kind, namespaced)| {
            json!({"name": plural, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]})
        })
        .collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"), "resources": list})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_stands_in_both_forms_of_discovery() {
        assert_eq!(
            groups(json!({"groups": []}))["groups"][0]["preferredVersion"]["groupVersion"],
            "metrics.k8s.io/v1beta1"
        );
        let aggregated = groups(json!({"items": []}));
        assert_eq!(aggregated["items"][0]["versions"][0]["resources"][1]["responseKind"]["kind"], "PodMetrics");
        assert_eq!(resources()["resources"][0]["namespaced"], false);
        assert_eq!(one_group()["kind"], "APIGroup");
    }
}
