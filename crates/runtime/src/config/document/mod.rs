//! A component's own configuration file (`kind: KubeProxyConfiguration`, `KubeletConfiguration`) in terms of its flags. Pure.
//!
//! Called by the commands for the file of `--config`, so that files of existing clusters work as they are. Every field of upstream's type
//! is known; one that is not is refused, one that does nothing here is named.

mod shape;

pub use shape::Shape;

use crate::suggest;
use serde_json::{Map, Value};

/// What a kind of file can say.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    pub kind: &'static str,
    pub version: &'static str,
    pub fields: &'static [Field],
    /// The field that says which of several sections counts, and what it says when it is not given.
    pub mode: Option<(&'static str, &'static str)>,
}

/// A field: where it stands, what may stand there, and what that does.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub path: &'static str,
    pub shape: Shape,
    pub effect: Effect,
}

impl Field {
    pub const fn new(path: &'static str, shape: Shape, effect: Effect) -> Self {
        Self { path, shape, effect }
    }
}

/// What a field does.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// The same as a flag.
    Flag(&'static str),
    /// The same as a flag, in these modes.
    InMode(&'static [&'static str], &'static str),
    /// Only these texts are possible here, and change nothing.
    Only(&'static [&'static str]),
    /// Nothing.
    None,
}

/// What such a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Settings by the name of the flag.
    pub values: Vec<Given>,
    /// Fields that say something which has no effect here.
    pub idle: Vec<String>,
    pub problems: Vec<Problem>,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The flag that means the same.
    pub flag: &'static str,
    /// Where it stands.
    pub field: &'static str,
    /// As it would be written after the flag.
    pub text: String,
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub field: String,
    /// What stands there, if that helps.
    pub value: Option<String>,
    /// What is wrong with it, and what is accepted.
    pub problem: String,
}

impl Document {
    /// The content of a file; `None` when it is not of this form (files with flags as keys have neither `kind` nor `apiVersion`).
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<Map<String, Value>> {
        let text = std::str::from_utf8(content).ok()?;
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        let document: Map<String, Value> = serde_saphyr::from_str_with_options(text, options).ok()?;
        (document.contains_key("kind") || document.contains_key("apiVersion")).then_some(document)
    }

    /// What it says, and everything that is wrong with it.
    #[must_use]
    pub fn read(&self, document: &Map<String, Value>) -> Read {
        let mut read = Read::default();
        for (field, accepted) in [("kind", self.kind), ("apiVersion", self.version)] {
            let given = document.get(field).and_then(Value::as_str).unwrap_or_default();
            if given != accepted {
                read.wrong(field, Some(given.to_owned()), format!("is not read here; accepted: {accepted}"));
            }
        }
        let mode = self.mode.map_or("", |(field, default)| {
            document.get(field).and_then(Value::as_str).filter(|mode| !mode.is_empty()).unwrap_or(default)
        });
        self.walk("", document, mode, &mut read);
        read
    }

    fn walk(&self, parent: &str, object: &Map<String, Value>, mode: &str, read: &mut Read) {
        let inner = |key: &str| !parent.is_empty() || !matches!(key, "kind" | "apiVersion");
        for (key, value) in object.iter().filter(|(key, _)| inner(key)) {
            let path = if parent.is_empty() { key.clone() } else { format!("{parent}.{key}") };
            if let Some(field) = self.fields.iter().find(|field| field.path == path) {
                field.read(value, mode, read);
                continue;
            }
            let below = |field: &Field| field.path.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
            match value {
                Value::Object(inner) if self.fields.iter().any(below) => self.walk(&path, inner, mode, read),
                Value::Null if self.fields.iter().any(below) => {}
                other if self.fields.iter().any(below) => {
                    read.wrong(&path, Some(other.to_string()), "is no mapping of fields".to_owned());
                }
                _ => {
                    let siblings = self.fields.iter().filter_map(|field| sibling(parent, field.path));
                    let problem = match suggest::nearest(key, siblings) {
                        Some(near) if parent.is_empty() => format!("unknown field; did you mean {near}?"),
                        Some(near) => format!("unknown field; did you mean {parent}.{near}?"),
                        None => "unknown field".to_owned(),
                    };
                    read.wrong(&path, None, problem);
                }
            }
        }
    }

    /// The file that says what these flags say, for a mode; `given` has the text of a flag.
    #[must_use]
    pub fn write(&self, mode: &str, mut given: impl FnMut(&'static str) -> Option<String>) -> Value {
        let mut document = serde_json::json!({"apiVersion": self.version, "kind": self.kind});
        for field in self.fields {
            let flag = match field.effect {
                Effect::Flag(flag) => flag,
                Effect::InMode(modes, flag) if modes.contains(&mode) => flag,
                Effect::InMode(..) | Effect::Only(_) | Effect::None => continue,
            };
            let Some(text) = given(flag) else { continue };
            let node = field.path.split('.').fold(&mut document, |node, word| &mut node[word]);
            *node = field.shape.value(&text);
        }
        document
    }
}

/// The word after `parent` in a path below it.
fn sibling<'a>(parent: &str, path: &'a str) -> Option<&'a str> {
    let rest = if parent.is_empty() { path } else { path.strip_prefix(parent)?.strip_prefix('.')? };
    rest.split('.').next()
}

impl Read {
    fn wrong(&mut self, field: &str, value: Option<String>, problem: String) {
        self.problems.push(Problem { field: field.to_owned(), value, problem });
    }
}

impl Field {
    fn read(&self, value: &Value, mode: &str, read: &mut Read) {
        let text = match self.shape.text(value) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(accepted) => {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                return read.wrong(self.path, Some(value), format!("cannot be read; accepted: {accepted}"));
            }
        };
        match self.effect {
            Effect::Flag(flag) => read.values.push(Given { flag, field: self.path, text }),
            Effect::InMode(modes, flag) if modes.contains(&mode) => {
                read.values.push(Given { flag, field: self.path, text });
            }
            // The settings of another mode are for another day.
            Effect::InMode(..) => {}
            Effect::Only(accepted) if accepted.contains(&text.as_str()) => {}
            Effect::Only(accepted) => {
                read.wrong(self.path, Some(text), format!("is not built; accepted: {}", accepted.join(", ")));
            }
            Effect::None if matches!(text.as_str(), "false" | "0") => {}
            Effect::None => read.idle.push(self.path.to_owned()),
        }
    }
}
