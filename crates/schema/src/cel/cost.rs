//! The worst cost of an expression, estimated before it runs, as upstream estimates it.
//!
//! Called by `check` once types are known. Goes through the expression once, in the order in which it is written out, and
//! remembers for each part how large its value can get: by what the expression says itself (`'abc'`, `[1, 2]`, a function's
//! result), by the place of the schema that it comes from (`path`), or by its type. What a call costs is in `charge`.

use super::{
    charge::{self, Argument},
    declared::{Declared, Step},
    expand::{ACCUMULATOR, Id, Loop, Part, Tree},
    infer::Inferred,
    path::Path,
    size::Range,
    types::Type,
};
use kube_cel::cel::Value;
use std::{collections::HashMap, sync::Arc};

const CREATE_LIST: Range = Range::exactly(10);
const CREATE_MAP: Range = Range::exactly(30);
const CREATE_MESSAGE: Range = Range::exactly(40);

/// The cost of an expression on values that `this` declares.
pub(super) fn estimate(tree: &Tree, inferred: &Inferred, this: &Declared) -> Range {
    let count = tree.parts.len();
    let mut estimate = Estimate {
        tree,
        inferred,
        this,
        paths: vec![Path::default(); count],
        sizes: vec![None; count],
        entries: vec![None; count],
        locals: HashMap::new(),
    };
    estimate.cost(tree.root)
}

/// How large keys and values of a list or map can get.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Entry {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entry {
    fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// A variable of a macro.
struct Local {
    path: Path,
    size: Option<Range>,
    entry: Option<Entry>,
}

pub(super) struct Estimate<'t> {
    tree: &'t Tree,
    inferred: &'t Inferred,
    this: &'t Declared,
    paths: Vec<Path>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entry>>,
    locals: HashMap<Arc<str>, Vec<Local>>,
}

impl Estimate<'_> {
    fn cost(&mut self, id: Id) -> Range {
        match &self.tree.parts[id] {
            Part::Literal(_) => Range::NOTHING,
            Part::Name(name) => {
                self.paths[id] = self.local(name).map_or_else(|| Path::of(name.clone()), |local| local.path.clone());
                Range::ONE
            }
            // Asking whether a field is there is free.
            Part::Select { of, test: true, .. } => self.cost(*of),
            Part::Select { of, field, test: false } => {
                let cost = self.cost(*of);
                let own = match self.inferred.types[*of] {
                    Type::Map(_) | Type::Object(_) | Type::Struct(_) => Range::ONE,
                    _ => Range::NOTHING,
                };
                self.paths[id] = self.path(*of).then(field.clone());
                cost.plus(own)
            }
            Part::Call { name: "dyn", args, .. } => {
                let cost = self.cost(args[0]);
                self.same_size(id, args[0]);
                cost.plus(Range::ONE)
            }
            Part::Call { name, target, args } => self.call(id, name, *target, args),
            Part::List(items) => {
                let mut costs = CREATE_LIST;
                let mut largest = None;
                for (item, _) in items {
                    costs = costs.plus(self.cost(*item));
                    self.widen(&mut largest, *item);
                }
                let value = largest.unwrap_or(Range::NOTHING);
                self.entries[id] = Some(Entry { is_list: true, key: Range::ONE, value });
                costs
            }
            Part::Map(entries) => {
                let mut costs = CREATE_MAP;
                let (mut keys, mut values) = (None, None);
                for (key, value, _) in entries {
                    costs = costs.plus(self.cost(*key)).plus(self.cost(*value));
                    self.widen(&mut keys, *key);
                    self.widen(&mut values, *value);
                }
                let (key, value) = (keys.unwrap_or(Range::NOTHING), values.unwrap_or(Range::NOTHING));
                self.entries[id] = Some(Entry { is_list: false, key, value });
                costs
            }
            // Rules of schemas make no messages; upstream's measure all the same.
            Part::Message(_, fields) => fields.iter().fold(CREATE_MESSAGE, |sum, (_, of, _)| sum.plus(self.cost(*of))),
            Part::Loop(of) if self.is_binding(of) => self.binding(id, of),
            Part::Loop(of) => self.looped(id, of),
        }
    }

    /// Makes a size cover one more part. Its size is looked up before the next part is costed: paths may change by that.
    fn widen(&mut self, size: &mut Option<Range>, id: Id) {
        let more = self.size_or_unknown(id);
        *size = Some(size.map_or(more, |size| size.or(more)));
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name).and_then(|locals| locals.last())
    }

    fn bind(&mut self, name: &Arc<str>, local: Local) {
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn unbind(&mut self, name: &Arc<str>) {
        self.locals.get_mut(name).map(Vec::pop);
    }

    fn path(&self, id: Id) -> Path {
        match &self.tree.parts[id] {
            Part::Name(name) => self.local(name).map_or_else(|| self.paths[id].clone(), |local| local.path.clone()),
            _ => self.paths[id].clone(),
        }
    }

    fn argument(&mut self, id: Id) -> Argument {
        let size = self.size(id);
        let path = self.path(id);
        let of_macro = path.steps().first().is_some_and(|first| &**first == ACCUMULATOR);
        let literal = match &self.tree.parts[id] {
            Part::Literal(Value::Int(n)) => Some(*n),
            _ => None,
        };
        let path = if of_macro { Path::default() } else { path };
        Argument { of: self.inferred.types[id].clone(), path, size, literal }
    }

    fn call(&mut self, id: Id, name: &'static str, target: Option<Id>, args: &[Id]) -> Range {
        let mut costs = Vec::with_capacity(args.len());
        let mut given = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(*arg));
            given.push(self.argument(*arg));
        }
        let target_cost = target.map_or(Range::NOTHING, |target| self.cost(target));
        let receiver = target.map(|target| self.argument(target));
        let mut own: Option<Range> = None;
        let mut made: Option<Range> = None;
        for overload in &self.inferred.overloads[id] {
            let charged = self.overload(id, name, overload.id, receiver.as_ref(), (args, &given, &costs));
            own = Some(own.map_or(charged.cost, |own| own.or(charged.cost)));
            made = match (made, charged.made) {
                (Some(made), Some(more)) => Some(made.or(more)),
                (made, more) => made.or(more),
            };
            let step = match overload.id {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let Some(step) = step {
                made = self.entry(args[0]).map(|entry| entry.value);
                self.paths[id] = self.path(args[0]).then(step.into());
            }
            made = made.or_else(|| self.size(id));
        }
        if made.is_some() {
            self.sizes[id] = made;
        }
        target_cost.plus(own.unwrap_or(Range::NOTHING))
    }

    fn overload(
        &mut self,
        id: Id,
        name: &'static str,
        overload: &'static str,
        receiver: Option<&Argument>,
        (args, given, costs): (&[Id], &[Argument], &[Range]),
    ) -> charge::Charge {
        let sum = costs.iter().fold(Range::NOTHING, |sum, cost| sum.plus(*cost));
        let at = |path: &Path| self.at(path);
        if let Some(charged) = charge::library(name, overload, receiver, given, &at) {
            return charged.and(sum);
        }
        match overload {
            "logical_or" | "logical_and" => {
                charge::Charge::of(Range { least: costs[0].least, most: costs[0].plus(costs[1]).most })
            }
            "conditional" => {
                let made = given[1].size_or_unknown().or(given[2].size_or_unknown());
                if let (Some(yes), Some(no)) = (self.entry(args[1]), self.entry(args[2])) {
                    self.entries[id] = Some(yes.or(no));
                }
                charge::Charge { cost: costs[0].plus(costs[1].or(costs[2])), made: Some(made) }
            }
            "add_list" | "add_string" | "add_bytes" => {
                if let (Some(left), Some(right)) = (self.entry(args[0]), self.entry(args[1])) {
                    self.entries[id] = Some(left.or(right));
                }
                charge::standard(overload, receiver, given).and(sum)
            }
            _ => charge::standard(overload, receiver, given).and(sum),
        }
    }

    /// `cel.bind` in upstream's terms: a loop without rounds, of which only the result matters.
    fn is_binding(&self, of: &Loop) -> bool {
        matches!(&self.tree.parts[of.range], Part::List(items) if items.is_empty())
            && matches!(&self.tree.parts[of.condition], Part::Literal(Value::Bool(false)))
    }

    fn binding(&mut self, id: Id, of: &Loop) -> Range {
        let cost = self.cost(of.range).plus(self.cost(of.init));
        self.accumulate(of);
        let cost = cost.plus(self.cost(of.result));
        self.unbind(&of.accumulator);
        self.same_size(id, of.result);
        cost
    }

    fn accumulate(&mut self, of: &Loop) {
        let (path, entry, size) = (self.path(of.init), self.entry(of.init), self.size(of.init));
        self.bind(&of.accumulator, Local { path, size, entry });
    }

    fn looped(&mut self, id: Id, of: &Loop) -> Range {
        let mut cost = self.cost(of.range).plus(self.cost(of.init));
        self.accumulate(of);
        let entry = self.entry(of.range);
        let is_list = entry.map_or(matches!(self.inferred.types[of.range], Type::List(_)), |entry| entry.is_list);
        let (key, value) = (entry.map(|entry| entry.key), entry.map(|entry| entry.value));
        let (items, keys) = if is_list { ("@items", "@indices") } else { ("@values", "@keys") };
        let rounds = match &of.second {
            Some(second) => vec![(&of.first, keys, key), (second, items, value)],
            None if is_list => vec![(&of.first, items, value)],
            None => vec![(&of.first, keys, key)],
        };
        for (name, step, size) in &rounds {
            let path = self.path(of.range).then((*step).into());
            self.bind(name, Local { path, size: *size, entry: None });
        }
        let condition = self.cost(of.condition);
        let each = self.cost(of.step).plus(condition);
        for (name, ..) in &rounds {
            self.unbind(name);
        }
        cost = cost.plus(self.cost(of.result));
        self.unbind(&of.accumulator);
        let count = self.size_or_unknown(of.range);
        match &self.tree.parts[of.init] {
            Part::Literal(_) => self.sizes[id] = self.size(of.init),
            Part::List(_) | Part::Map(_) => {
                self.sizes[id] = Some(count);
                if let Some(entry) = self.entry(of.step) {
                    self.entries[id] = Some(entry);
                }
            }
            _ => {}
        }
        cost.plus(count.times(each))
    }

    fn same_size(&mut self, id: Id, of: Id) {
        let (size, entry) = (self.size(of), self.entry(of));
        if size.is_some() {
            self.sizes[id] = size;
        }
        if entry.is_some() {
            self.entries[id] = entry;
        }
    }

    fn size_or_unknown(&mut self, id: Id) -> Range {
        self.size(id).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, id: Id) -> Option<Range> {
        if let Some(size) = self.sizes[id] {
            return Some(size);
        }
        match &self.tree.parts[id] {
            Part::Literal(Value::String(text)) => return Some(Range::exactly(text.chars().count() as u64)),
            Part::Literal(Value::Bytes(bytes)) => return Some(Range::exactly(bytes.len() as u64)),
            Part::Literal(_) => return Some(Range::ONE),
            Part::List(items) => return Some(Range::exactly(items.len() as u64)),
            Part::Map(entries) => return Some(Range::exactly(entries.len() as u64)),
            _ => {}
        }
        if let Some(size) = self.at(&self.path(id)) {
            self.sizes[id] = Some(size);
            return Some(size);
        }
        if self.inferred.types[id].is_scalar() {
            return Some(Range::ONE);
        }
        match &self.tree.parts[id] {
            Part::Name(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn entry(&self, id: Id) -> Option<Entry> {
        self.entries[id].or_else(|| match &self.tree.parts[id] {
            Part::Name(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        })
    }

    /// The size that the schema gives to a place. Whatever a path begins with stands for `self`, so that the path of a part
    /// of a computed value ends at `self` itself or below it.
    fn at(&self, path: &Path) -> Option<Range> {
        let steps = path.steps();
        let (_, steps) = steps.split_first()?;
        let mut at = self.this;
        for (i, step) in steps.iter().enumerate() {
            at = match at.step(step)? {
                Step::Value(next) => next,
                Step::Key => return (i + 1 == steps.len()).then_some(Range::NOTHING),
            };
        }
        Some(Range::up_to(at.most))
    }
}
