//! The documents of version 3, one for each group and version, and the list of them.

use super::{
    Dialect, Schemas,
    definitions::Definitions,
    operations::{self, Body, Operation},
    parameters::Parameter,
};
use api::resource::Resource;
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// `api/v1`, `apis/apps/v1`: how a document is called in paths.
pub(super) fn key(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The document of one group and version. `group_versions` are those whose objects take delete options.
pub(super) fn document(
    resources: &[Arc<Resource>],
    schemas: &Schemas,
    group_versions: &BTreeSet<(&str, &str)>,
) -> Value {
    let mut definitions = Definitions::new(Dialect::V3);
    let mut paths = Map::new();
    for resource in resources {
        super::add_types(&mut definitions, Dialect::V3, resource, schemas);
        for operation in operations::of(resource) {
            let written = write(&mut definitions, &operation);
            super::insert(&mut paths, &operation.path, operation.method, written);
        }
    }
    super::mark_options(&mut definitions, group_versions);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": paths,
        "components": {
            "schemas": definitions.into_types(),
            "securitySchemes": {
                "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "a bearer token"},
            },
        },
    })
}

/// Where a document is, for clients that keep it.
pub(super) fn url(key: &str, hash: &str) -> String {
    format!("/openapi/v3/{key}?hash={hash}")
}

/// The list of documents with where they are.
pub(super) fn index(documents: impl Iterator<Item = (String, String)>) -> Value {
    let paths: Map<String, Value> = documents.map(|(key, url)| (key, json!({"serverRelativeURL": url}))).collect();
    json!({"paths": paths})
}

fn write(definitions: &mut Definitions, operation: &Operation) -> Value {
    let content = |types: &[&str], schema: &Value| -> Value {
        types.iter().map(|kind| ((*kind).to_owned(), json!({"schema": schema}))).collect::<Map<_, _>>().into()
    };
    let mut written = super::named_operation(operation);
    written["parameters"] = operation.parameters.iter().map(parameter).collect::<Vec<_>>().into();
    let body = match &operation.body {
        Body::None => None,
        Body::Object(name) => Some((vec!["*/*"], super::reference(definitions, name), true)),
        Body::Options(name) => Some((vec!["*/*"], super::reference(definitions, name), false)),
        Body::Patch { strategic } => Some((super::patch_types(*strategic), definitions.reference(PATCH), true)),
    };
    if let Some((types, schema, required)) = body {
        written["requestBody"] = json!({"content": content(&types, &schema)});
        if required {
            written["requestBody"]["required"] = true.into();
        }
    }
    let schema = match &operation.answer {
        Some(name) => super::reference(definitions, name),
        None => json!({"type": "string"}),
    };
    let responses: Map<String, Value> = super::answers(operation)
        .iter()
        .map(|(code, text)| {
            ((*code).to_owned(), json!({"description": text, "content": content(super::produced(operation), &schema)}))
        })
        .chain([("401".to_owned(), json!({"description": "Unauthorized"}))])
        .collect();
    written["responses"] = responses.into();
    written
}

fn parameter(parameter: &Parameter) -> Value {
    let Parameter { name, kind, description, in_path } = parameter;
    let schema = json!({"type": kind, "uniqueItems": true});
    let mut written = json!({"name": name, "description": description, "schema": schema});
    written["in"] = if *in_path { "path" } else { "query" }.into();
    if *in_path {
        written["required"] = true.into();
    }
    written
}
