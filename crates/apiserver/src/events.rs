//! Events have two names: `v1` and `events.k8s.io/v1` show the same stored objects in different words.
//!
//! They are stored as `v1` Events.

use api::{object::Fields, resource::Resource};
use serde_json::Value;

/// Pairs of dotted paths: in `v1`, in `events.k8s.io/v1`.
const WORDS: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// In `v1` this one is spelled differently from the rest of its pair.
const CONTROLLER: (&str, &str) = ("reportingComponent", "reportingController");

/// Whether the resource shows events in the words of `events.k8s.io`.
pub fn is_other_view(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

/// From the stored words to those of `events.k8s.io`.
pub fn show_stored(object: &mut Value) {
    for (core, other) in WORDS.into_iter().chain([CONTROLLER]) {
        rename(object, core, other);
    }
}

/// From the words of `events.k8s.io` to the stored ones.
pub fn to_stored(object: &mut Value) {
    for (core, other) in WORDS.into_iter().chain([CONTROLLER]) {
        rename(object, other, core);
    }
    object.set("apiVersion", "v1");
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.set(to, value);
    }
}
