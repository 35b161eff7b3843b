//! Ownership after plain writes: create, update, and the patches that are not apply.
//!
//! Called by the engine through [`track_update`] and [`settle_times`].

use super::{
    managed::{Managed, Manager, Operation},
    ownership,
    set::FieldSet,
    typed::{self, Duplicates},
};
use api::{
    object::{Fields, timestamp},
    schema::Shape,
};
use jiff::Timestamp;
use serde_json::Value;

/// What a request itself says about `metadata.managedFields`.
///
/// Read it from the body, or from the patched document, before the typed round trip: that drops an empty list, which has
/// a meaning here.
#[derive(Clone, Debug, Default)]
pub struct Claim(Claimed);

#[derive(Clone, Debug, Default)]
enum Claimed {
    /// Nothing, or nothing readable: the live entries stay.
    #[default]
    Nothing,
    /// An empty list, or one empty entry: forget all managers.
    Reset,
    /// These are the managers now.
    Managers(Managed),
}

impl Claim {
    /// Reads what an object of a request says.
    pub fn of(object: &Value) -> Self {
        let entries = object.list_at("metadata.managedFields");
        let given = object.at("metadata.managedFields").is_array();
        let blank = |entry: &Value| entry.as_object().is_some_and(|entry| entry.values().all(Value::is_null));
        Self(match entries {
            [] if given => Claimed::Reset,
            [entry] if blank(entry) => Claimed::Reset,
            _ => match Managed::read(entries) {
                Ok(managed) if !managed.0.is_empty() => Claimed::Managers(managed),
                _ => Claimed::Nothing,
            },
        })
    }
}

/// One write to keep account of.
pub struct Update<'a> {
    /// The type of the kind.
    pub shape: &'a Shape,
    /// The stored object; `None` on create.
    pub live: Option<&'a Value>,
    /// What the request says of managedFields; ignored through subresources.
    pub claim: Claim,
    /// The `fieldManager` parameter or [`super::manager_of`] the user agent.
    pub manager: &'a str,
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

/// Writes `metadata.managedFields` of `new`: the writer owns what it changed.
///
/// `new` is the object after the typed round trip and defaulting, before admission and before the kind's own preparation:
/// what these add is nobody's. Never fails: where ownership cannot be told, the live entries stay.
pub fn track_update(update: &Update<'_>, new: &mut Value) {
    let Update { shape, live, claim, manager, api_version, versions, subresource, reset, now } = update;
    let live_managed = || live.map(Managed::of).unwrap_or_default();
    let mut managed = match &claim.0 {
        _ if !subresource.is_empty() => live_managed(),
        Claimed::Reset => Managed::default(),
        Claimed::Managers(managed) => managed.clone(),
        Claimed::Nothing => live_managed(),
    };
    new.remove("metadata.managedFields");
    // An object whose managers were forgotten stays untracked until somebody applies to it.
    if managed.0.is_empty() && live.is_some() {
        return;
    }
    let empty = typed::zero(shape);
    let before = live.unwrap_or(&empty);
    let sound = |object: &Value| typed::check(shape, object, Duplicates::Allowed).is_empty();
    if !sound(new) || !sound(before) {
        return live_managed().write(new);
    }
    managed.modernise(shape, versions);
    let writer = Manager::new(manager, Operation::Update, api_version, subresource);
    ownership::update(shape, before, new, reset, &mut managed, (writer, api_version, &timestamp(*now)));
    managed.cap();
    managed.write(new);
}

/// Takes back the new times of managedFields when nothing else changed, so that a write without effect stays one.
///
/// Called last before storing, with the object as it would be stored; `metadata.resourceVersion` must be equal in both.
pub fn settle_times(stored: &Value, new: &mut Value) {
    const ENTRIES: &str = "metadata.managedFields";
    let timeless = |entries: &[Value]| -> Vec<Value> {
        let mut entries = entries.to_vec();
        entries.iter_mut().for_each(|entry| drop(entry.remove("time")));
        entries
    };
    let (old_entries, new_entries) = (stored.at(ENTRIES), new.at(ENTRIES));
    if old_entries == new_entries || timeless(stored.list_at(ENTRIES)) != timeless(new.list_at(ENTRIES)) {
        return;
    }
    let fresh = std::mem::replace(new.at_mut(ENTRIES), old_entries.clone());
    if new != stored {
        new.set(ENTRIES, fresh);
    }
}
