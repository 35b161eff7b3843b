//! Rules of ResourceQuota: how much of something a namespace may have.
//!
//! What counts towards which quota is `crate::quota`; the API server charges it, a controller recounts it.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    quantity, resources,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Rules of v1 ResourceQuota.
pub(super) struct ResourceQuota;

impl Rules for ResourceQuota {
    fn prepare_create(&self, quota: &mut Value) {
        quota.set("status", serde_json::json!({}));
    }

    fn prepare_update(&self, quota: &mut Value, old: &Value) {
        quota.set("status", old.at("status").clone());
    }

    fn validate(&self, quota: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), quota.at("spec"));
        amounts(&mut errors, &path.child("hard"), spec.at("hard"));
        scopes(&mut errors, &path, spec);
        selector(&mut errors, &path.child("scopeSelector").child("matchExpressions"), spec);
        errors
    }

    fn validate_update(&self, quota: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(quota);
        let set = |quota: &Value| -> BTreeSet<String> {
            check::texts(quota, "spec.scopes").into_iter().map(str::to_owned).collect()
        };
        if set(quota) != set(old) {
            let path = Path::new("spec").child("scopes");
            let text = "field is immutable; delete the object and make it anew";
            errors.push(FieldError::invalid(&path, quota.at("spec.scopes").clone(), text));
        }
        errors
    }

    fn validate_status(&self, quota: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        for field in ["hard", "used"] {
            amounts(&mut errors, &Path::new("status").child(field), quota.at("status").at(field));
        }
        errors
    }

    fn warnings(&self, quota: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = quota.at("spec.hard");
        let amount = |name: &str| hard.get(name).and_then(Value::as_str);
        let mut warnings = Vec::new();
        for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let mut request = format!("requests.{name}");
            if amount(&request).is_none() && matches!(name, "cpu" | "memory") {
                name.clone_into(&mut request);
            }
            let limit = format!("limits.{name}");
            if let (Some(asked), Some(most)) = (amount(&request), amount(&limit))
                && quantity::nanos(asked) > quantity::nanos(most)
            {
                warnings.push(format!("ResourceQuota {request} ({asked}) should be less than {limit} ({most})"));
            }
        }
        warnings
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Request", "string", 0, "What is used and what may be asked for"),
            ("Limit", "string", 0, "What is used and what limits may be"),
            AGE,
        ])
    }

    fn cells(&self, quota: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in quota.map_at("status.hard").into_iter().flatten() {
            let used = quota.at("status.used").get(name).and_then(Value::as_str).unwrap_or("0");
            let text = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
            if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
        }
        vec![columns::name(quota), requests.join(", ").into(), limits.join(", ").into(), columns::age(quota, now)]
    }
}

/// What a quota can be narrowed to.
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes of which an object is in one or the other.
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

fn amounts(errors: &mut Errors, path: &Path, hard: &Value) {
    for (name, value) in hard.as_object().into_iter().flatten() {
        resources::quota_name(errors, &path.key(name), name);
        resources::amount(errors, &path.key(name), name, value);
    }
}

/// Whether objects in the scope can use up what the name counts.
fn fits(scope: &str, name: &str) -> bool {
    const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => name == "pods" || COMPUTE.contains(&name),
        _ => true,
    }
}

fn misfits<'a>(scope: &'a str, spec: &'a Value) -> impl Iterator<Item = &'a String> {
    let names = spec.map_at("hard").into_iter().flatten().map(|(name, _)| name);
    names.filter(move |name| resources::is_quota_name(name) && !fits(scope, name))
}

fn scopes(errors: &mut Errors, path: &Path, spec: &Value) {
    let (at, value, given) = (path.child("scopes"), spec.at("scopes"), check::texts(spec, "scopes"));
    for scope in &given {
        if !SCOPES.contains(scope) {
            errors.push(FieldError::invalid(&at, value.clone(), format!("{scope} is none of {}", SCOPES.join(", "))));
        }
        for name in misfits(scope, spec) {
            errors.push(FieldError::invalid(&at, value.clone(), format!("{scope} says nothing about {name}")));
        }
    }
    contradictions(errors, &at, value, &given);
}

fn selector(errors: &mut Errors, at: &Path, spec: &Value) {
    let rules = spec.list_at("scopeSelector.matchExpressions");
    for rule in rules {
        let (scope, operator, values) =
            (rule.str_at("scopeName"), rule.str_at("operator"), check::texts(rule, "values"));
        if !SCOPES.contains(&scope) {
            let text = format!("accepted are {}", SCOPES.join(", "));
            errors.push(FieldError::invalid(&at.child("scopeName"), scope, text));
        }
        for name in misfits(scope, spec) {
            let text = format!("{scope} says nothing about {name}");
            errors.push(FieldError::invalid(at, spec.at("scopeSelector").clone(), text));
        }
        let has_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !has_values && operator != "Exists" {
            errors.push(FieldError::invalid(&at.child("operator"), operator, format!("must be Exists for {scope}")));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(FieldError::required(&at.child("values"), "In and NotIn need at least one value"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let text = "Exists and DoesNotExist take no values";
                errors.push(FieldError::invalid(&at.child("values"), rule.at("values").clone(), text));
            }
            "DoesNotExist" | "Exists" | "In" | "NotIn" => {}
            other => {
                let text = "accepted are In, NotIn, Exists and DoesNotExist";
                errors.push(FieldError::invalid(&at.child("operator"), other, text));
            }
        }
    }
    let given: Vec<&str> = rules.iter().map(|rule| rule.str_at("scopeName")).collect();
    contradictions(errors, at, spec.at("scopes"), &given);
}

fn contradictions(errors: &mut Errors, at: &Path, value: &Value, given: &[&str]) {
    for [one, other] in OPPOSITES {
        if given.contains(&one) && given.contains(&other) {
            errors.push(FieldError::invalid(at, value.clone(), format!("nothing is both {one} and {other}")));
        }
    }
}
