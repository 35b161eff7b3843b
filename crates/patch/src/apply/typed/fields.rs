//! The set of all fields of an object.

use super::{Keys, View, step_of, view};
use crate::apply::{
    path::Step,
    set::{FieldSet, Node},
};
use api::schema::{ListKind, MapKind, Shape};
use serde_json::Value;
use std::collections::BTreeMap;

/// Every leaf of the object, every item of its lists and every key of its maps. Structs are members only where they are
/// empty.
pub(in crate::apply) fn fields(shape: &Shape, object: &Value) -> FieldSet {
    node(shape, object).below
}

fn node(shape: &Shape, value: &Value) -> Node {
    match view(shape, value) {
        View::Leaf => Node::leaf(),
        View::Items(item, keys) => Node { owned: false, below: items(item, keys, value) },
        View::Entries(entries) => {
            let mut below = FieldSet::default();
            for (key, value) in value.as_object().into_iter().flatten() {
                let (shape, named) = entries.lenient(key);
                let mut child = node(shape, value);
                child.owned |= !named || value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                below.put(Step::field(key), child);
            }
            Node { owned: false, below }
        }
    }
}

/// An item that stands twice is owned as a whole, since nobody can tell which of the two a field belongs to.
fn items(item: &Shape, keys: Keys<'_>, value: &Value) -> FieldSet {
    let mut found: BTreeMap<Step, Node> = BTreeMap::new();
    for value in value.as_array().into_iter().flatten() {
        if let Ok(step) = step_of(item, keys, value) {
            found
                .entry(step)
                .and_modify(|node| *node = Node::leaf())
                .or_insert_with(|| Node { owned: true, ..node(item, value) });
        }
    }
    let mut set = FieldSet::default();
    found.into_iter().for_each(|(step, node)| set.put(step, node));
    set
}

/// The set with every struct field on the way to a member as a member too, so that a field goes with its last child.
pub(in crate::apply) fn with_named(set: &FieldSet, shape: &Shape) -> FieldSet {
    let mut result = FieldSet::default();
    for (step, node) in set.iter() {
        let (below, named) = child(shape, step);
        let owned = node.owned || (named && !node.below.is_empty());
        result.put(step.clone(), Node { owned, below: with_named(&node.below, below) });
    }
    result
}

/// Brings a set in terms of a type that may have changed since: what is below a value that is now owned as a whole means
/// that value. Whether anything changed.
pub(in crate::apply) fn collapse(set: &mut FieldSet, shape: &Shape) -> bool {
    let mut changed = false;
    for (step, node) in set.iter_mut().filter(|(_, node)| !node.below.is_empty()) {
        let (below, _) = child(shape, step);
        let whole = match below {
            Shape::List(_, ListKind::Atomic) | Shape::Map(_, MapKind::Atomic) => true,
            _ => below.as_struct().is_some_and(|known| known.atomic),
        };
        if whole {
            *node = Node::leaf();
        }
        changed |= whole || collapse(&mut node.below, below);
    }
    changed
}

/// The type that a step leads to, and whether the step is a field that a struct names.
fn child<'a>(shape: &'a Shape, step: &Step) -> (&'a Shape, bool) {
    match (step, shape) {
        (Step::Field(_), Shape::Or(object, _)) => child(object, step),
        (Step::Field(_), Shape::Map(values, _)) => (values, false),
        (Step::Field(name), _) => match shape.field(name) {
            Some(field) => (&field.shape, true),
            None => (&Shape::Any, false),
        },
        (Step::Key(_), Shape::List(item, _)) => (item, false),
        _ => (&Shape::Any, false),
    }
}
