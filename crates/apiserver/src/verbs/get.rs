//! `get`: one object.

use crate::{
    answer::Answer,
    call::{Call, Written},
    stored,
    verbs::list,
};
use api::error::ApiError;

/// Answers with the object, straight from its stored bytes.
pub async fn get(call: &Call) -> Result<Answer, ApiError> {
    list::wait_for(call, &list::parse_revision(call.query.get("resourceVersion"))?).await?;
    let entry = call.server.store.get(&call.key()).ok_or_else(|| call.not_found())?;
    stored::readable(&entry)?;
    call.object(200, &Written::from(&entry)).await
}
