//! An object that a webhook or policy has changed, on its way back into the request.

use super::{
    attempt::{self, Attempt},
    matching::Seen,
};
use crate::request::{
    body::{self, Duplicates},
    query::FieldValidation,
};
use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// Makes `patched`, which is in the words of `seen`, the object of the request: of the shape of its kind, and with defaults.
pub(super) async fn take(
    attempt: &mut Attempt<'_>,
    seen: &Seen,
    patched: Value,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    let call = attempt.call;
    let mut patched = match &seen.by {
        None => patched,
        Some(resource) => attempt::convert(&call.server, &patched, resource, &call.resource).await?,
    };
    if patched.str_at("kind") == call.resource.kind {
        let aside = call.kind().set_aside(&call.server, &mut patched);
        let mut ignored = Vec::new();
        body::typed(&mut patched, &call.resource, &Duplicates::default(), validation, &mut ignored)
            .map_err(|mismatch| ApiError::internal(ApiError::from(mismatch).message))?;
        aside.put_back(&mut patched);
        call.resource.rules.default(&mut patched);
    }
    attempt.object = Some(patched);
    Ok(())
}
