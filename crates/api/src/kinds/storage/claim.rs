//! PersistentVolumeClaim: what somebody wants to store on. Once made, a claim may only be bound and, bound, grow.

use super::{CLASS_ANNOTATION, VOLUME_MODES, access_modes, class_name, modes_text};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
        edit::{existing, fill},
        meta, quantity, selector,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};

const STORAGE: &str = "spec.resources.requests.storage";
/// How far the growth of a volume has come, or at what it stopped.
const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
];

/// Rules of v1 PersistentVolumeClaim.
pub(in crate::kinds) struct PersistentVolumeClaim;

impl Rules for PersistentVolumeClaim {
    fn default(&self, claim: &mut Value) {
        fill(claim.at_mut("spec"), "volumeMode", "Filesystem");
        if claim.at("status").is_null() {
            claim.set("status", json!({}));
        }
        fill(claim.at_mut("status"), "phase", "Pending");
    }

    fn prepare_create(&self, claim: &mut Value) {
        claim.set("status", json!({"phase": "Pending"}));
        sources(claim);
    }

    fn prepare_update(&self, claim: &mut Value, old: &Value) {
        take_over(claim, old, "status");
        sources(claim);
    }

    fn validate(&self, claim: &Value) -> Errors {
        let mut errors = Errors::new();
        spec(&mut errors, &Path::new("spec"), claim.at("spec"));
        errors
    }

    fn validate_update(&self, claim: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(claim);
        let path = Path::new("spec");
        let annotation = |object: &Value| object.at("metadata.annotations").get(CLASS_ANNOTATION).cloned();
        if annotation(claim) != annotation(old) {
            let path = Path::new("metadata").child("annotations").key(CLASS_ANNOTATION);
            errors.push(FieldError::invalid(&path, json!(annotation(claim)), "field is immutable"));
        }
        if !check::same(&fixed(claim, old), &fixed(old, old)) {
            let text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                        bound claims";
            errors.push(FieldError::forbidden(&path, text));
        }
        let amount = |text: &str| quantity::nanos(text).unwrap_or_default();
        let (new, had) = (amount(claim.str_at(STORAGE)), amount(old.str_at(STORAGE)));
        if new < had && new <= amount(old.str_at("status.capacity.storage")) {
            let at = path.child("resources").child("requests").child("storage");
            errors.push(FieldError::forbidden(&at, "field can not be less than status.capacity"));
        }
        let applied = !old.at("status.currentVolumeAttributesClassName").is_null();
        if applied && claim.str_at("spec.volumeAttributesClassName").is_empty() {
            let text = "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil";
            errors.push(FieldError::forbidden(&path.child("volumeAttributesClassName"), text));
        }
        errors
    }

    fn validate_status(&self, claim: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("status");
        for field in ["capacity", "allocatedResources"] {
            for (name, amount) in claim.at("status").map_at(field).into_iter().flatten() {
                if amount.as_str().and_then(quantity::nanos).is_some_and(|amount| amount < 0) {
                    let at = path.child(field).key(name);
                    errors.push(FieldError::invalid(&at, amount.clone(), "must be a valid resource quantity"));
                }
            }
        }
        for (name, state) in claim.map_at("status.allocatedResourceStatuses").into_iter().flatten() {
            let at = path.child("allocatedResourceStatuses").key(name);
            check::one_of(&mut errors, &at, state.as_str().unwrap_or_default(), &RESIZE_STATES);
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Status", "string", 0, "Whether it has its volume"),
            ("Volume", "string", 0, "Its volume"),
            ("Capacity", "string", 0, "How much that holds"),
            ("Access Modes", "string", 0, "How that can be used"),
            ("StorageClass", "string", 0, "What makes it"),
            ("VolumeAttributesClass", "string", 0, "What it is like"),
            AGE,
            ("VolumeMode", "string", 1, "Files, or a block device"),
        ])
    }

    fn cells(&self, claim: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let bound = !claim.str_at("spec.volumeName").is_empty();
        let if_bound = |text: String| if bound { text } else { String::new() };
        let phase = match claim.at("metadata.deletionTimestamp") {
            Value::Null => claim.str_at("status.phase"),
            _ => "Terminating",
        };
        vec![
            columns::name(claim),
            phase.into(),
            claim.str_at("spec.volumeName").into(),
            if_bound(columns::or(claim.str_at("status.capacity.storage"), "0")).into(),
            if_bound(modes_text(claim.list_at("status.accessModes"))).into(),
            class(claim).into(),
            columns::or(claim.str_at("spec.volumeAttributesClassName"), "<unset>").into(),
            columns::age(claim, now),
            columns::or(claim.str_at("spec.volumeMode"), "<unset>").into(),
        ]
    }
}

fn class(claim: &Value) -> String {
    let annotation = claim.at("metadata.annotations").get(CLASS_ANNOTATION).and_then(Value::as_str);
    annotation.unwrap_or_else(|| claim.str_at("spec.storageClassName")).to_owned()
}

/// What of a claim does not change: all but its volume, which is set once, its class, which may come later, and, when it is
/// bound, its size and attributes.
fn fixed(claim: &Value, old: &Value) -> Value {
    let mut spec = claim.at("spec").clone();
    if old.str_at("spec.volumeName").is_empty() {
        spec.remove("volumeName");
    }
    // A class may be set where there was none; the empty one is a choice as any other.
    let unset = old.at("spec.storageClassName").is_null()
        && old.at("metadata.annotations").get(CLASS_ANNOTATION).is_none()
        && !claim.str_at("spec.storageClassName").is_empty();
    if unset || (old.at("spec.storageClassName").is_null() && claim.at("spec.storageClassName").is_null()) {
        spec.remove("storageClassName");
    }
    if old.str_at("status.phase") == "Bound" {
        spec.remove("resources.requests.storage");
        spec.remove("volumeAttributesClassName");
    }
    spec
}

/// A source is said in both ways, the old one only where it can be.
fn sources(claim: &mut Value) {
    let Some(spec) = existing(claim, "spec") else { return };
    let (old, new) = (spec.at("dataSource").clone(), spec.at("dataSourceRef").clone());
    let known = |source: &Value| {
        matches!(
            (source.str_at("apiGroup"), source.str_at("kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    match (old.is_null(), new.is_null()) {
        (false, true) if known(&old) => spec.set("dataSourceRef", old),
        // As before there was a second field: what nobody knows is dropped.
        (false, true) => drop(spec.remove("dataSource")),
        (true, false) if new.str_at("namespace").is_empty() => spec.set("dataSource", new),
        _ => {}
    }
}

fn spec(errors: &mut Errors, path: &Path, spec: &Value) {
    access_modes(errors, path, spec);
    selector::validate(errors, &path.child("selector"), spec.at("selector"));
    let at = path.child("resources").key("storage");
    match spec.str_at("resources.requests.storage") {
        "" => errors.push(FieldError::required(&at, "")),
        amount if quantity::nanos(amount).is_some_and(|n| n <= 0) => {
            errors.push(FieldError::invalid(&at, amount, "must be more than 0"));
        }
        _ => {}
    }
    class_name(errors, path, spec, "storageClassName");
    class_name(errors, path, spec, "volumeAttributesClassName");
    if let Some(mode) = spec.at("volumeMode").as_str() {
        check::one_of(errors, &path.child("volumeMode"), mode, &VOLUME_MODES);
    }
    for field in ["dataSource", "dataSourceRef"] {
        source(errors, &path.child(field), spec.at(field));
    }
    let (old, new) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    let other_namespace = !new.str_at("namespace").is_empty();
    if !old.is_null() && !new.is_null() {
        let differs = ["apiGroup", "kind", "name"].iter().any(|field| old.str_at(field) != new.str_at(field));
        if other_namespace {
            let text = "may not be specified when dataSourceRef.namespace is specified";
            errors.push(FieldError::invalid(path, "spec.dataSource", text));
        } else if differs {
            errors.push(FieldError::invalid(path, "spec.dataSource", "must match dataSourceRef"));
        }
    }
}

fn source(errors: &mut Errors, path: &Path, source: &Value) {
    if source.is_null() {
        return;
    }
    for field in ["name", "kind"] {
        if source.str_at(field).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    match (source.str_at("apiGroup"), source.str_at("kind")) {
        ("", "PersistentVolumeClaim") => {}
        ("", kind) => {
            let text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(FieldError::invalid(path, kind, text));
        }
        (group, _) => check::dns_subdomain(errors, &path.child("apiGroup"), group),
    }
    if let Some(namespace) = source.at("namespace").as_str().filter(|namespace| !namespace.is_empty()) {
        check::dns_label(errors, &path.child("namespace"), namespace);
    }
}

/// The claim that is made for each pod with such a volume, or for each pod of a StatefulSet.
pub(in crate::kinds) fn template(errors: &mut Errors, path: &Path, template: &Value) {
    if template.is_null() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    meta::labels_and_annotations(errors, &path.child("metadata"), template.at("metadata"));
    for field in template.map_at("metadata").into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        if !matches!(field.0.as_str(), "labels" | "annotations" | "creationTimestamp") {
            errors.push(FieldError::forbidden(
                &path.child("metadata").child(field.0),
                "only labels and annotations are accepted",
            ));
        }
    }
    spec(errors, &path.child("spec"), template.at("spec"));
}
