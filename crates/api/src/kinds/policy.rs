//! ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings, as far as they are no CEL: `schema::policy` adds the checks of expressions.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    edit::fill,
    names, selector, webhook,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Nothing can be changed of what is deleted.
const MUTATED: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Rules of admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy.
pub struct ValidatingPolicy;

impl Rules for ValidatingPolicy {
    fn default(&self, policy: &mut Value) {
        if policy.at("spec").is_object() {
            fill(policy.at_mut("spec"), "failurePolicy", "Fail");
            default_match(policy, "spec.matchConstraints");
        }
    }

    fn prepare_create(&self, policy: &mut Value) {
        policy.set("status", json!({}));
    }

    fn prepare_update(&self, policy: &mut Value, old: &Value) {
        take_over(policy, old, "status");
    }

    fn validate(&self, policy: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), policy.at("spec"));
        constraints(&mut errors, &path, spec);
        if spec.list_at("validations").is_empty() && spec.list_at("auditAnnotations").is_empty() {
            for field in ["validations", "auditAnnotations"] {
                let text = "validations or auditAnnotations must contain at least one item";
                errors.push(FieldError::required(&path.child(field), text));
            }
        }
        errors
    }

    fn validate_status(&self, policy: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("status").child("conditions");
        check::conditions(&mut errors, &path, policy.list_at("status.conditions"));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Validations", "integer", 0, "How many validations the policy has"),
            ("ParamKind", "string", 0, "The kind of its parameters"),
            AGE,
        ])
    }

    fn cells(&self, policy: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let count = policy.list_at("spec.validations").len();
        vec![columns::name(policy), count.into(), kind_of_params(policy), columns::age(policy, now)]
    }
}

/// Rules of admissionregistration.k8s.io/v1 MutatingAdmissionPolicy.
pub struct MutatingPolicy;

impl Rules for MutatingPolicy {
    fn default(&self, policy: &mut Value) {
        ValidatingPolicy.default(policy);
    }

    fn validate(&self, policy: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), policy.at("spec"));
        constraints(&mut errors, &path, spec);
        mutated(&mut errors, &path.child("matchConstraints"), spec.at("matchConstraints"));
        if spec.list_at("mutations").is_empty() {
            errors.push(FieldError::required(&path.child("mutations"), "mutations must contain at least one item"));
        }
        let at = path.child("reinvocationPolicy");
        check::required_one_of(&mut errors, &at, spec.str_at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Mutations", "integer", 0, "How many mutations the policy has"),
            ("ParamKind", "string", 0, "The kind of its parameters"),
            AGE,
        ])
    }

    fn cells(&self, policy: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let count = policy.list_at("spec.mutations").len();
        vec![columns::name(policy), count.into(), kind_of_params(policy), columns::age(policy, now)]
    }
}

fn kind_of_params(policy: &Value) -> Value {
    match policy.at("spec.paramKind") {
        Value::Null => "<unset>".into(),
        kind => format!("{}/{}", kind.str_at("apiVersion"), kind.str_at("kind")).into(),
    }
}

/// What every policy says of when it holds.
fn constraints(errors: &mut Errors, path: &Path, spec: &Value) {
    check::one_of(errors, &path.child("failurePolicy"), spec.str_at("failurePolicy"), &["Fail", "Ignore"]);
    if !spec.at("paramKind").is_null() {
        param_kind(errors, &path.child("paramKind"), spec.at("paramKind"));
    }
    let at = path.child("matchConstraints");
    match spec.at("matchConstraints") {
        Value::Null => errors.push(FieldError::required(&at, "")),
        given => {
            match_resources(errors, &at, given);
            if given.list_at("resourceRules").is_empty() {
                errors.push(FieldError::required(&at.child("resourceRules"), ""));
            }
        }
    }
}

fn mutated(errors: &mut Errors, path: &Path, given: &Value) {
    let at = path.child("resourceRules").child("operations");
    for operation in given.list_at("resourceRules").iter().flat_map(|rule| check::texts(rule, "operations")) {
        if !MUTATED.contains(&operation) {
            errors.push(FieldError::not_supported(&at, operation, &MUTATED));
        }
    }
}

/// Rules of admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.
pub(super) struct ValidatingBinding;

impl Rules for ValidatingBinding {
    fn default(&self, binding: &mut Value) {
        default_match(binding, "spec.matchResources");
    }

    fn validate(&self, binding: &Value) -> Errors {
        let mut errors = bound(binding);
        actions(&mut errors, &Path::new("spec").child("validationActions"), binding.at("spec"));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("PolicyName", "string", 0, "The policy that is bound"),
            ("ParamRef", "string", 0, "Its parameters"),
            AGE,
        ])
    }

    fn cells(&self, binding: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let given = binding.at("spec.paramRef");
        let param = match (given.str_at("name"), given.str_at("namespace")) {
            ("", _) if given.at("selector").is_null() => "<unset>".to_owned(),
            ("", _) => selector::text(given.at("selector")),
            (name, namespace) => format!("{}/{name}", columns::or(namespace, "*")),
        };
        let policy = binding.str_at("spec.policyName");
        vec![columns::name(binding), policy.into(), param.into(), columns::age(binding, now)]
    }
}

/// Rules of admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding.
pub(super) struct MutatingBinding;

impl Rules for MutatingBinding {
    fn default(&self, binding: &mut Value) {
        ValidatingBinding.default(binding);
    }

    fn validate(&self, binding: &Value) -> Errors {
        let mut errors = bound(binding);
        mutated(&mut errors, &Path::new("spec").child("matchResources"), binding.at("spec.matchResources"));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        ValidatingBinding.columns()
    }

    fn cells(&self, binding: &Value, now: jiff::Timestamp) -> Vec<Value> {
        ValidatingBinding.cells(binding, now)
    }
}

/// What every binding says.
fn bound(binding: &Value) -> Errors {
    let mut errors = Errors::new();
    let (path, spec) = (Path::new("spec"), binding.at("spec"));
    match spec.str_at("policyName") {
        "" => errors.push(FieldError::required(&path.child("policyName"), "")),
        name => check::dns_subdomain(&mut errors, &path.child("policyName"), name),
    }
    if !spec.at("paramRef").is_null() {
        param_ref(&mut errors, &path.child("paramRef"), spec.at("paramRef"));
    }
    if !spec.at("matchResources").is_null() {
        match_resources(&mut errors, &path.child("matchResources"), spec.at("matchResources"));
    }
    errors
}

fn default_match(object: &mut Value, path: &str) {
    if !object.at(path).is_object() {
        return;
    }
    let constraints = object.at_mut(path);
    webhook::default_match(constraints);
    for rules in ["resourceRules", "excludeResourceRules"] {
        webhook::default_scopes(constraints, rules);
    }
}

fn param_kind(errors: &mut Errors, path: &Path, kind: &Value) {
    let at = path.child("apiVersion");
    match kind.str_at("apiVersion") {
        "" => errors.push(FieldError::required(&at, "")),
        given => {
            let (group, version) = given.split_once('/').unwrap_or(("", given));
            if !group.is_empty() {
                check::dns_subdomain(errors, &at, group);
            }
            match version {
                "" => errors.push(FieldError::invalid(&at, given, "version must be specified")),
                version => check::dns_label(errors, &at, version),
            }
        }
    }
    let at = path.child("kind");
    match kind.str_at("kind") {
        "" => errors.push(FieldError::required(&at, "")),
        name => {
            for why in names::dns_label(&name.to_lowercase(), false) {
                let text = format!("may have mixed case, but should otherwise match: {why}");
                errors.push(FieldError::invalid(&at, name, text));
            }
        }
    }
}

fn match_resources(errors: &mut Errors, path: &Path, given: &Value) {
    check::one_of(errors, &path.child("matchPolicy"), given.str_at("matchPolicy"), &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        selector::validate(errors, &path.child(field), given.at(field));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in given.list_at(field).iter().enumerate() {
            let path = path.child(field).index(index);
            let mut seen = BTreeSet::new();
            for (index, name) in check::texts(rule, "resourceNames").into_iter().enumerate() {
                let at = path.child("resourceNames").index(index);
                check::all_of(errors, &at, name, names::path_segment(name));
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(&at, name));
                }
            }
            webhook::rule_with_operations(errors, &path, rule, &OPERATIONS);
        }
    }
}

fn param_ref(errors: &mut Errors, path: &Path, given: &Value) {
    const BOTH: &str = "name and selector are mutually exclusive";
    let (name, selected) = (given.str_at("name"), given.at("selector"));
    if !name.is_empty() {
        check::all_of(errors, &path.child("name"), name, names::path_segment(name));
        if !selected.is_null() {
            errors.push(FieldError::forbidden(&path.child("name"), BOTH));
        }
    }
    if !selected.is_null() {
        selector::validate(errors, &path.child("selector"), selected);
        if !name.is_empty() {
            errors.push(FieldError::forbidden(&path.child("selector"), BOTH));
        }
    }
    if name.is_empty() && selected.is_null() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    let at = path.child("parameterNotFoundAction");
    check::required_one_of(errors, &at, given.str_at("parameterNotFoundAction"), &["Allow", "Deny"]);
}

fn actions(errors: &mut Errors, path: &Path, spec: &Value) {
    let given = check::texts(spec, "validationActions");
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    for (index, action) in given.iter().enumerate() {
        check::one_of(errors, &path.index(index), action, &["Audit", "Deny", "Warn"]);
        if given[..index].contains(action) {
            errors.push(FieldError::duplicate(&path.index(index), *action));
        }
    }
    if given.contains(&"Deny") && given.contains(&"Warn") {
        let text = "must not contain both Deny and Warn (repeating the same validation failure information in the API response \
                    and headers serves no purpose)";
        errors.push(FieldError::invalid(path, spec.at("validationActions").clone(), text));
    }
}
