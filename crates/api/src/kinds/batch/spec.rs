//! What the spec of a Job may say, in a Job or in the template of a CronJob.

use super::policies;
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        edit, names, pod,
    },
    object::Fields,
    path::Path,
};
use serde_json::{Value, json};

/// Limits of Jobs that count by index: what fits into the status.
const MOST_PARALLEL: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const MOST_OF_MANY: i64 = 10_000;
const LONGEST_MANAGER: usize = 63;

/// Defaults of the template; those of the rest are for Jobs alone.
pub(super) fn template_defaults(spec: &mut Value) {
    if let Some(template) = edit::existing(spec, "template") {
        if !template.at("spec").is_object() {
            template.set("spec", json!({}));
        }
        pod::defaults::spec(template.at_mut("spec"));
    }
    for rule in edit::items(spec, "podFailurePolicy.rules") {
        edit::items(rule, "onPodConditions").for_each(|pattern| edit::fill(pattern, "status", "True"));
    }
}

/// Whether it counts by index.
pub(super) fn is_indexed(spec: &Value) -> bool {
    spec.str_at("completionMode") == "Indexed"
}

/// Mistakes in all but the selector.
pub(super) fn validate(errors: &mut Errors, path: &Path, spec: &Value) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    check::none_negative(errors, path, spec, &numbers);
    if !spec.at("maxFailedIndexes").is_null() && spec.at("backoffLimitPerIndex").is_null() {
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), "with maxFailedIndexes"));
    }
    if let Some(manager) = spec.at("managedBy").as_str() {
        managed_by(errors, &path.child("managedBy"), manager);
    }
    completion_mode(errors, path, spec);
    if !spec.at("podFailurePolicy").is_null() {
        policies::pod_failure(errors, &path.child("podFailurePolicy"), spec);
    }
    if !spec.at("successPolicy").is_null() {
        if is_indexed(spec) {
            policies::success(errors, &path.child("successPolicy"), spec);
        } else {
            let text = "needs completionMode Indexed";
            errors.push(FieldError::invalid(&path.child("successPolicy"), spec.at("successPolicy").clone(), text));
        }
    }
    if let Some(policy) = spec.at("podReplacementPolicy").as_str() {
        let all = ["Failed", "TerminatingOrFailed"];
        let accepted = if spec.at("podFailurePolicy").is_null() { &all[..] } else { &all[..1] };
        check::one_of(errors, &path.child("podReplacementPolicy"), policy, accepted);
    }
    let at = path.child("template");
    pod::template(errors, &at, spec.at("template"), None);
    let (at, restart) = (at.child("spec").child("restartPolicy"), spec.str_at("template.spec.restartPolicy"));
    match restart {
        "" | "Always" => errors.push(FieldError::required(&at, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if !spec.at("podFailurePolicy").is_null() => {
            errors.push(FieldError::invalid(&at, restart, "must be Never with podFailurePolicy"));
        }
        "OnFailure" | "Never" => {}
        // What no pod may say is told with the template.
        _ => errors.push(FieldError::not_supported(&at, restart, &["Never", "OnFailure"])),
    }
}

fn completion_mode(errors: &mut Errors, path: &Path, spec: &Value) {
    let mode = spec.str_at("completionMode");
    if !mode.is_empty() {
        check::one_of(errors, &path.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    let number = |field: &str| spec.int_at(field);
    let mut at_most = |field: &str, most: i64, when: &str| {
        if let Some(value) = number(field).filter(|value| *value > most) {
            errors.push(FieldError::invalid(&path.child(field), value, format!("must be at most {most}{when}")));
        }
    };
    if mode == "Indexed" {
        at_most("parallelism", MOST_PARALLEL, " with completionMode Indexed");
        if let Some(completions) = number("completions") {
            at_most("maxFailedIndexes", completions, ", the completions");
        }
        at_most("maxFailedIndexes", MOST_PARALLEL, "");
        let many = number("completions").is_some_and(|completions| completions > MANY_COMPLETIONS);
        if many && number("backoffLimitPerIndex").is_some() {
            let when = " with more than 100000 completions and backoffLimitPerIndex";
            at_most("parallelism", MOST_OF_MANY, when);
            at_most("maxFailedIndexes", MOST_OF_MANY, when);
            if number("maxFailedIndexes").is_none() {
                let text = "with more than 100000 completions and backoffLimitPerIndex";
                errors.push(FieldError::required(&path.child("maxFailedIndexes"), text));
            }
        }
        if number("completions").is_none() {
            errors.push(FieldError::required(&path.child("completions"), "with completionMode Indexed"));
        }
    }
    if matches!(mode, "" | "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = number(field) {
                errors.push(FieldError::invalid(&path.child(field), value, "needs completionMode Indexed"));
            }
        }
    }
}

/// A domain and a path: `example.com/manager`.
fn managed_by(errors: &mut Errors, path: &Path, manager: &str) {
    match manager.split_once('/') {
        Some((domain, rest)) if !rest.is_empty() && !domain.is_empty() => {
            check::dns_subdomain(errors, path, domain);
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._~%!$&'()*+,;=:-".contains(c);
            if !rest.chars().all(plain) {
                errors.push(FieldError::invalid(path, manager, "the part after the domain must be a path of a URL"));
            }
        }
        _ => errors.push(FieldError::invalid(path, manager, "must be a domain and a path, such as 'acme.io/manager'")),
    }
    if manager.len() > LONGEST_MANAGER {
        errors.push(FieldError::too_long(path, LONGEST_MANAGER));
    }
}

/// Hosts of an indexed Job are named after it and the index.
pub(super) fn name_allows_completions(errors: &mut Errors, job: &Value) {
    let spec = job.at("spec");
    let Some(completions) = spec.int_at("completions").filter(|count| is_indexed(spec) && *count > 0) else { return };
    let name = job.str_at("metadata.name");
    let last = format!("{name}-{}", completions - 1);
    if !names::is_dns_label(&last) {
        let text = format!("the host name {last} of the last index would be no DNS label");
        errors.push(FieldError::invalid(&Path::new("metadata").child("name"), name, text));
    }
}
