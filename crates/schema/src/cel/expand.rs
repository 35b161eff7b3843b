//! An expression with its macros written out as loops: what types and costs are found on.
//!
//! Costs are upstream's only if the loops are: each macro becomes the same tree that cel-go's parser makes of it. Running
//! an expression needs none of this and stays with the macros (`expr`).

use super::{
    expr::{Access, Fold, Node, Operator, What},
    overloads::SORT_BY,
};
use kube_cel::cel::Value;
use std::sync::Arc;

/// Most parts of an expression with its macros written out; `optMap` writes its receiver twice.
const MAX_PARTS: usize = 50_000;

/// A part, by its place in the tree.
pub(super) type Id = usize;

/// A whole expression.
pub(super) struct Tree {
    pub(super) parts: Vec<Part>,
    pub(super) root: Id,
}

impl Tree {
    /// The fields that are asked of a name, each once.
    pub(super) fn fields_of(&self, name: &str) -> Vec<String> {
        let is_name = |id: &Id| matches!(&self.parts[*id], Part::Name(found) if **found == *name);
        let asked = self.parts.iter().filter_map(|part| match part {
            Part::Select { of, field, .. } if is_name(of) => Some(field.to_string()),
            Part::Call { name: "_?._", args, .. } if args.first().is_some_and(is_name) => {
                match args.get(1).map(|arg| &self.parts[*arg]) {
                    Some(Part::Literal(Value::String(field))) => Some(field.to_string()),
                    _ => None,
                }
            }
            _ => None,
        });
        let fields: std::collections::BTreeSet<String> = asked.collect();
        fields.into_iter().collect()
    }
}

/// A part of an expression without macros.
#[derive(Debug)]
pub(super) enum Part {
    Literal(Value),
    Name(Arc<str>),
    Select {
        of: Id,
        field: Arc<str>,
        test: bool,
    },
    Call {
        name: &'static str,
        target: Option<Id>,
        args: Vec<Id>,
    },
    /// Items, and whether each is left out when it is an empty optional.
    List(Vec<(Id, bool)>),
    Map(Vec<(Id, Id, bool)>),
    Message(Arc<str>, Vec<(Arc<str>, Id, bool)>),
    Loop(Loop),
}

/// Goes through a list or map, with an accumulator that each round replaces.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) range: Id,
    pub(super) first: Arc<str>,
    pub(super) second: Option<Arc<str>>,
    pub(super) accumulator: Arc<str>,
    pub(super) init: Id,
    pub(super) condition: Id,
    pub(super) step: Id,
    pub(super) result: Id,
}

/// The accumulator of macros; no rule can spell it.
pub(super) const ACCUMULATOR: &str = "@result";

pub(super) fn expand(node: &Node) -> Result<Tree, String> {
    let mut expansion = Expansion { parts: Vec::new() };
    let root = expansion.node(node)?;
    Ok(Tree { parts: expansion.parts, root })
}

/// What a loop makes.
#[derive(Clone, Copy)]
enum Collect {
    List,
    Map,
}

struct Expansion {
    parts: Vec<Part>,
}

type Expanded = Result<Id, String>;

impl Expansion {
    fn add(&mut self, part: Part) -> Expanded {
        if self.parts.len() >= MAX_PARTS {
            return Err(format!("the expression has more than {MAX_PARTS} parts when its macros are expanded"));
        }
        self.parts.push(part);
        Ok(self.parts.len() - 1)
    }

    fn literal(&mut self, value: Value) -> Expanded {
        self.add(Part::Literal(value))
    }

    fn call(&mut self, name: &'static str, args: Vec<Id>) -> Expanded {
        self.add(Part::Call { name, target: None, args })
    }

    fn operator(&mut self, name: &'static str, args: &[Node]) -> Expanded {
        let args = args.iter().map(|arg| self.node(arg)).collect::<Result<_, _>>()?;
        self.call(name, args)
    }

    fn accumulator(&mut self) -> Expanded {
        self.add(Part::Name(ACCUMULATOR.into()))
    }

    fn node(&mut self, node: &Node) -> Expanded {
        match node {
            Node::Constant(value) => self.literal(value.clone()),
            Node::Variable(name) => self.add(Part::Name(name.clone())),
            Node::Select { of, field, how: Access::Optional } => {
                let of = self.node(of)?;
                let field = self.literal(super::value::text(field))?;
                self.call("_?._", vec![of, field])
            }
            Node::Select { of, field, how } => {
                let of = self.node(of)?;
                self.add(Part::Select { of, field: field.clone(), test: *how == Access::Test })
            }
            Node::Index { of, at, optional } => {
                let args = vec![self.node(of)?, self.node(at)?];
                self.call(if *optional { "_[?_]" } else { "_[_]" }, args)
            }
            Node::And(sides) => self.operator("_&&_", &**sides),
            Node::Or(sides) => self.operator("_||_", &**sides),
            Node::Not(of) => self.operator("!_", std::slice::from_ref(of)),
            Node::Negate(of) => self.operator("-_", std::slice::from_ref(of)),
            Node::If(parts) => self.operator("_?_:_", &**parts),
            Node::Binary(sign, sides) => self.operator(name_of(*sign), &**sides),
            Node::List(items) => {
                let items = items.iter().map(|(item, optional)| Ok((self.node(item)?, *optional)));
                let items = items.collect::<Result<_, String>>()?;
                self.add(Part::List(items))
            }
            Node::Map(entries) => {
                let entries =
                    entries.iter().map(|(key, value, optional)| Ok((self.node(key)?, self.node(value)?, *optional)));
                let entries = entries.collect::<Result<_, String>>()?;
                self.add(Part::Map(entries))
            }
            Node::Message(name, fields) => {
                let fields = fields.iter().map(|(field, of, optional)| Ok((field.clone(), self.node(of)?, *optional)));
                let fields = fields.collect::<Result<_, String>>()?;
                self.add(Part::Message(name.clone(), fields))
            }
            Node::Fold(fold) => self.fold(fold),
            Node::OptionalMap { of, name, body, flat } => self.optional_map(of, name, body, *flat),
            Node::Call { function, args } => {
                let mut args = args.iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
                let target = function.method.then(|| args.remove(0));
                self.add(Part::Call { name: function.name, target, args })
            }
        }
    }

    /// Has a name for a value; a loop without rounds.
    fn bind(&mut self, name: Arc<str>, value: Id, body: Id) -> Expanded {
        let range = self.add(Part::List(Vec::new()))?;
        let condition = self.literal(Value::Bool(false))?;
        let step = self.add(Part::Name(name.clone()))?;
        let first = "#unused".into();
        self.add(Part::Loop(Loop {
            range,
            first,
            second: None,
            accumulator: name,
            init: value,
            condition,
            step,
            result: body,
        }))
    }

    fn optional_map(&mut self, of: &Node, name: &Arc<str>, body: &Node, flat: bool) -> Expanded {
        let method =
            |this: &mut Self, name, target| this.add(Part::Call { name, target: Some(target), args: Vec::new() });
        let asked = self.node(of)?;
        let asked = method(self, "hasValue", asked)?;
        let again = self.node(of)?;
        let value = method(self, "value", again)?;
        let body = self.node(body)?;
        let mut made = self.bind(name.clone(), value, body)?;
        if !flat {
            made = self.call("optional.of", vec![made])?;
        }
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![asked, made, none])
    }

    fn fold(&mut self, fold: &Fold) -> Expanded {
        if let What::SortBy(key) = &fold.what {
            return self.sort_by(fold, key);
        }
        let range = self.node(&fold.range)?;
        self.over(range, fold, &fold.what)
    }

    fn sort_by(&mut self, fold: &Fold, key: &Node) -> Expanded {
        let name: Arc<str> = "@__sortBy_input__".into();
        let range = self.node(&fold.range)?;
        let target = self.add(Part::Name(name.clone()))?;
        let listed = self.add(Part::Name(name.clone()))?;
        let key = self.node(key)?;
        let step = self.appended(key)?;
        let keys = self.looped(listed, fold, Collect::List, step)?;
        let sorted = self.add(Part::Call { name: SORT_BY, target: Some(target), args: vec![keys] })?;
        self.bind(name, range, sorted)
    }

    /// `@result + [item]`.
    fn appended(&mut self, item: Id) -> Expanded {
        let so_far = self.accumulator()?;
        let item = self.add(Part::List(vec![(item, false)]))?;
        self.call("_+_", vec![so_far, item])
    }

    /// `filter ? step : @result`.
    fn filtered(&mut self, filter: Option<&Node>, step: impl FnOnce(&mut Self) -> Expanded) -> Expanded {
        let Some(filter) = filter else { return step(self) };
        let filter = self.node(filter)?;
        let step = step(self)?;
        let so_far = self.accumulator()?;
        self.call("_?_:_", vec![filter, step, so_far])
    }

    fn over(&mut self, range: Id, fold: &Fold, what: &What) -> Expanded {
        match what {
            What::All(holds) | What::Exists(holds) => {
                let all = matches!(what, What::All(_));
                let init = self.literal(Value::Bool(all))?;
                let mut going = self.accumulator()?;
                if !all {
                    going = self.call("!_", vec![going])?;
                }
                let condition = self.call("@not_strictly_false", vec![going])?;
                let so_far = self.accumulator()?;
                let holds = self.node(holds)?;
                let step = self.call(if all { "_&&_" } else { "_||_" }, vec![so_far, holds])?;
                let result = self.accumulator()?;
                self.looping(range, fold, [init, condition, step, result])
            }
            What::ExistsOne(holds) => {
                let init = self.literal(Value::Int(0))?;
                let condition = self.literal(Value::Bool(true))?;
                let step = self.filtered(Some(holds), |this| {
                    let so_far = this.accumulator()?;
                    let one = this.literal(Value::Int(1))?;
                    this.call("_+_", vec![so_far, one])
                })?;
                let count = self.accumulator()?;
                let one = self.literal(Value::Int(1))?;
                let result = self.call("_==_", vec![count, one])?;
                self.looping(range, fold, [init, condition, step, result])
            }
            What::List { filter, item } => {
                let step = self.filtered(filter.as_ref(), |this| {
                    let item = this.node(item)?;
                    this.appended(item)
                })?;
                self.looped(range, fold, Collect::List, step)
            }
            What::Map { filter, value } => {
                let step = self.filtered(filter.as_ref(), |this| {
                    let so_far = this.accumulator()?;
                    let key = this.add(Part::Name(fold.first.clone()))?;
                    let value = this.node(value)?;
                    this.call("cel.@mapInsert", vec![so_far, key, value])
                })?;
                self.looped(range, fold, Collect::Map, step)
            }
            What::MapEntry { filter, entry } => {
                let step = self.filtered(filter.as_ref(), |this| {
                    let so_far = this.accumulator()?;
                    let entry = this.node(entry)?;
                    this.call("cel.@mapInsert", vec![so_far, entry])
                })?;
                self.looped(range, fold, Collect::Map, step)
            }
            What::SortBy(_) => Err("sortBy is no loop of its own".to_owned()),
        }
    }

    fn looped(&mut self, range: Id, fold: &Fold, collect: Collect, step: Id) -> Expanded {
        let init = self.add(match collect {
            Collect::List => Part::List(Vec::new()),
            Collect::Map => Part::Map(Vec::new()),
        })?;
        let condition = self.literal(Value::Bool(true))?;
        let result = self.accumulator()?;
        self.looping(range, fold, [init, condition, step, result])
    }

    fn looping(&mut self, range: Id, fold: &Fold, [init, condition, step, result]: [Id; 4]) -> Expanded {
        let (first, second) = (fold.first.clone(), fold.second.clone());
        self.add(Part::Loop(Loop {
            range,
            first,
            second,
            accumulator: ACCUMULATOR.into(),
            init,
            condition,
            step,
            result,
        }))
    }
}

/// The name under which the table of overloads has an operator.
fn name_of(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "_+_",
        Operator::Subtract => "_-_",
        Operator::Multiply => "_*_",
        Operator::Divide => "_/_",
        Operator::Remainder => "_%_",
        Operator::Equal => "_==_",
        Operator::NotEqual => "_!=_",
        Operator::Less => "_<_",
        Operator::LessEqual => "_<=_",
        Operator::Greater => "_>_",
        Operator::GreaterEqual => "_>=_",
        Operator::In => "@in",
    }
}
