//! `update`: PUT of a whole object, and the path that every change of an object takes.

use super::{
    create,
    write::{self, Part, Put},
};
use crate::{
    admission,
    answer::Answer,
    call::{Call, Written},
    definitions::conversion,
    request::{
        body::{self, Wanted},
        query::{Write, WriteOptions},
    },
    stored,
};
use api::{error::ApiError, object::Fields};
use patch::apply;
use serde_json::Value;

/// How often a change that names no resourceVersion is tried again when somebody else was faster.
const TRIES: usize = 256;

/// PUT.
pub async fn update(call: &Call, part: Part, bytes: &[u8]) -> Result<Answer, ApiError> {
    let options = WriteOptions::new(&call.query, Write::Update)?;
    let mut parsed = body::parse(bytes, &call.content_type)?;
    let aside = call.kind().set_aside(&call.server, &mut parsed.value);
    let mut warnings = Vec::new();
    let mut wanted = body::object(parsed, &call.resource, options.field_validation, &mut warnings)?;
    call.warn(warnings);
    let object = &mut wanted.object;
    aside.put_back(object);
    match_name(call, object)?;
    create::match_namespace(call, object)?;
    call.resource.rules.default(object);
    if call.resource.rules.create_on_update() && call.exists().is_err() {
        call.authorize("create")?;
        if part != Part::Main {
            return Err(call.not_found());
        }
        let written = create::create_object(call, wanted, &options).await?;
        return call.object(201, &written).await;
    }
    let changed = change(call, part, &options, Tracking::Update, |_| Ok(wanted.clone())).await?;
    call.object(200, &changed).await
}

/// The name of the path is the object's.
pub fn match_name(call: &Call, object: &Value) -> Result<(), ApiError> {
    let given = object.str_at("metadata.name");
    if given != call.request.name {
        let why = if given.is_empty() {
            "name must be provided".to_owned()
        } else {
            format!("the name of the object ({given}) does not match the name on the URL ({})", call.request.name)
        };
        return Err(ApiError::bad_request(why));
    }
    Ok(())
}

/// Who sets managedFields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// A plain write: what differs is the writer's.
    Update,
    /// Server-side apply has set them already.
    Done,
}

/// Reads the object, lets `new` make the wanted one of it, and stores that under all rules.
///
/// `new` gets an object of the resource's shape and returns one; it may run several times.
pub async fn change(
    call: &Call,
    part: Part,
    options: &WriteOptions,
    tracking: Tracking,
    new: impl Fn(&Value) -> Result<Wanted, ApiError> + Send + Sync,
) -> Result<Written, ApiError> {
    for _ in 0..TRIES {
        let entry = call.server.store.get(&call.key()).ok_or_else(|| call.not_found())?;
        let shown = conversion::entry(&call.server, &call.resource, entry.clone()).await?;
        let old = stored::shown(&call.resource, stored::parse(&shown)?);
        let mut wanted = new(&old)?;
        preconditions(call, &wanted.object, &old)?;
        let reserved = prepare(call, part, options, tracking, &mut wanted, &old).await?;
        let object = wanted.object;
        if deletes_itself(&object, &old) {
            let given_back = call.kind().give_back(call, &old);
            if write::remove(call, &entry, given_back, options.dry_run).await? {
                return Ok(Written { bytes: write::encode(call, &object).await?, revision: entry.mod_revision() });
            }
        } else if let Put::Done(written) = write::put_changed(call, &entry, &object, reserved, options.dry_run).await? {
            return Ok(written);
        }
        // A patch is made anew of what is there now; an update that names a resourceVersion fails its precondition.
    }
    Err(call.conflict(STALE))
}

const STALE: &str = "the object has been modified; please apply your changes to the latest version and try again";

fn preconditions(call: &Call, object: &Value, old: &Value) -> Result<(), ApiError> {
    let uid = object.str_at("metadata.uid");
    if !uid.is_empty() && uid != old.str_at("metadata.uid") {
        return Err(call.conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.str_at("metadata.uid")
        )));
    }
    let version = object.str_at("metadata.resourceVersion");
    let Ok(number) = (if version.is_empty() { Ok(0) } else { version.parse::<u64>() }) else {
        return Err(ApiError::bad_request(format!("resourceVersion {version:?} is not a number")));
    };
    // "0" names none, as upstream has it.
    if number == 0 {
        if !call.resource.rules.unconditional_update() {
            let error = api::error::FieldError::invalid(
                &api::path::Path::new("metadata").child("resourceVersion"),
                0,
                "must be specified for an update",
            );
            return write::refuse(call, object, &[error]);
        }
        return Ok(());
    }
    if version != old.str_at("metadata.resourceVersion") {
        return Err(call.conflict(STALE));
    }
    Ok(())
}

async fn prepare(
    call: &Call,
    part: Part,
    options: &WriteOptions,
    tracking: Tracking,
    wanted: &mut Wanted,
    old: &Value,
) -> Result<crate::services::Reserved, ApiError> {
    let rules = &call.resource.rules;
    write::carry_metadata(&mut wanted.object, old);
    if let Part::Below(name) = part {
        // Before ownership is counted: nobody comes to own what this cannot change.
        rules.prepare_below(name, &mut wanted.object, old);
    }
    if tracking == Tracking::Update {
        write::track(call, part, Some(old), wanted, options);
    }
    let object = &mut wanted.object;
    admission::update(call, object, old).await?;
    let reserved = match part {
        Part::Main | Part::Scale => {
            let reserved = call.kind().reserve(call, object, Some(old)).await?;
            rules.prepare_update(object, old);
            write::bump_generation(call, object, old);
            reserved
        }
        Part::Status => {
            rules.prepare_status(object, old);
            crate::services::Reserved::none()
        }
        Part::Below(_) => {
            write::bump_generation(call, object, old);
            crate::services::Reserved::none()
        }
        Part::Binding | Part::Finalizers => crate::services::Reserved::none(),
    };
    write::validate_change(call, part, object, old)?;
    admission::check(call, object, Some(old)).await?;
    let reserved = admission::charge(call, object, Some(old), reserved).await?;
    object.set("metadata.resourceVersion", old.at("metadata.resourceVersion").clone());
    apply::settle_times(old, object);
    Ok(reserved)
}

/// The last finalizer of an object that is being deleted was removed: now it goes.
fn deletes_itself(object: &Value, old: &Value) -> bool {
    !old.at("metadata.deletionTimestamp").is_null()
        && object.list_at("metadata.finalizers").is_empty()
        && object.int_at("metadata.deletionGracePeriodSeconds").unwrap_or(0) == 0
        && object.list_at("spec.finalizers").is_empty()
}
