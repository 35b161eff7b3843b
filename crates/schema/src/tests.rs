//! A definition as a resource: what the engine sees of it, and its rules on whole objects.

use super::{Definition, DefinitionRules, resources};
use api::{
    object::Fields,
    resource::{Resource, Rules, Scope, Subresource},
    schema::{ListKind, MapKind, Shape},
};
use serde_json::{Value, json};

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "default": 1}, "maybe": {"type": "string", "nullable": true},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "labels": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "share": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let version = |name: &str, served: bool, storage: bool, deprecated: bool| {
        json!({"name": name, "served": served, "storage": storage,
        "deprecated": deprecated, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        "selectableFields": [{"jsonPath": ".spec.size"}]})
    };
    let mut object = json!({"metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version("v1alpha1", false, false, false), version("v1beta1", true, false, true), version("v1", true, true, false)]}});
    DefinitionRules.default(&mut object);
    DefinitionRules.prepare_create(&mut object);
    object.set("status.conditions", json!([{"type": "NamesAccepted", "status": "True"}]));
    object
}

fn served() -> Vec<Resource> {
    resources(&Definition::read(&definition()).unwrap())
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

fn v1() -> Resource {
    served().pop().unwrap()
}

#[test]
fn each_served_version_is_a_view_of_the_same_objects() {
    let all = served();
    assert_eq!(all.iter().map(|one| one.version.as_str()).collect::<Vec<_>>(), ["v1beta1", "v1"]);
    for one in &all {
        assert_eq!((one.storage.as_str(), one.scope, one.custom), ("example.com/widgets", Scope::Cluster, true));
        assert_eq!(
            (one.kind.as_str(), one.list_kind.as_str(), one.singular.as_str()),
            ("Widget", "WidgetList", "widget")
        );
        let scale = Subresource::Scale {
            spec_replicas: "spec.size".into(),
            status_replicas: "status.size".into(),
            selector: None,
        };
        assert_eq!(one.subresources, [Subresource::Status, scale]);
        assert_eq!(*one.selectable, [("spec.size".to_owned(), "spec.size".to_owned())]);
    }
    let mut waiting = definition();
    waiting.remove("status.conditions");
    assert!(resources(&Definition::read(&waiting).unwrap()).is_empty());
}

#[test]
fn a_deprecated_version_says_what_to_use_instead() {
    assert_eq!(
        served()[0].rules.deprecation(),
        Some("example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget")
    );
    assert_eq!(v1().rules.deprecation(), None);
}

#[test]
fn apply_knows_how_lists_and_maps_are_owned() {
    let Shape::Struct(root) = &*v1().shape else { panic!("an object is a struct") };
    let Shape::Struct(spec) = &root.fields["spec"].shape else { panic!("spec is a struct") };
    let shape = |name: &str| &spec.fields[name].shape;
    assert!(matches!(shape("ports"), Shape::List(_, ListKind::Map(keys)) if keys == &["name"]));
    assert!(matches!(shape("tags"), Shape::List(_, ListKind::Set)));
    assert!(matches!(shape("labels"), Shape::Map(_, MapKind::Atomic)));
    assert!(matches!(shape("share"), Shape::IntOrString));
    assert!(matches!(shape("free"), Shape::Struct(free) if free.open));
    assert_eq!(spec.fields["size"].default, Some(json!(1)));
}

#[test]
fn decoding_drops_unknown_fields_and_touches_nothing_else() {
    let rules = v1().rules;
    let spec = json!({"size": "wrong", "maybe": null, "unknown": 1, "ports": [{"name": "a", "odd": 1}], "free": {"x": null},
        "share": 5_000_000_000_u64});
    let mut object = widget(spec);
    let decoded = rules.decode(&mut object).unwrap();
    assert_eq!(decoded.unknown, ["spec.ports[0].odd", "spec.unknown"]);
    assert_eq!(decoded.errors, []);
    let kept = json!({"size": "wrong", "maybe": null, "ports": [{"name": "a"}], "free": {"x": null}, "share": 5_000_000_000_u64});
    assert_eq!(object["spec"], kept);
    // Metadata is what it is for every kind.
    let mut odd = widget(json!({}));
    odd.set("metadata.labels", json!({"a": 1}));
    assert_eq!(rules.decode(&mut odd).unwrap().errors[0].path, "metadata.labels.a");
}

#[test]
fn status_comes_and_goes_by_its_own_path() {
    let rules = v1().rules;
    let mut object = widget(json!({"size": 1}));
    object.set("status", json!({"size": 5}));
    rules.prepare_create(&mut object);
    assert_eq!(object.get("status"), None);
    let mut old = object.clone();
    old.set("status", json!({"size": 7}));
    object.set("status", json!({"size": 5}));
    rules.prepare_update(&mut object, &old);
    assert_eq!(object["status"]["size"], 7);
    // Through that path the spec is not looked at, and rules and limits of status are.
    let mut broken = old.clone();
    broken.set("spec.size", "wrong");
    assert_eq!(rules.validate_status(&widget(json!({"size": 1})), &old), []);
    broken.set("status.size", "wrong");
    let fields: Vec<String> = rules.validate_status(&broken, &old).into_iter().map(|error| error.field).collect();
    assert!(fields.contains(&"status.size".to_owned()), "{fields:?}");
}

#[test]
fn kind_and_version_are_those_of_the_route() {
    let mut object = widget(json!({"size": 1}));
    object.set("kind", "Gadget");
    object.set("apiVersion", "example.com/v2");
    let fields: Vec<String> = v1().rules.validate(&object).into_iter().map(|error| error.field).collect();
    assert_eq!(fields, ["kind", "apiVersion"]);
}

#[test]
fn finalizers_without_a_domain_are_advised_against_when_they_are_new() {
    let rules = v1().rules;
    let mut object = widget(json!({"size": 1}));
    object.set("metadata.finalizers", json!(["mine", "example.com/mine", "orphan"]));
    assert_eq!(rules.warnings(&object, None).len(), 1);
    assert_eq!(rules.warnings(&object, Some(&object)), Vec::<String>::new());
}
