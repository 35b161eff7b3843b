//! Deployment, ReplicaSet, DaemonSet and StatefulSet: workloads that stamp pods from a template. And ControllerRevision.
//!
//! Mirrors `pkg/registry/apps` and `pkg/apis/apps`. They share the checks of selector and template.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

pub(super) use controller_revision::ControllerRevision;
pub(super) use daemon_set::DaemonSet;
pub(super) use deployment::Deployment;
pub(super) use replica_set::ReplicaSet;
pub(super) use stateful_set::StatefulSet;

use super::{
    check::{self, Errors},
    columns::Def,
    pod, selector,
};
use crate::{error::FieldError, object::Fields, path::Path, resource::Rules};
use serde_json::{Value, json};

pub(super) const DESIRED: Def = ("Desired", "integer", 0, "Pods that should be there");
pub(super) const CURRENT: Def = ("Current", "integer", 0, "Pods that are there");
pub(super) const READY: Def = ("Ready", "integer", 0, "Pods that are ready");

pub(super) fn template_defaults(workload: &mut Value) {
    if workload.at("spec.template").is_object() {
        let spec = workload.at_mut("spec.template.spec");
        if !spec.is_object() {
            *spec = json!({});
        }
        pod::defaults::spec(spec);
    }
}

/// Selector and template of what keeps a number of pods. A selector that cannot be read leaves the template unread.
fn replicated(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec").child("selector");
    let wanted = spec.at("selector");
    if wanted.is_null() {
        errors.push(FieldError::required(&path, "labels of the pods that belong to it"));
    } else {
        selector::validate(errors, &path, wanted);
        if selector::is_empty(wanted) {
            errors.push(FieldError::invalid(&path, wanted.clone(), "must not be empty"));
        }
    }
    if selector::is_readable(wanted) {
        template(errors, spec);
    } else {
        errors.push(FieldError::invalid(&path, wanted.clone(), "has mistakes"));
    }
}

/// The template must make pods that the selector finds and that run for ever.
pub(super) fn template(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec").child("template");
    let made = spec.at("template");
    let wanted = spec.at("selector");
    let everything = !wanted.is_null() && selector::is_empty(wanted);
    if !everything && selector::is_readable(wanted) && !selector::matches(wanted, made.at("metadata.labels")) {
        let at = path.child("metadata").child("labels");
        errors.push(FieldError::invalid(&at, made.at("metadata.labels").clone(), "must be selected by spec.selector"));
    }
    pod::template(errors, &path, made, None);
    let at = path.child("spec");
    if made.str_at("spec.restartPolicy") != "Always" {
        errors.push(FieldError::not_supported(
            &at.child("restartPolicy"),
            made.str_at("spec.restartPolicy"),
            &["Always"],
        ));
    }
    if !made.at("spec.activeDeadlineSeconds").is_null() {
        let text = "pods of this kind run for ever";
        errors.push(FieldError::forbidden(&at.child("activeDeadlineSeconds"), text));
    }
}

/// Advice on the template, when it may be news; `named` when pods get their host names from the workload's.
pub(super) fn template_advice(rules: &impl Rules, workload: &Value, old: Option<&Value>, named: bool) -> Vec<String> {
    if old.is_some_and(|old| !rules.generation_changes(workload, old)) {
        return Vec::new();
    }
    let path = Path::new("spec").child("template").child("spec");
    let mut advice = pod::advice::spec(&path, workload.at("spec.template.spec"));
    advice.extend(pod::advice::host_name(workload).filter(|_| named && old.is_none()));
    advice
}

fn fixed_selector(errors: &mut Errors, workload: &Value, old: &Value) {
    let path = Path::new("spec").child("selector");
    check::immutable(errors, &path, workload.at("spec.selector"), old.at("spec.selector"));
}

/// No part of the replicas is more than all of them, nor are more available than ready.
pub(super) fn no_more_than_all(errors: &mut Errors, workload: &Value, parts: &[&str]) {
    let path = Path::new("status");
    let count = |field: &str| workload.at("status").int_at(field).unwrap_or_default();
    for part in parts.iter().filter(|part| count(part) > count("replicas")) {
        errors.push(FieldError::invalid(&path.child(part), count(part), "must not be more than status.replicas"));
    }
    let available = count("availableReplicas");
    if available > count("readyReplicas") {
        let text = "must not be more than readyReplicas";
        errors.push(FieldError::invalid(&path.child("availableReplicas"), available, text));
    }
}

fn collisions_only_grow(errors: &mut Errors, workload: &Value, old: &Value) {
    let count = |workload: &Value| workload.int_at("status.collisionCount").unwrap_or_default();
    if count(workload) < count(old) {
        let path = Path::new("status").child("collisionCount");
        errors.push(FieldError::invalid(&path, count(workload), "must not go back"));
    }
}
