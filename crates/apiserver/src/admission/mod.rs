//! Admission: what a write must respect beyond the rules of its own kind, because of other objects or of who writes.
//!
//! `create` and `update` may change the object and run before validation; `check` only refuses and runs after it.

mod configuration;
mod deny_service_external_ips;
mod escalation;
mod namespace;
mod node;
mod plugins;
mod pod;
pub mod pod_security;

pub use configuration::{AdmissionConfiguration, ConfigurationError};
pub use plugins::{Plugins, PluginsError};

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
    if call.resource.kind == "Pod" && call.resource.group.is_empty() && call.request.subresource.is_empty() {
        pod::update(object, old);
    }
    Ok(())
}

/// The object as it will be stored; `old` is absent on create.
pub async fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    node::restrict(call, object, old)?;
    escalation::check(call, object, old)?;
    let plugins = &call.server.config.admission;
    if plugins.deny_service_external_ips {
        deny_service_external_ips::check(call, object, old)?;
    }
    match &plugins.pod_security {
        Some(config) => pod_security::check(call, config, object, old).await,
        None => Ok(()),
    }
}

/// A deletion of this object.
pub fn delete(call: &Call, old: &Value) -> Result<(), ApiError> {
    namespace::mortal(call)?;
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
