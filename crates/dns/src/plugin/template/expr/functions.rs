//! The functions that expressions may call: those about the question, and the useful ones of the language.

use super::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Bufsize,
    Class,
    ClientIp,
    Do,
    Float,
    Group,
    HasPrefix,
    HasSuffix,
    Id,
    Incidr,
    IndexOf,
    Int,
    Join,
    Len,
    Lower,
    Metadata,
    Name,
    Opcode,
    Port,
    Proto,
    Replace,
    Size,
    Split,
    String,
    Trim,
    TrimPrefix,
    TrimSuffix,
    Type,
    Upper,
}

/// What may stand for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Text,
    /// A number or a text.
    Scalar,
    /// A whole number or a text.
    Key,
    /// A text or a list.
    Sized,
    Texts,
    Anything,
}

impl Takes {
    fn fits(self, kind: &Kind) -> bool {
        match self {
            Self::Text => *kind == Kind::Text,
            Self::Scalar => matches!(kind, Kind::Int | Kind::Float | Kind::Text),
            Self::Key => matches!(kind, Kind::Int | Kind::Text),
            Self::Sized => matches!(kind, Kind::Text | Kind::List(_)),
            Self::Texts => *kind == Kind::List(Box::new(Kind::Text)),
            Self::Anything => true,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Scalar => "int, float or string",
            Self::Key => "int or string",
            Self::Sized => "string or list",
            Self::Texts => "list of string",
            Self::Anything => "any value",
        }
    }
}

type Row = (&'static str, Function, &'static [Takes], Kind);

const TABLE: &[Row] = &[
    ("bufsize", Function::Bufsize, &[], Kind::Int),
    ("class", Function::Class, &[], Kind::Text),
    ("client_ip", Function::ClientIp, &[], Kind::Text),
    ("do", Function::Do, &[], Kind::Bool),
    ("float", Function::Float, &[Takes::Scalar], Kind::Float),
    ("group", Function::Group, &[Takes::Key], Kind::Text),
    ("hasPrefix", Function::HasPrefix, &[Takes::Text, Takes::Text], Kind::Bool),
    ("hasSuffix", Function::HasSuffix, &[Takes::Text, Takes::Text], Kind::Bool),
    ("id", Function::Id, &[], Kind::Int),
    ("incidr", Function::Incidr, &[Takes::Text, Takes::Text], Kind::Bool),
    ("indexOf", Function::IndexOf, &[Takes::Text, Takes::Text], Kind::Int),
    ("int", Function::Int, &[Takes::Scalar], Kind::Int),
    ("join", Function::Join, &[Takes::Texts, Takes::Text], Kind::Text),
    ("len", Function::Len, &[Takes::Sized], Kind::Int),
    ("lower", Function::Lower, &[Takes::Text], Kind::Text),
    ("metadata", Function::Metadata, &[Takes::Text], Kind::Text),
    ("name", Function::Name, &[], Kind::Text),
    ("opcode", Function::Opcode, &[], Kind::Int),
    ("port", Function::Port, &[], Kind::Text),
    ("proto", Function::Proto, &[], Kind::Text),
    ("replace", Function::Replace, &[Takes::Text, Takes::Text, Takes::Text], Kind::Text),
    ("size", Function::Size, &[], Kind::Int),
    ("string", Function::String, &[Takes::Anything], Kind::Text),
    ("trim", Function::Trim, &[Takes::Text], Kind::Text),
    ("trimPrefix", Function::TrimPrefix, &[Takes::Text, Takes::Text], Kind::Text),
    ("trimSuffix", Function::TrimSuffix, &[Takes::Text, Takes::Text], Kind::Text),
    ("type", Function::Type, &[], Kind::Text),
    ("upper", Function::Upper, &[Takes::Text], Kind::Text),
];

/// Names that the language or the server has for functions that are not built: no variable can have them either.
const OTHERS: &[&str] = &[
    "abs",
    "all",
    "any",
    "bitand",
    "bitnand",
    "bitnot",
    "bitor",
    "bitshl",
    "bitshr",
    "bitushr",
    "bitxor",
    "ceil",
    "concat",
    "count",
    "date",
    "duration",
    "filter",
    "find",
    "findIndex",
    "findLast",
    "findLastIndex",
    "first",
    "flatten",
    "floor",
    "fromBase64",
    "fromJSON",
    "fromPairs",
    "get",
    "groupBy",
    "keys",
    "last",
    "lastIndexOf",
    "map",
    "max",
    "mean",
    "median",
    "min",
    "none",
    "now",
    "one",
    "reduce",
    "repeat",
    "reverse",
    "round",
    "server_ip",
    "server_port",
    "sort",
    "sortBy",
    "splitAfter",
    "sum",
    "take",
    "timezone",
    "toBase64",
    "toJSON",
    "toPairs",
    "uniq",
    "values",
];

/// `split` gives a list, which no constant can say.
const SPLIT: &[Takes] = &[Takes::Text, Takes::Text];

/// Whether a function has this name.
pub(super) fn is_reserved(name: &str) -> bool {
    name == "split" || OTHERS.contains(&name) || TABLE.iter().any(|(known, ..)| *known == name)
}

/// Every function there is, for who asks for another.
pub(super) fn names() -> String {
    let mut names: Vec<&str> = TABLE.iter().map(|(name, ..)| *name).chain(["split"]).collect();
    names.sort_unstable();
    names.join(", ")
}

/// The function of this name for these arguments, and what it gives.
pub(super) fn find(name: &str, arguments: &[Kind]) -> Result<(Function, Kind), String> {
    let texts = Kind::List(Box::new(Kind::Text));
    let (function, takes, gives) = match TABLE.iter().find(|(known, ..)| *known == name) {
        Some((_, function, takes, gives)) => (*function, *takes, gives.clone()),
        None if name == "split" => (Function::Split, SPLIT, texts),
        None if OTHERS.contains(&name) => return Err(format!("{name} is not built; accepted: {}", names())),
        None => return Err(format!("{name} is no function; accepted: {}", names())),
    };
    let fits = takes.len() == arguments.len() && takes.iter().zip(arguments).all(|(takes, kind)| takes.fits(kind));
    if fits {
        return Ok((function, gives));
    }
    let wanted: Vec<&str> = takes.iter().map(|takes| takes.text()).collect();
    let given: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    Err(format!("{name} takes ({}), and not ({})", wanted.join(", "), given.join(", ")))
}
