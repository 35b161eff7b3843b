//! Tables: what `kubectl get` prints, made from the columns that a kind declares.

use crate::call::Call;
use api::{object::Fields, resource::Resource};
use serde_json::{Value, json};

/// A Table without rows.
pub(crate) fn empty(resource: &Resource, version: &str, revision: &str) -> Value {
    let columns: Vec<Value> = resource
        .rules
        .columns()
        .into_iter()
        .map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format,
                "description": column.description, "priority": column.priority,
            })
        })
        .collect();
    let mut table = json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": {}, "columnDefinitions": columns, "rows": [],
    });
    if !revision.is_empty() {
        table["metadata"]["resourceVersion"] = revision.into();
    }
    table
}

/// One row; `includeObject` says how much of the object goes with it.
pub(crate) fn row(call: &Call, object: Value) -> Value {
    let cells = call.resource.rules.cells(&object, call.server.now());
    let mut row = json!({"cells": cells});
    match call.query.get("includeObject") {
        "None" => {}
        "Object" => row["object"] = object,
        _ => {
            row["object"] = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.at("metadata"),
            });
        }
    }
    row
}
