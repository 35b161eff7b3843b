//! `deletecollection`: deletes what a list selects, each object by its own rules.

use super::{
    delete::{self, options::DeleteOptions},
    list,
};
use crate::{
    answer::{self, Answer},
    call::Call,
};
use api::{error::ApiError, resource::Scope};

/// DELETE of a collection; answers with the list of what was there.
pub async fn delete_collection(call: &Call, bytes: &[u8]) -> Result<Answer, ApiError> {
    if call.resource.scope == Scope::Namespaced && call.request.namespace.is_empty() {
        return Err(call.not_allowed());
    }
    let options = DeleteOptions::new(&call.query, bytes, &call.content_type)?;
    let page = list::read(call).await?;
    for entry in &page.entries {
        match delete::delete_object(call, entry.key(), &options).await {
            // Somebody else deleted it: that is what was asked for.
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    answer::list(call, &page)
}
