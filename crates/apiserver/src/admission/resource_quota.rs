//! ResourceQuota: what a write uses up is charged in the transaction that stores it, so that usage and objects never part.
//!
//! Differs from upstream in that alone: there the quota's status is written first, and given back by the controller when the
//! object is not stored after all. What goes is given back by the controller here too (`control::quota`).

use crate::{call::Call, services::Reserved, stored};
use api::{error::ApiError, object::Fields, quota, quota::Counted, resource::Scope};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};
use store::{Compare, Op};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// Writes in a namespace with quotas take turns: all of them change the same few objects.
#[derive(Default)]
pub struct QuotaTurns(Mutex<HashMap<String, Weak<Turn<()>>>>);

impl QuotaTurns {
    async fn take(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            if let Some(turn) = turns.get(namespace).and_then(Weak::upgrade) {
                turn
            } else {
                turns.retain(|_, turn| turn.strong_count() > 0);
                let turn = Arc::new(Turn::default());
                turns.insert(namespace.to_owned(), Arc::downgrade(&turn));
                turn
            }
        };
        turn.lock_owned().await
    }
}

/// Adds to what is written together with the object what it uses of the quotas of its namespace, or refuses it.
pub(crate) async fn charge(
    call: &Call,
    object: &Value,
    old: Option<&Value>,
    mut reserved: Reserved,
) -> Result<Reserved, ApiError> {
    let counted = Counted { group: &call.resource.group, plural: &call.resource.plural };
    let namespace = &call.request.namespace;
    if !call.server.config.admission.resource_quota
        || call.resource.scope == Scope::Cluster
        || !counted.is_counted()
        || !concerns(call, counted, object, old)
    {
        return Ok(reserved);
    }
    let prefix = format!("resourcequotas/{namespace}/");
    let quotas = || async {
        let page = call.server.store.list(&prefix, None, None, None).await;
        page.map_err(|error| ApiError::unavailable(error.to_string()))
    };
    if quotas().await?.entries.is_empty() {
        return Ok(reserved);
    }
    let turn = call.server.quotas.take(namespace).await;
    let limited = call.request.subresource != "status";
    let mut concerned = false;
    for entry in &quotas().await?.entries {
        let mut quota = stored::parse(entry)?;
        let charged = quota::charge(&quota, counted, object, old, limited, call.server.now())
            .map_err(|why| ApiError::forbidden(counted.plural, counted.group, object.str_at("metadata.name"), why))?;
        if let Some(used) = charged {
            quota.set("status.used", used);
            let key = entry.key().clone();
            reserved.together.compare.push((key.clone(), Compare::ModRevision(entry.mod_revision())));
            reserved.together.ops.push(Op::Put(key, stored::encode(&quota)?));
            concerned = true;
        }
    }
    if concerned {
        reserved.turn = Some(turn);
    }
    Ok(reserved)
}

/// Which writes can use more than what was there before: new objects, and changes of what counts by more than its number.
fn concerns(call: &Call, counted: Counted<'_>, object: &Value, old: Option<&Value>) -> bool {
    let below = call.request.subresource.as_str();
    let Some(old) = old else { return below.is_empty() };
    let has_deadline = |pod: &Value| pod.int_at("spec.activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    match (counted.group, counted.plural, below) {
        ("", "pods", "") => has_deadline(object) != has_deadline(old),
        ("", "pods", "resize") | ("", "services" | "persistentvolumeclaims", "") => true,
        ("", "persistentvolumeclaims", "status") => {
            ["allocatedResources", "currentVolumeAttributesClassName", "modifyVolumeStatus"]
                .iter()
                .any(|field| object.at("status").at(field) != old.at("status").at(field))
        }
        _ => false,
    }
}
