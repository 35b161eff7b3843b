//! The functions that a rule may call: names, arguments, results, cost. A table.
//!
//! `expr` refuses what is not here, `check` uses the types, `eval` the way of calling. Most are carried out by `kube-cel`;
//! those in `HERE` are ours, because they are frequent (`size`), copy nothing
//! (`orValue`) or need Go's regular expressions (`matches`).

use super::types::{Known, Type};
use crate::walk::pattern::Pattern;
use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr},
};
use std::sync::Arc;

/// One function, found by name and number of arguments.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// `kube-cel`'s call with arguments `@0`, `@1`, ...; absent for functions that are carried out here.
    pub(super) call: Option<Arc<IdedExpr>>,
    /// The regular expression, where the rule spells it out.
    pub(super) pattern: Option<Pattern>,
    overloads: Vec<&'static Row>,
}

/// How a row is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Global,
    Method,
}
use Form::{Global as G, Method as M};

/// Type of an argument, or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum T {
    Any,
    Bool,
    Int,
    Double,
    Number,
    Text,
    Bytes,
    Duration,
    Time,
    List,
    Texts,
    Ints,
    Map,
    Optional,
    Meta,
    Named(&'static str),
    /// Result: the type of the first argument.
    Same,
    /// Result: an item of the first argument.
    Item,
    /// Result: perhaps an item of the first argument.
    OptionalItem,
}
use T::{Any, Bool, Double, Duration, Int, Ints, Item, List, Named, Number, OptionalItem, Same, Text, Texts, Time};

type Row = (&'static str, Form, &'static [T], T);

const URL: T = Named("kubernetes.URL");
const IP: T = Named("net.IP");
const CIDR: T = Named("net.CIDR");
const QUANTITY: T = Named("kubernetes.Quantity");
const SEMVER: T = Named("kubernetes.Semver");
const FORMAT: T = Named("kubernetes.Format");

/// Carried out by `eval`, not by `kube-cel`.
const HERE: [&str; 16] = [
    "size",
    "matches",
    "find",
    "findAll",
    "type",
    "dyn",
    "bool",
    "startsWith",
    "endsWith",
    "contains",
    "optional.none",
    "optional.of",
    "hasValue",
    "value",
    "or",
    "orValue",
];

const TABLE: &[Row] = &[
    // Conversions.
    ("type", G, &[Any], T::Meta),
    ("dyn", G, &[Any], Any),
    ("bool", G, &[Any], Bool),
    ("int", G, &[Any], Int),
    ("uint", G, &[Any], Number),
    ("double", G, &[Any], Double),
    ("string", G, &[Any], Text),
    ("bytes", G, &[Text], T::Bytes),
    ("duration", G, &[Text], Duration),
    ("timestamp", G, &[Text], Time),
    // Sizes and text.
    ("size", G, &[Any], Int),
    ("size", M, &[Any], Int),
    ("startsWith", M, &[Text, Text], Bool),
    ("endsWith", M, &[Text, Text], Bool),
    ("contains", M, &[Text, Text], Bool),
    ("matches", M, &[Text, Text], Bool),
    ("matches", G, &[Text, Text], Bool),
    ("find", M, &[Text, Text], Text),
    ("findAll", M, &[Text, Text], Texts),
    ("findAll", M, &[Text, Text, Int], Texts),
    ("charAt", M, &[Text, Int], Text),
    ("lowerAscii", M, &[Text], Text),
    ("upperAscii", M, &[Text], Text),
    ("replace", M, &[Text, Text, Text], Text),
    ("replace", M, &[Text, Text, Text, Int], Text),
    ("split", M, &[Text, Text], Texts),
    ("split", M, &[Text, Text, Int], Texts),
    ("substring", M, &[Text, Int], Text),
    ("substring", M, &[Text, Int, Int], Text),
    ("trim", M, &[Text], Text),
    ("join", M, &[List], Text),
    ("join", M, &[List, Text], Text),
    ("format", M, &[Text, List], Text),
    ("strings.quote", G, &[Text], Text),
    ("reverse", M, &[Text], Text),
    ("reverse", M, &[List], Same),
    ("indexOf", M, &[Text, Text], Int),
    ("indexOf", M, &[Text, Text, Int], Int),
    ("indexOf", M, &[List, Any], Int),
    ("lastIndexOf", M, &[Text, Text], Int),
    ("lastIndexOf", M, &[Text, Text, Int], Int),
    ("lastIndexOf", M, &[List, Any], Int),
    // Lists and sets.
    ("isSorted", M, &[List], Bool),
    ("sum", M, &[List], Item),
    ("min", M, &[List], Item),
    ("max", M, &[List], Item),
    ("first", M, &[List], OptionalItem),
    ("last", M, &[List], OptionalItem),
    ("slice", M, &[List, Int, Int], Same),
    ("sort", M, &[List], Same),
    ("distinct", M, &[List], Same),
    ("flatten", M, &[List], List),
    ("flatten", M, &[List, Int], List),
    ("lists.range", G, &[Int], Ints),
    ("sets.contains", G, &[List, List], Bool),
    ("sets.equivalent", G, &[List, List], Bool),
    ("sets.intersects", G, &[List, List], Bool),
    // Numbers.
    ("math.ceil", G, &[Double], Double),
    ("math.floor", G, &[Double], Double),
    ("math.round", G, &[Double], Double),
    ("math.trunc", G, &[Double], Double),
    ("math.abs", G, &[Number], Same),
    ("math.sign", G, &[Number], Same),
    ("math.isInf", G, &[Double], Bool),
    ("math.isNaN", G, &[Double], Bool),
    ("math.isFinite", G, &[Double], Bool),
    ("math.bitAnd", G, &[Number, Number], Same),
    ("math.bitOr", G, &[Number, Number], Same),
    ("math.bitXor", G, &[Number, Number], Same),
    ("math.bitNot", G, &[Number], Same),
    ("math.bitShiftLeft", G, &[Number, Int], Same),
    ("math.bitShiftRight", G, &[Number, Int], Same),
    ("math.sqrt", G, &[Number], Double),
    ("math.greatest", G, &[Any], Any),
    ("math.greatest", G, &[Number, Number], Any),
    ("math.greatest", G, &[Number, Number, Number], Any),
    ("math.greatest", G, &[Number, Number, Number, Number], Any),
    ("math.least", G, &[Any], Any),
    ("math.least", G, &[Number, Number], Any),
    ("math.least", G, &[Number, Number, Number], Any),
    ("math.least", G, &[Number, Number, Number, Number], Any),
    // Time.
    ("getFullYear", M, &[Time], Int),
    ("getMonth", M, &[Time], Int),
    ("getDayOfYear", M, &[Time], Int),
    ("getDayOfMonth", M, &[Time], Int),
    ("getDate", M, &[Time], Int),
    ("getDayOfWeek", M, &[Time], Int),
    ("getHours", M, &[Any], Int),
    ("getMinutes", M, &[Any], Int),
    ("getSeconds", M, &[Any], Int),
    ("getMilliseconds", M, &[Any], Int),
    // Optionals.
    ("optional.none", G, &[], T::Optional),
    ("optional.of", G, &[Any], T::Optional),
    ("optional.ofNonZeroValue", G, &[Any], T::Optional),
    ("hasValue", M, &[T::Optional], Bool),
    ("value", M, &[T::Optional], Item),
    ("or", M, &[T::Optional, T::Optional], Same),
    ("orValue", M, &[T::Optional, Any], Item),
    // Encodings.
    ("base64.encode", G, &[T::Bytes], Text),
    ("base64.decode", G, &[Text], T::Bytes),
    ("jsonpatch.escapeKey", G, &[Text], Text),
    // URLs.
    ("url", G, &[Text], URL),
    ("isURL", G, &[Text], Bool),
    ("getScheme", M, &[URL], Text),
    ("getHost", M, &[URL], Text),
    ("getHostname", M, &[URL], Text),
    ("getPort", M, &[URL], Text),
    ("getEscapedPath", M, &[URL], Text),
    ("getQuery", M, &[URL], T::Map),
    // Addresses.
    ("ip", G, &[Text], IP),
    ("ip", M, &[CIDR], IP),
    ("isIP", G, &[Text], Bool),
    ("isIPv4", G, &[Text], Bool),
    ("isIPv6", G, &[Text], Bool),
    ("ip.isCanonical", G, &[Text], Bool),
    ("family", M, &[IP], Int),
    ("isLoopback", M, &[IP], Bool),
    ("isUnspecified", M, &[IP], Bool),
    ("isLinkLocalMulticast", M, &[IP], Bool),
    ("isLinkLocalUnicast", M, &[IP], Bool),
    ("isGlobalUnicast", M, &[IP], Bool),
    ("cidr", G, &[Text], CIDR),
    ("isCIDR", G, &[Text], Bool),
    ("isCIDRv4", G, &[Text], Bool),
    ("isCIDRv6", G, &[Text], Bool),
    ("containsIP", M, &[CIDR, Any], Bool),
    ("containsCIDR", M, &[CIDR, Any], Bool),
    ("prefixLength", M, &[CIDR], Int),
    ("masked", M, &[CIDR], CIDR),
    // Quantities and versions.
    ("quantity", G, &[Text], QUANTITY),
    ("isQuantity", G, &[Text], Bool),
    ("isInteger", M, &[QUANTITY], Bool),
    ("asInteger", M, &[QUANTITY], Int),
    ("asApproximateFloat", M, &[QUANTITY], Double),
    ("sign", M, &[QUANTITY], Int),
    ("add", M, &[QUANTITY, Any], QUANTITY),
    ("sub", M, &[QUANTITY, Any], QUANTITY),
    ("isGreaterThan", M, &[Any, Any], Bool),
    ("isLessThan", M, &[Any, Any], Bool),
    ("compareTo", M, &[Any, Any], Int),
    ("semver", G, &[Text], SEMVER),
    ("semver", G, &[Text, Bool], SEMVER),
    ("isSemver", G, &[Text], Bool),
    ("isSemver", G, &[Text, Bool], Bool),
    ("major", M, &[SEMVER], Int),
    ("minor", M, &[SEMVER], Int),
    ("patch", M, &[SEMVER], Int),
    // Formats.
    ("format.named", G, &[Text], T::Optional),
    ("format.dns1123Label", G, &[], FORMAT),
    ("format.dns1123Subdomain", G, &[], FORMAT),
    ("format.dns1035Label", G, &[], FORMAT),
    ("format.dns1035LabelPrefix", G, &[], FORMAT),
    ("format.dns1123LabelPrefix", G, &[], FORMAT),
    ("format.dns1123SubdomainPrefix", G, &[], FORMAT),
    ("format.qualifiedName", G, &[], FORMAT),
    ("format.labelValue", G, &[], FORMAT),
    ("format.uri", G, &[], FORMAT),
    ("format.uuid", G, &[], FORMAT),
    ("format.byte", G, &[], FORMAT),
    ("format.date", G, &[], FORMAT),
    ("format.datetime", G, &[], FORMAT),
    ("validate", M, &[FORMAT, Text], T::Optional),
];

/// Whether there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    TABLE.iter().any(|row| row.0 == name)
}

impl Function {
    /// The function of this name and form that takes this many arguments, the receiver included.
    pub(super) fn find(name: &str, method: bool, count: usize) -> Result<Self, String> {
        let form = if method { M } else { G };
        let named: Vec<&'static Row> = TABLE.iter().filter(|row| row.0 == name).collect();
        let Some(first) = named.first() else { return Err(format!("undeclared reference to '{name}'")) };
        let name = first.0;
        let overloads: Vec<_> = named.into_iter().filter(|row| row.1 == form && row.2.len() == count).collect();
        if overloads.is_empty() {
            return Err(format!("no overload of '{name}' is called like this, with {count} arguments"));
        }
        let call = (!HERE.contains(&name)).then(|| Arc::new(call(name, method, count)));
        Ok(Self { name, call, pattern: None, overloads })
    }

    /// The type of the result for arguments of these types.
    pub(super) fn result(&self, args: &[Known]) -> Result<Known, String> {
        let fits = |row: &&&Row| row.2.iter().zip(args).all(|(wanted, given)| takes(*wanted, given));
        let Some(row) = self.overloads.iter().find(fits) else {
            let given: Vec<String> = args.iter().map(|arg| arg.of.to_string()).collect();
            return Err(format!("no overload of '{}' takes ({})", self.name, given.join(", ")));
        };
        // Nothing that these functions make is longer than what they were given, together.
        let most = args.iter().fold(0u64, |sum, arg| sum.saturating_add(arg.most));
        let first = args.first().map_or(&Type::Dyn, |arg| &arg.of);
        Ok(Known { of: made(row.3, first), most })
    }
}

fn takes(wanted: T, given: &Known) -> bool {
    match (&given.of, wanted) {
        (Type::Dyn, _) | (_, Any) => true,
        (Type::Bool, Bool)
        | (Type::Int, Int | Number)
        | (Type::Uint, Number)
        | (Type::Double, Double | Number)
        | (Type::Text, Text)
        | (Type::Bytes, T::Bytes)
        | (Type::Duration, Duration)
        | (Type::Time, Time)
        | (Type::List(_), List)
        | (Type::Map(_) | Type::Object(_), T::Map)
        | (Type::Optional(_), T::Optional) => true,
        // A function that takes doubles takes whole numbers too in the libraries that we use.
        (Type::Int | Type::Uint, Double) => true,
        (Type::Named(given), Named(wanted)) => *given == wanted,
        _ => false,
    }
}

fn made(result: T, first: &Type) -> Type {
    let item = || match first {
        Type::List(item) | Type::Optional(item) => item.of.clone(),
        _ => Type::Dyn,
    };
    let list = |of: Type| Type::List(Arc::new(Known::unsized_of(of)));
    match result {
        Any | Number => Type::Dyn,
        Bool => Type::Bool,
        Int => Type::Int,
        Double => Type::Double,
        Text => Type::Text,
        T::Bytes => Type::Bytes,
        Duration => Type::Duration,
        Time => Type::Time,
        List => list(Type::Dyn),
        Texts => list(Type::Text),
        Ints => list(Type::Int),
        T::Map => Type::Map(Arc::new(Known::unsized_of(Type::Dyn))),
        T::Optional => Type::Optional(Arc::new(Known::unsized_of(Type::Dyn))),
        T::Meta => Type::Meta,
        Named(name) => Type::Named(name),
        Same => first.clone(),
        Item => item(),
        OptionalItem => Type::Optional(Arc::new(Known::unsized_of(item()))),
    }
}

/// Names of the variables that hold the arguments of a call.
pub(super) const ARGUMENTS: [&str; 4] = ["@0", "@1", "@2", "@3"];

fn call(name: &str, method: bool, count: usize) -> IdedExpr {
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
