//! Server-side apply: one request.
//!
//! Called by the engine through [`apply`] for `application/apply-patch+yaml`.

use super::{
    last_applied,
    managed::{Managed, Manager, Operation},
    ownership::{self, Force, Touched},
    set::FieldSet,
    typed::{self, Duplicates},
};
use api::{
    error::ApiError,
    object::{Fields, timestamp},
    schema::Shape,
};
use jiff::Timestamp;
use serde_json::Value;

/// Who owns the fields of an object that nobody kept account of before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// A configuration to apply.
pub struct Apply<'a> {
    /// The type of the kind.
    pub shape: &'a Shape,
    pub kind: &'a str,
    /// The stored object in the version of the request; `None` creates it.
    pub live: Option<&'a Value>,
    /// The body, as parsed: neither defaulted nor through the typed round trip.
    pub config: &'a Value,
    /// The `fieldManager` parameter; the engine refuses an apply without one (422 at `fieldManager`).
    pub manager: &'a str,
    /// The `force` parameter.
    pub force: Force,
    /// The version of the request, as `group/version`.
    pub api_version: &'a str,
    /// All versions of the kind, as `group/version`; entries of others are dropped.
    pub versions: &'a [&'a str],
    /// The subresource written through, or empty.
    pub subresource: &'a str,
    /// Fields that this way of writing never changes, such as `status` through the main resource.
    pub reset: &'a FieldSet,
    /// The time of the request.
    pub now: Timestamp,
}

/// The object after the apply, with its `metadata.managedFields`.
///
/// The caller checks name and namespace of the result against the request (400), and goes on as after any patch: typed
/// round trip, defaults, admission, preparation, validation, [`super::settle_times`]. Defaults come after ownership: what
/// they add is nobody's.
///
/// A configuration of another type, with managedFields, with unknown fields, with values of the wrong type or with list
/// items that share a key is 400; a field that somebody else owns with another value is 409.
pub fn apply(request: &Apply<'_>) -> Result<Value, ApiError> {
    let Apply { shape, kind, live, config, manager, force, api_version, versions, subresource, reset, now } = request;
    check_config(shape, kind, api_version, config)?;
    let time = timestamp(*now);

    let empty = typed::zero(shape);
    let mut live_object = live.unwrap_or(&empty).clone();
    let entries = Managed::take_entries(&mut live_object);
    let mut managed = Managed::read(&entries).unwrap_or_default();
    if managed.0.is_empty() {
        let writer = Manager::new(BEFORE_FIRST_APPLY, Operation::Update, api_version, subresource);
        let touched = Touched::between(shape, &empty, &live_object, reset);
        ownership::update(touched, &mut managed, (writer, api_version, &time));
    }
    managed.modernise(shape, versions);

    let attempt = |force: Force| {
        let mut managed = managed.clone();
        let writer = Manager::new(manager, Operation::Apply, api_version, subresource);
        let new =
            ownership::apply(shape, &live_object, config, reset, &mut managed, (writer, api_version, &time), force)?;
        Ok((new, managed))
    };
    let (new, managed) = attempt(*force)
        .or_else(|conflicts| {
            let conflicts = last_applied::remaining(conflicts, manager, shape, &live_object, api_version);
            if conflicts.is_empty() { attempt(Force::Yes) } else { Err(conflicts) }
        })
        .map_err(|conflicts| ownership::conflict_error(&conflicts))?;

    let mut object = new.unwrap_or(live_object);
    managed.write(&mut object, entries);
    last_applied::refresh(&mut object, config, manager);
    Ok(object)
}

/// Refuses what is no configuration of this kind; `apply` does so by itself.
pub fn check_config(shape: &Shape, kind: &str, api_version: &str, config: &Value) -> Result<(), ApiError> {
    if !config.is_object() {
        return Err(ApiError::bad_request("an applied configuration must be an object"));
    }
    let given = (config.str_at("apiVersion"), config.str_at("kind"));
    if given != (api_version, kind) {
        let message =
            format!("an applied configuration must be a {kind} of {api_version}, got {:?} of {:?}", given.1, given.0);
        return Err(ApiError::bad_request(message));
    }
    if !config.at("metadata.managedFields").is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must not be set in an applied configuration"));
    }
    let mistakes = typed::check(shape, config, Duplicates::Refused);
    if mistakes.is_empty() {
        return Ok(());
    }
    let (namespace, name) = (config.str_at("metadata.namespace"), config.str_at("metadata.name"));
    Err(ApiError::bad_request(format!(
        "failed to create typed patch object ({namespace}/{name}; {api_version}, Kind={kind}): {}",
        mistakes.join("; ")
    )))
}
