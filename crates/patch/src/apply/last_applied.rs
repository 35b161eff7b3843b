//! The hand-over from client-side apply: `kubectl apply --server-side` may take the fields that `kubectl apply` set.
//!
//! Used by `request`. kubectl alone, told by its manager name, as upstream does.

use super::{
    ownership::Conflict,
    path::encoded,
    set::FieldSet,
    typed::{self, Duplicates},
};
use api::{object::Fields, schema::Shape};
use serde_json::Value;

/// The annotation in which client-side apply remembers what it applied.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager whose applies hand over.
const KUBECTL: &str = "kubectl";
/// The most bytes that all annotations of an object may hold together.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    object.map_at("metadata.annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// The conflicts that remain when those over fields that client-side apply set, and nobody changed since, are allowed.
pub(super) fn remaining(
    conflicts: Vec<Conflict>,
    manager: &str,
    shape: &Shape,
    live: &Value,
    api_version: &str,
) -> Vec<Conflict> {
    match unchanged_since(shape, live, api_version) {
        Some(allowed) if manager == KUBECTL => {
            conflicts.into_iter().filter(|conflict| !allowed.has(&conflict.path.0)).collect()
        }
        _ => conflicts,
    }
}

/// The fields of the last client-side apply that the live object still has as they were applied.
fn unchanged_since(shape: &Shape, live: &Value, api_version: &str) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    let sound = |object: &Value| typed::check(shape, object, Duplicates::Refused).is_empty();
    if last.str_at("apiVersion") != api_version || !sound(&last) || !sound(live) {
        return None;
    }
    let change = typed::compare(shape, &last, live);
    let fields = typed::fields(shape, &last);
    Some(fields.difference(&change.modified).difference(&change.added).difference(&change.removed))
}

/// Keeps the annotation of an object up to date when kubectl applies to it, so that client-side apply can take over again.
pub(super) fn refresh(object: &mut Value, config: &Value, manager: &str) {
    if manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
        && let Some(map) = annotations.as_object_mut()
    {
        map.remove(ANNOTATION);
    }
    let Some(annotations) =
        object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations")).and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::String(format!("{}\n", encoded(&config))));
    let bytes: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
    if bytes > MOST_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}
