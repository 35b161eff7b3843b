//! Holds an object against its compiled rules.
//!
//! On update, a rule without `oldSelf` is not asked about what did not change; a rule with `oldSelf` is asked whenever there
//! is an old value to compare with. The budget is one per object; when it is spent the object is refused.

use super::{
    COST_PER_OBJECT, COST_PER_RULE,
    compile::{Compiled, RuleTree},
    eval::{self, Budget, Stop},
    value,
};
use crate::{
    structural::{Additional, Schema},
    walk::{OldItems, old_field},
};
use api::{
    error::{FieldError, Reason},
    path::Path,
};
use kube_cel::cel::Value;
use serde_json::Value as Json;
use std::sync::Arc;

/// Longest text that a messageExpression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// Failures of the rules in `tree` on `new`, which stands at `path`; `old` is what it replaces.
pub fn validate(tree: &RuleTree, schema: &Schema, new: &Json, old: Option<&Json>, path: &Path) -> Vec<FieldError> {
    let mut run = Run { errors: Vec::new(), left: COST_PER_OBJECT, over: false };
    let is_resource = path.as_str().is_empty() || schema.embedded;
    run.node(tree, schema, Pair { new, old, unchanged: false }, is_resource, path);
    run.errors
}

/// A value and what it replaces.
#[derive(Clone, Copy)]
struct Pair<'a> {
    new: &'a Json,
    old: Option<&'a Json>,
    /// Something above is the same as before, so this is too.
    unchanged: bool,
}

struct Run {
    errors: Vec<FieldError>,
    left: u64,
    /// The budget is spent; nothing more is asked.
    over: bool,
}

impl Run {
    fn node(&mut self, tree: &RuleTree, schema: &Schema, pair: Pair<'_>, is_resource: bool, path: &Path) {
        if self.over || pair.new.is_null() {
            return;
        }
        let unchanged = pair.unchanged || pair.old == Some(pair.new);
        let pair = Pair { unchanged, ..pair };
        self.rules(tree, schema, pair, is_resource, path);
        match pair.new {
            Json::Array(list) => {
                let (Some(tree), Some(items)) = (&tree.items, &schema.items) else { return };
                let old = OldItems::of(schema, pair.old);
                for (i, new) in list.iter().enumerate() {
                    let below = Pair { new, old: old.get(new), unchanged };
                    self.node(tree, items, below, items.embedded, &path.index(i));
                }
            }
            Json::Object(map) => {
                for (name, new) in map {
                    let below = Pair { new, old: old_field(pair.old, name), unchanged };
                    if let (Some(tree), Some(field)) = (tree.properties.get(name), schema.properties.get(name)) {
                        self.node(tree, field, below, field.embedded, &path.child(name));
                    } else if let (Some(tree), Some(Additional::Each(each))) = (&tree.additional, &schema.additional) {
                        self.node(tree, each, below, each.embedded, &path.key(name));
                    }
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, tree: &RuleTree, schema: &Schema, pair: Pair<'_>, is_resource: bool, path: &Path) {
        let asked = |compiled: &&Compiled| match compiled.expression.uses_old_self {
            false => !pair.unchanged,
            true => pair.old.is_some() || compiled.rule.optional_old_self == Some(true),
        };
        let mut rules = tree.rules.iter().filter(asked).peekable();
        let Some(first) = rules.peek() else { return };
        // Making CEL values of the object takes time as well; it is cheap next to a step.
        let old_size = pair.old.map_or(0, size);
        let Some(left) = self.left.checked_sub((size(pair.new) + old_size) / 16) else {
            self.spent(first, schema, path);
            return;
        };
        self.left = left;
        let this = value::convert(pair.new, schema, is_resource);
        let old = pair.old.map(|old| value::convert(old, schema, is_resource));
        for compiled in rules {
            let old = match (compiled.rule.optional_old_self, &old) {
                (Some(true), Some(old)) => Some(eval::some(old.clone())),
                (Some(true), None) => Some(eval::none()),
                (_, old) => old.clone(),
            };
            let mut variables = vec![(Arc::from("self"), this.clone())];
            variables.extend(old.map(|old| (Arc::from("oldSelf"), old)));
            self.rule(compiled, schema, pair.new, variables, path);
            if self.over {
                return;
            }
        }
    }

    fn rule(
        &mut self,
        compiled: &Compiled,
        schema: &Schema,
        new: &Json,
        variables: Vec<(Arc<str>, Value)>,
        path: &Path,
    ) {
        let mut budget = Budget::new(self.left.min(COST_PER_RULE));
        let given = budget.left();
        let result = eval::evaluate(&compiled.expression, variables.clone(), &mut budget);
        self.left -= given - budget.left();
        let title = compiled.rule.title();
        let detail = match result {
            Ok(Value::Bool(true)) => return,
            Ok(Value::Bool(false)) => {
                let message = self.message(compiled, variables);
                let field =
                    if compiled.field.as_str().is_empty() { path.clone() } else { path.child(compiled.field.as_str()) };
                let whole = new.is_object() || new.is_array();
                let reason = compiled.rule.reason.reason();
                let shows = matches!(reason, Reason::Invalid | Reason::Duplicate) && !whole;
                let value = shows.then(|| new.clone());
                let detail = if reason == Reason::Duplicate { String::new() } else { message };
                self.errors.push(FieldError { field: field.to_string(), reason, value, detail });
                return;
            }
            Ok(_) => format!("no such overload: the rule is not a bool: {title}"),
            Err(Stop::Error(why)) => format!("{why} evaluating rule: {title}"),
            Err(Stop::Budget) => {
                self.spent(compiled, schema, path);
                return;
            }
        };
        self.errors.push(refused(schema, path, detail));
    }

    fn spent(&mut self, compiled: &Compiled, schema: &Schema, path: &Path) {
        self.over = true;
        let detail = format!(
            "no further validation rules will be run: call cost exceeds limit for rule: {}; the object is too large for it",
            compiled.rule.title()
        );
        self.errors.push(refused(schema, path, detail));
    }

    /// What a failure says: the messageExpression if it makes a usable text, else the message, else the rule.
    fn message(&mut self, compiled: &Compiled, variables: Vec<(Arc<str>, Value)>) -> String {
        let fallback = || match compiled.rule.message.as_str() {
            "" => format!("failed rule: {}", compiled.rule.rule),
            message => message.to_owned(),
        };
        let Some(expression) = &compiled.message else { return fallback() };
        let mut budget = Budget::new(self.left.min(COST_PER_RULE));
        let given = budget.left();
        let made = eval::evaluate(expression, variables, &mut budget);
        self.left -= given - budget.left();
        match made {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                if usable { text.to_owned() } else { fallback() }
            }
            _ => fallback(),
        }
    }
}

/// A rule that could not decide refuses the value by its type, as upstream.
fn refused(schema: &Schema, path: &Path, detail: String) -> FieldError {
    FieldError::invalid(path, schema.kind.map_or("", |kind| kind.name()), detail)
}

/// Pieces of a JSON value, and its text by tens of characters.
fn size(value: &Json) -> u64 {
    match value {
        Json::String(text) => 1 + text.len() as u64 / 10,
        Json::Array(list) => 1 + list.iter().map(size).sum::<u64>(),
        Json::Object(map) => 1 + map.values().map(|value| 1 + size(value)).sum::<u64>(),
        _ => 1,
    }
}
