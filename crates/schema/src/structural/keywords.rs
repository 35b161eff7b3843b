//! Reading the keywords of one schema node, with a mistake for each of the wrong JSON type.
//!
//! Used by `parse` and `nested`; a keyword that cannot be read counts as absent, so that one mistake does not hide others.

use api::{error::FieldError, path::Path};
use serde_json::{Map, Number, Value};

/// One schema node as JSON, and where it is.
pub(super) struct Keywords<'a> {
    map: &'a Map<String, Value>,
    pub(super) path: Path,
}

impl<'a> Keywords<'a> {
    /// The node as an object; anything else is a mistake.
    pub(super) fn of(raw: &'a Value, path: &Path, errors: &mut Vec<FieldError>) -> Option<Self> {
        let Value::Object(map) = raw else {
            errors.push(FieldError::type_invalid(path, raw.clone(), "must be a schema object"));
            return None;
        };
        Some(Self { map, path: path.clone() })
    }

    /// The value of a keyword; null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Path of a keyword.
    pub(super) fn at(&self, key: &str) -> Path {
        self.path.child(key)
    }

    /// Text, absent when empty.
    pub(super) fn text(&self, key: &str, errors: &mut Vec<FieldError>) -> Option<&'a str> {
        self.typed(key, Value::as_str, "a string", errors).filter(|text| !text.is_empty())
    }

    /// true or false, absent means false.
    pub(super) fn flag(&self, key: &str, errors: &mut Vec<FieldError>) -> bool {
        self.typed(key, Value::as_bool, "true or false", errors).unwrap_or_default()
    }

    /// A whole number that is not negative.
    pub(super) fn count(&self, key: &str, errors: &mut Vec<FieldError>) -> Option<u64> {
        self.typed(key, Value::as_u64, "a whole number that is not negative", errors)
    }

    pub(super) fn number(&self, key: &str, errors: &mut Vec<FieldError>) -> Option<Number> {
        self.typed(key, Value::as_number, "a number", errors).cloned()
    }

    /// A list, empty when absent.
    pub(super) fn list(&self, key: &str, errors: &mut Vec<FieldError>) -> &'a [Value] {
        self.typed(key, Value::as_array, "a list", errors).map_or(&[], Vec::as_slice)
    }

    /// An object, absent when empty.
    pub(super) fn object(&self, key: &str, errors: &mut Vec<FieldError>) -> Option<&'a Map<String, Value>> {
        self.typed(key, Value::as_object, "an object", errors).filter(|map| !map.is_empty())
    }

    /// A list of strings, empty when absent.
    pub(super) fn texts(&self, key: &str, errors: &mut Vec<FieldError>) -> Vec<String> {
        let mut texts = Vec::new();
        for (i, value) in self.list(key, errors).iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    errors.push(FieldError::type_invalid(&self.at(key).index(i), value.clone(), "must be a string"));
                }
            }
        }
        texts
    }

    fn typed<T>(
        &self,
        key: &str,
        read: impl Fn(&'a Value) -> Option<T>,
        wanted: &str,
        errors: &mut Vec<FieldError>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let read = read(value);
        if read.is_none() {
            errors.push(FieldError::type_invalid(&self.at(key), value.clone(), format!("must be {wanted}")));
        }
        read
    }
}
