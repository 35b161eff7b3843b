//! An applied configuration laid over a live object.

use super::{Keys, View, as_list, as_map, keys_of, step_of, view_of_pair};
use crate::apply::path::Step;
use api::schema::Shape;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The live object with the configuration laid over it: leaves of the configuration win, lists merge by key.
pub(in crate::apply) fn merge(shape: &Shape, live: &Value, config: &Value) -> Value {
    value(shape, Some(live), Some(config)).unwrap_or_else(|| Value::Object(Map::new()))
}

/// `None`: nothing is left to write, as for a list without items.
fn value(shape: &Shape, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let leaf = || config.or(live).cloned();
    match view_of_pair(shape, live, config) {
        None => value(shape, None, config),
        Some(View::Leaf) => leaf(),
        Some(View::Items(item, keys)) => {
            let (old, new) = (as_list(live), as_list(config));
            if old.is_empty() && new.is_empty() {
                return leaf();
            }
            let list = items(item, keys, old, new);
            (!list.is_empty()).then_some(Value::Array(list))
        }
        Some(View::Entries(entries)) => {
            let (old, new) = (as_map(live), as_map(config));
            if old.is_none() && new.is_none() {
                return leaf();
            }
            let map: Map<String, Value> = keys_of(old, new)
                .into_iter()
                .filter_map(|key| {
                    let (old, new) = (old.and_then(|map| map.get(key)), new.and_then(|map| map.get(key)));
                    value(entries.lenient(key).0, old, new).map(|value| (key.clone(), value))
                })
                .collect();
            (!map.is_empty()).then_some(Value::Object(map))
        }
    }
}

/// Merges two lists. Items of both keep the order of the configuration, the others stay near their live neighbours.
fn items(item: &Shape, keys: Keys<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let steps = |list: &[Value]| -> Vec<(Step, usize)> {
        let steps = list.iter().enumerate();
        steps.filter_map(|(index, value)| step_of(item, keys, value).ok().map(|step| (step, index))).collect()
    };
    let (left, right) = (steps(live), steps(config));
    // A key that stands twice in the live list has no value to merge with.
    let mut known: BTreeMap<&Step, &Value> = BTreeMap::new();
    for (step, index) in &left {
        known.entry(step).and_modify(|value| *value = &Value::Null).or_insert(&live[*index]);
    }
    let wanted: BTreeMap<&Step, &Value> = right.iter().map(|(step, index)| (step, &config[*index])).collect();
    let mut shared = right.iter().map(|(step, _)| step).filter(|step| known.contains_key(step));

    let mut next_shared = shared.next();
    let mut merged: BTreeSet<&Step> = BTreeSet::new();
    let mut result = Vec::with_capacity(left.len().max(right.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((step, _)), Some((other, _))) = (left.get(l), right.get(r)) {
            if step == other {
                merged.insert(step);
                result.extend(value(item, known.get(step).copied(), wanted.get(step).copied()));
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if wanted.contains_key(step) && next_shared.is_some_and(|next| next != step) {
                l += 1;
                continue;
            }
        }
        if let Some((step, index)) = left.get(l) {
            if !wanted.contains_key(step) {
                result.extend(value(item, Some(&live[*index]), None));
                l += 1;
                continue;
            }
            if merged.contains(step) {
                l += 1;
            }
        }
        if let Some((step, _)) = right.get(r) {
            merged.insert(step);
            result.extend(value(item, known.get(step).copied(), wanted.get(step).copied()));
            r += 1;
            if next_shared == Some(step) {
                next_shared = shared.next();
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn items_of_both_follow_the_configuration_and_the_others_their_neighbours() {
        let pod = Shape::Named("io.k8s.api.core.v1.Pod");
        let named = |names: &str| {
            let list: Vec<Value> = names.chars().map(|name| json!({"name": name.to_string()})).collect();
            json!({"spec": {"containers": list}})
        };
        for (live, config, expected) in [
            ("ab", "c", "abc"),
            ("ab", "cb", "acb"),
            ("abc", "ca", "bca"),
            ("", "ba", "ba"),
            ("abc", "", "abc"),
            ("abcd", "dxb", "acdxb"),
        ] {
            assert_eq!(merge(&pod, &named(live), &named(config)), named(expected), "{config} over {live}");
        }
    }

    #[test]
    fn leaves_of_the_configuration_win_and_null_objects_take_nothing_away() {
        let map = Shape::Named("io.k8s.api.core.v1.ConfigMap");
        let live = json!({"data": {"a": "1", "b": "1"}, "immutable": false});
        let config = json!({"data": {"b": "2", "c": "2"}, "binaryData": null});
        let expected = json!({"data": {"a": "1", "b": "2", "c": "2"}, "immutable": false, "binaryData": null});
        assert_eq!(merge(&map, &live, &config), expected);
        assert_eq!(merge(&map, &live, &json!({"data": null}))["data"], live["data"]);
        assert_eq!(merge(&Shape::Any, &json!({"x": {"y": 1}}), &json!({"x": 5})), json!({"x": 5}));
    }
}
