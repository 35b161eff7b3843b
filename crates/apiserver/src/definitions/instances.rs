//! The objects of a definition that is being deleted. They are taken from the store directly: a version may have no route.

use crate::{
    ApiServer,
    request::query::DryRun,
    stored,
    verbs::{
        delete::{
            options::DeleteOptions,
            plan::{self, Deletion},
        },
        write,
    },
};
use api::{error::ApiError, object::Fields, resource::Rules};
use futures::future::try_join_all;
use serde_json::Value;
use store::{Compare, Entry, Op, ReadError, Txn, TxnError};

/// Deletions on their way at a time.
const AT_A_TIME: usize = 16;

/// What there is of a definition's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instances {
    /// The definition names a built-in resource; its objects are not ours to touch.
    BuiltIn,
    None,
    /// All that are left are being deleted and wait for their finalizers.
    Deleting,
    Some,
}

/// No kind of its own has a say in this.
struct Plain;

impl Rules for Plain {}

/// Whether group and plural, or the place in the store, belong to a built-in resource.
pub(super) fn is_built_in(server: &ApiServer, definition: &Value) -> bool {
    let (group, plural) = (definition.str_at("spec.group"), definition.str_at("spec.names.plural"));
    let storage = format!("{group}/{plural}");
    let registry = server.registry();
    let mut built_in = registry.iter().filter(|resource| !resource.custom);
    built_in.any(|resource| (resource.group == group && resource.plural == plural) || resource.storage == storage)
}

/// Looks what there is.
pub(super) async fn look(server: &ApiServer, definition: &Value) -> Result<Instances, ReadError> {
    if is_built_in(server, definition) {
        return Ok(Instances::BuiltIn);
    }
    let page = server.store.list(&prefix(definition), None, None, None).await?;
    Ok(match page.entries.as_slice() {
        [] => Instances::None,
        entries if entries.iter().all(is_deleting) => Instances::Deleting,
        _ => Instances::Some,
    })
}

/// Deletes them all; those with finalizers are marked, and stay until these are gone.
pub(super) async fn delete(server: &ApiServer, definition: &Value) -> Result<(), ApiError> {
    let page = server.store.list(&prefix(definition), None, None, None).await;
    let page = page.map_err(|why| ApiError::unavailable(why.to_string()))?;
    for some in page.entries.chunks(AT_A_TIME) {
        try_join_all(some.iter().map(|entry| delete_one(server, entry))).await?;
    }
    Ok(())
}

async fn delete_one(server: &ApiServer, entry: &Entry) -> Result<(), ApiError> {
    let options =
        DeleteOptions { grace_period: None, propagation: None, uid: None, resource_version: None, dry_run: DryRun::No };
    let op = match stored::parse(entry).map(|object| plan::plan(&object, &options, &Plain, server.now())) {
        Ok(Deletion::Nothing) => return Ok(()),
        Ok(Deletion::Later(object)) => Op::Put(entry.key().clone(), stored::encode(&object)?),
        // What cannot be read would keep the definition for ever.
        Ok(Deletion::Now) | Err(_) => Op::Delete(entry.key().clone()),
    };
    let txn = Txn::of([op]).when(entry.key().clone(), Compare::ModRevision(entry.mod_revision()));
    match server.store.txn(txn).await {
        // Somebody changed or deleted it: the next look sees what is left.
        Ok(_) | Err(TxnError::Conflict(_)) => Ok(()),
        Err(why) => Err(write::store_error(&why)),
    }
}

fn is_deleting(entry: &Entry) -> bool {
    stored::parse(entry).is_ok_and(|object| !object.at("metadata.deletionTimestamp").is_null())
}

fn prefix(definition: &Value) -> String {
    format!("{}/{}/", definition.str_at("spec.group"), definition.str_at("spec.names.plural"))
}
