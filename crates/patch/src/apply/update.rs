//! Ownership after plain writes: create, update, and the patches that are not apply.
//!
//! Called by the engine through [`track_update`] and [`settle_times`].

use super::{
    managed::{ENTRIES, Managed, Manager, Operation},
    ownership::{self, Touched},
    set::FieldSet,
    steady,
    typed::{self, Duplicates},
};
use api::{
    object::{Fields, timestamp},
    schema::Shape,
};
use jiff::Timestamp;
use serde_json::Value;

/// Whether a request asks to forget all managers, which it does by an empty list or one empty entry.
///
/// Read it from the body, or from the patched document, before the typed round trip: that drops an empty list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    reset: bool,
}

impl Claim {
    /// Reads what an object of a request says.
    pub fn of(object: &Value) -> Self {
        let unset = |value: &Value| value.is_null() || value == "";
        let blank = |entry: &Value| entry.as_object().is_some_and(|entry| entry.values().all(unset));
        let reset = match object.at(ENTRIES) {
            Value::Array(entries) => entries.is_empty() || matches!(entries.as_slice(), [entry] if blank(entry)),
            _ => false,
        };
        Self { reset }
    }
}

/// One write to keep account of.
pub struct Update<'a> {
    /// The type of the kind.
    pub shape: &'a Shape,
    /// The stored object; `None` on create.
    pub live: Option<&'a Value>,
    /// Whether the request asks to forget all managers; ignored through subresources.
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
/// what these add is nobody's. The entries it has are the request's: readable ones take the place of the live ones. Never
/// fails: where ownership cannot be told, the live entries stay.
pub fn track_update(update: &Update<'_>, new: &mut Value) {
    let Update { shape, live, claim, manager, api_version, versions, subresource, reset, now } = update;
    let sent = Managed::take_entries(new);
    let live_entries = live.map_or(&[][..], |live| live.list_at(ENTRIES));
    let returned = sent == live_entries;
    let of_client = subresource.is_empty() && (claim.reset || !returned);
    let writer = Manager::new(manager, Operation::Update, api_version, subresource);
    let time = timestamp(*now);
    let empty;
    let before = match live {
        Some(live) => live,
        None => {
            empty = typed::zero(shape);
            &empty
        }
    };
    let touched = Touched::between(shape, before, new, reset);
    let sound = |object: &Value| typed::check(shape, object, Duplicates::Allowed).is_empty();
    let current = |entry: &Value| versions.contains(&entry.str_at("apiVersion"));
    // A client that sends back what it read is spared a copy.
    let live_again = |sent: Vec<Value>| if returned { sent } else { live_entries.to_vec() };

    if live.is_some() && !of_client && live_entries.iter().all(current) {
        if touched.is_nothing() {
            return put(new, live_again(sent));
        }
        // The types of custom resources change; then entries have to be brought up to date first.
        let steady =
            matches!(shape, Shape::Named(_)).then(|| steady::entry_of(&writer, live_entries, &touched)).flatten();
        if let Some(index) = steady
            && sound(new)
            && sound(before)
        {
            let mut entries = live_again(sent);
            steady::renew(&mut entries, index, &time);
            return put(new, entries);
        }
    }
    let (entries, mut managed) = match of_client.then(|| claimed(*claim, &sent)).flatten() {
        Some(managed) => (Vec::new(), managed),
        None => {
            let entries = live_again(sent);
            let managed = Managed::read(&entries).unwrap_or_default();
            (entries, managed)
        }
    };
    // An object whose managers were forgotten stays untracked until somebody applies to it.
    if managed.0.is_empty() && live.is_some() {
        return;
    }
    if !sound(new) || !sound(before) {
        return put(new, live_entries.to_vec());
    }
    managed.modernise(shape, versions);
    ownership::update(touched, &mut managed, (writer, api_version, &time));
    managed.cap();
    managed.write(new, entries);
}

fn put(object: &mut Value, entries: Vec<Value>) {
    if !entries.is_empty() {
        object.set(ENTRIES, entries);
    }
}

/// The managers that a request names, if it names any or asks to forget them.
fn claimed(claim: Claim, sent: &[Value]) -> Option<Managed> {
    if claim.reset {
        return Some(Managed::default());
    }
    let mut managed = Managed::read(sent).ok().filter(|managed| !managed.0.is_empty())?;
    managed.reword();
    Some(managed)
}

/// Takes back the new times of managedFields when nothing else changed, so that a write without effect stays one.
///
/// Called last before storing, with the object as it would be stored; `metadata.resourceVersion` must be equal in both.
pub fn settle_times(stored: &Value, new: &mut Value) {
    let (before, after) = (stored.list_at(ENTRIES), new.list_at(ENTRIES));
    let mut pairs = before.iter().zip(after);
    let timeless = before.len() == after.len() && pairs.clone().all(|(before, after)| same_but_time(before, after));
    if !timeless || pairs.all(|(before, after)| before.at("time") == after.at("time")) {
        return;
    }
    let fresh = std::mem::replace(new.at_mut(ENTRIES), stored.at(ENTRIES).clone());
    if new != stored {
        new.set(ENTRIES, fresh);
    }
}

fn same_but_time(one: &Value, other: &Value) -> bool {
    let fields = |entry: &Value| entry.as_object().map(|map| map.len() - usize::from(map.contains_key("time")));
    let same = |(key, value): (&String, &Value)| key == "time" || other.get(key) == Some(value);
    fields(one) == fields(other) && one.as_object().into_iter().flatten().all(same)
}
