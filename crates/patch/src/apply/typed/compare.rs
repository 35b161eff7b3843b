//! What changed between two objects of one type.

use super::{Keys, View, as_list, as_map, step_of, view_of_pair};
use crate::apply::{
    path::{Step, same},
    set::{FieldSet, Node},
};
use api::schema::Shape;
use serde_json::Value;
use std::collections::BTreeMap;

/// The fields that differ between an old and a new object; no field is in two of the sets.
#[derive(Default)]
pub(in crate::apply) struct Comparison {
    pub(in crate::apply) removed: FieldSet,
    pub(in crate::apply) modified: FieldSet,
    pub(in crate::apply) added: FieldSet,
}

impl Comparison {
    /// Leaves out the fields below `reset`: they are not the writer's to change.
    pub(in crate::apply) fn without(self, reset: &FieldSet) -> Self {
        Self {
            removed: self.removed.difference_below(reset),
            modified: self.modified.difference_below(reset),
            added: self.added.difference_below(reset),
        }
    }
}

/// Compares two objects. Items of lists that cannot be told apart count as unchanged; `check` refuses them beforehand.
pub(in crate::apply) fn compare(shape: &Shape, old: &Value, new: &Value) -> Comparison {
    let Change { removed, modified, added } = change(shape, Some(old), Some(new));
    Comparison { removed: removed.below, modified: modified.below, added: added.below }
}

/// A comparison of one value and what is below it.
#[derive(Default)]
struct Change {
    removed: Node,
    modified: Node,
    added: Node,
}

impl Change {
    /// Adds what changed below a child. Most children did not change, so the step is made only for those that did.
    fn put(&mut self, step: impl Fn() -> Step, child: Self) {
        for (set, node) in [
            (&mut self.removed.below, child.removed),
            (&mut self.modified.below, child.modified),
            (&mut self.added.below, child.added),
        ] {
            if !node.is_empty() {
                set.put(step(), node);
            }
        }
    }
}

fn change(shape: &Shape, old: Option<&Value>, new: Option<&Value>) -> Change {
    let mut result = match view_of_pair(shape, old, new) {
        None => return change_of_kind(shape, old, new),
        Some(View::Leaf) => return leaf(old, new),
        Some(View::Items(item, keys)) => {
            let (old, new) = (as_list(old), as_list(new));
            match (old.is_empty() && new.is_empty(), old == new) {
                (true, _) => None,
                (false, true) => return Change::default(),
                (false, false) => Some(items(item, keys, old, new)),
            }
        }
        Some(View::Entries(entries)) => {
            let (old, new) = (as_map(old), as_map(new));
            (old.is_some() || new.is_some()).then(|| {
                let mut result = Change::default();
                let mut compare = |key: &String, old, new| {
                    result.put(|| Step::field(key), change(entries.lenient(key).0, old, new));
                };
                for (key, old) in old.into_iter().flatten() {
                    compare(key, Some(old), new.and_then(|map| map.get(key)));
                }
                let absent = |key: &String| old.is_none_or(|old| !old.contains_key(key));
                for (key, new) in new.into_iter().flatten().filter(|(key, _)| absent(key)) {
                    compare(key, None, Some(new));
                }
                result
            })
        }
    };
    // Two empty values are a leaf: empty and null differ.
    let Some(result) = &mut result else { return leaf(old, new) };
    result.added.owned |= old.is_none();
    result.removed.owned |= new.is_none();
    std::mem::take(result)
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Change {
    let mut result = Change::default();
    match (old, new) {
        (None, _) => result.added.owned = true,
        (_, None) => result.removed.owned = true,
        (Some(old), Some(new)) => result.modified.owned = !same(old, new),
    }
    result
}

/// An object became something else, or the other way round: its fields come or go, and the value itself is modified.
fn change_of_kind(shape: &Shape, old: Option<&Value>, new: Option<&Value>) -> Change {
    let mut result =
        if old.is_some_and(Value::is_object) { change(shape, old, None) } else { change(shape, None, new) };
    result.added.owned = false;
    result.removed.owned = false;
    result.modified.owned = true;
    result
}

fn items(item: &Shape, keys: Keys<'_>, old: &[Value], new: &[Value]) -> Change {
    let mut both: BTreeMap<Step, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for value in old {
        if let Ok(step) = step_of(item, keys, value) {
            both.entry(step).or_default().0.push(value);
        }
    }
    for value in new {
        if let Ok(step) = step_of(item, keys, value) {
            both.entry(step).or_default().1.push(value);
        }
    }
    let mut result = Change::default();
    for (step, (old, new)) in &both {
        result.put(|| step.clone(), item_change(item, old, new));
    }
    result
}

/// How the items with one key changed. Where a key stands twice, its items are one leaf.
fn item_change(item: &Shape, old: &[&Value], new: &[&Value]) -> Change {
    let mut result = Change::default();
    match (old, new) {
        ([] | [_], [] | [_]) => return change(item, old.first().copied(), new.first().copied()),
        ([_, _, ..], [_, _, ..]) => {
            result.modified.owned = old.len() != new.len() || old.iter().zip(new).any(|(old, new)| !same(old, new));
        }
        ([_, _, ..], _) => {
            if let Some(new) = new.first() {
                result = change(item, None, Some(new));
            }
            result.removed.owned = true;
        }
        (_, _) => {
            if let Some(old) = old.first() {
                result = change(item, Some(old), None);
            }
            result.added.owned = true;
        }
    }
    result
}
