//! The four formats of PATCH, and who owns which field afterwards.

use crate::{Target, input, objects};
use api::object::Fields;
use jiff::Timestamp;
use patch::{
    apply::{self, Apply, Claim, FieldSet, Force, Update},
    json, merge, strategic,
};
use serde_json::Value;

pub(crate) const TARGETS: &[Target] = &[
    Target::new("patch-json", json_patch).up_to(8 << 10),
    Target::new("patch-merge", merge_patch).up_to(8 << 10),
    Target::new("patch-strategic", strategic_patch).up_to(8 << 10),
    Target::new("patch-apply", apply_patch).up_to(8 << 10),
    Target::new("managed-fields", managed_fields).up_to(8 << 10),
];

/// A document and a patch.
fn two(data: &[u8]) -> Option<(Value, Value)> {
    let text = input::text(data);
    let [document, patch] = input::parts(&text);
    Some((input::json(document)?, input::json(patch)?))
}

fn json_patch(data: &[u8]) {
    let Some((document, patch)) = two(data) else { return };
    let _ = json::unknown_fields(&patch);
    if let Ok(patched) = json::apply(document, &patch) {
        objects_nest_no_deeper(&patched);
    }
}

fn merge_patch(data: &[u8]) {
    let Some((document, patch)) = two(data) else { return };
    let Ok(once) = merge::apply(document, patch.clone()) else { return };
    objects_nest_no_deeper(&once);
    assert_eq!(merge::apply(once.clone(), patch).ok(), Some(once), "a merge patch made twice");
}

fn strategic_patch(data: &[u8]) {
    let Some((document, patch)) = two(data) else { return };
    let Some(resource) = objects::resource_of(&document) else { return };
    if let Ok(patched) = strategic::apply(&resource.shape, document, patch) {
        objects_nest_no_deeper(&patched);
        let _ = objects::typed(&patched, &resource);
    }
}

/// Readers of stored objects stop at some depth: what is stored must stay above it.
fn objects_nest_no_deeper(value: &Value) {
    let text = value.to_string();
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "cannot be read again: {text}");
}

/// A live object, a configuration of one manager and one of another.
fn apply_patch(data: &[u8]) {
    let text = input::text(data);
    let [live, first, second] = input::parts(&text);
    let (Some(first), Some(second)) = (input::json(first), input::json(second)) else { return };
    let Some(resource) = objects::resource_of(&first) else { return };
    let live = input::json(live).and_then(|live| objects::typed(&live, &resource));
    let api_version = resource.api_version();
    let reset = FieldSet::of(&["status"]);
    let apply = |live: Option<&Value>, config: &Value, manager: &str, force: Force| {
        let applied = apply::apply(&Apply {
            shape: &resource.shape,
            kind: &resource.kind,
            live,
            config,
            manager,
            force,
            api_version: &api_version,
            versions: &[&api_version],
            subresource: "",
            reset: &reset,
            now: Timestamp::UNIX_EPOCH,
        });
        applied.ok().and_then(|object| objects::typed(&object, &resource))
    };
    let Some(once) = apply(live.as_ref(), &first, "one", Force::Yes) else { return };
    objects_nest_no_deeper(&once);
    assert_eq!(
        apply(Some(&once), &first, "one", Force::No),
        Some(once.clone()),
        "the same configuration a second time"
    );
    let Some(both) = apply(Some(&once), &second, "two", Force::No) else { return };
    let mut renamed = both.clone();
    renamed.set("metadata.labels", serde_json::json!({"changed": "yes"}));
    apply::track_update(
        &Update {
            shape: &resource.shape,
            live: Some(&both),
            claim: Claim::of(&renamed),
            manager: "three",
            api_version: &api_version,
            versions: &[&api_version],
            subresource: "",
            reset: &reset,
            now: Timestamp::UNIX_EPOCH,
        },
        &mut renamed,
    );
}

/// What fieldsV1 says is said again the same.
fn managed_fields(data: &[u8]) {
    let Some(value) = serde_json::from_slice(data).ok() else { return };
    let Ok(set) = FieldSet::from_value(&value) else { return };
    let written = set.to_value();
    assert_eq!(FieldSet::from_value(&written).ok(), Some(set), "{written}");
}
