//! Policies of admission: their expressions, compiled. What validating and mutating ones have in common is here: the names that
//! expressions may use, conditions and variables.

mod mutating;
pub mod types;
mod validating;

#[cfg(test)]
mod tests;

pub use mutating::{MutatingPolicy, MutatingPolicyRules, Mutation};
pub use validating::{Denial, Judgement, Policy, PolicyRules};

use crate::{
    admission::conditions,
    cel::{Bound, Budget, Failure, Makes, Outcome, Program, Scope},
};
use api::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

/// Names that the expressions of a policy may use; messages have no authorizer.
struct Scopes {
    scope: Scope,
    plain: Scope,
}

impl Scopes {
    fn of(spec: &Value) -> Self {
        let plain = Scope::request();
        let plain = if spec.at("paramKind").is_null() { plain } else { plain.with_params() };
        Self { scope: plain.clone().with_authorizer(), plain }
    }

    fn add_variable(&mut self, name: &str, program: &Program) {
        self.scope.add_variable(name, program);
        self.plain.add_variable(name, program);
    }
}

fn compile(text: &str, scope: &Scope, makes: Makes) -> Result<Program, String> {
    Program::compile(text.trim(), scope, makes)
}

/// Checks conditions and variables; the variables are known from then on.
fn check_preamble(errors: &mut Vec<FieldError>, spec: &Value, path: &Path, scopes: &mut Scopes) {
    conditions(errors, &path.child("matchConditions"), spec.list_at("matchConditions"), &scopes.scope);
    for (index, variable) in spec.list_at("variables").iter().enumerate() {
        let (path, name) = (path.child("variables").index(index), variable.str_at("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
        }
        let text = variable.str_at("expression");
        match compile(text, &scopes.scope, Makes::Anything) {
            Ok(program) => scopes.add_variable(name, &program),
            Err(_) if text.trim().is_empty() => {
                errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
            }
            Err(why) => errors.push(FieldError::invalid(&path.child("expression"), text, why)),
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Conditions and variables, compiled.
struct Preamble {
    conditions: Vec<Result<Program, String>>,
    variables: Vec<(String, Program)>,
    /// Why the policy cannot be used.
    broken: Option<String>,
}

impl Preamble {
    fn compile(spec: &Value, scopes: &mut Scopes) -> Self {
        let conditions = spec.list_at("matchConditions").iter();
        let conditions = conditions.map(|one| compile(one.str_at("expression"), &scopes.scope, Makes::Bool)).collect();
        let (mut variables, mut broken) = (Vec::new(), None);
        for variable in spec.list_at("variables") {
            match compile(variable.str_at("expression"), &scopes.scope, Makes::Anything) {
                Ok(program) => {
                    let name = variable.str_at("name");
                    scopes.add_variable(name, &program);
                    variables.push((name.to_owned(), program));
                }
                Err(why) => broken = broken.or(Some(why)),
            }
        }
        Self { conditions, variables, broken }
    }

    fn bind<'p>(&'p self, bound: Bound<'p>) -> Bound<'p> {
        bound.with_variables(&self.variables)
    }

    /// Whether all conditions hold.
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

/// Runs a program that was compiled; what goes wrong is told as upstream tells it.
fn run(program: &Result<Program, String>, bound: &Bound<'_>, budget: &mut Budget) -> Result<Outcome, String> {
    let program = program.as_ref().map_err(|why| format!("compilation error: {why}"))?;
    program.run(bound, budget).map_err(|failure| match failure {
        Failure::Error(why) => format!("expression '{}' resulted in error: {why}", program.text()),
        Failure::Misshapen(why) => why,
        Failure::Spent => {
            "validation failed due to running out of cost budget, no further validation rules will be run".to_owned()
        }
    })
}
