//! Admission: what a write must respect beyond the rules of its own kind, because of other objects or of who writes.
//!
//! `create` and `update` may change the object and run before validation; `check` only refuses and runs after it.

mod configuration;
mod deny_service_external_ips;
mod escalation;
mod kinds;
mod namespace;
mod node;
mod plugins;
mod pod;
pub mod pod_security;

pub use configuration::{AdmissionConfiguration, ConfigurationError};
pub(crate) use deny_service_external_ips::check as deny_external_ips;
pub(crate) use kinds::{AccessKind, NamespaceKind, PodKind, WorkloadKind};
pub use plugins::{Plugins, PluginsError};

use crate::call::Call;
use api::error::ApiError;
use serde_json::Value;

/// A new object.
pub async fn create(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    namespace::exists(call).await?;
    call.kind().admit_new(call, object).await
}

/// A changed object.
pub fn update(call: &Call, object: &mut Value, old: &Value) {
    call.kind().admit_change(call, object, old);
}

/// The object as it will be stored; `old` is absent on create.
pub async fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    node::restrict(call, object, old)?;
    call.kind().check(call, object, old).await
}

/// A deletion of this object.
pub fn delete(call: &Call, old: &Value) -> Result<(), ApiError> {
    call.kind().check_deletion(call)?;
    node::restrict_delete(call, old)
}

/// An eviction; nodes evict only what runs on them.
pub fn evict(call: &Call, eviction: &Value) -> Result<(), ApiError> {
    node::restrict(call, eviction, None)
}

/// A token request; nodes get tokens only for what runs on them.
pub fn token(call: &Call, request: &Value) -> Result<(), ApiError> {
    node::restrict(call, request, None)
}
