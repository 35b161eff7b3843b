//! FlowSchema and PriorityLevelConfiguration: which requests wait for which, when there are too many.
//!
//! The API server obeys them (`apiserver::fairness`) and keeps the ones in `defaults`.

pub mod defaults;
mod priority_level;

pub(super) use priority_level::PriorityLevel;

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// The verbs that a rule may name.
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The last of all precedences.
const LAST: i64 = 10_000;

/// Rules of flowcontrol.apiserver.k8s.io/v1 FlowSchema.
pub(super) struct FlowSchema;

impl Rules for FlowSchema {
    fn default(&self, schema: &mut Value) {
        if schema.at("spec").is_object() && schema.int_at("spec.matchingPrecedence").unwrap_or_default() == 0 {
            schema.set("spec.matchingPrecedence", 1000);
        }
    }

    fn prepare_create(&self, schema: &mut Value) {
        schema.set("status", json!({}));
    }

    fn prepare_update(&self, schema: &mut Value, old: &Value) {
        schema.set("status", old.at("status").clone());
    }

    fn validate(&self, schema: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec, name) = (Path::new("spec"), schema.at("spec"), schema.str_at("metadata.name"));
        precedence(&mut errors, &path.child("matchingPrecedence"), spec, name);
        if !spec.at("distinguisherMethod").is_null() {
            let at = path.child("distinguisherMethod").child("type");
            check::one_of(&mut errors, &at, spec.str_at("distinguisherMethod.type"), &["ByNamespace", "ByUser"]);
        }
        let at = path.child("priorityLevelConfiguration").child("name");
        match spec.str_at("priorityLevelConfiguration.name") {
            "" => errors.push(FieldError::required(&at, "the name of a PriorityLevelConfiguration")),
            level => check::dns_subdomain(&mut errors, &at, level),
        }
        for (index, rule) in spec.list_at("rules").iter().enumerate() {
            policy(&mut errors, &path.child("rules").index(index), rule);
        }
        if defaults::mandatory_schema(name).is_some_and(|fixed| !check::same(spec, fixed.at("spec"))) {
            errors.push(FieldError::invalid(&path, spec.clone(), format!("the spec of '{name}' cannot be changed")));
        }
        errors
    }

    fn validate_status(&self, schema: &Value, _old: &Value) -> Errors {
        status(schema)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn in_table_order(&self, schemas: &mut [Value]) {
        schemas.sort_by_key(|schema| {
            let precedence = schema.int_at("spec.matchingPrecedence").unwrap_or_default();
            (precedence, schema.str_at("metadata.name").to_owned())
        });
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("PriorityLevel", "string", 0, "Where the requests that match wait and run"),
            ("MatchingPrecedence", "string", 0, "Which schema is tried first: the one with the lowest number"),
            ("DistinguisherMethod", "string", 0, "What tells one flow from another"),
            AGE,
            ("MissingPL", "string", 0, "Whether the priority level does not exist"),
        ])
    }

    fn cells(&self, schema: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let conditions = schema.list_at("status.conditions");
        let dangling = conditions.iter().find(|condition| condition.str_at("type") == "Dangling");
        vec![
            columns::name(schema),
            schema.str_at("spec.priorityLevelConfiguration.name").into(),
            columns::number(schema, "spec.matchingPrecedence"),
            columns::or(schema.str_at("spec.distinguisherMethod.type"), "<none>").into(),
            columns::age(schema, now),
            dangling.map_or("?", |condition| condition.str_at("status")).into(),
        ]
    }
}

fn precedence(errors: &mut Errors, path: &Path, spec: &Value, name: &str) {
    let precedence = spec.int_at("matchingPrecedence").unwrap_or_default();
    check::in_range(errors, path, precedence, 1, LAST);
    if precedence == 1 && name != "exempt" {
        errors.push(FieldError::invalid(path, 1, "only the schema 'exempt' comes first; give 2 or more"));
    }
}

/// One entry of `rules`: who, and what they ask for.
fn policy(errors: &mut Errors, path: &Path, rule: &Value) {
    let subjects = rule.list_at("subjects");
    if subjects.is_empty() {
        errors.push(FieldError::required(&path.child("subjects"), "at least one user, group or service account"));
    }
    for (index, given) in subjects.iter().enumerate() {
        subject(errors, &path.child("subjects").index(index), given);
    }
    let (resources, others) = (rule.list_at("resourceRules"), rule.list_at("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        errors.push(FieldError::required(path, "at least one of resourceRules and nonResourceRules"));
    }
    for (index, given) in resources.iter().enumerate() {
        resource_rule(errors, &path.child("resourceRules").index(index), given);
    }
    for (index, given) in others.iter().enumerate() {
        path_rule(errors, &path.child("nonResourceRules").index(index), given);
    }
}

fn subject(errors: &mut Errors, path: &Path, subject: &Value) {
    const KINDS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = subject.str_at("kind");
    let Some((_, field)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, &KINDS.map(|(kind, _)| kind)));
        return;
    };
    let (at, given) = (path.child(field), subject.at(field));
    let name = given.str_at("name");
    if given.is_null() {
        errors.push(FieldError::required(&at, format!("needed when kind is {kind}")));
    } else if name.is_empty() {
        errors.push(FieldError::required(&at.child("name"), ""));
    } else if kind == "ServiceAccount" && name != "*" {
        check::dns_subdomain(errors, &at.child("name"), name);
    }
    if kind == "ServiceAccount" && !given.is_null() {
        match given.str_at("namespace") {
            "" => errors.push(FieldError::required(&at.child("namespace"), "the namespace of the service account")),
            namespace => check::dns_label(errors, &at.child("namespace"), namespace),
        }
    }
    for (other, field) in KINDS.iter().filter(|(other, field)| *other != kind && !subject.at(field).is_null()) {
        errors.push(FieldError::forbidden(&path.child(field), format!("only for kind {other}")));
    }
}

fn resource_rule(errors: &mut Errors, path: &Path, rule: &Value) {
    verbs(errors, path, rule);
    some_or_all(errors, path, rule, "apiGroups");
    some_or_all(errors, path, rule, "resources");
    let (at, namespaces) = (path.child("namespaces"), check::texts(rule, "namespaces"));
    if namespaces.is_empty() {
        if !rule.is_true("clusterScope") {
            errors.push(FieldError::required(&at, "at least one namespace, or clusterScope"));
        }
    } else if namespaces.contains(&"*") {
        alone(errors, &at, rule.at("namespaces"), namespaces.len());
    } else {
        for (index, namespace) in namespaces.iter().enumerate() {
            check::all_of(errors, &at.index(index), namespace, names::dns_label(namespace, false));
        }
    }
}

fn path_rule(errors: &mut Errors, path: &Path, rule: &Value) {
    verbs(errors, path, rule);
    if some_or_all(errors, path, rule, "nonResourceURLs") {
        return;
    }
    for (index, url) in check::texts(rule, "nonResourceURLs").iter().enumerate() {
        let star = url.find('*');
        let good = url.starts_with('/')
            && !url.contains(' ')
            && !url.contains("//")
            && star.is_none_or(|at| at + 1 == url.len() && url.ends_with("/*"));
        if !good {
            let text = "accepted is a path such as '/healthz', or '/metrics/*' for everything below";
            errors.push(FieldError::invalid(&path.child("nonResourceURLs").index(index), *url, text));
        }
    }
}

fn verbs(errors: &mut Errors, path: &Path, rule: &Value) {
    if some_or_all(errors, path, rule, "verbs") {
        return;
    }
    if check::texts(rule, "verbs").iter().any(|verb| !VERBS.contains(verb)) {
        errors.push(FieldError::not_supported(&path.child("verbs"), rule.at("verbs").clone(), &VERBS));
    }
}

/// A list with at least one entry, of which `*` stands alone. True when there is nothing more to check in it.
fn some_or_all(errors: &mut Errors, path: &Path, rule: &Value, field: &str) -> bool {
    let given = check::texts(rule, field);
    if given.is_empty() {
        errors.push(FieldError::required(&path.child(field), "at least one, or '*' for all"));
        return true;
    }
    if given.contains(&"*") {
        alone(errors, &path.child(field), rule.at(field), given.len());
        return true;
    }
    false
}

fn alone(errors: &mut Errors, path: &Path, list: &Value, length: usize) {
    if length > 1 {
        errors.push(FieldError::invalid(path, list.clone(), "'*' stands for all and must stand alone"));
    }
}

/// Conditions of either kind: every type once.
fn status(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let conditions = object.list_at("status.conditions");
    for (index, condition) in conditions.iter().enumerate() {
        let (at, kind) = (Path::new("status").child("conditions").index(index).child("type"), condition.str_at("type"));
        if conditions[..index].iter().any(|other| other.str_at("type") == kind) {
            errors.push(FieldError::duplicate(&at, kind));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
    }
    errors
}
