//! Runs an expression, counting every step.
//!
//! Called by `run` for each rule on each object. Values are shared, never copied as a whole, except into functions of
//! `kube-cel`; what that copies is charged by its size. A step that the budget does not cover is not taken.

use super::{
    authorizer,
    convert::{CONVERSIONS, convert},
    expr::{Access, Expression, Node},
    fold,
    function::{self, ARGUMENTS, Function},
    infer, message, operator, program,
    value::{self, text},
};
use api::go_regex::Pattern;
use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ExecutionError, Value,
        objects::{Key, KeyRef, Opaque, OptionalValue},
    },
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
};

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It costs more than it may. Nothing absorbs this.
    Budget,
    /// `1/0`, a missing key, a wrong type. `&&` and `||` absorb it when the other side decides.
    Error(String),
}

pub(super) type Evaluated = Result<Value, Stop>;

pub(super) fn error(why: impl Into<String>) -> Stop {
    Stop::Error(why.into())
}

/// What is left to spend.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn new(left: u64) -> Self {
        Self { left }
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn spend(&mut self, cost: u64) -> Result<(), Stop> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Stop::Budget)
            }
        }
    }

    /// Pays for going over a value as a whole: one per piece, and one per ten characters. Values share their parts, so
    /// that a small one may look endless from outside; paying on the way ends that.
    pub(super) fn spend_for(&mut self, value: &Value) -> Result<(), Stop> {
        self.spend(1)?;
        match value {
            Value::String(text) => self.spend(text.len() as u64 / 10),
            Value::Bytes(bytes) => self.spend(bytes.len() as u64 / 10),
            Value::List(list) => list.iter().try_for_each(|item| self.spend_for(item)),
            Value::Map(map) => map.map.values().try_for_each(|value| self.spend_for(value)),
            _ => {
                let inner = as_optional(value).and_then(OptionalValue::value).into_iter();
                inner.chain(message::parts(value)).try_for_each(|part| self.spend_for(part))
            }
        }
    }
}

/// Evaluates `expression` with `variables` bound.
pub(super) fn evaluate(expression: &Expression, variables: Vec<(Arc<str>, Value)>, budget: &mut Budget) -> Evaluated {
    Evaluation { scope: variables, budget }.node(&expression.root)
}

pub(super) struct Evaluation<'b> {
    scope: Vec<(Arc<str>, Value)>,
    pub(super) budget: &'b mut Budget,
}

impl Evaluation<'_> {
    pub(super) fn node(&mut self, node: &Node) -> Evaluated {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Variable(name) => self.variable(name),
            Node::Select { of, field, how } => {
                let of = self.node(of)?;
                self.budget.spend(1)?;
                select(&of, field, *how)
            }
            Node::Index { of, at, optional } => {
                let (of, at) = (self.node(of)?, self.node(at)?);
                self.budget.spend(1)?;
                index(&of, &at, *optional)
            }
            Node::And(sides) => self.decide(sides, false),
            Node::Or(sides) => self.decide(sides, true),
            Node::Not(of) => {
                let of = self.boolean(of)?;
                self.budget.spend(1)?;
                Ok(Value::Bool(!of))
            }
            Node::Negate(of) => {
                let of = self.node(of)?;
                self.budget.spend(1)?;
                operator::negate(&of)
            }
            Node::If(parts) => {
                let [condition, yes, no] = &**parts;
                if self.boolean(condition)? { self.node(yes) } else { self.node(no) }
            }
            Node::Binary(sign, sides) => {
                let (left, right) = (self.node(&sides[0])?, self.node(&sides[1])?);
                operator::binary(*sign, left, right, self.budget)
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Message(name, fields) => message::evaluate(self, name, fields),
            Node::Fold(of) => fold::fold(self, of),
            Node::OptionalMap { of, name, body, flat } => {
                let of = self.node(of)?;
                let Some(optional) = as_optional(&of) else { return Err(no_overload("optMap")) };
                let Some(inner) = optional.value() else { return Ok(none()) };
                let made = self.inside(&[(name, inner.clone())], |this| this.node(body))?;
                Ok(if *flat { made } else { some(made) })
            }
            Node::Call { function, args } => {
                let args = args.iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
                self.budget.spend(1)?;
                call(function, args, self.budget)
            }
        }
    }

    /// Evaluates with more variables bound.
    pub(super) fn inside<R>(&mut self, bound: &[(&Arc<str>, Value)], work: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.scope.len();
        self.scope.extend(bound.iter().map(|(name, value)| ((*name).clone(), value.clone())));
        let result = work(self);
        self.scope.truncate(outer);
        result
    }

    pub(super) fn boolean(&mut self, node: &Node) -> Result<bool, Stop> {
        match self.node(node)? {
            Value::Bool(value) => Ok(value),
            _ => Err(error("no such overload: a bool is expected")),
        }
    }

    fn variable(&mut self, name: &str) -> Evaluated {
        self.budget.spend(1)?;
        if let Some((_, value)) = self.scope.iter().rev().find(|(bound, _)| &**bound == name) {
            return Ok(value.clone());
        }
        match infer::type_named(name) {
            Some(_) => Ok(type_value(name)),
            None => Err(error(format!("undeclared reference to '{name}'"))),
        }
    }

    /// `||` is decided by true, `&&` by false, on either side; an error only counts when neither side decides.
    fn decide(&mut self, sides: &[Node; 2], by: bool) -> Evaluated {
        let left = self.boolean(&sides[0]);
        if left == Ok(by) || left == Err(Stop::Budget) {
            return left.map(Value::Bool);
        }
        let right = self.boolean(&sides[1]);
        match (left, right) {
            (_, Err(Stop::Budget)) => Err(Stop::Budget),
            (_, Ok(right)) if right == by => Ok(Value::Bool(by)),
            (Err(why), _) | (Ok(_), Err(why)) => Err(why),
            (Ok(_), Ok(right)) => Ok(Value::Bool(right)),
        }
    }

    fn list(&mut self, items: &[(Node, bool)]) -> Evaluated {
        self.budget.spend(10 + items.len() as u64)?;
        let mut list = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let item = self.node(item)?;
            match as_optional(&item).filter(|_| *optional) {
                Some(optional) => list.extend(optional.value().cloned()),
                None => list.push(item),
            }
        }
        Ok(Value::List(Arc::new(list)))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Evaluated {
        self.budget.spend(30 + entries.len() as u64)?;
        let mut map = std::collections::HashMap::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = key_of(&self.node(key)?)?;
            let value = self.node(value)?;
            match as_optional(&value).filter(|_| *optional) {
                Some(optional) => map.extend(optional.value().cloned().map(|value| (key, value))),
                None => drop(map.insert(key, value)),
            }
        }
        Ok(Value::Map(kube_cel::cel::objects::Map { map: Arc::new(map) }))
    }
}

pub(super) fn no_overload(of: &str) -> Stop {
    error(format!("no such overload: {of}"))
}

pub(super) fn key_of(value: &Value) -> Result<Key, Stop> {
    match value {
        Value::Int(n) => Ok(Key::Int(*n)),
        Value::UInt(n) => Ok(Key::Uint(*n)),
        Value::Bool(b) => Ok(Key::Bool(*b)),
        Value::String(text) => Ok(Key::String(text.clone())),
        Value::Float(n) if n.fract() == 0.0 && n.abs() < 9e15 => Ok(Key::Int(*n as i64)),
        _ => Err(error("no such key")),
    }
}

fn select(of: &Value, field: &str, how: Access) -> Evaluated {
    if let Some(optional) = as_optional(of) {
        return match (optional.value(), how) {
            (None, Access::Test) => Ok(Value::Bool(false)),
            (None, _) => Ok(none()),
            (Some(inner), Access::Test) => select(inner, field, Access::Test),
            (Some(inner), _) => select(inner, field, Access::Optional),
        };
    }
    if let Some(selected) = message::select(of, field, how) {
        return selected;
    }
    let Value::Map(map) = of else {
        return match (program::field(of, field), how) {
            (Some(Ok(value)), Access::Get) => Ok(value),
            (Some(Ok(_)), Access::Test) => Ok(Value::Bool(true)),
            (Some(Ok(value)), Access::Optional) => Ok(some(value)),
            (Some(Err(why)), _) => Err(why),
            (None, _) => Err(no_overload(&format!("select '{field}'"))),
        };
    };
    let found = map.get(&KeyRef::String(field));
    match how {
        Access::Test => Ok(Value::Bool(found.is_some())),
        Access::Optional => Ok(found.map_or_else(none, |value| some(value.clone()))),
        Access::Get => found.cloned().ok_or_else(|| error(format!("no such key: {field}"))),
    }
}

fn index(of: &Value, at: &Value, optional: bool) -> Evaluated {
    if let Some(inner) = as_optional(of) {
        return inner.value().map_or_else(|| Ok(none()), |inner| index(inner, at, true));
    }
    let found = match (of, at) {
        (Value::List(list), at) => {
            let index = match at {
                Value::Int(n) => usize::try_from(*n).ok(),
                Value::UInt(n) => usize::try_from(*n).ok(),
                Value::Float(n) if n.fract() == 0.0 && *n >= 0.0 => Some(*n as usize),
                Value::Float(_) => None,
                _ => return Err(no_overload("list index")),
            };
            index
                .and_then(|index| list.get(index))
                .cloned()
                .ok_or_else(|| format!("index out of bounds: {}", shown(at)))
        }
        (Value::Map(map), at) => map.get(&key_of(at)?).cloned().ok_or_else(|| format!("no such key: {}", shown(at))),
        _ => return Err(no_overload("index")),
    };
    match found {
        Ok(value) => Ok(if optional { some(value) } else { value }),
        Err(_) if optional => Ok(none()),
        Err(why) => Err(error(why)),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        Value::String(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

fn call(function: &Function, args: Vec<Value>, budget: &mut Budget) -> Evaluated {
    match &function.call {
        Some(expression) => {
            args.iter().try_for_each(|arg| budget.spend_for(arg))?;
            budget.spend(extra_cost(function.name, &args)?)?;
            let result = bridge(expression, args)?;
            // A result larger than what was paid for is paid for now, before it can grow again.
            budget.spend_for(&result)?;
            Ok(result)
        }
        None => here(function, &args, budget),
    }
}

/// What a function of `kube-cel` costs beyond its arguments: some do more than look at each once.
fn extra_cost(name: &str, args: &[Value]) -> Result<u64, Stop> {
    let length = |at: usize| match args.get(at) {
        Some(Value::String(text)) => text.len() as u64,
        Some(Value::List(list)) => list.len() as u64,
        _ => 0,
    };
    Ok(match (name, args.first()) {
        ("sets.contains" | "sets.equivalent" | "sets.intersects", _) => length(0).saturating_mul(length(1)),
        ("distinct", _) => length(0).saturating_mul(length(0)),
        ("lists.range", Some(Value::Int(n))) => u64::try_from(*n).unwrap_or(0),
        ("replace", _) => (length(0) / length(1).max(1) + 1).saturating_mul(1 + length(2) / 10),
        ("join", _) => length(0).saturating_mul(1 + length(1) / 10),
        ("format", Some(Value::String(format))) if asks_for_many_digits(format) => {
            return Err(error("a format may ask for at most 99 digits"));
        }
        _ => 0,
    })
}

fn asks_for_many_digits(format: &str) -> bool {
    let digits = |after: &str| after.bytes().take_while(u8::is_ascii_digit).count();
    format.split("%.").skip(1).any(|after| digits(after) > 2)
}

/// Functions of this file.
fn here(function: &Function, args: &[Value], budget: &mut Budget) -> Evaluated {
    match (function.name, args) {
        ("size", [Value::String(text)]) => {
            budget.spend(text.len() as u64 / 10)?;
            Ok(Value::Int(text.chars().count() as i64))
        }
        ("size", [Value::Bytes(bytes)]) => Ok(Value::Int(bytes.len() as i64)),
        ("size", [Value::List(list)]) => Ok(Value::Int(list.len() as i64)),
        ("size", [Value::Map(map)]) => Ok(Value::Int(map.map.len() as i64)),
        ("startsWith", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.starts_with(part.as_str()))),
        ("endsWith", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.ends_with(part.as_str()))),
        ("contains", [Value::String(text), Value::String(part)]) => {
            budget.spend((text.len() + part.len()) as u64 / 10)?;
            Ok(Value::Bool(text.contains(part.as_str())))
        }
        ("matches" | "find" | "findAll", [Value::String(text), Value::String(pattern), rest @ ..]) => {
            budget.spend((1 + text.len() as u64 / 10).saturating_mul(1 + pattern.len() as u64 / 4))?;
            match &function.pattern {
                Some(pattern) => Ok(regular(function.name, text, pattern, rest)),
                None => {
                    // A pattern that the rule computes is compiled each time, which takes as long as thousands of steps.
                    budget.spend(5000)?;
                    let pattern = Pattern::small(pattern).map_err(|why| error(why.to_string()))?;
                    Ok(regular(function.name, text, &pattern, rest))
                }
            }
        }
        ("type", [value]) => Ok(type_value(type_name(value))),
        ("dyn", [value]) => Ok(value.clone()),
        (name, [value]) if CONVERSIONS.contains(&name) => {
            budget.spend_for(value)?;
            let made = convert(name, value)?;
            budget.spend_for(&made)?;
            Ok(made)
        }
        ("optional.none", []) => Ok(none()),
        ("optional.of", [value]) => Ok(some(value.clone())),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            budget.spend(list.len() as u64)?;
            let present =
                |item: &Value| as_optional(item).ok_or_else(|| no_overload("unwrapOpt")).map(|it| it.value().cloned());
            let items = list.iter().filter_map(|item| present(item).transpose()).collect::<Result<_, _>>()?;
            Ok(Value::List(Arc::new(items)))
        }
        (name @ ("hasValue" | "value" | "or" | "orValue"), [optional, rest @ ..]) => {
            optional_method(name, optional, rest)
        }
        (message::ESCAPE_KEY, [Value::String(key)]) => {
            budget.spend(key.len() as u64 / 10)?;
            Ok(message::escape_key(key))
        }
        (name, args) if authorizer::FUNCTIONS.contains(&name) => authorizer::call(name, args, budget),
        (name, _) => Err(no_overload(name)),
    }
}

fn optional_method(name: &str, optional: &Value, rest: &[Value]) -> Evaluated {
    let Some(inner) = as_optional(optional).map(OptionalValue::value) else { return Err(no_overload(name)) };
    match (name, inner, rest) {
        ("hasValue", inner, []) => Ok(Value::Bool(inner.is_some())),
        ("value" | "orValue", Some(inner), _) => Ok(inner.clone()),
        ("value", None, []) => Err(error("optional.none() dereference")),
        ("or", Some(_), [_]) => Ok(optional.clone()),
        ("or" | "orValue", None, [other]) => Ok(other.clone()),
        _ => Err(no_overload(name)),
    }
}

fn regular(name: &str, text: &str, pattern: &Pattern, rest: &[Value]) -> Value {
    let most = match rest {
        [Value::Int(n)] if *n >= 0 => usize::try_from(*n).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    match name {
        "matches" => Value::Bool(pattern.is_match(text)),
        "find" => value::text(pattern.find(text).next().unwrap_or_default()),
        _ => Value::List(Arc::new(pattern.find(text).take(most).map(value::text).collect())),
    }
}

static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// Calls a function of `kube-cel`. The libraries are not ours: a panic in one is an error of this call.
pub(super) fn bridge(expression: &kube_cel::cel::IdedExpr, args: Vec<Value>) -> Evaluated {
    let called = catch_unwind(AssertUnwindSafe(|| {
        let mut context = LIBRARY.new_inner_scope();
        for (name, value) in ARGUMENTS.iter().zip(args) {
            context.add_variable_from_value(*name, value);
        }
        context.resolve(expression)
    }));
    match called {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ExecutionError::FunctionError { function, message })) => Err(error(format!("{function}: {message}"))),
        Ok(Err(ExecutionError::NoSuchOverload)) => Err(no_overload("arguments")),
        // Some of these texts hold whole values, which can be large.
        Ok(Err(why)) => Err(error(why.to_string().chars().take(200).collect::<String>())),
        Err(_) => Err(error("the function failed")),
    }
}

/// A text through a conversion such as `timestamp`; the text itself when it cannot be converted, so that a rule on it
/// fails with a clear overload error.
pub(super) fn convert_text(function: &str, from: &str) -> Value {
    bridge(&function::call(function, false, 1), vec![text(from)]).unwrap_or_else(|_| text(from))
}

pub(super) fn as_optional(value: &Value) -> Option<&OptionalValue> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<OptionalValue>(),
        _ => None,
    }
}

pub(super) fn some(value: Value) -> Value {
    Value::Opaque(Arc::new(OptionalValue::of(value)))
}

pub(super) fn none() -> Value {
    Value::Opaque(Arc::new(OptionalValue::none()))
}

/// The value that `type(x)` has.
#[derive(Debug, PartialEq, Eq)]
struct TypeValue(String);

impl Opaque for TypeValue {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

fn type_value(name: &str) -> Value {
    Value::Opaque(Arc::new(TypeValue(name.to_owned())))
}

pub(super) fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Opaque(_) if as_optional(value).is_some() => "optional_type",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        Value::Function(..) => "function",
    }
}
