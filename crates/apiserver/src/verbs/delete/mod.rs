//! `delete`: now, later, or when the last finalizer is gone.

pub mod options;
pub mod plan;

use super::write;
use crate::{
    admission,
    answer::{self, Answer},
    call::{Call, Written},
    stored,
};
use api::{error::ApiError, object::Fields};
use options::DeleteOptions;
use plan::Deletion;
use serde_json::{Value, json};

/// How often a deletion is tried again when the object changes under it.
const TRIES: usize = 256;

/// DELETE of one object.
pub async fn delete(call: &Call, bytes: &[u8]) -> Result<Answer, ApiError> {
    let options = DeleteOptions::new(&call.query, bytes, &call.content_type)?;
    match delete_object(call, &call.key(), &options).await? {
        Outcome::Gone(object) => answer::value(call, 200, &success(call, &object)),
        Outcome::Pending(written) => call.object(200, &written).await,
    }
}

/// What became of an object.
pub enum Outcome {
    /// It is deleted; this is what it was.
    Gone(Value),
    /// It stays until its finalizers or its grace period are over.
    Pending(Written),
}

/// Deletes the object at a key by the rules of its kind.
pub async fn delete_object(call: &Call, key: &str, options: &DeleteOptions) -> Result<Outcome, ApiError> {
    for _ in 0..TRIES {
        let entry = call.server.store.get(key).ok_or_else(|| call.not_found())?;
        let old = stored::parse(&entry)?;
        options.check(call, &old)?;
        admission::delete(call, &old, options).await?;
        match plan::plan(&old, options, &*call.resource.rules, call.server.now()) {
            Deletion::Nothing => return Ok(Outcome::Pending((&entry).into())),
            Deletion::Now => {
                let given_back = call.kind().give_back(call, &old);
                if write::remove(call, &entry, given_back, options.dry_run).await? {
                    return Ok(Outcome::Gone(old));
                }
            }
            Deletion::Later(object) => {
                let nothing = crate::services::Reserved::none();
                if let write::Put::Done(written) =
                    write::put_changed(call, &entry, &object, nothing, options.dry_run).await?
                {
                    return Ok(Outcome::Pending(written));
                }
            }
        }
    }
    Err(call.conflict("the object keeps changing; please try again"))
}

fn success(call: &Call, object: &Value) -> Value {
    let mut details =
        json!({"name": object.at("metadata.name"), "kind": call.resource.plural, "uid": object.at("metadata.uid")});
    if !call.resource.group.is_empty() {
        details["group"] = call.resource.group.as_str().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
