//! Admission: what a write must respect beyond the rules of its own kind, because of other objects or of who writes.
//!
//! `create` and `update` may change the object and run before validation; `check` only refuses and runs after it.

mod escalation;
mod namespace;
mod node;
mod pod;

use crate::{call::Call, definitions};
use api::error::ApiError;
use serde_json::Value;

/// A new object.
pub async fn create(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    namespace::exists(call).await?;
    definitions::open(call)?;
    if call.resource.kind == "Pod" && call.resource.group.is_empty() {
        pod::create(call, object).await?;
    }
    Ok(())
}

/// A changed object.
pub async fn update(call: &Call, object: &mut Value, old: &Value) -> Result<(), ApiError> {
    if call.resource.kind == "Pod" && call.resource.group.is_empty() {
        pod::update(object, old);
    }
    Ok(())
}

/// The object as it will be stored; `old` is absent on create.
pub fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    node::restrict(call, object, old)?;
    escalation::check(call, object, old)
}

/// A deletion of this object.
pub fn delete(call: &Call, old: &Value) -> Result<(), ApiError> {
    namespace::mortal(call)?;
    node::restrict_delete(call, old)
}

/// A token request; nodes get tokens only for what runs on them.
pub fn token(call: &Call, request: &Value) -> Result<(), ApiError> {
    node::restrict(call, request, None)
}
