//! MutatingAdmissionPolicies: their expressions, compiled, and the changes that they make of a request.

use super::{Preamble, Scopes, check_preamble, compile, run};
use crate::{
    admission::expression,
    cel::{Bound, Budget, Makes, Outcome, Program},
};
use api::{
    error::FieldError,
    kinds::{check, policy},
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];

/// What the engine asks about mutating policies.
pub struct MutatingPolicyRules;

impl Rules for MutatingPolicyRules {
    fn default(&self, policy: &mut Value) {
        policy::MutatingPolicy.default(policy);
    }

    fn validate(&self, policy: &Value) -> Vec<FieldError> {
        let mut errors = policy::MutatingPolicy.validate(policy);
        let (spec, path) = (policy.at("spec"), Path::new("spec"));
        let mut scopes = Scopes::of(spec);
        check_preamble(&mut errors, spec, &path, &mut scopes);
        scopes.scope = scopes.scope.with_patches();
        for (index, mutation) in spec.list_at("mutations").iter().enumerate() {
            check_mutation(&mut errors, &path.child("mutations").index(index), mutation, &scopes);
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        policy::MutatingPolicy.columns()
    }

    fn cells(&self, policy: &Value, now: jiff::Timestamp) -> Vec<Value> {
        policy::MutatingPolicy.cells(policy, now)
    }
}

/// The form of a mutation: the field that has its expression, the other one, and what the expression makes.
fn form(patch_type: &str) -> Option<(&'static str, &'static str, Makes)> {
    match patch_type {
        "ApplyConfiguration" => Some(("applyConfiguration", "jsonPatch", Makes::Configuration)),
        "JSONPatch" => Some(("jsonPatch", "applyConfiguration", Makes::Operations)),
        _ => None,
    }
}

fn check_mutation(errors: &mut Vec<FieldError>, path: &Path, mutation: &Value, scopes: &Scopes) {
    let given = mutation.str_at("patchType");
    let Some((own, other, makes)) = form(given) else {
        return check::required_one_of(errors, &path.child("patchType"), given, &PATCH_TYPES);
    };
    match mutation.at(own) {
        Value::Null => {
            let text = format!("must be specified when patchType is {given}");
            errors.push(FieldError::required(&path.child(own), text));
        }
        found => {
            let path = path.child(own).child("expression");
            expression(errors, &path, found.str_at("expression"), &scopes.scope, makes);
        }
    }
    if !mutation.at(other).is_null() {
        let text = format!("must not be specified when patchType is {given}");
        errors.push(FieldError::invalid(&path.child(other), format!("{{{other}}}"), text));
    }
}

/// A mutating policy, ready to change objects.
pub struct MutatingPolicy {
    preamble: Preamble,
    mutations: Vec<Result<Program, String>>,
}

/// One change that a policy makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// Fields to be laid over the object, as server-side apply does.
    Configuration(Value),
    /// A JSON patch.
    Operations(Value),
}

impl MutatingPolicy {
    /// Compiles a stored policy.
    pub fn compile(policy: &Value) -> Self {
        let spec = policy.at("spec");
        let mut scopes = Scopes::of(spec);
        let preamble = Preamble::compile(spec, &mut scopes);
        let scope = scopes.scope.with_patches();
        let mutation = |given: &Value| {
            let (field, _, makes) = form(given.str_at("patchType")).ok_or("the patchType is unknown")?;
            compile(given.at(field).str_at("expression"), &scope, makes)
        };
        Self { preamble, mutations: spec.list_at("mutations").iter().map(mutation).collect() }
    }

    /// Whether the policy is about the request that `bound` describes.
    pub fn applies<'p>(&'p self, bound: Bound<'p>) -> Result<bool, String> {
        self.preamble.applies(&self.preamble.bind(bound))
    }

    /// How many changes it makes, one after the other.
    pub fn mutations(&self) -> usize {
        self.mutations.len()
    }

    /// The change of this index to the object that `bound` has now.
    pub fn mutation<'p>(&'p self, index: usize, bound: Bound<'p>) -> Result<Mutation, String> {
        let bound = self.preamble.bind(bound);
        match run(&self.mutations[index], &bound, &mut Budget::for_policy())? {
            Outcome::Configuration(fields) => Ok(Mutation::Configuration(fields)),
            Outcome::Operations(operations) => Ok(Mutation::Operations(json!(operations))),
            _ => Err("the expression makes no change".to_owned()),
        }
    }
}
