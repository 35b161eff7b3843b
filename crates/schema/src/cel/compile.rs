//! Every rule of a schema, compiled: a tree that follows the schema and holds only the branches that have rules.
//!
//! Called once per version when a definition is admitted or loaded. All mistakes are reported, at the rule's own path.

use super::{
    ESTIMATE_PER_RULE, ESTIMATE_PER_SCHEMA, check,
    expr::Expression,
    field_path::{self, Notation},
    parse, run,
    types::{self, Known, Type},
};
use crate::structural::{Additional, Rule, Schema, Structural};
use api::{error::FieldError, path::Path};
use std::{collections::BTreeMap, sync::Arc};

/// Rules of a schema node and of those below it.
#[derive(Debug, Default)]
pub struct RuleTree {
    pub(super) rules: Vec<Compiled>,
    pub(super) items: Option<Box<Self>>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Option<Box<Self>>,
}

/// One rule, ready to run.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) rule: Rule,
    pub(super) expression: Expression,
    pub(super) message: Option<Expression>,
    /// The rule's fieldPath as messages show it, or nothing.
    pub(super) field: Path,
}

impl RuleTree {
    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.items.is_none() && self.properties.is_empty() && self.additional.is_none()
    }
}

/// Compiles the rules of a schema that stands at `path`. A tree without rules is empty and costs nothing to run.
pub fn compile(schema: &Structural, path: &Path) -> Result<RuleTree, Vec<FieldError>> {
    if !has_rules(schema.root()) {
        return Ok(RuleTree::default());
    }
    let compiled = parse::with_stack(|| {
        let mut compiler = Compiler { errors: Vec::new(), total: 0, costs: Vec::new() };
        let tree = compiler.tree(schema.root(), true, path, &Place { times: Some(1), uncorrelated: None });
        compiler.check_total(path);
        if compiler.errors.is_empty() {
            defaults(schema.root(), &tree, path, &mut compiler.errors);
        }
        if compiler.errors.is_empty() { Ok(tree) } else { Err(compiler.errors) }
    });
    compiled.unwrap_or_else(|why| Err(vec![FieldError::internal(path, why)]))
}

fn has_rules(schema: &Schema) -> bool {
    let additional = match &schema.additional {
        Some(Additional::Each(each)) => has_rules(each),
        _ => false,
    };
    !schema.rules.is_empty()
        || additional
        || schema.items.as_deref().is_some_and(has_rules)
        || schema.properties.values().any(has_rules)
}

/// Defaults must satisfy the rules that they will meet.
fn defaults(schema: &Schema, tree: &RuleTree, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        errors.extend(run::validate(tree, schema, default, None, &path.child("default")));
    }
    if let (Some(items), Some(tree)) = (&schema.items, &tree.items) {
        defaults(items, tree, &path.child("items"), errors);
    }
    for (name, tree) in &tree.properties {
        if let Some(field) = schema.properties.get(name) {
            defaults(field, tree, &path.child("properties").key(name), errors);
        }
    }
}

/// Where in the tree a node stands.
struct Place {
    /// How often the node may occur in one object; absent when no schema above bounds it.
    times: Option<u64>,
    /// The list above whose items cannot be matched with those of the old object.
    uncorrelated: Option<Path>,
}

struct Compiler {
    errors: Vec<FieldError>,
    total: u64,
    costs: Vec<(Path, u64)>,
}

impl Compiler {
    fn tree(&mut self, schema: &Schema, is_resource: bool, path: &Path, place: &Place) -> RuleTree {
        let mut tree = RuleTree { rules: self.rules(schema, is_resource, path, place), ..RuleTree::default() };
        let times = |most: Option<u64>| Some(place.times?.saturating_mul(most?));
        if let Some(items) = &schema.items {
            let loose = || schema.map_keys().is_none().then(|| path.clone());
            let below = Place {
                times: times(schema.checks.max_items),
                uncorrelated: place.uncorrelated.clone().or_else(loose),
            };
            let items = self.tree(items, items.embedded, &path.child("items"), &below);
            tree.items = (!items.is_empty()).then(|| Box::new(items));
        }
        if let Some(Additional::Each(each)) = &schema.additional {
            let below = Place { times: times(schema.checks.max_properties), uncorrelated: place.uncorrelated.clone() };
            let each = self.tree(each, each.embedded, &path.child("additionalProperties"), &below);
            tree.additional = (!each.is_empty()).then(|| Box::new(each));
        }
        for (name, field) in &schema.properties {
            let field = self.tree(field, field.embedded, &path.child("properties").key(name), place);
            if !field.is_empty() {
                tree.properties.insert(name.clone(), field);
            }
        }
        tree
    }

    fn rules(&mut self, schema: &Schema, is_resource: bool, path: &Path, place: &Place) -> Vec<Compiled> {
        if schema.rules.is_empty() {
            return Vec::new();
        }
        let known = Known::of_schema(schema, is_resource);
        let times = place.times.unwrap_or_else(|| super::MAX_REQUEST / (types::least_bytes(schema) + 1));
        let rules = schema.rules.iter().enumerate();
        rules
            .filter_map(|(i, rule)| {
                let path = path.child("x-kubernetes-validations").index(i);
                self.rule(rule, schema, &known, times, &path, place)
            })
            .collect()
    }

    fn rule(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        known: &Known,
        times: u64,
        path: &Path,
        place: &Place,
    ) -> Option<Compiled> {
        let optional = rule.optional_old_self == Some(true);
        let old =
            if optional { Known { of: Type::Optional(Arc::new(known.clone())), ..*known } } else { known.clone() };
        let variables = [("self", known.clone()), ("oldSelf", old)];
        let expression = self.expression(&rule.rule, Type::Bool, &variables, times, &path.child("rule"));
        let message = match rule.message_expression.as_str() {
            "" => None,
            text => self.expression(text, Type::Text, &variables, 1, &path.child("messageExpression")),
        };
        let field = match rule.field_path.as_str() {
            "" => Path::root(),
            text => match field_path::follow(text, schema, Notation::DotsAndQuotes) {
                Ok(found) => found.path,
                Err(why) => {
                    self.errors.push(FieldError::invalid(&path.child("fieldPath"), text, why));
                    Path::root()
                }
            },
        };
        let expression = expression?;
        if expression.uses_old_self {
            if let Some(list) = &place.uncorrelated {
                let detail = format!("oldSelf cannot be used within {list}, whose items cannot be told apart");
                self.errors.push(FieldError::invalid(&path.child("rule"), rule.rule.as_str(), detail));
            }
        } else if let Some(set) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in the rule";
            self.errors.push(FieldError::invalid(&path.child("optionalOldSelf"), set, detail));
        }
        Some(Compiled { rule: rule.clone(), expression, message, field })
    }

    fn expression(
        &mut self,
        text: &str,
        wanted: Type,
        variables: &[(&str, Known)],
        times: u64,
        path: &Path,
    ) -> Option<Expression> {
        let checked = parse::expression(text).and_then(|expression| {
            let checked = check::check(&expression, variables)?;
            if checked.of == Type::Dyn || checked.of == wanted {
                return Ok((expression, checked.cost));
            }
            Err(format!("Compilation failed: must evaluate to {wanted}, not to {}", checked.of))
        });
        match checked {
            Ok((expression, cost)) => {
                self.observe(cost.saturating_mul(times), path);
                Some(expression)
            }
            Err(why) => {
                self.errors.push(FieldError::invalid(path, text, why));
                None
            }
        }
    }

    fn observe(&mut self, cost: u64, path: &Path) {
        self.total = self.total.saturating_add(cost);
        self.costs.push((path.clone(), cost));
        if cost > ESTIMATE_PER_RULE {
            let detail = over("the estimated cost of the expression", cost, ESTIMATE_PER_RULE);
            self.errors.push(FieldError::forbidden(path, detail));
        }
    }

    fn check_total(&mut self, path: &Path) {
        if self.total <= ESTIMATE_PER_SCHEMA {
            return;
        }
        self.costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in self.costs.iter().take(4) {
            let detail = "is among the most expensive rules of a schema whose rules cost too much together";
            self.errors.push(FieldError::forbidden(path, detail));
        }
        let detail = over("the estimated cost of all rules of the schema", self.total, ESTIMATE_PER_SCHEMA);
        self.errors.push(FieldError::forbidden(path, detail));
    }
}

fn over(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        f if f > 100.0 => "more than 100x".to_owned(),
        f if f < 1.5 => format!("{f:.6}x"),
        f => format!("{f:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor}; simplify it, or set maxItems, maxProperties and maxLength where lists, maps and strings are declared"
    )
}
