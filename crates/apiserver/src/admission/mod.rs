//! Admission: what a write must respect beyond the rules of its own kind, because of other objects or of who writes.
//!
//! `create` and `update` may change the object and run before validation; `check` only refuses and runs after it. The server's own
//! plugins come first, then the policies and webhooks of the cluster.

mod attempt;
mod certificates;
mod configuration;
mod default_class;
mod deny_service_external_ips;
mod escalation;
mod kinds;
mod limit_ranger;
mod matching;
mod namespace;
mod node;
mod patched;
mod plugins;
mod pod;
pub mod pod_security;
mod policy;
mod priority;
mod resource_quota;
mod rounds;
mod runtime_class;
mod storage;
mod webhook;

pub(crate) use certificates::{CertificateRequestKind, PodCertificateKind, TrustBundleKind};
pub use configuration::{AdmissionConfiguration, ConfigurationError};
pub(crate) use default_class::IngressKind;
pub(crate) use deny_service_external_ips::check as deny_external_ips;
pub(crate) use kinds::{AccessKind, NamespaceKind, NodeKind, PodKind, PriorityClassKind, WorkloadKind};
pub use plugins::{Plugins, PluginsError};
pub use policy::Policies;
pub(crate) use policy::{PolicyKind, type_check};
pub use resource_quota::QuotaTurns;
pub(crate) use resource_quota::charge;
pub(crate) use storage::{ClaimKind, VolumeKind};
pub use webhook::Webhooks;

use crate::{
    call::Call,
    definitions::conversion,
    subresource,
    verbs::{create, delete::options::DeleteOptions},
};
use api::{error::ApiError, object::Fields, resource::take_over};
use attempt::Attempt;
use rounds::Rounds;
use serde_json::Value;

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
    call.kind().admit_change(call, object, old).await?;
    let mut rounds = Rounds::default();
    while mutate(call, object, Some(old), &mut rounds).await? {
        call.kind().admit_change(call, object, old).await?;
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
    let old = conversion::object(&call.server, &call.resource, old.clone()).await?;
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

/// Asks all policies and webhooks about what none of the server's own plugins changes; the object comes back as they left it.
async fn ask(mut attempt: Attempt<'_>) -> Result<Option<Value>, ApiError> {
    let mut rounds = Rounds::default();
    while Box::pin(round(&mut attempt, &mut rounds)).await? {}
    validate(&attempt).await?;
    Ok(attempt.object)
}

/// Asks the policies, then the webhooks that only refuse.
async fn validate(attempt: &Attempt<'_>) -> Result<(), ApiError> {
    Box::pin(policy::validate(attempt)).await?;
    Box::pin(webhook::validate(attempt)).await
}

/// Has policies, then webhooks change the object. True when they did so in the first round, after which the server's own plugins
/// run again and then this, once.
async fn round(attempt: &mut Attempt<'_>, rounds: &mut Rounds) -> Result<bool, ApiError> {
    policy::mutate(attempt, rounds).await?;
    webhook::mutate(attempt, rounds).await?;
    rounds.round += 1;
    Ok(rounds.round == 1 && rounds.changed)
}

/// What the server decides about an object, whatever policies and webhooks say; of a new one they may choose the name.
const KEPT: [&str; 4] = ["name", "namespace", "uid", "creationTimestamp"];

async fn mutate(call: &Call, object: &mut Value, old: Option<&Value>, rounds: &mut Rounds) -> Result<bool, ApiError> {
    // About a Binding they were asked already. Without any, nothing is copied for them.
    let anybody = webhook::change(call).await? || policy::are_changing(call).await?;
    if call.request.subresource == "binding" || !anybody {
        return Ok(false);
    }
    let old = old.map(|old| shown(call, old));
    let mut attempt = Attempt::write(call, shown(call, object), old.as_ref());
    // On the heap, as most writes have nobody to ask and all carry the future.
    let again = Box::pin(round(&mut attempt, rounds)).await?;
    let Some(mut changed) = attempt.object.take() else { return Ok(again) };
    if call.request.subresource == "scale" {
        subresource::set_scale(call, object, &changed);
        return Ok(again);
    }
    // A new object may get another name, as long as the path has none.
    let renamed = old.is_none() && call.request.name.is_empty() && !changed.str_at("metadata.name").is_empty();
    for field in KEPT.into_iter().filter(|field| !(renamed && *field == "name")) {
        take_over(&mut changed, object, &format!("metadata.{field}"));
    }
    let fields = changed.list_at("metadata.managedFields");
    if let Err(why) = patch::apply::check_entries(fields) {
        call.warn([format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
             admission controller; please fix your requests: {why}"
        )]);
        take_over(&mut changed, object, "metadata.managedFields");
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
