//! Finds the type of every part of an expression, and which overloads of each function can be meant.
//!
//! Called by `check`. Types that an expression leaves open (`[]`, `optional.none()`) are parameters that are settled on the
//! way; what stays open is `dyn`. An argument of type `dyn` may mean several overloads; all are kept, because the dearest
//! decides the cost.

use super::{
    authorizer::{AUTHORIZER, RESOURCE_CHECK},
    declared::Declared,
    expand::{Id, Loop, Part, Tree},
    message,
    overloads::{self, Overload},
    types::Type,
};
use kube_cel::cel::Value;
use std::sync::Arc;

/// What was found, by part.
pub(super) struct Inferred {
    pub(super) types: Vec<Type>,
    pub(super) overloads: Vec<Vec<&'static Overload>>,
    pub(super) mistakes: Vec<String>,
}

/// Names of types, as `type(x) == string` uses them.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::Text,
        "uint" => Type::Uint,
        "type" => Type::Meta(Arc::new(Type::Dyn)),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Time,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        "kubernetes.URL" => Type::Struct("kubernetes.URL"),
        "kubernetes.Quantity" => Type::Struct("kubernetes.Quantity"),
        "kubernetes.Semver" => Type::Struct("kubernetes.Semver"),
        "kubernetes.NamedFormat" => Type::Struct("kubernetes.NamedFormat"),
        "optional_type" => Type::optional(Type::Dyn),
        _ => return None,
    })
}

/// `patches` says whether the expression may put patches together.
pub(super) fn infer(tree: &Tree, variables: &[(&str, Type)], patches: bool) -> Inferred {
    let scope = variables.iter().map(|(name, of)| (Arc::from(*name), of.clone())).collect();
    let count = tree.parts.len();
    let mut inference = Inference {
        tree,
        scope,
        patches,
        bound: Bindings::default(),
        found: Inferred { types: vec![Type::Dyn; count], overloads: vec![Vec::new(); count], mistakes: Vec::new() },
    };
    inference.part(tree.root);
    let Inference { bound, mut found, .. } = inference;
    for of in &mut found.types {
        *of = bound.settled(of, true);
    }
    found
}

struct Inference<'t> {
    tree: &'t Tree,
    scope: Vec<(Arc<str>, Type)>,
    patches: bool,
    bound: Bindings,
    found: Inferred,
}

impl Inference<'_> {
    fn refuse(&mut self, mistake: String) {
        if !self.found.mistakes.contains(&mistake) {
            self.found.mistakes.push(mistake);
        }
    }

    fn of(&self, id: Id) -> &Type {
        &self.found.types[id]
    }

    fn part(&mut self, id: Id) {
        let of = match &self.tree.parts[id] {
            Part::Literal(value) => literal(value),
            Part::Name(name) => self.name(name),
            Part::Select { of, field, test } => {
                let found = self.select(*of, field, false);
                if *test { Type::Bool } else { self.bound.settled(&found, false) }
            }
            Part::Call { name: "_?._", args, .. } => {
                let (of, field) = (args[0], args[1]);
                let Part::Literal(Value::String(field)) = &self.tree.parts[field] else { return };
                let found = self.select(of, field, true);
                self.found.overloads[id] = overloads::named("_?._").into_iter().flatten().collect();
                self.bound.settled(&found, false)
            }
            Part::Call { name, target, args } => {
                args.iter().chain(target).for_each(|arg| self.part(*arg));
                self.resolve(id, name, *target, args)
            }
            Part::List(items) => {
                let mut joined = None;
                for (item, optional) in items {
                    self.part(*item);
                    let of = self.unwrapped(*item, *optional);
                    joined = Some(self.join(joined, of));
                }
                Type::list(joined.unwrap_or_else(|| self.bound.fresh()))
            }
            Part::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for (key, value, optional) in entries {
                    self.part(*key);
                    let key = self.of(*key).clone();
                    keys = Some(self.join(keys, key));
                    self.part(*value);
                    let of = self.unwrapped(*value, *optional);
                    values = Some(self.join(values, of));
                }
                let keys = keys.unwrap_or_else(|| self.bound.fresh());
                Type::map(keys, values.unwrap_or_else(|| self.bound.fresh()))
            }
            Part::Message(name, fields) => self.message(name, fields),
            Part::Loop(of) => self.looped(of),
        };
        self.found.types[id] = of;
    }

    fn name(&mut self, name: &str) -> Type {
        if let Some((_, of)) = self.scope.iter().rev().find(|(bound, _)| &**bound == name) {
            return of.clone();
        }
        match type_named(name) {
            Some(of) => Type::Meta(Arc::new(of)),
            None => {
                self.refuse(format!("undeclared reference to '{name}' (in container '')"));
                Type::Error
            }
        }
    }

    fn select(&mut self, operand: Id, field: &str, optional: bool) -> Type {
        self.part(operand);
        let of = self.bound.settled(self.of(operand), false);
        let (of, optional) = match of {
            Type::Optional(inner) => ((*inner).clone(), true),
            of => (of, optional),
        };
        let found = match &of {
            Type::Map(of) => of.1.clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(field) => field.of.clone(),
                None => {
                    self.refuse(format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Message(name) => match message::field_type(name, field) {
                Some(of) => of,
                None => {
                    self.refuse(format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Struct(AUTHORIZER) if field == "requestResource" => Type::Struct(RESOURCE_CHECK),
            Type::Struct(_) => {
                self.refuse(format!("undefined field '{field}'"));
                Type::Error
            }
            Type::Param(_) => {
                self.bound.assignable(&Type::Dyn, &of);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.refuse(format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if optional { Type::optional(found) } else { found }
    }

    fn resolve(&mut self, id: Id, name: &str, target: Option<Id>, args: &[Id]) -> Type {
        if name == message::ESCAPE_KEY && !self.patches {
            self.refuse(format!("undeclared reference to '{name}' (in container '')"));
            return Type::Error;
        }
        let given: Vec<Type> = target.iter().chain(args).map(|arg| self.of(*arg).clone()).collect();
        if matches!(name, "_&&_" | "_||_") {
            self.found.overloads[id] = overloads::named(name).into_iter().flatten().collect();
            for of in &given {
                if !self.bound.assignable(of, &Type::Bool) {
                    let of = self.bound.settled(of, true);
                    self.refuse(format!("expected type 'bool' but found '{of}'"));
                }
            }
            return Type::Bool;
        }
        let mut result: Option<Type> = None;
        for overload in overloads::named(name).into_iter().flatten() {
            if overload.method != target.is_some() || overload.takes.len() != given.len() {
                continue;
            }
            let base = self.bound.reserve(overload.params);
            let takes: Vec<Type> = overload.takes.iter().map(|of| renamed(of, base)).collect();
            if !self.bound.all_assignable(&given, &takes) {
                continue;
            }
            self.found.overloads[id].push(overload);
            let made = self.bound.settled(&renamed(&overload.makes, base), false);
            result = Some(match result {
                None => made,
                Some(Type::Dyn) => Type::Dyn,
                Some(first) if first == made => first,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            let mut shown = given.iter().map(|of| self.bound.settled(of, true).to_string());
            let receiver = if target.is_some() { shown.next().map(|of| of + ".") } else { None }.unwrap_or_default();
            let shown: Vec<String> = shown.collect();
            let mistake =
                format!("found no matching overload for '{name}' applied to '{receiver}({})'", shown.join(", "));
            self.refuse(mistake);
            Type::Error
        })
    }

    fn message(&mut self, name: &Arc<str>, fields: &[(Arc<str>, Id, bool)]) -> Type {
        for (_, of, _) in fields {
            self.part(*of);
        }
        if !self.patches || !message::is_known(name) {
            self.refuse(format!("undeclared reference to '{name}' (in container '')"));
            return Type::Error;
        }
        for (field, of, optional) in fields {
            let of = self.unwrapped(*of, *optional);
            match message::field_type(name, field) {
                None => self.refuse(format!("undefined field '{field}'")),
                Some(wanted) if !self.bound.assignable(&wanted, &of) => {
                    let of = self.bound.settled(&of, true);
                    self.refuse(format!("expected type of field '{field}' is '{wanted}' but provided type is '{of}'"));
                }
                Some(_) => {}
            }
        }
        Type::Message(name.clone())
    }

    /// The type of an item that is only there if it has a value.
    fn unwrapped(&mut self, id: Id, optional: bool) -> Type {
        let of = self.of(id).clone();
        match of {
            Type::Optional(inner) if optional => (*inner).clone(),
            of if optional && of != Type::Dyn => {
                self.refuse(format!("expected type 'optional_type({of})' but found '{of}'"));
                of
            }
            of => of,
        }
    }

    fn join(&mut self, before: Option<Type>, of: Type) -> Type {
        match before {
            None => of,
            Some(before) if self.bound.assignable(&before, &of) => more_general(&before, &of).clone(),
            Some(_) => Type::Dyn,
        }
    }

    fn looped(&mut self, of: &Loop) -> Type {
        self.part(of.range);
        self.part(of.init);
        let range = self.bound.settled(self.of(of.range), false);
        let collected = self.of(of.init).clone();
        let outer = self.scope.len();
        self.scope.push((of.accumulator.clone(), collected.clone()));
        let (first, second) = match &range {
            Type::List(item) if of.second.is_some() => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bound.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let mistake = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.refuse(mistake);
                (Type::Error, Type::Error)
            }
        };
        self.scope.push((of.first.clone(), first));
        self.scope.extend(of.second.clone().map(|name| (name, second)));
        self.part(of.condition);
        self.expect(of.condition, &Type::Bool);
        self.part(of.step);
        self.expect(of.step, &collected);
        self.scope.truncate(outer + 1);
        self.part(of.result);
        self.scope.truncate(outer);
        self.bound.settled(self.of(of.result), false)
    }

    fn expect(&mut self, id: Id, wanted: &Type) {
        let of = self.of(id).clone();
        if !self.bound.assignable(wanted, &of) {
            let (wanted, of) = (self.bound.settled(wanted, true), self.bound.settled(&of, true));
            self.refuse(format!("expected type '{wanted}' but found '{of}'"));
        }
    }
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::UInt(_) => Type::Uint,
        Value::Float(_) => Type::Double,
        Value::String(_) => Type::Text,
        Value::Bytes(_) => Type::Bytes,
        Value::Null => Type::Null,
        _ => Type::Dyn,
    }
}

/// A type of the table with its open types made those of one call.
fn renamed(of: &Type, base: usize) -> Type {
    match of {
        Type::Param(n) => Type::Param(base + n),
        of => of.with_parts(|part| renamed(part, base)),
    }
}

/// What open types were found to be. Changes of a failed attempt are taken back.
#[derive(Default)]
struct Bindings {
    of: Vec<Option<Type>>,
    changed: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    fn reserve(&mut self, count: usize) -> usize {
        let base = self.of.len();
        self.of.resize(base + count, None);
        base
    }

    fn fresh(&mut self) -> Type {
        Type::Param(self.reserve(1))
    }

    fn bind(&mut self, param: usize, to: Type) {
        let before = self.of[param].replace(to);
        self.changed.push((param, before));
    }

    /// The type with all that is known of open types put in; what is still open becomes `dyn` if asked for.
    fn settled(&self, of: &Type, open_is_dyn: bool) -> Type {
        match of {
            Type::Param(n) => match &self.of[*n] {
                Some(found) => self.settled(found, open_is_dyn),
                None if open_is_dyn => Type::Dyn,
                None => of.clone(),
            },
            of => of.with_parts(|part| self.settled(part, open_is_dyn)),
        }
    }

    fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(to), std::slice::from_ref(from))
    }

    fn all_assignable(&mut self, to: &[Type], from: &[Type]) -> bool {
        self.changed.clear();
        let fits = to.len() == from.len() && to.iter().zip(from).all(|(to, from)| self.fits(to, from));
        if !fits {
            while let Some((param, before)) = self.changed.pop() {
                self.of[param] = before;
            }
        }
        fits
    }

    fn fits(&mut self, to: &Type, from: &Type) -> bool {
        if let Type::Param(param) = from {
            let known = self.of[*param].is_some() || to == from;
            if self.substitutes(to, *param) {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Param(param) = to {
            return self.substitutes(from, *param);
        }
        match (to, from) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) | (Type::Null, Type::Null) => true,
            (Type::Null, other) | (other, Type::Null) => {
                matches!(
                    other,
                    Type::Optional(_)
                        | Type::Opaque(_)
                        | Type::Object(_)
                        | Type::Message(_)
                        | Type::Struct(_)
                        | Type::Duration
                        | Type::Time
                )
            }
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(to), Type::List(from)) | (Type::Optional(to), Type::Optional(from)) => self.fits(to, from),
            (Type::Map(to), Type::Map(from)) => self.fits(&to.0, &from.0) && self.fits(&to.1, &from.1),
            (to, from) => to == from,
        }
    }

    /// Whether the open type may be `of`, which is then noted.
    fn substitutes(&mut self, of: &Type, param: usize) -> bool {
        if *of == Type::Param(param) {
            return true;
        }
        let Some(known) = self.of[param].clone() else {
            let free = !self.mentions(of, param);
            if free {
                self.bind(param, of.clone());
            }
            return free;
        };
        if *of == known {
            return true;
        }
        if !self.fits(of, &known) {
            return false;
        }
        let general = more_general(of, &known).clone();
        if !self.mentions(&general, param) {
            self.bind(param, general);
        }
        true
    }

    fn mentions(&self, within: &Type, param: usize) -> bool {
        match within {
            Type::Param(n) if *n == param => true,
            Type::Param(n) => self.of[*n].as_ref().is_some_and(|found| self.mentions(found, param)),
            within => within.parts().into_iter().any(|part| self.mentions(part, param)),
        }
    }
}

fn more_general<'t>(one: &'t Type, other: &'t Type) -> &'t Type {
    if at_least_as_general(one, other) { one } else { other }
}

fn at_least_as_general(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
            at_least_as_general(one, other)
        }
        (Type::Map(one), Type::Map(other)) => {
            at_least_as_general(&one.0, &other.0) && at_least_as_general(&one.1, &other.1)
        }
        (Type::Meta(_), Type::Meta(_)) => true,
        (one, other) => one == other,
    }
}

/// The variables of a rule: the value, and what it replaces.
pub(super) fn variables(this: &Declared, optional_old_self: bool) -> [(&'static str, Type); 2] {
    let old = if optional_old_self { Type::optional(this.of.clone()) } else { this.of.clone() };
    [("self", this.of.clone()), ("oldSelf", old)]
}
