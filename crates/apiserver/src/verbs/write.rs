//! What every write has in common: metadata, rules, managed fields, and the one transaction at the end.

use crate::{
    call::{Call, Written},
    definitions::conversion,
    request::{
        body::Wanted,
        query::{DryRun, WriteOptions},
    },
    services::Reserved,
    stored,
};
use api::{
    error::{ApiError, FieldError},
    kinds::meta,
    object::{Fields, timestamp},
    resource::Resource,
};
use bytes::Bytes;
use patch::apply::{self, FieldSet, Update};
use serde_json::{Value, json};
use std::time::Duration;
use store::{Compare, Entry, Op, Txn, TxnError};

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but status.
    Main,
    /// Status alone.
    Status,
    /// The number of replicas.
    Scale,
    /// The node of a Pod.
    Binding,
    /// The finalizers of a namespace.
    Finalizers,
    /// What the kind says that its subresource of this name may change (`resize`).
    Below(&'static str),
}

impl Part {
    /// As managedFields names it.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Finalizers => "finalize",
            Self::Below(name) => name,
        }
    }

    /// Fields that a write of this part cannot change, so that nobody comes to own them through it.
    pub fn reset(self, resource: &Resource) -> FieldSet {
        match self {
            Self::Main | Self::Scale if resource.subresource("status").is_some() => FieldSet::of(&["status"]),
            Self::Status => FieldSet::of(resource.rules.kept_by_status()),
            Self::Finalizers => FieldSet::of(&["status"]),
            _ => FieldSet::default(),
        }
    }
}

/// Fills in what the server decides about a new object's metadata.
pub fn fill_metadata(call: &Call, object: &mut Value) {
    let metadata = object.at_mut("metadata");
    if !metadata.is_object() {
        *metadata = json!({});
    }
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"] {
        metadata.remove(field);
    }
    metadata.set("uid", uuid::Uuid::new_v4().to_string());
    metadata.set("creationTimestamp", timestamp(call.server.now()));
    if call.resource.rules.has_generation() {
        metadata.set("generation", 1);
    }
}

/// Carries over what an update cannot touch, so that old clients that leave it out change nothing.
pub fn carry_metadata(object: &mut Value, old: &Value) {
    object.remove("metadata.selfLink");
    for field in ["uid", "creationTimestamp"] {
        let path = format!("metadata.{field}");
        if object.at(&path).is_null() || object.str_at(&path).is_empty() {
            object.set(&path, old.at(&path).clone());
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        let path = format!("metadata.{field}");
        match old.at(&path) {
            Value::Null => drop(object.remove(&path)),
            kept => object.set(&path, kept.clone()),
        }
    }
}

/// Counts a change that the kind's generation is for.
pub fn bump_generation(call: &Call, object: &mut Value, old: &Value) {
    let rules = &call.resource.rules;
    if rules.has_generation() && rules.generation_changes(object, old) {
        object.set("metadata.generation", old.int_at("metadata.generation").unwrap_or(0) + 1);
    }
}

/// 422 with every mistake, or nothing.
pub fn refuse(call: &Call, object: &Value, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&call.resource.kind, &call.resource.group, object.str_at("metadata.name"), errors))
}

/// Everything that can be wrong with a new object.
pub fn validate_new(call: &Call, object: &Value) -> Result<(), ApiError> {
    let mut errors = meta::validate(object, &call.resource);
    errors.extend(call.resource.rules.validate(object));
    errors.extend(crate::privileged::mistakes(call, object));
    refuse(call, object, &errors)?;
    call.warn(call.resource.rules.warnings(object, None));
    Ok(())
}

/// Everything that can be wrong with a change.
pub fn validate_change(call: &Call, part: Part, object: &Value, old: &Value) -> Result<(), ApiError> {
    let mut errors = meta::validate_update(object, old, &call.resource);
    errors.extend(match part {
        Part::Main | Part::Scale => call.resource.rules.validate_update(object, old),
        Part::Status => call.resource.rules.validate_status(object, old),
        Part::Below(name) => call.resource.rules.validate_below(name, object, old),
        // These write one field that was checked on the way.
        Part::Binding | Part::Finalizers => Vec::new(),
    });
    if matches!(part, Part::Main) {
        // What was let in before the flag was set stays as it is.
        let before = crate::privileged::mistakes(call, old);
        errors
            .extend(crate::privileged::mistakes(call, object).into_iter().filter(|mistake| !before.contains(mistake)));
    }
    refuse(call, object, &errors)?;
    call.warn(call.resource.rules.warnings(object, Some(old)));
    Ok(())
}

/// Records who set which field by a plain write.
pub fn track(call: &Call, part: Part, live: Option<&Value>, wanted: &mut Wanted, options: &WriteOptions) {
    let versions = call.versions();
    let update = Update {
        shape: &call.resource.shape,
        live,
        claim: std::mem::take(&mut wanted.claim),
        manager: &call.manager(&options.field_manager),
        api_version: &call.resource.api_version(),
        versions: &versions.iter().map(String::as_str).collect::<Vec<_>>(),
        subresource: part.subresource(),
        reset: &part.reset(&call.resource),
        now: call.server.now(),
    };
    apply::track_update(&update, &mut wanted.object);
}

/// The stored form.
pub async fn encode(call: &Call, object: &Value) -> Result<Bytes, ApiError> {
    if call.resource.rules.conversion().is_some() {
        return stored::encode(&conversion::to_stored(call, object.clone()).await?);
    }
    stored::encode(&call.resource.rules.to_stored(object))
}

/// What came of a write.
pub enum Put {
    /// It is stored.
    Done(Written),
    /// Somebody was faster: the name is taken, or the object is no longer the one that was read.
    Outrun,
    /// What was to be taken together with it was taken meanwhile; choose again.
    Contested,
}

/// Stores a new object and what belongs to it.
pub async fn put_new(
    call: &Call,
    key: String,
    object: &Value,
    reserved: Reserved,
    dry_run: DryRun,
) -> Result<Put, ApiError> {
    let bytes = encode(call, object).await?;
    if dry_run == DryRun::All {
        return Ok(match call.server.store.get(&key) {
            Some(_) => Put::Outrun,
            None => Put::Done(Written { bytes, revision: 0 }),
        });
    }
    let txn = Txn::of([put(call, &key, bytes.clone())]).when(key, Compare::Absent);
    commit(call, txn, bytes, reserved).await
}

/// Stores a changed object and what belongs to it, if it is still the one that was read.
pub async fn put_changed(
    call: &Call,
    entry: &Entry,
    object: &Value,
    reserved: Reserved,
    dry_run: DryRun,
) -> Result<Put, ApiError> {
    let bytes = encode(call, object).await?;
    // What is stored under an older key is written again, so that replacing every object rotates the keys.
    if bytes == *entry.value() && !entry.is_stale() {
        return Ok(Put::Done(entry.into()));
    }
    if dry_run == DryRun::All {
        return Ok(Put::Done(Written { bytes, revision: entry.mod_revision() }));
    }
    let txn = Txn::of([put(call, entry.key(), bytes.clone())])
        .when(entry.key().clone(), Compare::ModRevision(entry.mod_revision()));
    commit(call, txn, bytes, reserved).await
}

/// Removes an object and what belongs to it, if it is still the one that was read; false when somebody was faster.
pub async fn remove(call: &Call, entry: &Entry, reserved: Reserved, dry_run: DryRun) -> Result<bool, ApiError> {
    if dry_run == DryRun::All {
        return Ok(true);
    }
    let txn = Txn::of([Op::Delete(entry.key().clone())])
        .when(entry.key().clone(), Compare::ModRevision(entry.mod_revision()));
    Ok(matches!(commit(call, txn, Bytes::new(), reserved).await?, Put::Done(_)))
}

/// The one transaction of a write. The object's own comparison comes first.
async fn commit(call: &Call, mut txn: Txn, bytes: Bytes, reserved: Reserved) -> Result<Put, ApiError> {
    txn.compare.extend(reserved.together.compare.iter().cloned());
    txn.ops.extend(reserved.together.ops.iter().cloned());
    let own = txn.compare[0].0.clone();
    let outcome = match call.server.store.txn(txn).await {
        Ok(done) => Ok(Put::Done(Written { bytes, revision: done.revision })),
        Err(TxnError::Conflict(conflict)) => {
            caught_up(call).await?;
            Ok(if conflict.failed.iter().any(|key| **key == *own) { Put::Outrun } else { Put::Contested })
        }
        Err(error) => Err(store_error(&error)),
    };
    reserved.settle(&call.server);
    outcome
}

/// Waits until what was faster can be read; on etcd it may have come through another server.
async fn caught_up(call: &Call) -> Result<(), ApiError> {
    call.server.store.revision().await.map(drop).map_err(|error| ApiError::unavailable(error.to_string()))
}

fn put(call: &Call, key: &str, bytes: Bytes) -> Op {
    if call.resource.rules.expires() {
        return Op::PutTtl(key.into(), bytes, Duration::from_secs(call.server.config.event_ttl_seconds));
    }
    Op::Put(key.into(), bytes)
}

/// What a client hears when the store does not answer.
pub fn store_error(error: &TxnError) -> ApiError {
    match error {
        TxnError::Refused(why) => ApiError::new(413, "RequestEntityTooLarge", why.clone()),
        TxnError::Unavailable(_) => ApiError::unavailable(error.to_string()),
        other => ApiError::internal(other),
    }
}
