//! `namespaces/NAME/finalize`: takes finalizers off a namespace; with the last one it is gone.

use crate::{
    answer::Answer,
    call::Call,
    request::{
        body,
        query::{Write, WriteOptions},
    },
    verbs::{
        update::{self, Tracking},
        write::Part,
    },
};
use api::{error::ApiError, object::Fields};

/// PUT: of the object sent, only `spec.finalizers` counts.
pub(super) async fn finalize(call: &Call, bytes: &[u8]) -> Result<Answer, ApiError> {
    let options = WriteOptions::new(&call.query, Write::Update)?;
    let mut warnings = Vec::new();
    let parsed = body::parse(bytes, &call.content_type)?;
    let sent = body::object(parsed, &call.resource, options.field_validation, &mut warnings)?.object;
    call.warn(warnings);
    update::match_name(call, &sent)?;
    let written = update::change(call, Part::Finalizers, &options, Tracking::Update, |old| {
        let mut object = old.clone();
        object.set("metadata.resourceVersion", sent.str_at("metadata.resourceVersion"));
        object.set("metadata.uid", sent.str_at("metadata.uid"));
        match sent.at("spec.finalizers") {
            serde_json::Value::Array(list) if !list.is_empty() => object.set("spec.finalizers", list.clone()),
            _ => drop(object.remove("spec.finalizers")),
        }
        Ok(object.into())
    })
    .await?;
    call.object(200, &written).await
}
