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

/// A level of YAML takes some 20 KiB of stack in an unoptimized build, where a request has 2 MiB in all. What overflows a stack
/// ends the whole process, so YAML is read on one that holds every level that is allowed.
const YAML_STACK: usize = 8 << 20;

/// Text and events of YAML after its aliases are put in: several times what a body may hold, and little enough to keep.
const MOST_YAML_TEXT: usize = 16 << 20;
const MOST_REPEATED: usize = 100_000;

/// As many duplicates are reported as unknown fields.
const MOST_REPORTED: usize = 100;

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column} (offset {offset})")]
pub struct TextError {
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
    fn new(error_text: &str, line: usize, column: usize, text: &str) -> Self {
        let message = error_text.split_once(" at line ").map_or(error_text, |(message, _)| message).to_owned();
        let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        Self { message, line, column, offset: (start + column.saturating_sub(1)).min(text.len()) }
    }
}

/// Reads JSON; also returns the paths of fields that stand twice.
pub fn parse_json(bytes: &[u8]) -> Result<(Value, Vec<String>), TextError> {
    let text = readable(bytes);
    read_json(&text, Syntax::Json)
        .map_err(|error| TextError::new(&error.to_string(), error.line(), error.column(), &text))
}

/// Reads YAML as Kubernetes does (1.1 booleans such as `yes` and `on`, `010` is octal); also returns which keys stand twice, as
/// Go's reader tells it. Keys are kept as they are written.
pub fn parse_yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), TextError> {
    let text = readable(bytes);
    // Most YAML that clients send is JSON, which is quicker to read as such.
    if let Ok((value, duplicates)) = read_json(&text, Syntax::JsonAsYaml)
        && duplicates.is_empty()
    {
        return Ok((value, duplicates));
    }
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(YAML_STACK).spawn_scoped(scope, || read_yaml(&text));
        let cannot = |message: &str| Err(TextError::new(message, 1, 1, &text));
        match reader.map(|reader| reader.join()) {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => cannot("the YAML reader failed"),
            Err(_) => cannot("there is no room to read YAML now; try again, or send JSON"),
        }
    })
}

fn read_json(text: &str, syntax: Syntax) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let duplicates = RefCell::default();
    let value = Seed { syntax, at: &Step::Root, depth: 0, duplicates: &duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates.take()))
}

fn read_yaml(text: &str) -> Result<(Value, Vec<String>), TextError> {
    let options = serde_saphyr::options! {
        // One more than `Seed` allows, so that its message is the one that is seen.
        budget: serde_saphyr::budget! { max_depth: NESTING_LIMIT + 1, max_total_scalar_bytes: MOST_YAML_TEXT },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPEATED },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        strict_booleans: false,
        with_snippet: false,
    };
    let duplicates = RefCell::default();
    let seed = Seed { syntax: Syntax::Yaml, at: &Step::Root, depth: 0, duplicates: &duplicates };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| seed.deserialize(deserializer))
        .map(|value| (value, duplicates.take()))
        .map_err(|error| {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            let error_text = error.to_string();
            // The scanner has a limit of its own, far above ours.
            let error_text = if error_text.contains("recursion limit") { too_deep() } else { error_text };
            TextError::new(&error_text, usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1), text)
        })
}

fn too_deep() -> String {
    format!("nested deeper than {NESTING_LIMIT} levels")
}

/// Bytes that are no UTF-8 are replaced, as Go does.
fn readable(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[derive(Clone, Copy)]
enum Syntax {
    Json,
    /// JSON where YAML is expected.
    JsonAsYaml,
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
            NESTING_LIMIT => Err(E::custom(too_deep())),
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
        if let (Syntax::Yaml | Syntax::JsonAsYaml, Some(whole)) = (self.syntax, whole(value)) {
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
        while let Some((key, line)) = self.key(&mut access)? {
            let value = {
                let at = Step::Field(self.at, &key);
                if map.contains_key(&key) {
                    let mut seen = self.duplicates.borrow_mut();
                    let told = match line {
                        Some(line) => format!("line {line}: key {key:?} already set in map"),
                        None => at.path().to_string(),
                    };
                    if seen.len() < MOST_REPORTED && !seen.contains(&told) {
                        seen.push(told);
                    }
                }
                access.next_value_seed(Seed { at: &at, depth, ..self })?
            };
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

impl Seed<'_> {
    /// The next key, and in YAML the line that it stands in.
    fn key<'de, A: MapAccess<'de>>(&self, access: &mut A) -> Result<Option<(String, Option<u64>)>, A::Error> {
        if !matches!(self.syntax, Syntax::Yaml) {
            return Ok(access.next_key::<String>()?.map(|key| (key, None)));
        }
        let key = access.next_key::<serde_saphyr::Spanned<String>>()?;
        Ok(key.map(|key| (key.value, Some(key.referenced.line()))))
    }
}
