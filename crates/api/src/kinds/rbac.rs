//! Roles and bindings of rbac.authorization.k8s.io/v1.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    edit::{fill, items},
    names, selector,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, Scope},
};
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Rules of Role and ClusterRole, which differ in scope.
pub(super) struct Role(pub(super) Scope);

impl Rules for Role {
    fn validate(&self, role: &Value) -> Errors {
        let mut errors = Errors::new();
        for (i, rule) in role.list_at("rules").iter().enumerate() {
            policy_rule(&mut errors, &Path::new("rules").index(i), rule, self.0);
        }
        if role.at("aggregationRule").is_object() {
            let path = Path::new("aggregationRule").child("clusterRoleSelectors");
            let selectors = role.list_at("aggregationRule.clusterRoleSelectors");
            if selectors.is_empty() {
                errors.push(FieldError::required(&path, "at least one selector"));
            }
            for (i, wanted) in selectors.iter().enumerate() {
                selector::validate(&mut errors, &path.index(i), wanted);
                if !selector::is_readable(wanted) {
                    errors.push(FieldError::invalid(&path.index(i), wanted.clone(), "has mistakes"));
                }
            }
        }
        errors
    }

    fn name_mistakes(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::name_and_creation()
    }

    fn cells(&self, role: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        columns::name_and_creation_cells(role)
    }
}

fn policy_rule(errors: &mut Errors, path: &Path, rule: &Value, scope: Scope) {
    let given = |field: &str| !rule.list_at(field).is_empty();
    if !given("verbs") {
        errors.push(FieldError::required(&path.child("verbs"), "at least one verb"));
    }
    if given("nonResourceURLs") {
        let (at, urls) = (path.child("nonResourceURLs"), rule.at("nonResourceURLs"));
        if scope == Scope::Namespaced {
            errors.push(FieldError::invalid(&at, urls.clone(), "only a ClusterRole may have URLs"));
        }
        if given("apiGroups") || given("resources") || given("resourceNames") {
            errors.push(FieldError::invalid(&at, urls.clone(), "a rule is about URLs or about resources, not both"));
        }
        return;
    }
    for field in ["apiGroups", "resources"] {
        if !given(field) {
            errors.push(FieldError::required(&path.child(field), "at least one; '*' stands for all"));
        }
    }
}

/// Rules of RoleBinding and ClusterRoleBinding, which differ in scope.
pub(super) struct Binding(pub(super) Scope);

impl Rules for Binding {
    fn default(&self, binding: &mut Value) {
        if !binding.at("roleRef").is_object() {
            binding.set("roleRef", json!({"kind": "", "name": ""}));
        }
        fill(binding.at_mut("roleRef"), "apiGroup", GROUP);
        for subject in items(binding, "subjects") {
            if matches!(subject.str_at("kind"), "User" | "Group") {
                fill(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, binding: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("roleRef");
        let role = binding.at("roleRef");
        check::one_of(&mut errors, &path.child("apiGroup"), role.str_at("apiGroup"), &[GROUP]);
        let kinds: &[&str] = if self.0 == Scope::Namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        check::one_of(&mut errors, &path.child("kind"), role.str_at("kind"), kinds);
        check::required_segment(&mut errors, &path.child("name"), role.str_at("name"));
        for (i, subject) in binding.list_at("subjects").iter().enumerate() {
            subject_mistakes(&mut errors, &Path::new("subjects").index(i), subject, self.0);
        }
        errors
    }

    fn validate_update(&self, binding: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(binding);
        check::immutable(&mut errors, &Path::new("roleRef"), binding.at("roleRef"), old.at("roleRef"));
        errors
    }

    fn name_mistakes(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Role", "string", 0, "What is granted"),
            AGE,
            ("Users", "string", 1, "Users it is granted to"),
            ("Groups", "string", 1, "Groups it is granted to"),
            ("ServiceAccounts", "string", 1, "Service accounts it is granted to"),
        ])
    }

    fn cells(&self, binding: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let role = format!("{}/{}", binding.str_at("roleRef.kind"), binding.str_at("roleRef.name"));
        let mut cells = vec![columns::name(binding), role.into(), columns::age(binding, now)];
        for kind in ["User", "Group", "ServiceAccount"] {
            let subjects = binding.list_at("subjects").iter().filter(|subject| subject.str_at("kind") == kind);
            let names: Vec<String> = subjects
                .map(|subject| match kind {
                    "ServiceAccount" => format!("{}/{}", subject.str_at("namespace"), subject.str_at("name")),
                    _ => subject.str_at("name").to_owned(),
                })
                .collect();
            cells.push(names.join(", ").into());
        }
        cells
    }
}

fn subject_mistakes(errors: &mut Errors, path: &Path, subject: &Value, scope: Scope) {
    let (name, group) = (subject.str_at("name"), subject.str_at("apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match subject.str_at("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                check::dns_subdomain(errors, &path.child("name"), name);
            }
            check::one_of(errors, &path.child("apiGroup"), group, &[""]);
            if scope == Scope::Cluster && subject.str_at("namespace").is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), "where the service account is"));
            }
        }
        "User" | "Group" => check::one_of(errors, &path.child("apiGroup"), group, &[GROUP]),
        kind => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(&path.child("kind"), kind, &kinds));
        }
    }
}
