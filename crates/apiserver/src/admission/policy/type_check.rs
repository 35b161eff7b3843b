//! Writes what is wrong with the types of a policy's expressions into its status. Mirrors the controller
//! validatingadmissionpolicy-status; it lives here because the types do.
//!
//! `warm` runs one task of it. Two servers on one store write the same, so they need not agree on who does.

use crate::{ApiServer, client, follow::FollowError};
use api::{kinds::check::texts, object::Fields, resource::Resource};
use schema::policy::types::{self, Kind, MOST_KINDS};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

const PREFIX: &str = "validatingadmissionpolicies";
const MANAGER: &str = "validatingadmissionpolicy-status";
/// How soon a status that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows the policies until the server stops.
pub(crate) async fn run(server: Arc<ApiServer>, stop: CancellationToken) -> Result<(), FollowError> {
    let mut watch = server.store.watch(&format!("{PREFIX}/"), None).await?;
    loop {
        let written = check_all(&server).await;
        let again = if written { Duration::MAX } else { AGAIN };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            event = watch.next() => drop(event?),
            () = tokio::time::sleep(again) => {}
        }
        while watch.try_next()?.is_some() {}
    }
}

/// Checks every policy whose present state was not looked at; false when one could not be written.
async fn check_all(server: &Arc<ApiServer>) -> bool {
    let Ok(policies) = server.objects(PREFIX).await else { return false };
    let mut written = true;
    for policy in policies {
        let generation = policy.int_at("metadata.generation").unwrap_or_default();
        if generation <= policy.int_at("status.observedGeneration").unwrap_or_default() {
            continue;
        }
        let name = policy.str_at("metadata.name");
        if let Err(problem) = write(server, &policy, generation).await {
            tracing::warn!(policy = name, problem, "the status of a policy cannot be written");
            written = false;
        }
    }
    written
}

async fn write(server: &Arc<ApiServer>, policy: &Value, generation: i64) -> Result<(), String> {
    let (asked, checked) = (Arc::clone(server), policy.clone());
    // Expressions take a while to compile.
    let warnings = tokio::task::spawn_blocking(move || warnings(&asked, &checked));
    let warnings = warnings.await.map_err(|error| error.to_string())?;
    let name = policy.str_at("metadata.name");
    let mut checking = json!({});
    if !warnings.is_empty() {
        checking["expressionWarnings"] = warnings.into();
    }
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "status": {"observedGeneration": generation, "typeChecking": checking},
    });
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}/status");
    client::apply(server, MANAGER, &path, &object).await
}

fn warnings(server: &ApiServer, policy: &Value) -> Vec<Value> {
    let registry = server.registry();
    let param = policy.at("spec.paramKind");
    let is_param = |resource: &&Arc<Resource>| {
        resource.api_version() == param.str_at("apiVersion") && resource.kind == param.str_at("kind")
    };
    let params = registry.iter().find(is_param).cloned();
    let resources = matched(server, policy);
    let kinds: Vec<Kind<'_>> =
        resources.iter().map(|(name, resource)| Kind { name: name.clone(), shape: &resource.shape }).collect();
    let found = types::check(policy, &kinds, params.as_ref().map(|resource| &*resource.shape));
    found.into_iter().map(|warning| json!({"fieldRef": warning.field, "warning": warning.text})).collect()
}

/// The kinds that a policy names, without wildcards and what is below them, by their names.
fn matched(server: &ApiServer, policy: &Value) -> BTreeMap<String, Arc<Resource>> {
    let registry = server.registry();
    let mut found = BTreeMap::new();
    for rule in policy.list_at("spec.matchConstraints.resourceRules") {
        let named = |field: &str| texts(rule, field).into_iter().map(str::to_owned).collect::<Vec<String>>();
        let (groups, versions) = (named("apiGroups"), named("apiVersions"));
        if groups.iter().chain(&versions).any(|word| word.contains('*')) {
            continue;
        }
        for resource in named("resources").iter().filter(|word| !word.contains(['*', '/'])) {
            for (group, version) in groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)))
            {
                if let Some(resource) = registry.get(group, version, resource).filter(|_| found.len() < MOST_KINDS) {
                    let name = format!("{}, Kind={}", resource.api_version(), resource.kind);
                    found.insert(name, Arc::clone(resource));
                }
            }
        }
    }
    found
}
