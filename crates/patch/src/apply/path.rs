//! One step of a path into an object, as field ownership names it.
//!
//! Used by the field sets of this room. Mirrors structured-merge-diff's path elements: their order, the text in conflicts
//! (`.spec.ports[port=80,protocol="TCP"]`) and the text in FieldsV1 (`k:{"port":80,"protocol":"TCP"}`).

use serde_json::{Map, Number, Value};
use std::{cmp::Ordering, fmt};

/// Which child of a value: a field, an item told by its keys or by its value, or an index.
///
/// The order of the variants is the order in which a set lists them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A field of a struct or a key of a map.
    Field(String),
    /// The item of a list whose key fields have these values, sorted by name.
    Key(Vec<(String, Scalar)>),
    /// The item of a set.
    Value(Scalar),
    /// The item at an index of a list.
    Index(i64),
}

/// A JSON value with a total order: numbers, text, booleans, lists, objects, null. One and 1.0 are equal.
#[derive(Clone, Debug)]
pub struct Scalar(pub Value);

/// Why a text is not a step.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is no field of FieldsV1; f:, k:, v: and i: are known")]
pub struct BadStep(pub(super) String);

impl Step {
    /// A named field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads the text of a FieldsV1 key. `None` for kinds of elements that a later version may bring: they are skipped.
    pub fn parse(text: &str) -> Result<Option<Self>, BadStep> {
        let bad = || BadStep(text.to_owned());
        let (kind, rest) = text.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(bad)?;
        Ok(Some(match kind {
            "f" => Self::field(rest),
            "v" => Self::Value(Scalar(serde_json::from_str(rest).map_err(|_| bad())?)),
            "i" => Self::Index(rest.parse().map_err(|_| bad())?),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).map_err(|_| bad())?;
                Self::Key(keys.into_iter().map(|(name, value)| (name, Scalar(value))).collect())
            }
            _ => return Ok(None),
        }))
    }

    /// The text of a FieldsV1 key.
    pub fn token(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{}", encoded(&value.0)),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(keys) => {
                let pairs = keys.iter().map(|(name, value)| (name.clone(), value.0.clone()));
                format!("k:{}", encoded(&Value::Object(pairs.collect())))
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(keys) => {
                let pairs: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
                write!(f, "[{}]", pairs.join(","))
            }
        }
    }
}

/// JSON as Go writes it: the characters that mean something in HTML are escaped.
pub(super) fn encoded(value: &Value) -> String {
    let plain = value.to_string();
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    plain.chars().fold(String::with_capacity(plain.len() + 8), |mut text, c| {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => text.push(c),
        }
        text
    })
}

/// Whether two values are the same to ownership: whole numbers equal their floating forms.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    compare(one, other) == Ordering::Equal
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Scalar {}
impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare_numbers(one, other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other).map(|(one, other)| compare(one, other));
            first_difference(pairs).then(one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one.iter().zip(other);
            let pairs = pairs.map(|((a, one), (b, other))| a.cmp(b).then_with(|| compare(one, other)));
            first_difference(pairs).then(one.len().cmp(&other.len()))
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

fn first_difference(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(one: &Number, other: &Number) -> Ordering {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
            float(one).total_cmp(&float(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_step_has_two_texts() {
        for (token, shown) in [
            ("f:spec", ".spec"),
            ("f:a.b/c:d", ".a.b/c:d"),
            ("k:{\"name\":\"a\"}", "[name=\"a\"]"),
            ("k:{\"port\":80,\"protocol\":\"TCP\"}", "[port=80,protocol=\"TCP\"]"),
            ("v:\"x.io/a\"", "[=\"x.io/a\"]"),
            ("v:5", "[=5]"),
            ("i:-1", "[-1]"),
            ("v:\"a\\u003cb\"", "[=\"a<b\"]"),
        ] {
            let step = Step::parse(token).unwrap().unwrap();
            assert_eq!((step.token().as_str(), step.to_string().as_str()), (token, shown));
        }
    }

    #[test]
    fn unknown_kinds_are_skipped_and_broken_texts_refused() {
        assert_eq!(Step::parse("x:y"), Ok(None));
        for text in ["", ".", "f", "field:a", "k:[]", "k:{", "v:", "v:1 2", "i:x"] {
            assert!(Step::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn steps_are_ordered_by_kind_then_by_value() {
        let steps = [
            "f:a",
            "f:b",
            "k:{\"p\":9}",
            "k:{\"p\":80}",
            "k:{\"p\":\"1\"}",
            "v:2",
            "v:10",
            "v:\"1\"",
            "v:true",
            "v:[1]",
            "v:null",
            "i:0",
        ];
        let steps: Vec<Step> = steps.iter().map(|text| Step::parse(text).unwrap().unwrap()).collect();
        assert!(steps.is_sorted());
        assert!(same(&json!({"a": [1]}), &json!({"a": [1.0]})));
        assert!(!same(&json!({"a": 1}), &json!({"b": 1})));
    }
}
