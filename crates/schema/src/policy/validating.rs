//! ValidatingAdmissionPolicies: their expressions, compiled, and what they say of a request.

use super::{Preamble, Scopes, check_preamble, compile, run};
use crate::{
    admission::expression,
    cel::{Bound, Budget, Makes, Outcome, Program, Scope},
};
use api::{
    error::FieldError,
    kinds::{check, policy::ValidatingPolicy},
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::Value;

/// Most audit annotations of a policy, and the longest expression of one.
const MOST_ANNOTATIONS: usize = 20;
const LONGEST_VALUE: usize = 5 * 1024;
/// Longest text that a messageExpression may make.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// What the engine asks about policies.
pub struct PolicyRules;

impl Rules for PolicyRules {
    fn default(&self, policy: &mut Value) {
        ValidatingPolicy.default(policy);
    }

    fn prepare_create(&self, policy: &mut Value) {
        ValidatingPolicy.prepare_create(policy);
    }

    fn prepare_update(&self, policy: &mut Value, old: &Value) {
        ValidatingPolicy.prepare_update(policy, old);
    }

    fn validate(&self, policy: &Value) -> Vec<FieldError> {
        let mut errors = ValidatingPolicy.validate(policy);
        expressions(&mut errors, policy);
        errors
    }

    fn validate_status(&self, policy: &Value, old: &Value) -> Vec<FieldError> {
        ValidatingPolicy.validate_status(policy, old)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        ValidatingPolicy.columns()
    }

    fn cells(&self, policy: &Value, now: jiff::Timestamp) -> Vec<Value> {
        ValidatingPolicy.cells(policy, now)
    }
}

fn expressions(errors: &mut Vec<FieldError>, policy: &Value) {
    let (spec, path) = (policy.at("spec"), Path::new("spec"));
    let mut scopes = Scopes::of(spec);
    check_preamble(errors, spec, &path, &mut scopes);
    let Scopes { scope, plain } = scopes;
    for (index, validation) in spec.list_at("validations").iter().enumerate() {
        let path = path.child("validations").index(index);
        expression(errors, &path.child("expression"), validation.str_at("expression"), &scope, Makes::Bool);
        for field in ["messageExpression", "message"] {
            let given = validation.str_at(field);
            if !given.is_empty() && given.trim().is_empty() {
                errors.push(FieldError::invalid(&path.child(field), given, "must be non-empty if specified"));
            }
        }
        let message = validation.str_at("messageExpression");
        if !message.trim().is_empty() {
            expression(errors, &path.child("messageExpression"), message, &plain, Makes::Text);
        }
        if validation.str_at("message").trim().contains(['\n', '\r']) {
            let text = "must not contain line breaks";
            errors.push(FieldError::invalid(&path.child("message"), validation.str_at("message"), text));
        }
        let reason = validation.str_at("reason");
        if !reason.is_empty() {
            let accepted = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
            check::one_of(errors, &path.child("reason"), reason, &accepted);
        }
    }
    annotations(errors, &path.child("auditAnnotations"), policy, &scope);
}

fn annotations(errors: &mut Vec<FieldError>, path: &Path, policy: &Value, scope: &Scope) {
    let given = policy.list_at("spec.auditAnnotations");
    if given.len() > MOST_ANNOTATIONS {
        let text = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid(path, given.to_vec(), text));
    }
    for (index, annotation) in given.iter().enumerate() {
        let (path, key) = (path.index(index), annotation.str_at("key"));
        let qualified = format!("{}/{key}", policy.str_at("metadata.name"));
        check::qualified_name(errors, &path.child("key"), &qualified);
        if given[..index].iter().any(|other| other.str_at("key") == key) {
            errors.push(FieldError::duplicate(&path.child("key"), key));
        }
        let (at, text) = (path.child("valueExpression"), annotation.str_at("valueExpression"));
        if text.len() > LONGEST_VALUE {
            errors.push(FieldError::required(&at, format!("must not exceed {LONGEST_VALUE} bytes in length")));
        } else {
            expression(errors, &at, text, scope, Makes::TextOrNull);
        }
    }
}

/// A policy, ready to judge.
pub struct Policy {
    preamble: Preamble,
    validations: Vec<Validation>,
    annotations: Vec<(String, Result<Program, String>)>,
}

struct Validation {
    rule: Result<Program, String>,
    text: String,
    message: String,
    message_expression: Option<Program>,
    reason: String,
}

/// What a policy says of a request.
#[derive(Debug, Default, PartialEq)]
pub struct Judgement {
    /// Of each validation that does not hold, or could not be run.
    pub failures: Vec<Denial>,
    /// Audit annotations.
    pub annotations: Vec<(String, String)>,
}

/// A validation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Which of them.
    pub index: usize,
    /// What is told.
    pub message: String,
    /// `Invalid` unless the policy says otherwise.
    pub reason: String,
    /// It could not be run: the failure policy decides.
    pub is_error: bool,
}

impl Policy {
    /// Compiles a stored policy.
    pub fn compile(policy: &Value) -> Self {
        let spec = policy.at("spec");
        let mut scopes = Scopes::of(spec);
        let preamble = Preamble::compile(spec, &mut scopes);
        let Scopes { scope, plain } = scopes;
        let validation = |given: &Value| Validation {
            rule: compile(given.str_at("expression"), &scope, Makes::Bool),
            text: given.str_at("expression").trim().to_owned(),
            message: given.str_at("message").trim().to_owned(),
            message_expression: match given.str_at("messageExpression").trim() {
                "" => None,
                text => compile(text, &plain, Makes::Text).ok(),
            },
            reason: match given.str_at("reason") {
                "" => "Invalid".to_owned(),
                reason => reason.to_owned(),
            },
        };
        let validations = spec.list_at("validations").iter().map(validation).collect();
        let annotation = |given: &Value| {
            let program = compile(given.str_at("valueExpression"), &scope, Makes::TextOrNull);
            (given.str_at("key").to_owned(), program)
        };
        let annotations = spec.list_at("auditAnnotations").iter().map(annotation).collect();
        Self { preamble, validations, annotations }
    }

    /// Judges the request that `bound` describes. Nothing when the conditions do not hold.
    pub fn judge<'p>(&'p self, bound: Bound<'p>) -> Judgement {
        let bound = self.preamble.bind(bound);
        let mut judgement = Judgement::default();
        match self.preamble.applies(&bound) {
            Ok(true) => {}
            Ok(false) => return judgement,
            Err(message) => {
                judgement.failures.push(Denial { index: 0, message, reason: "Invalid".to_owned(), is_error: true });
                return judgement;
            }
        }
        let mut budget = Budget::for_policy();
        for (index, validation) in self.validations.iter().enumerate() {
            if let Some((message, is_error)) = validation.failure(&bound, &mut budget) {
                let reason = if is_error { "Invalid".to_owned() } else { validation.reason.clone() };
                judgement.failures.push(Denial { index, message, reason, is_error });
            }
        }
        for (key, program) in &self.annotations {
            match run(program, &bound, &mut budget) {
                Ok(Outcome::Text(text)) if !text.trim().is_empty() => {
                    judgement.annotations.push((key.clone(), text.trim().to_owned()));
                }
                Ok(_) => {}
                Err(message) => {
                    let reason = "Invalid".to_owned();
                    judgement.failures.push(Denial { index: 0, message, reason, is_error: true });
                }
            }
        }
        judgement
    }
}

impl Validation {
    /// What is told when it does not hold, and whether that is because it could not be run.
    fn failure(&self, bound: &Bound<'_>, budget: &mut Budget) -> Option<(String, bool)> {
        match run(&self.rule, bound, budget) {
            Ok(Outcome::Bool(true)) => None,
            Ok(_) => Some((self.message(bound, budget), false)),
            Err(why) => Some((why, true)),
        }
    }

    fn message(&self, bound: &Bound<'_>, budget: &mut Budget) -> String {
        let made = self.message_expression.as_ref().map(|program| program.run(bound, budget));
        if let Some(Ok(Outcome::Text(text))) = made {
            let text = text.trim();
            if !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n') {
                return text.to_owned();
            }
        }
        if self.message.is_empty() { format!("failed expression: {}", self.text) } else { self.message.clone() }
    }
}
