//! Rules of the kinds that configure admission, as far as they are CEL. The rest is in `api::kinds::webhook`.

use crate::cel::{Makes, Program, Scope};
use api::{
    error::FieldError,
    kinds::{check, webhook::WebhookConfiguration},
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Most conditions of one webhook or policy.
const MOST_CONDITIONS: usize = 64;

/// What the engine asks about configurations of webhooks.
pub struct WebhookRules(pub WebhookConfiguration);

impl Rules for WebhookRules {
    fn default(&self, configuration: &mut Value) {
        self.0.default(configuration);
    }

    fn validate(&self, configuration: &Value) -> Vec<FieldError> {
        let mut errors = self.0.validate(configuration);
        let scope = Scope::request().with_authorizer();
        for (index, hook) in configuration.list_at("webhooks").iter().enumerate() {
            let path = Path::new("webhooks").index(index).child("matchConditions");
            conditions(&mut errors, &path, hook.list_at("matchConditions"), &scope);
        }
        errors
    }

    fn has_generation(&self) -> bool {
        self.0.has_generation()
    }

    fn columns(&self) -> Vec<Column> {
        self.0.columns()
    }

    fn cells(&self, configuration: &Value, now: jiff::Timestamp) -> Vec<Value> {
        self.0.cells(configuration, now)
    }
}

/// Names and expressions of match conditions.
pub(crate) fn conditions(errors: &mut Vec<FieldError>, path: &Path, conditions: &[Value], scope: &Scope) {
    if conditions.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MOST_CONDITIONS));
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        expression(errors, &path.child("expression"), condition.str_at("expression"), scope, Makes::Bool);
        match condition.str_at("name") {
            "" => errors.push(FieldError::required(&path.child("name"), "")),
            name => {
                check::qualified_name(errors, &path.child("name"), name);
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(&path.child("name"), name));
                }
            }
        }
    }
}

/// An expression that has to be there and to be understood.
pub(crate) fn expression(errors: &mut Vec<FieldError>, path: &Path, text: &str, scope: &Scope, makes: Makes) {
    match text.trim() {
        "" => errors.push(FieldError::required(path, "")),
        text => {
            if let Err(why) = Program::compile(text, scope, makes) {
                errors.push(FieldError::invalid(path, text, why));
            }
        }
    }
}
