//! The table against upstream's discovery, its storage keys and its field selectors.

use super::*;
use crate::resource::SelectableField;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What discovery says of one name: everything but the short names of what is not ours.
fn discovery() -> BTreeMap<(String, String), Value> {
    let text = include_str!("../../../../../testdata/api/discovery.json");
    let documents: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
    let mut all = BTreeMap::new();
    for document in documents.values().filter(|document| document["resources"].is_array()) {
        let group_version = document["groupVersion"].as_str().unwrap().to_owned();
        for entry in document["resources"].as_array().unwrap() {
            let mut entry = entry.clone();
            entry.as_object_mut().unwrap().remove("storageVersionHash");
            all.insert((group_version.clone(), entry["name"].as_str().unwrap().to_owned()), entry);
        }
    }
    all
}

fn shown(resource: &Resource) -> Vec<Value> {
    let namespaced = resource.scope == Scope::Namespaced;
    let mut own = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": namespaced, "kind": resource.kind,
        "verbs": resource.verbs.names(),
    });
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            own[field] = json!(names);
        }
    }
    let mut all = vec![own];
    for sub in &resource.subresources {
        let shown = resource.shown_subresource(sub);
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, sub.name()), "singularName": "", "namespaced": namespaced,
            "kind": shown.kind, "verbs": shown.verbs,
        });
        if let Some((group, version)) = shown.group_version {
            entry["group"] = group.into();
            entry["version"] = version.into();
        }
        all.push(entry);
    }
    all
}

#[test]
fn every_row_is_what_upstreams_discovery_says() {
    let wanted = discovery();
    for resource in table() {
        for entry in shown(&resource) {
            let key = (resource.api_version(), entry["name"].as_str().unwrap().to_owned());
            assert_eq!(Some(&entry), wanted.get(&key), "{key:?}");
        }
        let prefix = format!("{}/", resource.plural);
        let theirs =
            wanted.keys().filter(|(gv, name)| *gv == resource.api_version() && name.starts_with(&prefix)).count();
        assert_eq!(resource.subresources.len(), theirs, "{}", resource.plural);
    }
}

#[test]
fn every_kind_has_a_shape_and_a_name_of_its_own() {
    let table = table();
    for resource in &table {
        assert_ne!(*resource.shape, Shape::Any, "{}", resource.kind);
        let same =
            |other: &&Arc<Resource>| other.api_version() == resource.api_version() && other.plural == resource.plural;
        assert_eq!(table.iter().filter(same).count(), 1, "{}", resource.plural);
    }
    assert_eq!(table.len(), 69);
}

#[test]
fn objects_are_stored_where_kubernetes_stores_them() {
    let special: BTreeMap<&str, &str> = BTreeMap::from([
        ("services", "services/specs"),
        ("endpoints", "services/endpoints"),
        ("nodes", "minions"),
        ("replicationcontrollers", "controllers"),
        ("ingresses", "ingress"),
        ("apiservices", "apiregistration.k8s.io/apiservices"),
        ("customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions"),
    ]);
    for resource in table() {
        let wanted = special.get(resource.plural.as_str()).copied().unwrap_or(&resource.plural);
        assert_eq!(resource.storage, wanted);
    }
}

#[test]
fn fields_are_selected_as_upstream_does() {
    let table = table();
    let find = |plural: &str| table.iter().find(|resource| resource.plural == plural).unwrap();
    let pod = json!({
        "metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "n"},
        "status": {"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}]},
    });
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "reportingComponent": "r"});
    for (plural, object, label, wanted) in [
        ("pods", &pod, "metadata.name", Some("p")),
        ("pods", &pod, "metadata.namespace", Some("d")),
        ("pods", &pod, "spec.nodeName", Some("n")),
        ("pods", &pod, "spec.host", Some("n")),
        ("pods", &pod, "spec.hostNetwork", Some("false")),
        ("pods", &pod, "status.podIP", Some("fd00::1")),
        ("pods", &pod, "status.phase", Some("")),
        ("pods", &pod, "spec.hostname", None),
        ("nodes", &json!({}), "spec.unschedulable", Some("false")),
        ("nodes", &json!({"spec": {"unschedulable": true}}), "spec.unschedulable", Some("true")),
        ("nodes", &json!({}), "metadata.namespace", None),
        ("namespaces", &json!({"status": {"phase": "Active"}}), "status.phase", Some("Active")),
        ("secrets", &json!({"type": "Opaque"}), "type", Some("Opaque")),
        ("services", &json!({"spec": {"clusterIP": "None"}}), "spec.clusterIP", Some("None")),
        ("replicasets", &json!({"status": {"replicas": 2}}), "status.replicas", None),
        ("pods", &pod, "status.podIPs", Some("")),
        ("events", &event, "involvedObject.kind", Some("Pod")),
        ("events", &event, "source", Some("r")),
        ("configmaps", &json!({}), "data", None),
        ("jobs", &json!({"status": {"succeeded": 2}}), "status.successful", Some("2")),
        ("jobs", &json!({}), "status.successful", Some("0")),
        ("replicationcontrollers", &json!({"status": {"replicas": 3}}), "status.replicas", Some("3")),
    ] {
        let resource = find(plural);
        let found = resource.selectable_field(label).ok().map(|field| match field {
            SelectableField::Name => object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            SelectableField::Namespace => object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            SelectableField::Declared(index) => resource.selected(object)[index].to_string(),
        });
        assert_eq!(found.as_deref(), wanted, "{plural} {label}");
    }
}
