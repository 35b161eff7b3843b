//! The most common write of all: somebody sets fields that are theirs already, as a kubelet does with a Pod's status.
//!
//! Used by `update`. Then only the time of one entry changes, which can be told from FieldsV1 as it stands: the sets of all
//! managers, which are most of the cost of a write, need not be built.

use super::{
    managed::{Manager, Operation},
    ownership::Touched,
    set::FieldSet,
};
use api::object::Fields;
use serde_json::{Map, Value};

/// The index of the writer's entry, if a write means nothing but a new time for it.
pub(super) fn entry_of(writer: &Manager, entries: &[Value], touched: &Touched) -> Option<usize> {
    let index = entries.iter().position(|entry| writer.wrote(entry))?;
    let steady = entries.iter().enumerate().all(|(at, entry)| {
        let fields = entry.at("fieldsV1");
        let mine = if at == index { holds(fields, &touched.set) } else { !meets(fields, &touched.set) };
        entry.str_at("fieldsType") == "FieldsV1" && mine && !meets(fields, &touched.removed)
    });
    (steady && !touched.set.is_empty()).then_some(index)
}

/// Gives an entry a new time, and all entries their order.
pub(super) fn renew(entries: &mut [Value], index: usize, time: &str) {
    if let Some(entry) = entries.get_mut(index) {
        entry.set("time", time);
    }
    // As `Managed` orders them: no time is the empty text.
    entries.sort_by(|one, other| {
        let key = |entry| {
            ["operation", "time", "manager", "apiVersion", "subresource"].map(|field| Value::str_at(entry, field))
        };
        key(one).cmp(&key(other))
    });
}

/// Whether FieldsV1 has every path of a set.
fn holds(fields: &Value, set: &FieldSet) -> bool {
    set.iter().all(|(step, node)| {
        let below = fields.get(step.token());
        below.is_some_and(|below| (!node.owned || is_member(below)) && holds(below, &node.below))
    })
}

/// Whether FieldsV1 has any path of a set.
fn meets(fields: &Value, set: &FieldSet) -> bool {
    set.iter().any(|(step, node)| {
        let below = fields.get(step.token());
        below.is_some_and(|below| (node.owned && is_member(below)) || meets(below, &node.below))
    })
}

fn is_member(below: &Value) -> bool {
    below.as_object().is_some_and(Map::is_empty) || below.get(".").is_some()
}

impl Manager {
    /// Whether an entry is this updater's.
    fn wrote(&self, entry: &Value) -> bool {
        let given = ["manager", "operation", "apiVersion", "subresource"].map(|field| entry.str_at(field));
        self.operation == Operation::Update
            && given == [self.name.as_str(), "Update", self.api_version.as_str(), self.subresource.as_str()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::set::tests::any_set;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_is_the_same_in_its_written_form(one in any_set(), other in any_set()) {
            let written = one.to_value();
            prop_assert_eq!(holds(&written, &other), other.is_within(&one));
            prop_assert_eq!(meets(&written, &other), !one.intersection(&other).is_empty());
            prop_assert!(holds(&written, &one));
        }
    }
}
