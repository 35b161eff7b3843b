//! Checks the expressions of a policy against the types of the kinds that it matches. Mirrors upstream's type checker: what it
//! finds are warnings in the status, the policy works all the same.

use crate::cel::{Makes, Program, Scope};
use api::{object::Fields, path::Path, schema::Shape};
use serde_json::Value;

/// Most kinds that one policy is checked against.
pub const MOST_KINDS: usize = 10;

/// A kind that a policy matches.
pub struct Kind<'s> {
    /// `group/version, Kind=kind`.
    pub name: String,
    pub shape: &'s Shape,
}

/// A warning, and the field whose expression it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub field: String,
    pub text: String,
}

/// Checks validations and their messages against each kind; `params` is the type of the parameters, where it is known.
pub fn check(policy: &Value, kinds: &[Kind<'_>], params: Option<&Shape>) -> Vec<Warning> {
    let spec = policy.at("spec");
    let scopes: Vec<Scope> = kinds.iter().map(|kind| scope(spec, kind, params)).collect();
    let mut warnings = Vec::new();
    for (index, validation) in spec.list_at("validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let text = validation.str_at(field).trim();
            let mistake = |(kind, scope): (&Kind<'_>, &Scope)| {
                let why = Program::compile(text, scope, Makes::Anything).err()?;
                Some(format!("{}: {why}\n", kind.name))
            };
            let mistakes: Vec<String> = match text {
                "" => Vec::new(),
                _ => kinds.iter().zip(&scopes).filter_map(mistake).collect(),
            };
            if !mistakes.is_empty() {
                let field = Path::new("spec").child("validations").index(index).child(field).to_string();
                warnings.push(Warning { field, text: mistakes.join("\n") });
            }
        }
    }
    warnings
}

fn scope(spec: &Value, kind: &Kind<'_>, params: Option<&Shape>) -> Scope {
    let scope = Scope::request().with_object(kind.shape);
    let scope = match (spec.at("paramKind").is_null(), params) {
        (true, _) => scope,
        (false, None) => scope.with_params(),
        (false, Some(shape)) => scope.with_params_of(shape),
    };
    let mut scope = scope.with_authorizer().with_variables();
    for variable in spec.list_at("variables") {
        let name = variable.str_at("name");
        match Program::compile(variable.str_at("expression").trim(), &scope, Makes::Anything) {
            Ok(program) => scope.add_variable(name, &program),
            // The mistake is told where the variable is used as something that it is not; here nothing is known of it.
            Err(_) => scope.add_unknown_variable(name),
        }
    }
    scope
}
