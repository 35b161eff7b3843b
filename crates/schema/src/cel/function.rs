//! The functions that a rule may call, as they are carried out.
//!
//! Which there are and what they take is in `overloads`. Most are carried out by `kube-cel`; those in `HERE` are ours,
//! because they are frequent (`size`), copy nothing (`orValue`) or need Go's regular expressions (`matches`).

use super::{authorizer, message, overloads};
use api::go_regex::Pattern;
use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr},
};
use std::sync::Arc;

/// One function, found by name and number of arguments.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// The first argument is the receiver.
    pub(super) method: bool,
    /// `kube-cel`'s call with arguments `@0`, `@1`, ...; absent for functions that are carried out here.
    pub(super) call: Option<Arc<IdedExpr>>,
    /// The regular expression, where the rule spells it out.
    pub(super) pattern: Option<Pattern>,
}

/// Carried out by `eval`, not by `kube-cel`.
const HERE: [&str; 26] = [
    "size",
    "matches",
    "find",
    "findAll",
    "type",
    "dyn",
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "string",
    "timestamp",
    "uint",
    "startsWith",
    "endsWith",
    "contains",
    "optional.none",
    "optional.of",
    "optional.unwrap",
    "unwrapOpt",
    "hasValue",
    "value",
    "or",
    "orValue",
    message::ESCAPE_KEY,
];

/// Whether there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    overloads::named(name).is_some()
}

impl Function {
    /// The function of this name. Whether it takes these arguments is found out with their types.
    pub(super) fn find(name: &str, method: bool, count: usize) -> Result<Self, String> {
        let undeclared = || format!("undeclared reference to '{name}' (in container '')");
        let name = overloads::interned(name).ok_or_else(undeclared)?;
        let here = HERE.contains(&name) || authorizer::FUNCTIONS.contains(&name);
        let call = (!here).then(|| Arc::new(call(name, method, count)));
        Ok(Self { name, method, call, pattern: None })
    }
}

/// Names of the variables that hold the arguments of a call.
pub(super) const ARGUMENTS: [&str; 4] = ["@0", "@1", "@2", "@3"];

/// `kube-cel`'s call of a function.
pub(super) fn call(name: &str, method: bool, count: usize) -> IdedExpr {
    let ident = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
    let mut args: Vec<IdedExpr> = ARGUMENTS.iter().take(count).map(|name| ident(name)).collect();
    // A library function has its library as receiver: `math.abs(x)`.
    let (target, func_name) = match name.split_once('.') {
        Some((library, function)) => (Some(ident(library)), function),
        None if method => (Some(args.remove(0)), name),
        None => (None, name),
    };
    let call = CallExpr { func_name: func_name.to_owned(), target: target.map(Box::new), args };
    IdedExpr { id: 0, expr: Expr::Call(call) }
}
