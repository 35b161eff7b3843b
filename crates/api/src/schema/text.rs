//! Bodies as text, JSON or YAML, read into a value; fields that stand twice are reported.
//!
//! Called on every request body, before `decode`. The last of two equal fields wins, as in Go; strict field validation
//! refuses them, and otherwise they become warnings.

use super::decode::{Step, whole};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{borrow::Cow, cell::RefCell, fmt};

/// How deep objects and lists may nest. Readers of stored objects stop at 128, and a list wraps an object in two more levels.
pub const NESTING_LIMIT: usize = 100;

/// As many duplicates are reported as unknown fields.
const MOST_REPORTED: usize = 100;

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column} (offset {offset})")]
pub struct TextError {
    /// What is wrong.
    pub message: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// Bytes before the place.
    pub offset: usize,
}

impl TextError {
    /// Both parsers end what they say with the place, which stands in fields of its own here.
    fn new(said: &str, line: usize, column: usize, text: &str) -> Self {
        let message = said.split_once(" at line ").map_or(said, |(message, _)| message).to_owned();
        let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        Self { message, line, column, offset: (start + column.saturating_sub(1)).min(text.len()) }
    }
}

/// Reads JSON; also returns the paths of fields that stand twice.
pub fn parse_json(bytes: &[u8]) -> Result<(Value, Vec<String>), TextError> {
    let text = readable(bytes);
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let duplicates = RefCell::default();
    let seed = Seed { syntax: Syntax::Json, at: &Step::Root, depth: 0, duplicates: &duplicates };
    seed.deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map(|value| (value, duplicates.take()))
        .map_err(|error| TextError::new(&error.to_string(), error.line(), error.column(), &text))
}

/// Reads YAML as Kubernetes does (1.1 booleans such as `yes` and `on`, `010` is octal); also returns the paths of fields
/// that stand twice. Keys are kept as they are written.
pub fn parse_yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), TextError> {
    let text = readable(bytes);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: NESTING_LIMIT },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        strict_booleans: false,
        with_snippet: false,
    };
    let duplicates = RefCell::default();
    let seed = Seed { syntax: Syntax::Yaml, at: &Step::Root, depth: 0, duplicates: &duplicates };
    serde_saphyr::with_deserializer_from_str_with_options(&text, options, |deserializer| seed.deserialize(deserializer))
        .map(|value| (value, duplicates.take()))
        .map_err(|error| {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            TextError::new(
                &error.to_string(),
                usize::try_from(line).unwrap_or(1),
                usize::try_from(column).unwrap_or(1),
                &text,
            )
        })
}

/// Bytes that are no UTF-8 are replaced, as Go does.
fn readable(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[derive(Clone, Copy)]
enum Syntax {
    Json,
    Yaml,
}

/// Reads one value at a place.
#[derive(Clone, Copy)]
struct Seed<'a> {
    syntax: Syntax,
    at: &'a Step<'a>,
    depth: usize,
    duplicates: &'a RefCell<Vec<String>>,
}

impl Seed<'_> {
    fn deeper<E: serde::de::Error>(&self) -> Result<usize, E> {
        match self.depth {
            NESTING_LIMIT => Err(E::custom(format_args!("nested deeper than {NESTING_LIMIT} levels"))),
            depth => Ok(depth + 1),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // YAML goes through Go's JSON writer, which prints a float without fraction as a whole number.
        if let (Syntax::Yaml, Some(whole)) = (self.syntax, whole(value)) {
            return Ok(whole.into());
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("infinity and NaN are no JSON numbers"))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut list = Vec::new();
        loop {
            let at = Step::Index(self.at, list.len());
            match access.next_element_seed(Seed { at: &at, depth, ..self })? {
                Some(value) => list.push(value),
                None => return Ok(list.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = {
                let at = Step::Field(self.at, &key);
                let value = access.next_value_seed(Seed { at: &at, depth, ..self })?;
                if map.contains_key(&key) {
                    let mut seen = self.duplicates.borrow_mut();
                    let path = at.path().to_string();
                    if seen.len() < MOST_REPORTED && !seen.contains(&path) {
                        seen.push(path);
                    }
                }
                value
            };
            map.insert(key, value);
        }
        Ok(map.into())
    }
}
