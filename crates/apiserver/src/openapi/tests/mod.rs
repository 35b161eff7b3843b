//! The documents of the built-in kinds and of a custom one: whole, readable by what kubectl does with them, and kept.

mod custom;
mod documents;
mod explain;
mod gnostic;
mod serve;
mod swagger;

use super::{Dialect, Made, Schemas, v2, v3};
use crate::registry::Registry;
use api::{
    kinds::table,
    resource::{Resource, Rules, Scope, Subresource, Verbs},
    schema::Shape,
};
use schema::Packed;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

struct NoRules;
impl Rules for NoRules {}

fn built_in() -> Registry {
    Registry::new(table())
}

/// `gateways.example.com`, with a status and a scale.
fn custom(kind: &str) -> Arc<Resource> {
    let plural = format!("{}s", kind.to_lowercase());
    Arc::new(Resource {
        group: "example.com".into(),
        version: "v1".into(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        singular: kind.to_lowercase(),
        short_names: vec![],
        categories: vec![],
        scope: Scope::Namespaced,
        verbs: Verbs::All,
        shape: Shape::Any.into(),
        storage: format!("example.com/{plural}"),
        plural,
        subresources: vec![
            Subresource::Status,
            Subresource::Scale {
                spec_replicas: "spec.replicas".into(),
                status_replicas: "status.replicas".into(),
                selector: None,
            },
        ],
        selectable: Arc::default(),
        rules: Arc::new(NoRules),
        custom: true,
    })
}

fn key(kind: &str) -> (String, String, String) {
    ("example.com".into(), "v1".into(), kind.into())
}

/// What a definition of a dual-stack gateway might say.
fn gateway_schema() -> Value {
    json!({
        "description": "Lets traffic of either family in.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "addresses": {
                        "type": "array", "maxItems": 2, "x-kubernetes-list-type": "set",
                        "items": {"type": "string", "maxLength": 45, "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
                    },
                    "family": {"type": "string", "enum": ["IPv4", "IPv6"], "default": "IPv4"},
                    "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "weight": {"type": "number", "minimum": 0.5, "maximum": 99.5, "exclusiveMaximum": true},
                    "note": {"type": "string", "nullable": true, "pattern": "^[a-z]*$"},
                    "options": {"type": "object", "additionalProperties": {"type": "boolean", "default": false}},
                    "raw": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"known": {"type": "string"}},
                    },
                },
            },
        },
    })
}

fn schemas(kinds: &[&str]) -> Schemas {
    kinds.iter().map(|kind| (key(kind), Packed::new(&gateway_schema()))).collect()
}

/// Built-in kinds and gateways.
fn with_gateways() -> Made {
    let resources = built_in().with_custom([custom("Gateway")]).iter().cloned().collect();
    Made::new(resources, Arc::new(schemas(&["Gateway"])), Arc::default(), &Made::default())
}

/// The document of version 2.
fn version_2() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
        let made = with_gateways();
        v2::document(&made.resources, &made.schemas)
    });
    &DOCUMENT
}

/// Every document of version 3, by key.
fn version_3() -> &'static [(String, Value)] {
    static DOCUMENTS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
        let read = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
        with_gateways().all_v3().map(|(key, document)| (key.to_owned(), read(&document.bytes))).collect()
    });
    &DOCUMENTS
}
