//! Reading and writing objects as JSON values: dotted paths, metadata, and nothing that can panic.

use serde_json::{Map, Value, json};

static NULL: Value = Value::Null;

/// Dotted access to JSON objects. A missing step reads as null; writing makes the objects on the way.
pub trait Fields {
    /// The value at a dotted path (`metadata.name`), or null.
    fn at(&self, path: &str) -> &Value;
    /// The value at a dotted path for writing; objects on the way are made.
    fn at_mut(&mut self, path: &str) -> &mut Value;
    /// The string at a path, or empty.
    fn str_at(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }
    /// The number at a path.
    fn int_at(&self, path: &str) -> Option<i64> {
        self.at(path).as_i64()
    }
    /// Whether the boolean at a path is true.
    fn is_true(&self, path: &str) -> bool {
        self.at(path).as_bool().unwrap_or_default()
    }
    /// The list at a path, or an empty one.
    fn list_at(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }
    /// The object at a path.
    fn map_at(&self, path: &str) -> Option<&Map<String, Value>> {
        self.at(path).as_object()
    }
    fn set(&mut self, path: &str, value: impl Into<Value>) {
        *self.at_mut(path) = value.into();
    }
    /// Sets the value unless there is one (null counts as none).
    fn set_default(&mut self, path: &str, value: impl Into<Value>) {
        if self.at(path).is_null() {
            self.set(path, value);
        }
    }
    /// Takes the value at a path out of the object.
    fn remove(&mut self, path: &str) -> Option<Value>;
}

impl Fields for Value {
    fn at(&self, path: &str) -> &Value {
        path.split('.').try_fold(self, |value, step| value.get(step)).unwrap_or(&NULL)
    }

    fn at_mut(&mut self, path: &str) -> &mut Value {
        let mut here = self;
        for step in path.split('.') {
            if !here.is_object() {
                *here = json!({});
            }
            let Self::Object(map) = here else { unreachable!("made an object above") };
            here = map.entry(step).or_insert(Self::Null);
        }
        here
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        let (parent, last) = path.rsplit_once('.').map_or((None, path), |(parent, last)| (Some(parent), last));
        let holder = match parent {
            None => self,
            Some(parent) if self.at(parent).is_object() => self.at_mut(parent),
            Some(_) => return None,
        };
        holder.as_object_mut()?.remove(last)
    }
}

/// The current time as objects carry it: seconds, UTC.
pub fn timestamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The current time with microseconds, as Leases and Events carry it.
pub fn micro_timestamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
