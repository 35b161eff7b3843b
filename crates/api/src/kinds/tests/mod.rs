//! Good and bad objects of every kind: the good one is accepted, each mistake is reported where it is and for what it is.

mod batch;
mod cluster;
mod network;
mod workloads;

use super::{meta, table};
use crate::{
    error::Reason::{self, Duplicate, Forbidden, Invalid, NotSupported, Required, TooLong},
    object::Fields,
    resource::{Resource, Scope},
    schema,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// One mistake: JSON pointer of what is set (null takes it away), the value, the field and the reason of the refusal.
pub(super) type Mistake<'a> = (&'a str, Value, &'a str, Reason);

/// The resource of this group and plural name.
pub(super) fn resource(group: &str, plural: &str) -> Arc<Resource> {
    table().into_iter().find(|r| r.group == group && r.plural == plural).unwrap()
}

/// The object as a create would store it, and what is wrong with it.
pub(super) fn create(resource: &Resource, object: &Value) -> (Value, Vec<(String, Reason)>) {
    let mut object = object.clone();
    decode(resource, &mut object);
    resource.rules.default(&mut object);
    resource.rules.prepare_create(&mut object);
    let mut errors = meta::validate(&object, resource);
    errors.extend(resource.rules.validate(&object));
    (object, errors.into_iter().map(|error| (error.field, error.reason)).collect())
}

/// What is wrong with an update of a stored object.
pub(super) fn update(resource: &Resource, object: &Value, old: &Value) -> Vec<(String, Reason)> {
    let mut object = object.clone();
    decode(resource, &mut object);
    resource.rules.default(&mut object);
    resource.rules.prepare_update(&mut object, old);
    let mut errors = meta::validate_update(&object, old, resource);
    errors.extend(resource.rules.validate_update(&object, old));
    errors.into_iter().map(|error| (error.field, error.reason)).collect()
}

/// What is wrong with an update of the status of a stored object.
pub(super) fn update_status(resource: &Resource, status: Value, old: &Value) -> Vec<(String, Reason)> {
    let mut object = old.clone();
    object.set("status", status);
    decode(resource, &mut object);
    resource.rules.default(&mut object);
    resource.rules.prepare_status(&mut object, old);
    let errors = resource.rules.validate_status(&object, old);
    errors.into_iter().map(|error| (error.field, error.reason)).collect()
}

fn decode(resource: &Resource, object: &mut Value) {
    let decoded = schema::decode(&resource.shape, object);
    assert_eq!((decoded.unknown, decoded.errors), (vec![], vec![]), "{object}");
    if object.at("metadata.name").is_null() {
        object.set("metadata.name", "a");
    }
    if resource.scope == Scope::Namespaced {
        object.set_default("metadata.namespace", "d");
    }
}

/// The object with one place changed.
pub(super) fn changed(object: &Value, pointer: &str, value: &Value) -> Value {
    let mut object = object.clone();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let holder = object.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}"));
    match holder {
        Value::Array(list) => list[last.parse::<usize>().unwrap()] = value.clone(),
        holder if value.is_null() => drop(holder.as_object_mut().unwrap().remove(last)),
        holder => holder[last.replace("~1", "/")] = value.clone(),
    }
    object
}

/// `good` is accepted, and each mistake alone is refused with exactly one field and reason.
pub(super) fn refuses(group: &str, plural: &str, good: &Value, mistakes: &[Mistake<'_>]) {
    let resource = resource(group, plural);
    assert_eq!(create(&resource, good).1, [], "{plural}: the good one");
    for (pointer, value, field, reason) in mistakes {
        let mut found = create(&resource, &changed(good, pointer, value)).1;
        found.dedup();
        assert_eq!(found, [((*field).to_owned(), *reason)], "{plural} {pointer} {value}");
    }
}

/// `good` can be stored and written again; each change of it is refused with exactly one field and reason.
pub(super) fn keeps(group: &str, plural: &str, good: &Value, changes: &[Mistake<'_>]) {
    let resource = resource(group, plural);
    let (stored, mistakes) = create(&resource, good);
    assert_eq!(mistakes, [], "{plural}: the good one");
    assert_eq!(update(&resource, &stored, &stored), [], "{plural}: written again");
    for (pointer, value, field, reason) in changes {
        let found = update(&resource, &changed(&stored, pointer, value), &stored);
        assert_eq!(found, [((*field).to_owned(), *reason)], "{plural} {pointer} {value}");
    }
}

#[test]
fn defaults_change_nothing_the_second_time() {
    for resource in table() {
        let mut once = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [{}]}}}});
        schema::decode(&resource.shape, &mut once);
        resource.rules.default(&mut once);
        let mut twice = once.clone();
        resource.rules.default(&mut twice);
        assert_eq!(once, twice, "{}", resource.plural);
    }
}

#[test]
fn no_kind_panics_on_an_empty_object() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    for resource in table() {
        for body in [json!({}), json!({"spec": null, "status": null, "metadata": null}), json!(null), json!([1])] {
            let mut object = body.clone();
            resource.rules.default(&mut object);
            resource.rules.prepare_create(&mut object);
            resource.rules.validate(&object);
            let mut next = body.clone();
            resource.rules.prepare_update(&mut next, &object);
            resource.rules.validate_update(&next, &object);
            resource.rules.prepare_status(&mut next, &object);
            resource.rules.validate_status(&next, &object);
            resource.rules.warnings(&object, Some(&next));
            assert_eq!(resource.rules.cells(&object, now).len(), resource.rules.columns().len(), "{}", resource.plural);
        }
    }
}

#[test]
fn metadata_is_checked_for_every_kind() {
    let good = json!({"metadata": {"name": "a", "labels": {}, "annotations": {}}});
    refuses(
        "",
        "configmaps",
        &good,
        &[
            ("/metadata/name", json!("A"), "metadata.name", Invalid),
            ("/metadata/generateName", json!("-"), "metadata.generateName", Invalid),
            ("/metadata/namespace", json!("a.b"), "metadata.namespace", Invalid),
            ("/metadata/labels/a b", json!("c"), "metadata.labels", Invalid),
            ("/metadata/labels/a", json!("b c"), "metadata.labels", Invalid),
            ("/metadata/annotations/a b", json!(""), "metadata.annotations", Invalid),
            ("/metadata/annotations/a", json!("x".repeat(256 * 1024)), "metadata.annotations", TooLong),
            ("/metadata/finalizers", json!(["x"]), "metadata.finalizers[0]", Invalid),
            ("/metadata/finalizers", json!(["orphan", "foregroundDeletion"]), "metadata.finalizers", Invalid),
            ("/metadata/generation", json!(-1), "metadata.generation", Invalid),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "p"}]),
                "metadata.ownerReferences[0].uid",
                Required,
            ),
            (
                "/metadata/managedFields",
                json!([{"operation": "Delete", "fieldsType": "FieldsV1"}]),
                "metadata.managedFields[0].operation",
                NotSupported,
            ),
        ],
    );
    keeps(
        "",
        "configmaps",
        &good,
        &[
            ("/metadata/name", json!("b"), "metadata.name", Invalid),
            ("/metadata/uid", json!("u"), "metadata.uid", Invalid),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), "metadata.deletionTimestamp", Invalid),
        ],
    );
    // Kinds whose names and finalizers upstream leaves alone.
    for (group, plural) in [("", "events"), ("policy", "poddisruptionbudgets"), ("coordination.k8s.io", "leases")] {
        let rules = resource(group, plural).rules.clone();
        assert!(!rules.strict_finalizers(), "{plural}");
        assert_eq!(rules.name_mistakes("Bad_Name", false).is_empty(), plural != "leases", "{plural}");
    }
}
