//! Objects are created only in namespaces that exist and stay; three namespaces are never deleted.

use crate::{call::Call, stored};
use api::{error::ApiError, object::Fields, resource::Scope};
use serde_json::json;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses a create in a namespace that is missing or going away.
pub(super) async fn exists(call: &Call) -> Result<(), ApiError> {
    if call.resource.scope == Scope::Cluster {
        return Ok(());
    }
    let name = &call.request.namespace;
    let key = format!("namespaces/{name}");
    let mut entry = call.server.store.get(&key);
    if entry.is_none() {
        // Another server on the same etcd may just have made it.
        let _ = call.server.store.revision().await;
        entry = call.server.store.get(&key);
    }
    let entry = entry.ok_or_else(|| ApiError::not_found("namespaces", "", name))?;
    let namespace = stored::parse(&entry)?;
    if namespace.at("metadata.deletionTimestamp").is_null() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = ApiError::forbidden(&call.resource.plural, &call.resource.group, &call.request.name, why);
    error.details["causes"] = json!([{"reason": "NamespaceTerminating", "message": format!("namespace {name} is being terminated"), "field": "metadata.namespace"}]);
    Err(error)
}

/// Refuses the deletion of a namespace that the cluster cannot do without.
pub(super) fn mortal(call: &Call) -> Result<(), ApiError> {
    if IMMORTAL.contains(&call.request.name.as_str()) {
        return Err(ApiError::forbidden("namespaces", "", &call.request.name, "this namespace may not be deleted"));
    }
    Ok(())
}
