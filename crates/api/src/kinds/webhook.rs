//! MutatingWebhookConfiguration and ValidatingWebhookConfiguration: who is asked about which requests.
//!
//! Match conditions are CEL, which stands above this crate: `schema::admission` adds their checks.

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
    resource::{Column, Rules},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Versions of AdmissionReview that are spoken.
pub const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Rules of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookConfiguration {
    /// Its webhooks may change objects.
    Mutating,
    /// Its webhooks only refuse.
    Validating,
}

impl Rules for WebhookConfiguration {
    fn default(&self, configuration: &mut Value) {
        for hook in items(configuration, "webhooks") {
            fill(hook, "failurePolicy", "Fail");
            fill(hook, "timeoutSeconds", 10);
            default_match(hook);
            if *self == Self::Mutating {
                fill(hook, "reinvocationPolicy", "Never");
            }
            default_scopes(hook, "rules");
            if hook.at("clientConfig.service").is_object() {
                fill(hook.at_mut("clientConfig.service"), "port", 443);
            }
        }
    }

    fn validate(&self, configuration: &Value) -> Errors {
        let mut errors = Errors::new();
        let mut seen = BTreeSet::new();
        for (index, hook) in configuration.list_at("webhooks").iter().enumerate() {
            let path = Path::new("webhooks").index(index);
            self.webhook(&mut errors, &path, hook);
            let needed = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
            let given = hook.at("admissionReviewVersions");
            review_versions(&mut errors, &path.child("admissionReviewVersions"), given, &needed);
            let name = hook.str_at("name");
            if !name.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("Webhooks", "integer", 0, "How many webhooks the configuration has"), AGE])
    }

    fn cells(&self, configuration: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let count = configuration.list_at("webhooks").len();
        vec![columns::name(configuration), count.into(), columns::age(configuration, now)]
    }
}

impl WebhookConfiguration {
    fn webhook(self, errors: &mut Errors, path: &Path, hook: &Value) {
        fully_qualified(errors, &path.child("name"), hook.str_at("name"));
        for (index, rule) in hook.list_at("rules").iter().enumerate() {
            rule_with_operations(errors, &path.child("rules").index(index), rule, &OPERATIONS);
        }
        check::one_of(errors, &path.child("failurePolicy"), hook.str_at("failurePolicy"), &["Fail", "Ignore"]);
        check::one_of(errors, &path.child("matchPolicy"), hook.str_at("matchPolicy"), &["Equivalent", "Exact"]);
        let (at, effects) = (path.child("sideEffects"), ["None", "NoneOnDryRun"]);
        match hook.str_at("sideEffects") {
            "" => errors.push(FieldError::required(&at, format!("must specify one of {}", effects.join(", ")))),
            given => check::one_of(errors, &at, given, &effects),
        }
        let seconds = hook.int_at("timeoutSeconds").unwrap_or(10);
        if !(1..=30).contains(&seconds) {
            let text = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(&path.child("timeoutSeconds"), seconds, text));
        }
        for field in ["namespaceSelector", "objectSelector"] {
            selector::validate(errors, &path.child(field), hook.at(field));
        }
        if self == Self::Mutating {
            let at = path.child("reinvocationPolicy");
            check::one_of(errors, &at, hook.str_at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        }
        client(errors, &path.child("clientConfig"), hook.at("clientConfig"));
    }
}

/// What selects requests in webhooks and policies alike.
pub fn default_match(hook: &mut Value) {
    fill(hook, "matchPolicy", "Equivalent");
    for field in ["namespaceSelector", "objectSelector"] {
        hook.set_default(field, json!({}));
    }
}

/// Rules count for all scopes unless they say otherwise.
pub fn default_scopes(object: &mut Value, rules: &str) {
    items(object, rules).for_each(|rule| fill(rule, "scope", "*"));
}

/// A name with at least three parts.
fn fully_qualified(errors: &mut Errors, path: &Path, name: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    check::dns_subdomain(errors, path, name);
    if name.split('.').count() < 3 {
        let text = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, name, text));
    }
}

/// Operations, groups, versions and resources that a webhook or policy is about.
pub fn rule_with_operations(errors: &mut Errors, path: &Path, rule: &Value, accepted: &[&str]) {
    alone_or_none(errors, &path.child("operations"), rule, "operations", "operations");
    for (index, operation) in check::texts(rule, "operations").iter().enumerate() {
        check::one_of(errors, &path.child("operations").index(index), operation, accepted);
    }
    alone_or_none(errors, &path.child("apiGroups"), rule, "apiGroups", "API groups");
    alone_or_none(errors, &path.child("apiVersions"), rule, "apiVersions", "API versions");
    for (index, version) in check::texts(rule, "apiVersions").iter().enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(&path.child("apiVersions").index(index), ""));
        }
    }
    resources(errors, &path.child("resources"), rule);
    let scope = rule.str_at("scope");
    if !scope.is_empty() {
        check::one_of(errors, &path.child("scope"), scope, &["*", "Cluster", "Namespaced"]);
    }
}

/// At least one, and `*` only by itself.
fn alone_or_none(errors: &mut Errors, path: &Path, rule: &Value, field: &str, what: &str) {
    let given = check::texts(rule, field);
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if given.len() > 1 && given.contains(&"*") {
        let text = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path, rule.at(field).clone(), text));
    }
}

fn resources(errors: &mut Errors, path: &Path, rule: &Value) {
    let given = check::texts(rule, "resources");
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_below, mut below_all) = (BTreeSet::new(), BTreeSet::new());
    for (index, name) in given.iter().enumerate() {
        if name.is_empty() {
            errors.push(FieldError::required(&path.index(index), ""));
        }
        let Some((resource, below)) = name.split_once('/') else { continue };
        let mut covered = |by: String| {
            let text = format!("if '{by}' is present, must not specify {name}");
            errors.push(FieldError::invalid(&path.index(index), *name, text));
        };
        if all_below.contains(resource) {
            covered(format!("{resource}/*"));
        }
        if below_all.contains(below) {
            covered(format!("*/{below}"));
        }
        all_below.extend((below == "*").then_some(resource));
        below_all.extend((resource == "*").then_some(below));
    }
    let mut refuse = |text: &str| errors.push(FieldError::invalid(path, rule.at("resources").clone(), text));
    if given.len() > 1 && given.contains(&"*/*") {
        refuse("if '*/*' is present, must not specify other resources");
    }
    if given.contains(&"*") && given.iter().any(|name| *name != "*" && !name.is_empty() && !name.contains('/')) {
        refuse("if '*' is present, must not specify other resources without subresources");
    }
}

/// The versions of reviews that a webhook knows; `needed` is said when there are none.
pub fn review_versions(errors: &mut Errors, path: &Path, versions: &Value, needed: &str) {
    let given: Vec<&str> = versions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if given.is_empty() {
        errors.push(FieldError::required(path, needed));
        return;
    }
    for (index, version) in given.iter().enumerate() {
        if given[..index].contains(version) {
            errors.push(FieldError::invalid(&path.index(index), *version, "duplicate version"));
        } else {
            check::dns_label(errors, &path.index(index), version);
        }
    }
    if !given.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let text = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(path, versions.clone(), text));
    }
}

/// How a webhook is reached: a URL or a Service. Definitions with a conversion webhook say it the same way.
pub fn client(errors: &mut Errors, path: &Path, client: &Value) {
    let (url, service) = (client.at("url"), client.at("service"));
    match (url.as_str(), service.is_null()) {
        (Some(url), true) => webhook_url(errors, &path.child("url"), url),
        (None, false) => webhook_service(errors, &path.child("service"), service),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

fn webhook_url(errors: &mut Errors, path: &Path, url: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.push(FieldError::invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        errors.push(FieldError::invalid(path, host, format!("host must be specified{FORM}")));
    }
    for (given, what) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !given.is_empty() {
            errors.push(FieldError::invalid(path, given, what));
        }
    }
}

fn webhook_service(errors: &mut Errors, path: &Path, service: &Value) {
    for field in ["name", "namespace"] {
        if service.str_at(field).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let port = service.int_at("port").unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let text = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, text));
    }
    let (at, given) = (path.child("path"), service.str_at("path"));
    if given.is_empty() || given == "/" {
        return;
    }
    if !given.starts_with('/') {
        errors.push(FieldError::invalid(&at, given, "must start with a '/'"));
    }
    let inner = given.strip_prefix('/').unwrap_or(given);
    for (index, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        let wrong =
            if step.is_empty() { vec!["may not be empty".to_owned()] } else { names::dns_subdomain(step, false) };
        let colon = if step.is_empty() { "" } else { ":" };
        errors
            .extend(wrong.iter().map(|why| FieldError::invalid(&at, given, format!("segment[{index}]{colon} {why}"))));
    }
}
