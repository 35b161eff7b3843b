//! Types and worst cost of an expression, before it ever runs.
//!
//! Called by `compile` for every rule and message. What the schema tells is checked; what it does not is `dyn` and checked
//! when the rule runs. The units of cost are those of `eval`.

use super::{
    expr::{Access, Expression, Fold, Node, Operator, What},
    function::Function,
    types::{Known, Type},
};
use kube_cel::cel::Value;
use std::sync::Arc;

/// What is known of an expression.
pub(super) struct Checked {
    pub(super) of: Type,
    pub(super) cost: u64,
}

/// Checks an expression in which `variables` are bound. All mistakes come back as one text.
pub(super) fn check(expression: &Expression, variables: &[(&str, Known)]) -> Result<Checked, String> {
    let scope = variables.iter().map(|(name, known)| (Arc::from(*name), known.clone())).collect();
    let mut checker = Checker { scope, mistakes: Vec::new() };
    let (known, cost) = checker.node(&expression.root);
    if checker.mistakes.is_empty() {
        return Ok(Checked { of: known.of, cost });
    }
    Err(format!("Compilation failed: {}", checker.mistakes.join("; ")))
}

/// Names of types, as `type(x) == string` uses them.
pub(super) const TYPE_NAMES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint", "type"];

struct Checker {
    scope: Vec<(Arc<str>, Known)>,
    mistakes: Vec<String>,
}

type Costed = (Known, u64);

impl Checker {
    fn refuse(&mut self, mistake: String) -> Known {
        if !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
        Known::unsized_of(Type::Dyn)
    }

    fn node(&mut self, node: &Node) -> Costed {
        match node {
            Node::Constant(value) => (constant(value), 0),
            Node::Variable(name) => (self.variable(name), 1),
            Node::Select { of, field, how } => {
                let (of, cost) = self.node(of);
                (self.select(of, field, *how), cost + 1)
            }
            Node::Index { of, at, optional } => {
                let ((of, first), (at, second)) = (self.node(of), self.node(at));
                (self.index(of, at, *optional), first + second + 1)
            }
            Node::And(sides) | Node::Or(sides) => {
                let costs: u64 = sides.iter().map(|side| self.boolean(side)).fold(0, u64::saturating_add);
                (Known::one(Type::Bool), costs)
            }
            Node::Not(of) => (Known::one(Type::Bool), self.boolean(of) + 1),
            Node::Negate(of) => {
                let (of, cost) = self.node(of);
                if !matches!(of.of, Type::Dyn | Type::Int | Type::Double) {
                    self.refuse(format!("no overload of '-' takes ({})", of.of));
                }
                (of, cost + 1)
            }
            Node::If(parts) => {
                let cost = self.boolean(&parts[0]);
                let ((yes, first), (no, second)) = (self.node(&parts[1]), self.node(&parts[2]));
                let of = if yes.of == no.of { yes.of } else { Type::Dyn };
                (Known { of, most: yes.most.max(no.most) }, cost.saturating_add(first.max(second)))
            }
            Node::Binary(operator, sides) => {
                let ((left, first), (right, second)) = (self.node(&sides[0]), self.node(&sides[1]));
                let (known, own) = self.binary(*operator, &left, &right);
                (known, first.saturating_add(second).saturating_add(own))
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => {
                let mut cost: u64 = 30;
                for (key, value, _) in entries {
                    cost = cost.saturating_add(self.node(key).1).saturating_add(self.node(value).1);
                }
                let of = Type::Map(Arc::new(Known::unsized_of(Type::Dyn)));
                (Known { of, most: entries.len() as u64 }, cost)
            }
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { name, value, body } => {
                let (value, first) = self.node(value);
                let (body, second) = self.inside(vec![(name.clone(), value)], |this| this.node(body));
                (body, first.saturating_add(second))
            }
            Node::OptionalMap { of, name, body, flat } => {
                let (of, first) = self.node(of);
                let inner = match of.of {
                    Type::Optional(inner) => (*inner).clone(),
                    Type::Dyn => of,
                    other => self.refuse(format!("no overload of 'optMap' takes ({other})")),
                };
                let (body, second) = self.inside(vec![(name.clone(), inner)], |this| this.node(body));
                let most = body.most;
                let known = if *flat { body } else { Known { of: Type::Optional(Arc::new(body)), most } };
                (known, first.saturating_add(second))
            }
            Node::Call { function, args } => self.call(function, args),
        }
    }

    fn inside<R>(&mut self, bound: Vec<(Arc<str>, Known)>, work: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.scope.len();
        self.scope.extend(bound);
        let result = work(self);
        self.scope.truncate(outer);
        result
    }

    fn variable(&mut self, name: &str) -> Known {
        if let Some((_, known)) = self.scope.iter().rev().find(|(bound, _)| &**bound == name) {
            return known.clone();
        }
        if TYPE_NAMES.contains(&name) {
            return Known::one(Type::Meta);
        }
        self.refuse(format!("undeclared reference to '{name}'"))
    }

    fn select(&mut self, of: Known, field: &str, how: Access) -> Known {
        let (of, optional) = match of.of {
            Type::Optional(inner) => ((*inner).clone(), true),
            _ => (of, how == Access::Optional),
        };
        let found = match &of.of {
            Type::Dyn => Known { of: Type::Dyn, most: of.most },
            Type::Map(value) => (**value).clone(),
            Type::Object(fields) => match fields.get(field) {
                Some(known) => known.clone(),
                None => self.refuse(format!("undefined field '{field}'")),
            },
            other => {
                let mistake = format!("type '{other}' has no field '{field}'");
                self.refuse(mistake)
            }
        };
        match how {
            Access::Test => Known::one(Type::Bool),
            _ if optional => Known { most: found.most, of: Type::Optional(Arc::new(found)) },
            _ => found,
        }
    }

    fn index(&mut self, of: Known, at: Known, optional: bool) -> Known {
        let (of, optional) = match of.of {
            Type::Optional(inner) => ((*inner).clone(), true),
            _ => (of, optional),
        };
        let found = match (&of.of, &at.of) {
            (Type::Dyn, _) => Known { of: Type::Dyn, most: of.most },
            (Type::List(item), Type::Int | Type::Uint | Type::Dyn) => (**item).clone(),
            (Type::Map(value), Type::Text | Type::Int | Type::Uint | Type::Bool | Type::Dyn) => (**value).clone(),
            (of, at) => {
                let mistake = format!("no overload of '[]' takes ({of}, {at})");
                self.refuse(mistake)
            }
        };
        if optional { Known { most: found.most, of: Type::Optional(Arc::new(found)) } } else { found }
    }

    fn boolean(&mut self, node: &Node) -> u64 {
        let (known, cost) = self.node(node);
        if !matches!(known.of, Type::Bool | Type::Dyn) {
            self.refuse(format!("a bool is expected, not {}", known.of));
        }
        cost
    }

    fn list(&mut self, items: &[(Node, bool)]) -> Costed {
        let mut cost: u64 = 10;
        let mut of: Option<Known> = None;
        for (item, _) in items {
            let (known, own) = self.node(item);
            cost = cost.saturating_add(own);
            of = Some(match of {
                None => known,
                Some(so_far) if so_far.of == known.of => Known { most: so_far.most.max(known.most), ..known },
                Some(so_far) => Known { of: Type::Dyn, most: so_far.most.max(known.most) },
            });
        }
        let of = Type::List(Arc::new(of.unwrap_or_else(|| Known::one(Type::Dyn))));
        (Known { of, most: items.len() as u64 }, cost)
    }

    fn binary(&mut self, operator: Operator, left: &Known, right: &Known) -> Costed {
        use Operator::{
            Add, Divide, Equal, Greater, GreaterEqual, In, Less, LessEqual, Multiply, NotEqual, Remainder, Subtract,
        };
        let (shorter, both) = (left.most.min(right.most), left.most.saturating_add(right.most));
        let is_number = |of: &Type| matches!(of, Type::Int | Type::Uint | Type::Double);
        match (operator, &left.of, &right.of) {
            (Equal | NotEqual, a, b) if comparable(a, b) => (Known::one(Type::Bool), 1 + shorter / 10),
            (In, _, Type::List(_)) => (Known::one(Type::Bool), 1 + right.most),
            (In, _, Type::Map(_) | Type::Dyn) => (Known::one(Type::Bool), 1),
            (
                Add | Subtract | Multiply | Divide | Remainder | Less | LessEqual | Greater | GreaterEqual,
                Type::Dyn,
                _,
            )
            | (
                Add | Subtract | Multiply | Divide | Remainder | Less | LessEqual | Greater | GreaterEqual,
                _,
                Type::Dyn,
            ) => {
                let compares = matches!(operator, Less | LessEqual | Greater | GreaterEqual);
                let of = if compares { Type::Bool } else { Type::Dyn };
                (Known { of, most: both }, 1 + both / 10)
            }
            (Less | LessEqual | Greater | GreaterEqual, a, b)
                if (is_number(a) && is_number(b))
                    || (a == b && matches!(a, Type::Text | Type::Bool | Type::Bytes | Type::Duration | Type::Time)) =>
            {
                (Known::one(Type::Bool), 1 + shorter / 10)
            }
            (Add, Type::Text, Type::Text) | (Add, Type::Bytes, Type::Bytes) => {
                (Known { of: left.of.clone(), most: both }, 1 + both / 10)
            }
            (Add, Type::List(_), Type::List(_)) => (Known { of: left.of.clone(), most: both }, 1 + both),
            (Add | Subtract, Type::Duration, Type::Duration) => (Known::one(Type::Duration), 1),
            (Add | Subtract, Type::Time, Type::Duration) | (Add, Type::Duration, Type::Time) => {
                (Known::one(Type::Time), 1)
            }
            (Subtract, Type::Time, Type::Time) => (Known::one(Type::Duration), 1),
            (Add | Subtract | Multiply | Divide | Remainder, a, b) if a == b && is_number(a) => {
                (Known::one(a.clone()), 1)
            }
            (_, a, b) => {
                let mistake = format!("no overload of '{}' takes ({a}, {b})", operator.sign());
                (self.refuse(mistake), 1)
            }
        }
    }

    fn fold(&mut self, fold: &Fold) -> Costed {
        let (range, cost) = self.node(&fold.range);
        let (key, value) = match &range.of {
            Type::List(item) if fold.second.is_some() => (Known::one(Type::Int), (**item).clone()),
            Type::List(item) => ((**item).clone(), (**item).clone()),
            Type::Map(value) => (Known { of: Type::Text, most: 64 }, (**value).clone()),
            Type::Object(_) => (Known { of: Type::Text, most: 64 }, Known::unsized_of(Type::Dyn)),
            Type::Dyn => (Known::one(Type::Dyn), Known::one(Type::Dyn)),
            other => {
                let mistake = format!("type '{other}' cannot be iterated over");
                (self.refuse(mistake), Known::one(Type::Dyn))
            }
        };
        let mut bound = vec![(fold.first.clone(), key)];
        bound.extend(fold.second.clone().map(|name| (name, value)));
        let (known, each) = self.inside(bound, |this| this.body(&fold.what, &range));
        (known, cost.saturating_add(range.most.saturating_mul(each.saturating_add(1))))
    }

    fn body(&mut self, what: &What, range: &Known) -> Costed {
        match what {
            What::All(holds) | What::Exists(holds) | What::ExistsOne(holds) => {
                (Known::one(Type::Bool), self.boolean(holds))
            }
            What::List { filter, item } => {
                let cost = filter.as_ref().map_or(0, |filter| self.boolean(filter));
                let (item, own) = self.node(item);
                (Known { of: Type::List(Arc::new(item)), most: range.most }, cost.saturating_add(own))
            }
            What::Map { filter, value } => {
                let cost = filter.as_ref().map_or(0, |filter| self.boolean(filter));
                let (value, own) = self.node(value);
                (Known { of: Type::Map(Arc::new(value)), most: range.most }, cost.saturating_add(own))
            }
            What::SortBy(key) => {
                let (_, cost) = self.node(key);
                (range.clone(), cost)
            }
        }
    }

    fn call(&mut self, function: &Function, args: &[Node]) -> Costed {
        let (known, costs): (Vec<Known>, Vec<u64>) = args.iter().map(|arg| self.node(arg)).unzip();
        let cost = costs.into_iter().fold(1, u64::saturating_add).saturating_add(call_cost(function.name, &known));
        let result = match function.result(&known) {
            Ok(result) => result,
            Err(mistake) => self.refuse(mistake),
        };
        (result, cost)
    }
}

/// What a function does beyond being called, by the sizes of its arguments.
fn call_cost(name: &str, args: &[Known]) -> u64 {
    let size = |at: usize| args.get(at).map_or(0, |arg| arg.most);
    match name {
        "size" | "type" | "dyn" | "optional.of" | "optional.none" | "hasValue" => 0,
        // A regular expression takes time by the length of text and pattern.
        "matches" | "find" | "findAll" => (1 + size(0) / 10).saturating_mul(1 + size(1) / 4),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => size(0).saturating_mul(size(1)),
        "distinct" => size(0).saturating_mul(size(0)),
        _ => args.iter().fold(0, |sum: u64, arg| {
            let lists = matches!(arg.of, Type::List(_) | Type::Map(_));
            sum.saturating_add(if lists { arg.most } else { arg.most / 10 })
        }),
    }
}

/// Different types are never equal; comparing them is a mistake in the rule.
fn comparable(a: &Type, b: &Type) -> bool {
    let is_number = |of: &Type| matches!(of, Type::Int | Type::Uint | Type::Double);
    let is_map = |of: &Type| matches!(of, Type::Map(_) | Type::Object(_));
    match (a, b) {
        (Type::Dyn | Type::Null, _) | (_, Type::Dyn | Type::Null) => true,
        (a, b) if is_number(a) && is_number(b) => true,
        (a, b) if is_map(a) && is_map(b) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => comparable(&a.of, &b.of),
        (a, b) => a == b,
    }
}

fn constant(value: &Value) -> Known {
    match value {
        Value::Bool(_) => Known::one(Type::Bool),
        Value::Int(_) => Known::one(Type::Int),
        Value::UInt(_) => Known::one(Type::Uint),
        Value::Float(_) => Known::one(Type::Double),
        Value::String(text) => Known { of: Type::Text, most: text.len() as u64 },
        Value::Bytes(bytes) => Known { of: Type::Bytes, most: bytes.len() as u64 },
        Value::Null => Known::one(Type::Null),
        _ => Known::one(Type::Dyn),
    }
}
