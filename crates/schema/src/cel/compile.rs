//! Every rule of a schema, compiled: a tree that follows the schema and holds only the branches that have rules.
//!
//! Called once per version when a definition is admitted or loaded. All mistakes are reported, at the rule's own path.

use super::{
    ESTIMATE_PER_RULE, ESTIMATE_PER_SCHEMA, check,
    declared::Declared,
    expr::Expression,
    field_path::{self, Notation},
    parse, run,
    types::Type,
    value,
};
use crate::structural::{Additional, Rule, Schema, Structural};
use api::{
    error::{FieldError, Reason},
    path::Path,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Rules of a schema node and of those below it.
#[derive(Debug, Default)]
pub struct RuleTree {
    pub(super) rules: Vec<Compiled>,
    pub(super) items: Option<Box<Self>>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Option<Box<Self>>,
    /// What is wrong with rules that could not be compiled. Such a tree is never handed out.
    broken: Vec<String>,
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
        self.rules.is_empty()
            && self.broken.is_empty()
            && self.items.is_none()
            && self.properties.is_empty()
            && self.additional.is_none()
    }
}

/// Compiles the rules of a schema that stands at `path`. A tree without rules is empty and costs nothing to run.
pub fn compile(schema: &Structural, path: &Path) -> Result<RuleTree, Vec<FieldError>> {
    if !has_rules(schema.root()) {
        return Ok(RuleTree::default());
    }
    let compiled = parse::with_stack(|| {
        let mut compiler = Compiler { errors: Vec::new(), schema_errors: 0, total: 0, costs: Vec::new() };
        let context = NodeContext { times: Some(1), uncorrelated: None, declared: None };
        let tree = compiler.tree(schema.root(), true, path, &context);
        compiler.check_total(path);
        // Defaults come first: only when they satisfy the rules it is asked what the rules cost.
        let mut mistaken = Vec::new();
        defaults(schema.root(), &tree, path, &mut mistaken);
        if !mistaken.is_empty() {
            return Err(mistaken);
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
        let path = path.child("default");
        uncompiled(tree, schema, default, &path, errors);
        // As an update that changes nothing, for rules about what was, then as a new value.
        let before = errors.len();
        errors.extend(run::validate(tree, schema, default, Some(default), &path));
        if errors.len() == before {
            errors.extend(run::validate(tree, schema, default, None, &path));
        }
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

/// A default that meets a rule which could not be compiled is refused for that.
fn uncompiled(tree: &RuleTree, schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let kind = schema.kind.map_or("", |kind| kind.name());
    let detail = |why: &String| FieldError::invalid(path, kind, format!("rule compile error: {why}"));
    errors.extend(tree.broken.iter().map(detail));
    match value {
        Value::Array(list) => {
            let (Some(tree), Some(items)) = (&tree.items, &schema.items) else { return };
            list.iter().enumerate().for_each(|(i, value)| uncompiled(tree, items, value, &path.index(i), errors));
        }
        Value::Object(map) => {
            for (name, value) in map {
                if let (Some(tree), Some(field)) = (tree.properties.get(name), schema.properties.get(name)) {
                    uncompiled(tree, field, value, &path.child(name), errors);
                } else if let (Some(tree), Some(Additional::Each(each))) = (&tree.additional, &schema.additional) {
                    uncompiled(tree, each, value, &path.key(name), errors);
                }
            }
        }
        _ => {}
    }
}

/// Where in the tree a node stands.
struct NodeContext {
    /// How often the node may occur in one object; absent when no schema above bounds it.
    times: Option<u64>,
    /// What is above and cannot be matched with its old self.
    uncorrelated: Option<Path>,
    /// What rules know of the node, where a rule above had to find it out.
    declared: Option<Arc<Declared>>,
}

impl NodeContext {
    /// The place of what is below, which may occur this often in the node.
    fn below(
        &self,
        most: Option<u64>,
        uncorrelated: impl FnOnce() -> Option<Path>,
        declared: Option<Arc<Declared>>,
    ) -> Self {
        Self {
            times: self.times.zip(most).map(|(times, most)| times.saturating_mul(most)),
            uncorrelated: self.uncorrelated.clone().or_else(uncorrelated),
            declared,
        }
    }
}

struct Compiler {
    errors: Vec<FieldError>,
    /// Mistakes that are no matter of CEL; the rules above them are not compiled.
    schema_errors: usize,
    total: u64,
    costs: Vec<(Path, u64)>,
}

impl Compiler {
    fn tree(&mut self, schema: &Schema, is_resource: bool, path: &Path, context: &NodeContext) -> RuleTree {
        let before = self.schema_errors;
        let declared = context.declared.clone().or_else(|| {
            let asked = !schema.rules.is_empty();
            asked.then(|| Declared::of_schema(schema, is_resource, "object").map(Arc::new)).flatten()
        });
        let each = || declared.as_ref().and_then(|declared| declared.each.clone());
        let mut tree = RuleTree::default();
        if let Some(items) = &schema.items {
            let loose = || schema.map_keys().is_none().then(|| path.clone());
            let below = context.below(schema.checks.max_items, loose, each());
            let items = self.tree(items, items.embedded, &path.child("items"), &below);
            tree.items = (!items.is_empty()).then(|| Box::new(items));
        }
        if let Some(Additional::Each(values)) = &schema.additional {
            let below = context.below(schema.checks.max_properties, || None, each());
            let values = self.tree(values, values.embedded, &path.child("additionalProperties"), &below);
            tree.additional = (!values.is_empty()).then(|| Box::new(values));
        }
        let once = if schema.additional.is_some() { schema.checks.max_properties } else { Some(1) };
        for (name, field) in &schema.properties {
            let known = match declared.as_ref().map(|declared| &declared.of) {
                Some(Type::Object(object)) => value::escape(name).and_then(|name| object.fields.get(&name).cloned()),
                _ => None,
            };
            let below = context.below(once, || None, known);
            let field = self.tree(field, field.embedded, &path.child("properties").key(name), &below);
            if !field.is_empty() {
                tree.properties.insert(name.clone(), field);
            }
        }
        let path = path.child("x-kubernetes-validations");
        let fields = self.field_paths(schema, &path);
        if schema.rules.is_empty() || self.schema_errors > before {
            return tree;
        }
        match &declared {
            Some(declared) => {
                let times = context.times.unwrap_or(super::MAX_REQUEST / (declared.least_bytes + 1));
                for (i, (rule, field)) in schema.rules.iter().zip(fields).enumerate() {
                    match self.rule(rule, field, declared, times, &path.index(i), context) {
                        Ok(rule) => tree.rules.push(rule),
                        Err(why) => tree.broken.push(why),
                    }
                }
            }
            None => self.errors.push(FieldError::internal(
                &path,
                "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations",
            )),
        }
        tree
    }

    /// Where the failures of each rule point to.
    fn field_paths(&mut self, schema: &Schema, path: &Path) -> Vec<Path> {
        let mut paths = Vec::with_capacity(schema.rules.len());
        for (i, rule) in schema.rules.iter().enumerate() {
            let text = rule.field_path.as_str();
            match field_path::follow(text, schema, Notation::DotsAndQuotes) {
                Ok(found) => paths.push(found.path),
                Err(_) if text.is_empty() => paths.push(Path::root()),
                Err(_) => {
                    self.schema_errors += 1;
                    let path = path.index(i).child("fieldPath");
                    self.errors.push(FieldError::invalid(&path, text, "must be a valid path"));
                }
            }
        }
        paths
    }

    fn rule(
        &mut self,
        rule: &Rule,
        field: Path,
        this: &Declared,
        times: u64,
        path: &Path,
        context: &NodeContext,
    ) -> Result<Compiled, String> {
        let optional = rule.optional_old_self == Some(true);
        let at = path.child("rule");
        let compiled = expression(&rule.rule, this, optional, &Type::Bool, "cel expression must evaluate to a bool");
        let compiled = match compiled {
            Ok((expression, cost)) => {
                self.observe(cost.saturating_mul(times), "estimated rule cost", &at);
                Ok(expression)
            }
            Err(why) => {
                self.errors.push(mistake(&at, rule, &why));
                Err(why)
            }
        };
        let message = match rule.message_expression.as_str() {
            text if compiled.is_ok() && !text.is_empty() => self.message(text, rule, this, path),
            _ => None,
        };
        if compiled.as_ref().is_ok_and(|expression| expression.uses_old_self) {
            if let Some(within) = &context.uncorrelated {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                self.errors.push(FieldError::invalid(&at, rule.rule.as_str(), detail));
            }
        } else if let Some(set) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(&path.child("optionalOldSelf"), set, detail));
        }
        Ok(Compiled { rule: rule.clone(), expression: compiled?, message, field })
    }

    fn message(&mut self, text: &str, rule: &Rule, this: &Declared, path: &Path) -> Option<Expression> {
        let at = path.child("messageExpression");
        let optional = rule.optional_old_self == Some(true);
        match expression(text, this, optional, &Type::Text, "must evaluate to a string") {
            Ok((expression, cost)) => {
                self.observe(cost, "estimated messageExpression cost", &at);
                Some(expression)
            }
            Err(why) => {
                self.errors.push(mistake(&at, rule, &format!("messageExpression {why}")));
                None
            }
        }
    }

    fn observe(&mut self, cost: u64, what: &str, path: &Path) {
        self.total = self.total.saturating_add(cost);
        if cost >= ESTIMATE_PER_SCHEMA / 100 {
            self.costs.push((path.clone(), cost));
        }
        if cost > ESTIMATE_PER_RULE {
            self.errors.push(FieldError::forbidden(path, over(what, cost, ESTIMATE_PER_RULE)));
        }
    }

    fn check_total(&mut self, path: &Path) {
        if self.total <= ESTIMATE_PER_SCHEMA {
            return;
        }
        self.costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in self.costs.iter().take(4) {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(path, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(FieldError::forbidden(path, over(what, self.total, ESTIMATE_PER_SCHEMA)));
    }
}

/// An expression that makes a value of the wanted type, and what it may cost.
fn expression(
    text: &str,
    this: &Declared,
    optional_old_self: bool,
    wanted: &Type,
    otherwise: &str,
) -> Result<(Expression, u64), String> {
    let expression = parse::expression(text)?;
    let checked = check::check(&expression, this, optional_old_self)?;
    if checked.of == *wanted { Ok((expression, checked.cost)) } else { Err(otherwise.to_owned()) }
}

/// A mistake in a rule's CEL. The rule is shown as upstream shows it: Go's JSON of its type.
fn mistake(path: &Path, rule: &Rule, why: &str) -> FieldError {
    let text = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        rule.reason.name().map_or_else(|| "null".to_owned(), text),
        text(&rule.field_path),
        rule.optional_old_self.map_or_else(|| "null".to_owned(), |set| set.to_string()),
    );
    FieldError { field: path.to_string(), reason: Reason::Invalid, value: None, detail: format!("{shown}: {why}") }
}

fn over(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        f if f > 100.0 => "more than 100x".to_owned(),
        f if f < 1.5 => format!("{f:.6}x"),
        f => format!("{f:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
