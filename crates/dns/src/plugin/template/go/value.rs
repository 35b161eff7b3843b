//! What pipelines work on.

use std::{collections::BTreeMap, fmt, sync::Arc};

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// What is not there.
    Nil,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    /// A missing key is nothing.
    Map(BTreeMap<String, Self>),
    /// A missing field is an error.
    Struct(Arc<dyn Fields>),
}

/// Something with named fields and methods.
pub(crate) trait Fields: Send + Sync {
    /// The field, or the method called with these arguments.
    fn field(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>>;
}

impl fmt::Debug for dyn Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fields")
    }
}

impl Value {
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Struct(_) => true,
        }
    }
}

impl fmt::Display for Value {
    /// As `{{ . }}` shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("<no value>"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => f.write_str(&float(*number)),
            Self::Text(text) => f.write_str(text),
            Self::List(list) => {
                let texts: Vec<String> = list.iter().map(Self::to_string).collect();
                write!(f, "[{}]", texts.join(" "))
            }
            Self::Map(map) => {
                let texts: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{value}")).collect();
                write!(f, "map[{}]", texts.join(" "))
            }
            Self::Struct(_) => f.write_str("{}"),
        }
    }
}

/// As Go writes it: with an exponent when it is very large or very small.
fn float(number: f64) -> String {
    let size = number.abs();
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if size == 0.0 || number.is_nan() || (1e-4..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}
