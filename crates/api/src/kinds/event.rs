//! Events in their two views: core/v1, which is stored, and events.k8s.io/v1.
//!
//! Mirrors `pkg/registry/core/event` and the conversion of events/v1. Both validate the same stored form.

use super::{
    check::{self, Errors},
    columns::{self, Def},
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, scalar_text},
};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Fields that have another name in the other view: core/v1, events.k8s.io/v1.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Rules of v1 Event.
pub(super) struct CoreEvent;

impl Rules for CoreEvent {
    fn expires(&self) -> bool {
        true
    }

    fn validate(&self, event: &Value) -> Errors {
        legacy(event, "reportingComponent")
    }

    fn name_mistakes(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn selected(&self, event: &Value, path: &str) -> String {
        match path {
            "source.component" => columns::or(event.str_at("source.component"), event.str_at("reportingComponent")),
            _ => scalar_text(event.at(path)),
        }
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&COLUMNS)
    }

    fn cells(&self, event: &Value, now: jiff::Timestamp) -> Vec<Value> {
        cells(event, now)
    }
}

/// Rules of events.k8s.io/v1 Event.
pub(super) struct NewEvent;

impl Rules for NewEvent {
    fn expires(&self) -> bool {
        true
    }

    fn validate(&self, event: &Value) -> Errors {
        let event = stored(event);
        let mut errors = legacy(&event, "reportingController");
        series(&mut errors, &event);
        if event.at("eventTime").is_null() {
            errors.push(FieldError::required(&Path::new("eventTime"), ""));
        }
        if !matches!(event.str_at("type"), "Normal" | "Warning") {
            errors.push(FieldError::invalid(&Path::new("type"), event.at("type").clone(), "must be Normal or Warning"));
        }
        for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            let value = event.at(field);
            let empty = value.is_null() || *value == 0 || value.as_object().is_some_and(serde_json::Map::is_empty);
            if !empty {
                errors.push(FieldError::invalid(&Path::new(field), "", "must not be set on new events"));
            }
        }
        errors
    }

    fn validate_update(&self, event: &Value, old: &Value) -> Errors {
        let (event, old) = (stored(event), stored(old));
        let mut errors = legacy(&event, "reportingController");
        if event.at("series") != old.at("series") {
            series(&mut errors, &event);
        }
        let fixed = [
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingComponent",
            "reportingInstance",
        ];
        for field in fixed {
            let shown = if field == "reportingComponent" { "reportingController" } else { field };
            check::immutable(&mut errors, &Path::new(shown), event.at(field), old.at(field));
        }
        errors
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn to_stored<'a>(&self, event: &'a Value) -> Cow<'a, Value> {
        Cow::Owned(stored(event))
    }

    fn show_stored(&self, event: &mut Value) {
        rename(event, |names| names);
        event.set("apiVersion", "events.k8s.io/v1");
        for field in ["reportingController", "reportingInstance"] {
            if event.str_at(field).is_empty() {
                event.remove(field);
            }
        }
    }

    fn shows_as_stored(&self, _revision: u64) -> bool {
        false
    }

    fn stored_as(&self) -> Option<(&str, &str)> {
        Some(("", "v1"))
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&COLUMNS)
    }

    fn cells(&self, event: &Value, now: jiff::Timestamp) -> Vec<Value> {
        cells(&stored(event), now)
    }
}

/// An event in the words of the core group.
fn stored(event: &Value) -> Value {
    let mut event = event.clone();
    rename(&mut event, |(core, new)| (new, core));
    event.set("apiVersion", "v1");
    for (field, empty) in [
        ("involvedObject", json!({})),
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        event.set_default(field, empty);
    }
    event
}

fn rename(event: &mut Value, direction: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    for (from, to) in RENAMED.map(direction) {
        if let Some(value) = event.remove(from) {
            event.set(to, value);
        }
    }
}

/// The rules both views share; `controller` is what the view calls the reporting controller.
fn legacy(event: &Value, controller: &str) -> Errors {
    let mut errors = Errors::new();
    let (namespace, of) = (event.str_at("metadata.namespace"), event.str_at("involvedObject.namespace"));
    let dated = !event.at("eventTime").is_null();
    let fits = match (dated, of) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, of) => namespace == of,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        let path = Path::new("involvedObject").child("namespace");
        errors.push(FieldError::invalid(&path, of, format!("must be the namespace of the event, {namespace}")));
    }
    if !dated {
        return errors;
    }
    let reporter = event.str_at("reportingComponent");
    if reporter.is_empty() {
        errors.push(FieldError::required(&Path::new(controller), ""));
    }
    check::qualified_name(&mut errors, &Path::new(controller), reporter);
    for field in ["reportingInstance", "action", "reason"] {
        let text = event.str_at(field);
        if text.is_empty() {
            errors.push(FieldError::required(&Path::new(field), ""));
        }
        if text.len() > 128 {
            errors.push(FieldError::invalid(&Path::new(field), "", "at most 128 characters are accepted"));
        }
    }
    if event.str_at("message").len() > 1024 {
        errors.push(FieldError::invalid(&Path::new("message"), "", "at most 1024 characters are accepted"));
    }
    errors
}

fn series(errors: &mut Errors, event: &Value) {
    if !event.at("series").is_object() {
        return;
    }
    if event.int_at("series.count").unwrap_or_default() < 2 {
        errors.push(FieldError::invalid(&Path::new("series.count"), "", "must be 2 or more"));
    }
    if event.at("series.lastObservedTime").is_null() {
        errors.push(FieldError::required(&Path::new("series.lastObservedTime"), ""));
    }
}

const COLUMNS: [Def; 10] = [
    ("Last Seen", "string", 0, "When it happened last"),
    ("Type", "string", 0, "Normal or Warning"),
    ("Reason", "string", 0, "Why, in one word"),
    ("Object", "string", 0, "What it is about"),
    ("Subobject", "string", 1, "Which part of the object it is about"),
    ("Source", "string", 1, "Who reports it"),
    ("Message", "string", 0, "What happened"),
    ("First Seen", "string", 1, "When it happened first"),
    ("Count", "string", 1, "How often it happened"),
    ("Name", "string", 1, "Name of the event"),
];

fn cells(event: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let seen = |field: &str| columns::since(event.str_at(field), now);
    let given = |field: &str| !event.at(field).is_null();
    let first = if given("firstTimestamp") { seen("firstTimestamp") } else { seen("eventTime") };
    let mut last = if given("lastTimestamp") { seen("lastTimestamp") } else { first.clone() };
    let mut count = event.int_at("count").filter(|n| *n != 0).unwrap_or(1);
    if given("series") {
        last = seen("series.lastObservedTime");
        count = event.int_at("series.count").unwrap_or_default();
    }
    let about = event.at("involvedObject");
    let kind = about.str_at("kind").to_lowercase();
    let object = match about.str_at("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = columns::or(event.str_at("source.component"), event.str_at("reportingComponent"));
    let source = match columns::or(event.str_at("source.host"), event.str_at("reportingInstance")) {
        host if host.is_empty() => component,
        host => format!("{component}, {host}"),
    };
    vec![
        last.into(),
        event.str_at("type").into(),
        event.str_at("reason").into(),
        object.into(),
        about.str_at("fieldPath").into(),
        source.into(),
        event.str_at("message").trim().into(),
        first.into(),
        count.into(),
        columns::name(event),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_goes_through_both_views_and_back() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "d"},
            "regarding": {"kind": "Pod", "namespace": "d"}, "note": "n", "reason": "R", "type": "Normal", "action": "A",
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a.io/b", "reportingInstance": "i",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        });
        assert_eq!(NewEvent.validate(&new), []);
        let mut core = NewEvent.to_stored(&new).into_owned();
        assert_eq!(core["involvedObject"], json!({"kind": "Pod", "namespace": "d"}));
        assert_eq!(core["message"], "n");
        assert_eq!(core["reportingComponent"], "a.io/b");
        assert_eq!(core["apiVersion"], "v1");
        assert!(core.get("regarding").is_none());
        assert_eq!(CoreEvent.validate(&core), []);
        NewEvent.show_stored(&mut core);
        assert_eq!(core, new);
    }

    #[test]
    fn old_style_events_must_be_beside_their_object() {
        for (namespace, of, good) in [("a", "a", true), ("a", "b", false), ("default", "", true), ("a", "", false)] {
            let event = json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": of}});
            assert_eq!(CoreEvent.validate(&event).is_empty(), good, "{namespace} {of}");
        }
    }
}
