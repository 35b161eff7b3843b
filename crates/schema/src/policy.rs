//! ValidatingAdmissionPolicies: their expressions, compiled, and what they say of a request.

use crate::{
    admission::{conditions, expression},
    cel::{Bound, Budget, Failure, Makes, Outcome, Program, Scope},
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

/// Names that the expressions of a policy may use; messages have no authorizer.
fn scopes(spec: &Value) -> (Scope, Scope) {
    let scope = Scope::request();
    let scope = if spec.at("paramKind").is_null() { scope } else { scope.with_params() };
    (scope.clone().with_authorizer(), scope)
}

fn expressions(errors: &mut Vec<FieldError>, policy: &Value) {
    let (spec, path) = (policy.at("spec"), Path::new("spec"));
    let (mut scope, mut plain) = scopes(spec);
    conditions(errors, &path.child("matchConditions"), spec.list_at("matchConditions"), &scope);
    for (index, variable) in spec.list_at("variables").iter().enumerate() {
        let (path, name) = (path.child("variables").index(index), variable.str_at("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
        }
        let text = variable.str_at("expression");
        match Program::compile(text.trim(), &scope, Makes::Anything) {
            Ok(program) => {
                scope.add_variable(name, &program);
                plain.add_variable(name, &program);
            }
            Err(_) if text.trim().is_empty() => {
                errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
            }
            Err(why) => errors.push(FieldError::invalid(&path.child("expression"), text, why)),
        }
    }
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

fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A policy, ready to judge.
pub struct Policy {
    conditions: Vec<Result<Program, String>>,
    variables: Vec<(String, Program)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Result<Program, String>)>,
    /// Why the policy cannot be used.
    broken: Option<String>,
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
        let (mut scope, mut plain) = scopes(spec);
        let compile = |text: &str, scope: &Scope, makes| Program::compile(text.trim(), scope, makes);
        let conditions = spec.list_at("matchConditions").iter();
        let conditions = conditions.map(|one| compile(one.str_at("expression"), &scope, Makes::Bool)).collect();
        let (mut variables, mut broken) = (Vec::new(), None);
        for variable in spec.list_at("variables") {
            match compile(variable.str_at("expression"), &scope, Makes::Anything) {
                Ok(program) => {
                    let name = variable.str_at("name");
                    scope.add_variable(name, &program);
                    plain.add_variable(name, &program);
                    variables.push((name.to_owned(), program));
                }
                Err(why) => broken = broken.or(Some(why)),
            }
        }
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
        Self { conditions, variables, validations, annotations, broken }
    }

    /// Judges the request that `bound` describes. Nothing when the conditions do not hold.
    pub fn judge<'p>(&'p self, bound: Bound<'p>) -> Judgement {
        let bound = bound.with_variables(&self.variables);
        let mut judgement = Judgement::default();
        match self.applies(&bound) {
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

    fn applies(&self, bound: &Bound<'_>) -> Result<bool, String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let mut budget = Budget::for_conditions();
        let mut failed = Vec::new();
        for condition in &self.conditions {
            match run(condition, bound, &mut budget) {
                Ok(Outcome::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(why) => failed.push(why),
            }
        }
        if failed.is_empty() { Ok(true) } else { Err(failed.join(", ")) }
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

/// Runs a program that was compiled; what goes wrong is told as upstream tells it.
fn run(program: &Result<Program, String>, bound: &Bound<'_>, budget: &mut Budget) -> Result<Outcome, String> {
    let program = program.as_ref().map_err(|why| format!("compilation error: {why}"))?;
    program.run(bound, budget).map_err(|failure| match failure {
        Failure::Error(why) => format!("expression '{}' resulted in error: {why}", program.text()),
        Failure::Spent => {
            "validation failed due to running out of cost budget, no further validation rules will be run".to_owned()
        }
    })
}
