//! Walking an object along its structural schema: what is pruned, filled in, refused.
//!
//! Each file is one walk and all have the same shape: value and schema go down together. `prune` and `default` change the
//! object; `validate`, `lists` and `embedded` report mistakes with upstream's paths and reasons.

pub mod default;
pub mod embedded;
pub mod format;
pub mod lists;
pub mod number;
pub mod prune;
pub mod validate;

mod text_format;

#[cfg(test)]
mod tests;

use super::structural::Schema;
use serde_json::Value;
use std::collections::HashMap;

/// Fields that every Kubernetes object has and no schema decides on.
pub const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The items of an old list, found by the key fields that tell items apart.
///
/// Empty when nothing can be compared: there is no old list, or the list is atomic or a set.
pub struct OldItems<'a> {
    keys: &'a [String],
    by_key: HashMap<Key<'a>, Option<&'a Value>>,
}

type Key<'a> = Vec<Option<&'a Value>>;

impl<'a> OldItems<'a> {
    /// Looks through an old list once.
    pub fn of(schema: &'a Schema, old: Option<&'a Value>) -> Self {
        let keys = schema.map_keys().unwrap_or_default();
        let list = old.and_then(Value::as_array).filter(|_| !keys.is_empty());
        let mut by_key = HashMap::new();
        for item in list.into_iter().flatten() {
            // A key that stands twice leads nowhere.
            by_key.entry(key(keys, item)).and_modify(|known| *known = None).or_insert(Some(item));
        }
        Self { keys, by_key }
    }

    /// The old item with the same key fields.
    pub fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.by_key.is_empty() { None } else { self.by_key.get(&key(self.keys, item)).copied().flatten() }
    }
}

fn key<'v>(keys: &[String], item: &'v Value) -> Key<'v> {
    keys.iter().map(|key| item.get(key)).collect()
}

/// The old value of the field `name`.
pub fn old_field<'a>(old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    old?.as_object()?.get(name)
}
