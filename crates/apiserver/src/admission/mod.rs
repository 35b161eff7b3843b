//! Admission: what a write must respect beyond the rules of its own kind, because of other objects or of who writes.
//!
//! `create` and `update` may change the object and run before validation; `check` only refuses and runs after it. The server's own
//! plugins come first, then the webhooks of the cluster.

mod attempt;
mod configuration;
mod deny_service_external_ips;
mod escalation;
mod kinds;
mod matching;
mod namespace;
mod node;
mod plugins;
mod pod;
pub mod pod_security;
mod policy;
mod webhook;

pub use configuration::{AdmissionConfiguration, ConfigurationError};
pub(crate) use deny_service_external_ips::check as deny_external_ips;
pub(crate) use kinds::{AccessKind, NamespaceKind, PodKind, WorkloadKind};
pub use plugins::{Plugins, PluginsError};
pub use policy::Policies;
pub(crate) use policy::PolicyKind;
pub use webhook::Webhooks;

use crate::{
    call::Call,
    subresource,
    verbs::{create, delete::options::DeleteOptions},
};
use api::{error::ApiError, object::Fields, resource::take_over};
use attempt::Attempt;
use serde_json::Value;
use webhook::Rounds;

/// A new object.
pub async fn create(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    namespace::exists(call).await?;
    call.kind().admit_new(call, object).await?;
    let mut rounds = Rounds::default();
    while mutate(call, object, None, &mut rounds).await? {
        call.kind().admit_new(call, object).await?;
    }
    Ok(())
}

/// A changed object.
pub async fn update(call: &Call, object: &mut Value, old: &Value) -> Result<(), ApiError> {
    call.kind().admit_change(call, object, old);
    let mut rounds = Rounds::default();
    while mutate(call, object, Some(old), &mut rounds).await? {
        call.kind().admit_change(call, object, old);
    }
    Ok(())
}

/// The object as it will be stored; `old` is absent on create.
pub async fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    node::restrict(call, object, old)?;
    call.kind().check(call, object, old).await?;
    if call.request.subresource == "binding" || !(policy::are_bound(call).await? || webhook::refuse(call).await?) {
        return Ok(());
    }
    let old = old.map(|old| shown(call, old));
    validate(&Attempt::write(call, shown(call, object), old.as_ref())).await
}

/// A deletion of this object.
pub async fn delete(call: &Call, old: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    call.kind().check_deletion(call)?;
    node::restrict_delete(call, old)?;
    if call.request.subresource == "eviction" {
        // They were asked about the eviction.
        return Ok(());
    }
    ask(Attempt::delete(call, old, options)).await.map(drop)
}

/// An eviction; nodes evict only what runs on them.
pub async fn evict(call: &Call, eviction: Value) -> Result<Value, ApiError> {
    node::restrict(call, &eviction, None)?;
    below(call, eviction).await
}

/// A token request; nodes get tokens only for what runs on them.
pub async fn token(call: &Call, request: Value) -> Result<Value, ApiError> {
    node::restrict(call, &request, None)?;
    below(call, request).await
}

/// What is posted below an object and is no object of its own.
pub async fn below(call: &Call, object: Value) -> Result<Value, ApiError> {
    ask(Attempt::write(call, object, None)).await.map(Option::unwrap_or_default)
}

/// A connection, described by its options.
pub async fn connect(call: &Call, options: Value) -> Result<(), ApiError> {
    ask(Attempt::connect(call, options)).await.map(drop)
}

/// Asks all webhooks about what none of the server's own plugins changes; the object comes back as they left it.
async fn ask(mut attempt: Attempt<'_>) -> Result<Option<Value>, ApiError> {
    let mut rounds = Rounds::default();
    while Box::pin(webhook::mutate(&mut attempt, &mut rounds)).await? {}
    validate(&attempt).await?;
    Ok(attempt.object)
}

/// Asks the policies, then the webhooks that only refuse.
async fn validate(attempt: &Attempt<'_>) -> Result<(), ApiError> {
    Box::pin(policy::validate(attempt)).await?;
    Box::pin(webhook::validate(attempt)).await
}

/// What the server decides about an object, whatever a webhook says.
const KEPT: [&str; 5] = ["name", "namespace", "uid", "creationTimestamp", "managedFields"];

async fn mutate(call: &Call, object: &mut Value, old: Option<&Value>, rounds: &mut Rounds) -> Result<bool, ApiError> {
    // About a Binding they were asked already. Without any, nothing is copied for them.
    if call.request.subresource == "binding" || !webhook::change(call).await? {
        return Ok(false);
    }
    let old = old.map(|old| shown(call, old));
    let mut attempt = Attempt::write(call, shown(call, object), old.as_ref());
    // On the heap, as most writes have nobody to ask and all carry the future.
    let again = Box::pin(webhook::mutate(&mut attempt, rounds)).await?;
    let Some(mut changed) = attempt.object.take() else { return Ok(again) };
    if call.request.subresource == "scale" {
        subresource::set_scale(call, object, &changed);
        return Ok(again);
    }
    for field in KEPT {
        take_over(&mut changed, object, &format!("metadata.{field}"));
    }
    *object = changed;
    Ok(again)
}

/// The object as the client sees it: below `scale` a Scale, and without a name that the server has just drawn.
fn shown(call: &Call, object: &Value) -> Value {
    if call.request.subresource == "scale" {
        return subresource::scale_of(call, object);
    }
    let mut shown = object.clone();
    let (base, name) = (object.str_at("metadata.generateName"), object.str_at("metadata.name"));
    let drawn = call.request.name.is_empty() && !base.is_empty() && name.starts_with(base);
    if drawn && name.len() == base.len() + create::SUFFIX {
        shown.remove("metadata.name");
    }
    shown
}
