//! What a Job may say about failed pods and about success before all is done.

use super::indexes::Indexes;
use crate::{
    error::FieldError,
    kinds::check::{self, Errors},
    object::Fields,
    path::Path,
};
use serde_json::Value;

const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const MOST_PATTERNS: usize = 20;
/// Bytes of `succeededIndexes`.
const LONGEST_INDEXES: usize = 64 * 1024;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// `podFailurePolicy` of a Job spec.
pub(super) fn pod_failure(errors: &mut Errors, path: &Path, spec: &Value) {
    let (path, rules) = (path.child("rules"), spec.list_at("podFailurePolicy.rules"));
    if rules.len() > MOST_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MOST_RULES));
    }
    let lists = ["containers", "initContainers"].map(|list| spec.at("template.spec").list_at(list));
    let names: Vec<&str> = lists.into_iter().flatten().map(|container| container.str_at("name")).collect();
    for (i, rule) in rules.iter().enumerate() {
        let at = path.index(i);
        match rule.str_at("action") {
            "FailIndex" if spec.at("backoffLimitPerIndex").is_null() => {
                errors.push(FieldError::invalid(&at.child("action"), "FailIndex", "needs backoffLimitPerIndex"));
            }
            action => check::required_one_of(errors, &at.child("action"), action, &ACTIONS),
        }
        let (codes, patterns) = (rule.at("onExitCodes"), rule.list_at("onPodConditions"));
        if !codes.is_null() {
            exit_codes(errors, &at.child("onExitCodes"), codes, &names);
        }
        pod_conditions(errors, &at.child("onPodConditions"), patterns);
        match (codes.is_null(), patterns.is_empty()) {
            (false, false) => {
                errors.push(FieldError::invalid(&at, Value::Null, "onExitCodes or onPodConditions, not both"));
            }
            (true, true) => errors.push(FieldError::invalid(&at, Value::Null, "onExitCodes or onPodConditions")),
            _ => {}
        }
    }
}

fn exit_codes(errors: &mut Errors, path: &Path, codes: &Value, names: &[&str]) {
    let operator = codes.str_at("operator");
    check::required_one_of(errors, &path.child("operator"), operator, &["In", "NotIn"]);
    if let Some(name) = codes.at("containerName").as_str().filter(|name| !names.contains(name)) {
        errors.push(FieldError::invalid(&path.child("containerName"), name, "is no container of the template"));
    }
    let (at, values) = (path.child("values"), codes.list_at("values"));
    if values.is_empty() {
        errors.push(FieldError::invalid(&at, codes.at("values").clone(), "at least one value is needed"));
    } else if values.len() > MOST_EXIT_CODES {
        errors.push(FieldError::too_many(&at, values.len(), MOST_EXIT_CODES));
    }
    let numbers: Vec<i64> = values.iter().map(|value| value.as_i64().unwrap_or_default()).collect();
    for (i, number) in numbers.iter().enumerate() {
        if operator == "In" && *number == 0 {
            errors.push(FieldError::invalid(&at.index(i), 0, "must not be 0 with operator In"));
        }
        if numbers[..i].contains(number) {
            errors.push(FieldError::duplicate(&at.index(i), *number));
        }
    }
    if !numbers.is_sorted() {
        errors.push(FieldError::invalid(&at, codes.at("values").clone(), "must be in growing order"));
    }
}

fn pod_conditions(errors: &mut Errors, path: &Path, patterns: &[Value]) {
    if patterns.len() > MOST_PATTERNS {
        errors.push(FieldError::too_many(path, patterns.len(), MOST_PATTERNS));
    }
    for (i, pattern) in patterns.iter().enumerate() {
        let at = path.index(i);
        check::qualified_name(errors, &at.child("type"), pattern.str_at("type"));
        let accepted = ["False", "True", "Unknown"];
        check::required_one_of(errors, &at.child("status"), pattern.str_at("status"), &accepted);
    }
}

/// `successPolicy` of an indexed Job's spec.
pub(super) fn success(errors: &mut Errors, path: &Path, spec: &Value) {
    let (path, rules) = (path.child("rules"), spec.list_at("successPolicy.rules"));
    if rules.is_empty() {
        errors.push(FieldError::required(&path, "at least one rule"));
    }
    if rules.len() > MOST_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MOST_RULES));
    }
    let completions = spec.int_at("completions").unwrap_or_default();
    for (i, rule) in rules.iter().enumerate() {
        let at = path.index(i);
        let (count, indexes) = (rule.int_at("succeededCount"), rule.at("succeededIndexes").as_str());
        if count.is_none() && indexes.is_none() {
            errors.push(FieldError::required(&at, "succeededCount or succeededIndexes"));
        }
        let mut most = None;
        if let Some(text) = indexes {
            let at = at.child("succeededIndexes");
            if text.len() > LONGEST_INDEXES {
                errors.push(FieldError::too_long(&at, LONGEST_INDEXES));
            }
            match Indexes::parse(text, u32::try_from(completions).unwrap_or_default()) {
                Ok(indexes) => most = i64::try_from(indexes.total()).ok(),
                Err(wrong) => errors.push(FieldError::invalid(&at, text, wrong)),
            }
        }
        check::not_negative(errors, &at, rule, "succeededCount");
        let at = at.child("succeededCount");
        if let Some(count) = count.filter(|count| *count > completions) {
            errors.push(FieldError::invalid(&at, count, format!("must be at most {completions}, the completions")));
        }
        if let (Some(count), Some(most)) = (count, most)
            && count > most
        {
            errors.push(FieldError::invalid(
                &at,
                count,
                format!("must be at most {most}, as many as succeededIndexes"),
            ));
        }
    }
}
