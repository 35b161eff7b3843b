//! ValidatingAdmissionPolicies: rules in CEL about writes, bound to resources and parameters.

use super::{Binding, Bound, Set, UNKNOWN_KIND, params};
use crate::{admission::attempt::Attempt, call::Call};
use api::{error::ApiError, kinds::check::texts};
use schema::policy::{Denial, Policy};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const SET: Set = Set { policies: "validatingadmissionpolicies/", bindings: "validatingadmissionpolicybindings/" };
/// Longest value of an audit annotation.
const LONGEST_ANNOTATION: usize = 10 * 1024;
/// Most failures that the audit log is told of.
const MOST_FAILURES: usize = 50;

/// What comes of all policies.
#[derive(Default)]
struct Outcome {
    refused: Option<ApiError>,
    failures: Vec<Value>,
    annotations: BTreeMap<String, Vec<String>>,
}

/// Whether any policy is bound to anything.
pub(crate) async fn are_bound(call: &Call) -> Result<bool, ApiError> {
    Ok(!SET.bound(&call.server, &call.server.policies.validating, Policy::compile).await?.is_empty())
}

/// Holds a write against all policies that are bound to it.
pub(crate) async fn validate(attempt: &Attempt<'_>) -> Result<(), ApiError> {
    if !attempt.call.server.config.admission.validating_policies || crate::admission::webhook::is_exempt(attempt) {
        return Ok(());
    }
    let server = &attempt.call.server;
    let policies = SET.bound(server, &server.policies.validating, Policy::compile).await?;
    let mut outcome = Outcome::default();
    for policy in policies.iter() {
        for binding in &policy.bindings {
            let judged = judge(policy, binding, attempt, &mut outcome).await;
            if let Err(problem) = judged
                && !policy.fails_open
            {
                outcome.misconfigured(attempt, policy, binding, &problem);
            }
        }
    }
    let call = attempt.call;
    for (key, values) in outcome.annotations {
        call.annotate(key, values.join(", "));
    }
    if !outcome.failures.is_empty() {
        outcome.failures.truncate(MOST_FAILURES);
        let text = Value::from(outcome.failures).to_string();
        call.annotate("validation.policy.admission.k8s.io/validation_failure".to_owned(), text);
    }
    outcome.refused.map_or(Ok(()), Err)
}

async fn judge(
    policy: &Bound<Policy>,
    binding: &Binding,
    attempt: &Attempt<'_>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let seen = policy.seen(binding, attempt).map_err(|error| error.message)?;
    let Some(seen) = seen else { return Ok(()) };
    let (object, old) = seen.objects(attempt).await.map_err(|error| error.message)?;
    let request = attempt.request(&seen.target);
    for param in params(policy.param_kind.as_ref(), binding, attempt).await? {
        let bound = attempt.bound(&request, object.as_ref(), old.as_ref());
        let bound = if policy.param_kind.is_some() { bound.with("params", &param) } else { bound };
        let judgement = policy.policy.judge(bound);
        for denial in judgement.failures {
            if !(denial.is_error && policy.fails_open) {
                outcome.note(attempt, policy, binding, &denial);
            }
        }
        for (key, value) in judgement.annotations {
            let values = outcome.annotations.entry(format!("{}/{key}", policy.name)).or_default();
            let value: String = value.chars().take(LONGEST_ANNOTATION).collect();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    Ok(())
}

impl Outcome {
    /// Does what the binding says about a validation that does not hold.
    fn note(&mut self, attempt: &Attempt<'_>, policy: &Bound<Policy>, binding: &Binding, denial: &Denial) {
        let actions = texts(&binding.spec, "validationActions");
        for action in actions.iter().copied() {
            match action {
                "Deny" => self.deny(attempt, policy, binding, &denial.message, &denial.reason),
                "Audit" => self.failures.push(json!({
                    "message": denial.message, "policy": policy.name, "binding": binding.name,
                    "expressionIndex": denial.index, "validationActions": actions,
                })),
                _ => attempt.call.warn([format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, denial.message
                )]),
            }
        }
    }

    /// The first refusal is told.
    fn deny(&mut self, attempt: &Attempt<'_>, policy: &Bound<Policy>, binding: &Binding, message: &str, reason: &str) {
        if self.refused.is_some() {
            return;
        }
        let (policy, binding) = (&policy.name, &binding.name);
        let text = format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}");
        self.refuse(attempt, &text, reason);
    }

    /// What cannot be asked at all is refused too.
    fn misconfigured(&mut self, attempt: &Attempt<'_>, policy: &Bound<Policy>, binding: &Binding, why: &str) {
        if !why.starts_with(UNKNOWN_KIND) {
            return self.deny(attempt, policy, binding, &format!("failed to configure binding: {why}"), "Invalid");
        }
        if self.refused.is_none() {
            let name = &policy.name;
            let text = format!("ValidatingAdmissionPolicy '{name}' denied request: failed to configure policy: {why}");
            self.refuse(attempt, &text, "Invalid");
        }
    }

    fn refuse(&mut self, attempt: &Attempt<'_>, text: &str, reason: &str) {
        let mut error = ApiError::forbidden(&attempt.target.resource, &attempt.target.group, &attempt.name, text);
        (error.code, error.reason) = match reason {
            "Forbidden" => (403, "Forbidden"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        error.details["causes"] = json!([{"message": text}]);
        self.refused = Some(error);
    }
}
