//! The one document of version 2: all types and all paths.

use super::{
    Dialect, Schemas,
    definitions::Definitions,
    group_versions,
    operations::{self, Body, Operation},
    parameters::Parameter,
};
use api::resource::Resource;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// Makes the document.
pub(super) fn document(resources: &[Arc<Resource>], schemas: &Schemas) -> Value {
    let mut definitions = Definitions::new(Dialect::V2);
    let mut paths = Map::new();
    for resource in resources {
        super::add_types(&mut definitions, Dialect::V2, resource, schemas);
        for operation in operations::of(resource) {
            let written = write(&mut definitions, &operation);
            super::insert(&mut paths, &operation.path, operation.method, written);
        }
    }
    super::mark_options(&mut definitions, &group_versions(resources));
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": paths,
        "definitions": definitions.into_types(),
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "a bearer token"},
        },
        "security": [{"BearerToken": []}],
    })
}

fn write(definitions: &mut Definitions, operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = operation.parameters.iter().map(parameter).collect();
    let mut body = |required: bool, schema: Value| {
        let mut written = json!({"name": "body", "in": "body", "schema": schema});
        if required {
            written["required"] = true.into();
        }
        parameters.insert(0, written);
    };
    let mut consumes = vec!["*/*"];
    match &operation.body {
        Body::None => {}
        Body::Object(name) => body(true, super::reference(definitions, name)),
        Body::Options(name) => body(false, super::reference(definitions, name)),
        Body::Patch { strategic } => {
            body(true, definitions.reference(PATCH));
            consumes = super::patch_types(*strategic);
        }
    }
    let schema = match &operation.answer {
        Some(name) => super::reference(definitions, name),
        None => json!({"type": "string"}),
    };
    let responses: Map<String, Value> = super::answers(operation)
        .iter()
        .map(|(code, text)| ((*code).to_owned(), json!({"description": text, "schema": schema})))
        .chain([("401".to_owned(), json!({"description": "Unauthorized"}))])
        .collect();
    let mut written = super::named_operation(operation);
    written["consumes"] = json!(consumes);
    written["produces"] = json!(super::produced(operation));
    written["schemes"] = json!(["https"]);
    written["parameters"] = parameters.into();
    written["responses"] = responses.into();
    written
}

fn parameter(parameter: &Parameter) -> Value {
    let Parameter { name, kind, description, in_path } = parameter;
    let mut written = json!({"name": name, "type": kind, "description": description, "uniqueItems": true});
    written["in"] = if *in_path { "path" } else { "query" }.into();
    if *in_path {
        written["required"] = true.into();
    }
    written
}
