//! The expression that is checked and run: the parser's tree with macros understood and every function known.
//!
//! `lower` refuses what could not be evaluated, so `eval` meets nothing that it does not know.

use super::{
    function::{self, Function},
    infer,
};
use api::go_regex::Pattern;
use kube_cel::cel::{
    IdedExpr, Value,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators},
};
use std::sync::Arc;

/// Deepest expression; `check` and `eval` recurse as deep as this and no deeper.
pub(super) const MAX_DEPTH: usize = 200;

/// A whole expression.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) root: Node,
    /// Whether it speaks of `oldSelf`.
    pub(super) uses_old_self: bool,
}

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Node {
    Constant(Value),
    Variable(Arc<str>),
    /// `self.x`, `has(self.x)`, `self.?x`.
    Select {
        of: Box<Self>,
        field: Arc<str>,
        how: Access,
    },
    /// `self[0]`, `self[?0]`.
    Index {
        of: Box<Self>,
        at: Box<Self>,
        optional: bool,
    },
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    Not(Box<Self>),
    Negate(Box<Self>),
    If(Box<[Self; 3]>),
    Binary(Operator, Box<[Self; 2]>),
    /// Items, and whether each is left out when it is an empty optional.
    List(Vec<(Self, bool)>),
    Map(Vec<(Self, Self, bool)>),
    /// `Object.spec{replicas: 1}`: the name of its type, and fields.
    Message(Arc<str>, Vec<(Arc<str>, Self, bool)>),
    Fold(Box<Fold>),
    /// `optional.optMap(name, body)`; `flat` when the body is an optional itself.
    OptionalMap {
        of: Box<Self>,
        name: Arc<str>,
        body: Box<Self>,
        flat: bool,
    },
    /// A function; the receiver of a method is the first argument.
    Call {
        function: Function,
        args: Vec<Self>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Get,
    Test,
    Optional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

impl Operator {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            operators::ADD => Self::Add,
            operators::SUBSTRACT => Self::Subtract,
            operators::MULTIPLY => Self::Multiply,
            operators::DIVIDE => Self::Divide,
            operators::MODULO => Self::Remainder,
            operators::EQUALS => Self::Equal,
            operators::NOT_EQUALS => Self::NotEqual,
            operators::LESS => Self::Less,
            operators::LESS_EQUALS => Self::LessEqual,
            operators::GREATER => Self::Greater,
            operators::GREATER_EQUALS => Self::GreaterEqual,
            operators::IN => Self::In,
            _ => return None,
        })
    }
}

/// A macro that goes through a list or a map.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Node,
    /// The item, or the key of a map; with `second` the index or key.
    pub(super) first: Arc<str>,
    /// The item or the value, in the forms with two variables.
    pub(super) second: Option<Arc<str>>,
    pub(super) what: What,
}

/// What a fold makes.
#[derive(Debug)]
pub(super) enum What {
    All(Node),
    Exists(Node),
    ExistsOne(Node),
    List {
        filter: Option<Node>,
        item: Node,
    },
    Map {
        filter: Option<Node>,
        value: Node,
    },
    /// Of entries, each a map.
    MapEntry {
        filter: Option<Node>,
        entry: Node,
    },
    SortBy(Node),
}

/// The parser's tree into ours.
pub(super) fn lower(parsed: IdedExpr) -> Result<Expression, String> {
    let mut lowering = Lowering { depth: 0, uses_old_self: false };
    let root = lowering.node(parsed)?;
    Ok(Expression { root, uses_old_self: lowering.uses_old_self })
}

struct Lowering {
    depth: usize,
    uses_old_self: bool,
}

type Lowered = Result<Node, String>;

impl Lowering {
    fn node(&mut self, parsed: IdedExpr) -> Lowered {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("the expression is nested too deep, at most {MAX_DEPTH} levels are accepted"));
        }
        let node = self.known_depth(parsed);
        self.depth -= 1;
        node
    }

    fn boxed(&mut self, parsed: IdedExpr) -> Result<Box<Node>, String> {
        self.node(parsed).map(Box::new)
    }

    fn known_depth(&mut self, parsed: IdedExpr) -> Lowered {
        match parsed.expr {
            Expr::Literal(literal) => Ok(Node::Constant(constant(literal))),
            Expr::Ident(name) => {
                self.uses_old_self |= name == "oldSelf";
                Ok(Node::Variable(name.into()))
            }
            Expr::Select(select) => {
                if let Some(name) = type_name(&select) {
                    return Ok(Node::Variable(name.into()));
                }
                let how = if select.test { Access::Test } else { Access::Get };
                Ok(Node::Select { of: self.boxed(*select.operand)?, field: select.field.into(), how })
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let optional = list.optional_indices;
                let items = list.elements.into_iter().enumerate();
                let items = items.map(|(i, item)| Ok((self.node(item)?, optional.contains(&i))));
                Ok(Node::List(items.collect::<Result<_, String>>()?))
            }
            Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in map.entries {
                    let EntryExpr::MapEntry(entry) = entry.expr else { return Err("not a map".to_owned()) };
                    entries.push((self.node(entry.key)?, self.node(entry.value)?, entry.optional));
                }
                Ok(Node::Map(entries))
            }
            Expr::Comprehension(comprehension) => self.comprehension(*comprehension),
            Expr::Struct(made) => {
                let mut fields = Vec::with_capacity(made.entries.len());
                for entry in made.entries {
                    let EntryExpr::StructField(entry) = entry.expr else { return Err("not a field".to_owned()) };
                    fields.push((entry.field.into(), self.node(entry.value)?, entry.optional));
                }
                Ok(Node::Message(made.type_name.into(), fields))
            }
            Expr::Unspecified => Err("an expression is missing".to_owned()),
        }
    }

    fn call(&mut self, call: CallExpr) -> Lowered {
        if call.target.is_none() {
            return self.operator_or_function(call.func_name, call.args);
        }
        let CallExpr { func_name, target, mut args } = call;
        let Some(target) = target.map(|target| *target) else { return Err("a method without receiver".to_owned()) };
        if let Expr::Ident(space) = &target.expr {
            let qualified = format!("{space}.{func_name}");
            if function::is_known(&qualified) {
                return self.function(&qualified, args, false);
            }
        }
        if let Some(fold) = self.two_variable_fold(&func_name, &target, &mut args)? {
            return Ok(fold);
        }
        args.insert(0, target);
        self.function(&func_name, args, true)
    }

    fn operator_or_function(&mut self, name: String, args: Vec<IdedExpr>) -> Lowered {
        let nodes = |this: &mut Self, args: Vec<IdedExpr>| {
            args.into_iter().map(|arg| this.node(arg)).collect::<Result<Vec<_>, _>>()
        };
        if let Some(operator) = Operator::named(&name) {
            return Ok(Node::Binary(operator, exactly(nodes(self, args)?)?));
        }
        match name.as_str() {
            operators::LOGICAL_AND => Ok(Node::And(exactly(nodes(self, args)?)?)),
            operators::LOGICAL_OR => Ok(Node::Or(exactly(nodes(self, args)?)?)),
            operators::CONDITIONAL => Ok(Node::If(exactly(nodes(self, args)?)?)),
            operators::LOGICAL_NOT | operators::NEGATE => {
                let [of] = *exactly::<1>(nodes(self, args)?)?;
                Ok(if name == operators::NEGATE { Node::Negate(Box::new(of)) } else { Node::Not(Box::new(of)) })
            }
            operators::INDEX | operators::OPT_INDEX => {
                let [of, at] = *exactly(nodes(self, args)?)?;
                Ok(Node::Index { of: Box::new(of), at: Box::new(at), optional: name == operators::OPT_INDEX })
            }
            operators::OPT_SELECT => {
                let [of, field] = *exactly(nodes(self, args)?)?;
                let Node::Constant(Value::String(field)) = field else {
                    return Err("a field name is expected after .?".to_owned());
                };
                Ok(Node::Select { of: Box::new(of), field: field.as_str().into(), how: Access::Optional })
            }
            _ => self.function(&name, args, false),
        }
    }

    fn function(&mut self, name: &str, args: Vec<IdedExpr>, method: bool) -> Lowered {
        let mut function = Function::find(name, method, args.len())?;
        let args = args.into_iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
        if let ("matches" | "find" | "findAll", Some(Node::Constant(Value::String(pattern)))) = (name, args.get(1)) {
            function.pattern = Some(Pattern::new(pattern).map_err(|why| format!("'{pattern}' {why}"))?);
        }
        Ok(Node::Call { function, args })
    }

    /// Macros that the parser leaves as calls.
    fn two_variable_fold(
        &mut self,
        name: &str,
        target: &IdedExpr,
        args: &mut Vec<IdedExpr>,
    ) -> Result<Option<Node>, String> {
        let (variables, filtered) = match (name, args.len()) {
            ("optMap" | "optFlatMap", 2) => {
                let (body, name_of) = (args.remove(1), simple_name(args.remove(0))?);
                let (of, body) = (self.boxed(target.clone())?, self.boxed(body)?);
                return Ok(Some(Node::OptionalMap { of, name: name_of, body, flat: name == "optFlatMap" }));
            }
            ("sortBy", 2) => (1, false),
            ("all" | "exists" | "existsOne" | "exists_one", 3)
            | ("transformList" | "transformMap" | "transformMapEntry", 3) => (2, false),
            ("transformList" | "transformMap" | "transformMapEntry", 4) => (2, true),
            _ => return Ok(None),
        };
        let body = args.pop().ok_or("a macro without body")?;
        let filter = if filtered { args.pop().map(|filter| self.node(filter)).transpose()? } else { None };
        let second = if variables == 2 { args.pop().map(simple_name).transpose()? } else { None };
        let first = simple_name(args.pop().ok_or("a macro without variable")?)?;
        let (range, body) = (self.node(target.clone())?, self.node(body)?);
        let what = match name {
            "all" => What::All(body),
            "exists" => What::Exists(body),
            "existsOne" | "exists_one" => What::ExistsOne(body),
            "transformList" => What::List { filter, item: body },
            "transformMap" => What::Map { filter, value: body },
            "transformMapEntry" => What::MapEntry { filter, entry: body },
            _ => What::SortBy(body),
        };
        Ok(Some(Node::Fold(Box::new(Fold { range, first, second, what }))))
    }

    /// The parser expands the macros with one variable into loops; the start value of the loop tells which it was.
    fn comprehension(&mut self, made: ComprehensionExpr) -> Lowered {
        let unknown = || "unknown macro".to_owned();
        let Expr::Call(step) = made.loop_step.expr else { return Err(unknown()) };
        let mut args = step.args;
        let what = match made.accu_init.expr {
            Expr::Literal(LiteralValue::Boolean(start)) => {
                let body = self.node(args.pop().ok_or_else(unknown)?)?;
                if start.into_inner() { What::All(body) } else { What::Exists(body) }
            }
            Expr::Literal(LiteralValue::Int(_)) => What::ExistsOne(self.node(args.swap_remove(0))?),
            Expr::List(_) if step.func_name == operators::CONDITIONAL && args.len() == 3 => {
                let (added, filter) = (args.swap_remove(1), args.swap_remove(0));
                let filter = Some(self.node(filter)?);
                let Expr::Call(added) = added.expr else { return Err(unknown()) };
                What::List { filter, item: self.appended(added.args)? }
            }
            Expr::List(_) => What::List { filter: None, item: self.appended(args)? },
            _ => return Err(unknown()),
        };
        let range = self.node(made.iter_range)?;
        Ok(Node::Fold(Box::new(Fold { range, first: made.iter_var.into(), second: None, what })))
    }

    /// The `x` of `@result + [x]`.
    fn appended(&mut self, mut args: Vec<IdedExpr>) -> Lowered {
        match args.pop().map(|last| last.expr) {
            Some(Expr::List(mut list)) if list.elements.len() == 1 => self.node(list.elements.swap_remove(0)),
            _ => Err("unknown macro".to_owned()),
        }
    }
}

/// The name of a type that has dots in it, `google.protobuf.Duration`.
fn type_name(select: &SelectExpr) -> Option<String> {
    let operand = match &select.operand.expr {
        Expr::Ident(name) => name.clone(),
        Expr::Select(inner) => type_prefix(inner)?,
        _ => return None,
    };
    let name = format!("{operand}.{}", select.field);
    (!select.test && infer::type_named(&name).is_some()).then_some(name)
}

fn type_prefix(select: &SelectExpr) -> Option<String> {
    match &select.operand.expr {
        Expr::Ident(name) => Some(format!("{name}.{}", select.field)),
        _ => None,
    }
}

fn exactly<const N: usize>(nodes: Vec<Node>) -> Result<Box<[Node; N]>, String> {
    nodes.into_boxed_slice().try_into().map_err(|_| format!("{N} operands are expected"))
}

fn simple_name(parsed: IdedExpr) -> Result<Arc<str>, String> {
    match parsed.expr {
        Expr::Ident(name) => Ok(name.into()),
        _ => Err("a macro's variable must be a simple name".to_owned()),
    }
}

fn constant(literal: LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(value.into_inner()),
        LiteralValue::Bytes(value) => Value::Bytes(Arc::new(value.into_inner())),
        LiteralValue::Double(value) => Value::Float(value.into_inner()),
        LiteralValue::Int(value) => Value::Int(value.into_inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => Value::String(Arc::new(value.into_inner())),
        LiteralValue::UInt(value) => Value::UInt(value.into_inner()),
    }
}
