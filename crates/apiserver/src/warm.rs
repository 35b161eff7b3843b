//! From parts to a server that can be asked: what is loaded and mended before it is ready, and what it keeps doing then.

use crate::{
    ApiServer, admission::type_check, aggregated_roles, aggregation, bootstrap, definitions, fairness, follow,
    registry::Registry, select, services,
};
use api::{
    error::ApiError,
    kinds::webhook::WebhookConfiguration::{Mutating, Validating},
};
use runtime::task::Tasks;
use std::sync::Arc;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be read.
    #[error("cannot load what is stored: {0}")]
    Load(#[from] follow::FollowError),
    /// What every cluster has cannot be made.
    #[error("cannot prepare the cluster: {0}")]
    Bootstrap(#[from] ApiError),
    /// Addresses and ports of Services cannot be served.
    #[error(transparent)]
    Services(#[from] services::StartError),
}

/// The built-in resources. Definitions get the rules that only the server can check.
pub fn registry() -> Registry {
    Registry::new(api::kinds::table().into_iter().map(|resource| match resource.kind.as_str() {
        "CustomResourceDefinition" => Arc::new(resource.with_rules(Arc::new(schema::DefinitionRules))),
        "MutatingAdmissionPolicy" => Arc::new(resource.with_rules(Arc::new(schema::MutatingPolicyRules))),
        "MutatingWebhookConfiguration" => Arc::new(resource.with_rules(Arc::new(schema::WebhookRules(Mutating)))),
        "ValidatingAdmissionPolicy" => Arc::new(resource.with_rules(Arc::new(schema::PolicyRules))),
        "ValidatingWebhookConfiguration" => Arc::new(resource.with_rules(Arc::new(schema::WebhookRules(Validating)))),
        _ => resource,
    }))
}

/// Loads, mends, and keeps up with the store from then on. The server is ready when this is done.
pub async fn run(server: &Arc<ApiServer>, tasks: &Tasks) -> Result<(), StartError> {
    select::index(&server.store, &server.registry());
    follow::prime(server).await?;
    services::load(server).await?;
    bootstrap::run(server).await?;
    // Roles that were just made count before anybody is let in.
    follow::prime(server).await?;
    services::bootstrap(server).await?;
    aggregation::prime(server).await?;
    fairness::keep::prime(server).await?;
    for storage in follow::followed() {
        let server = Arc::clone(server);
        tasks.restarting(&format!("follow {storage}"), move |stop| follow::run(Arc::clone(&server), storage, stop));
    }
    let followed = Arc::clone(server);
    let filled = Arc::clone(server);
    tasks.restarting("aggregate roles", move |stop| aggregated_roles::run(Arc::clone(&filled), stop));
    let checked = Arc::clone(server);
    tasks.restarting("check types of policies", move |stop| type_check::run(Arc::clone(&checked), stop));
    tasks.restarting("follow definitions", move |stop| definitions::run(Arc::clone(&followed), stop));
    let followed = Arc::clone(server);
    tasks.restarting("aggregation", move |stop| aggregation::run(Arc::clone(&followed), stop));
    let followed = Arc::clone(server);
    tasks.restarting("flow control", move |stop| fairness::keep::run(Arc::clone(&followed), stop));
    let followed = Arc::clone(server);
    tasks.restarting("services", move |stop| services::run(Arc::clone(&followed), stop));
    Ok(())
}
