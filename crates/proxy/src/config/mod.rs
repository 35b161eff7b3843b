//! kube-proxy's own configuration file (`kind: KubeProxyConfiguration`) in terms of this program's flags. Pure.
//!
//! Called by the command for the file of `--config`, so that the ConfigMap of an existing cluster works as it is. Every field of
//! upstream's type is known; one that is not is refused, one that does nothing here is named.

mod fields;

use fields::{Effect, FIELDS, Field};
use runtime::suggest;
use serde_json::{Map, Value};

const KIND: &str = "KubeProxyConfiguration";
const VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";

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

/// Reads a file; `None` when it is not of this kind (files with flags as keys have neither `kind` nor `apiVersion`).
#[must_use]
pub fn read(content: &[u8]) -> Option<Read> {
    let text = std::str::from_utf8(content).ok()?;
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let document: Map<String, Value> = serde_saphyr::from_str_with_options(text, options).ok()?;
    (document.contains_key("kind") || document.contains_key("apiVersion")).then(|| read_document(&document))
}

fn read_document(document: &Map<String, Value>) -> Read {
    let mut read = Read::default();
    for (field, accepted) in [("kind", KIND), ("apiVersion", VERSION)] {
        let given = document.get(field).and_then(Value::as_str).unwrap_or_default();
        if given != accepted {
            read.wrong(field, Some(given.to_owned()), format!("is not read here; accepted: {accepted}"));
        }
    }
    let mode = document.get("mode").and_then(Value::as_str).filter(|mode| !mode.is_empty()).unwrap_or("nftables");
    walk("", document, mode, &mut read);
    read
}

fn walk(parent: &str, object: &Map<String, Value>, mode: &str, read: &mut Read) {
    for (key, value) in
        object.iter().filter(|(key, _)| !parent.is_empty() || !matches!(key.as_str(), "kind" | "apiVersion"))
    {
        let path = if parent.is_empty() { key.clone() } else { format!("{parent}.{key}") };
        if let Some(field) = FIELDS.iter().find(|field| field.path == path) {
            field.read(value, mode, read);
            continue;
        }
        let is_parent =
            FIELDS.iter().any(|field| field.path.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.')));
        match value {
            Value::Object(inner) if is_parent => walk(&path, inner, mode, read),
            Value::Null if is_parent => {}
            other if is_parent => read.wrong(&path, Some(other.to_string()), "is no mapping of fields".to_owned()),
            _ => {
                let siblings = FIELDS.iter().filter_map(|field| sibling(parent, field.path));
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
            Effect::None if matches!(text.as_str(), "false" | "0") => {}
            Effect::None => read.idle.push(self.path.to_owned()),
        }
    }
}

/// The file that says what these flags say, for a mode; `given` has the text of a flag.
#[must_use]
pub fn write(mode: &str, mut given: impl FnMut(&'static str) -> Option<String>) -> Value {
    let mut document = serde_json::json!({"apiVersion": VERSION, "kind": KIND});
    for field in FIELDS {
        let flag = match field.effect {
            Effect::Flag(flag) => flag,
            Effect::InMode(modes, flag) if modes.contains(&mode) => flag,
            Effect::InMode(..) | Effect::None => continue,
        };
        let Some(text) = given(flag) else { continue };
        let node = field.path.split('.').fold(&mut document, |node, word| &mut node[word]);
        *node = field.shape.value(&text);
    }
    document
}

#[cfg(test)]
mod tests;
