//! Reading a mapping field by field. What is never asked for is unknown, and said to be so with the nearest known name.

use crate::notes::Notes;
use api::path::Path as Field;
use runtime::suggest;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What to do about a field that nobody asked for.
#[derive(Clone, Copy)]
pub(crate) enum Unknown {
    Mistake,
    Warning,
}

/// A mapping at a path. One that is absent reads like an empty one.
pub(crate) struct Fields<'a> {
    pub(crate) path: Field,
    map: Option<&'a Map<String, Value>>,
    asked: BTreeSet<&'static str>,
    unknown: Unknown,
}

impl<'a> Fields<'a> {
    /// The mapping `value`; anything else but nothing is a mistake.
    pub(crate) fn new(path: Field, value: Option<&'a Value>, unknown: Unknown, notes: &mut Notes) -> Self {
        let map = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(other) => {
                notes.wrong(&path, shown(other), "is not a mapping of names to values");
                None
            }
        };
        Self { path, map, asked: BTreeSet::new(), unknown }
    }

    /// Whether it was given at all.
    pub(crate) fn given(&self) -> bool {
        self.map.is_some()
    }

    pub(crate) fn child(&self, name: &str) -> Field {
        self.path.child(name)
    }

    /// The value of a field; `null` counts as absent.
    pub(crate) fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.asked.insert(name);
        self.map?.get(name).filter(|value| !value.is_null())
    }

    /// A mapping below this one.
    pub(crate) fn section(&mut self, name: &'static str, notes: &mut Notes) -> Self {
        let value = self.value(name);
        Self::new(self.child(name), value, self.unknown, notes)
    }

    /// A text; numbers and booleans are taken as they are written. An empty one counts as absent, as in Go.
    pub(crate) fn text(&mut self, name: &'static str, notes: &mut Notes) -> Option<String> {
        let value = self.value(name)?;
        match scalar(value) {
            Some(text) => Some(text).filter(|text| !text.is_empty()),
            None => {
                notes.wrong(&self.child(name), shown(value), "is not a text");
                None
            }
        }
    }

    /// A text with commas, or a list of texts, which means the same.
    pub(crate) fn comma_list(&mut self, name: &'static str, notes: &mut Notes) -> Option<String> {
        match self.value(name)? {
            Value::Array(items) => {
                let texts: Option<Vec<String>> = items.iter().map(scalar).collect();
                if texts.is_none() {
                    notes.refused(&self.child(name), "is not a list of texts");
                }
                texts.map(|texts| texts.join(","))
            }
            _ => self.text(name, notes),
        }
    }

    pub(crate) fn boolean(&mut self, name: &'static str, notes: &mut Notes) -> Option<bool> {
        let value = self.value(name)?;
        if value.as_bool().is_none() {
            notes.wrong(&self.child(name), shown(value), "is neither true nor false");
        }
        value.as_bool()
    }

    pub(crate) fn number<T: TryFrom<i64>>(
        &mut self,
        name: &'static str,
        accepted: &str,
        notes: &mut Notes,
    ) -> Option<T> {
        let value = self.value(name)?;
        let number = value.as_i64().and_then(|number| T::try_from(number).ok());
        if number.is_none() {
            notes.wrong(&self.child(name), shown(value), format!("cannot be used; accepted: {accepted}"));
        }
        number
    }

    /// The entries of a list with their paths.
    pub(crate) fn list(&mut self, name: &'static str, notes: &mut Notes) -> Vec<(Field, &'a Value)> {
        let path = self.child(name);
        match self.value(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items.iter().enumerate().map(|(at, item)| (path.index(at), item)).collect(),
            Some(other) => {
                notes.wrong(&path, shown(other), "is not a list");
                Vec::new()
            }
        }
    }

    /// A list of texts with their paths.
    pub(crate) fn texts(&mut self, name: &'static str, notes: &mut Notes) -> Vec<(Field, String)> {
        let mut texts = Vec::new();
        for (path, item) in self.list(name, notes) {
            match scalar(item) {
                Some(text) => texts.push((path, text)),
                None => notes.wrong(&path, shown(item), "is not a text"),
            }
        }
        texts
    }

    /// Fields that are known and make no difference here, whatever they say.
    pub(crate) fn pass_over(&mut self, names: &[&'static str]) {
        self.asked.extend(names);
    }

    /// Fields that are known but not acted on; a warning says so where one says something.
    pub(crate) fn unused(&mut self, names: &[&'static str], why: &str, notes: &mut Notes) {
        for name in names {
            let empty = [Value::Object(Map::new()), Value::Array(Vec::new()), Value::from(""), Value::from(false)];
            if self.value(name).is_some_and(|value| !empty.contains(value)) {
                notes.warn(&self.child(name), why);
            }
        }
    }

    /// Everything was asked for; the rest is unknown.
    pub(crate) fn end(self, notes: &mut Notes) {
        for name in self.map.into_iter().flat_map(Map::keys).filter(|name| !self.asked.contains(name.as_str())) {
            let near = suggest::nearest(name, self.asked.iter().copied());
            let problem = match near {
                Some(near) => format!("unknown field; did you mean {near}?"),
                None => "unknown field".to_owned(),
            };
            match self.unknown {
                Unknown::Mistake => notes.refused(&self.path.child(name), problem),
                Unknown::Warning => notes.warn(&self.path.child(name), format!("{problem} (no effect)")),
            }
        }
    }
}

/// A value that is not a list or mapping, as one would type it.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value for a message, short enough to read.
pub(crate) fn shown(value: &Value) -> String {
    let text = scalar(value).unwrap_or_else(|| value.to_string());
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
