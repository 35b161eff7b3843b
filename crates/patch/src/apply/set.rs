//! A set of fields: a trie of steps, some of which are members.
//!
//! Used by everything in this room; the engine meets it as the reset fields of a kind. Mirrors structured-merge-diff's
//! `fieldpath.Set`, with membership and children in one node, so that there is no empty subtree to keep out.

use super::path::{BadStep, Step};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt};

/// A set of paths. Membership of a parent and of its children are independent of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeMap<Step, Node>);

/// What a set knows of one value: whether it is a member, and which values below it are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) owned: bool,
    pub(super) below: FieldSet,
}

impl Node {
    pub(super) fn leaf() -> Self {
        Self { owned: true, below: FieldSet::default() }
    }
    pub(super) fn is_empty(&self) -> bool {
        !self.owned && self.below.is_empty()
    }
    fn union(self, other: Self) -> Self {
        Self { owned: self.owned || other.owned, below: self.below.union(other.below) }
    }
}

/// A path into an object, printed as conflicts show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(pub Vec<Step>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| step.fmt(f))
    }
}

impl FieldSet {
    /// A set of plain field paths, dotted: `["status", "metadata.labels"]`.
    pub fn of(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.add(&path.split('.').map(Step::field).collect::<Vec<_>>());
        }
        set
    }

    /// Adds one path; the empty path is nobody's.
    pub(super) fn add(&mut self, path: &[Step]) {
        if let [step, rest @ ..] = path {
            let node = self.0.entry(step.clone()).or_default();
            if rest.is_empty() {
                node.owned = true;
            } else {
                node.below.add(rest);
            }
        }
    }

    /// Adds what is known of a child, unless that is nothing.
    pub(super) fn put(&mut self, step: Step, node: Node) {
        if node.is_empty() {
            return;
        }
        let merged = match self.0.remove(&step) {
            Some(before) => before.union(node),
            None => node,
        };
        self.0.insert(step, merged);
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the set knows of a child.
    pub(super) fn node(&self, step: &Step) -> Option<&Node> {
        self.0.get(step)
    }

    /// Whether a path is a member.
    pub fn has(&self, path: &[Step]) -> bool {
        match path {
            [] => false,
            [step] => self.0.get(step).is_some_and(|node| node.owned),
            [step, rest @ ..] => self.0.get(step).is_some_and(|node| node.below.has(rest)),
        }
    }

    /// Paths in either set.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        if self.0.is_empty() {
            return other;
        }
        for (step, node) in other.0 {
            self.put(step, node);
        }
        self
    }

    /// Paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut result = Self::default();
        for (step, node) in &self.0 {
            if let Some(other) = other.0.get(step) {
                let below = node.below.intersection(&other.below);
                result.put(step.clone(), Node { owned: node.owned && other.owned, below });
            }
        }
        result
    }

    /// Paths of this set that are not in the other. A member of the other does not take its children along.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// Paths of this set that are neither in the other nor below one that is.
    #[must_use]
    pub fn difference_below(&self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(&self, other: &Self, recursive: bool) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut result = Self::default();
        for (step, node) in &self.0 {
            let left = match other.0.get(step) {
                None => node.clone(),
                Some(other) if other.owned && recursive => continue,
                Some(other) => {
                    Node { owned: node.owned && !other.owned, below: node.below.without(&other.below, recursive) }
                }
            };
            result.put(step.clone(), left);
        }
        result
    }

    /// Takes the paths of the other set out of this one, as [`Self::difference`] does; whether there were any.
    pub(super) fn subtract(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (step, gone) in &other.0 {
            let Some(node) = self.0.get_mut(step) else { continue };
            changed |= node.owned && gone.owned;
            node.owned &= !gone.owned;
            changed |= node.below.subtract(&gone.below);
            if node.is_empty() {
                self.0.remove(step);
            }
        }
        changed
    }

    /// Whether every path of this set is in the other.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|(step, node)| {
            other.0.get(step).is_some_and(|other| (other.owned || !node.owned) && node.below.is_within(&other.below))
        })
    }

    /// All paths: the members of a level first, then what is below them.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Step>, paths: &mut Vec<FieldPath>) {
        for (step, _) in self.0.iter().filter(|(_, node)| node.owned) {
            let mut path = prefix.clone();
            path.push(step.clone());
            paths.push(FieldPath(path));
        }
        for (step, node) in &self.0 {
            prefix.push(step.clone());
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// The children, for walks along a type.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Step, &Node)> {
        self.0.iter()
    }

    /// The children, to be changed on such a walk.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Step, &mut Node)> {
        self.0.iter_mut()
    }

    /// FieldsV1.
    pub fn to_value(&self) -> Value {
        let fields = self.0.iter().map(|(step, node)| {
            let mut below = node.below.to_value();
            if node.owned && !node.below.is_empty() {
                below["."] = json!({});
            }
            (step.token(), below)
        });
        Value::Object(fields.collect())
    }

    /// Reads FieldsV1. Elements of unknown kinds are left out; broken ones are a mistake.
    pub fn from_value(value: &Value) -> Result<Self, BadStep> {
        let fields = match value {
            Value::Null => return Ok(Self::default()),
            Value::Object(fields) => fields,
            other => return Err(BadStep(other.to_string())),
        };
        let mut set = Self::default();
        for (text, below) in fields.iter().filter(|(text, _)| *text != ".") {
            if let Some(step) = Step::parse(text)? {
                let itself = below.get(".").is_some();
                let below = Self::from_value(below)?;
                set.put(step, Node { owned: itself || below.is_empty(), below });
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::apply::path::Scalar;
    use proptest::prelude::*;

    /// Arbitrary sets over few steps, so that they overlap.
    pub(in crate::apply) fn any_set() -> impl Strategy<Value = FieldSet> {
        let scalar = prop_oneof![
            (0..3i64).prop_map(Value::from),
            "[a-b<\"]{0,2}".prop_map(Value::from),
            any::<bool>().prop_map(Value::from)
        ];
        let step = prop_oneof![
            4 => "[a-c.:]{0,2}".prop_map(Step::Field),
            1 => prop::collection::btree_map("[a-b]", scalar.clone().prop_map(Scalar), 1..3).prop_map(|keys| Step::Key(keys.into_iter().collect())),
            1 => scalar.prop_map(|value| Step::Value(Scalar(value))),
            1 => (0..2i64).prop_map(Step::Index),
        ];
        prop::collection::vec(prop::collection::vec(step, 1..4), 0..8).prop_map(|paths| {
            let mut set = FieldSet::default();
            paths.iter().for_each(|path| set.add(path));
            set
        })
    }

    #[test]
    fn a_set_is_written_as_fields_v1_and_read_back() {
        let value = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}}});
        let set = FieldSet::from_value(&value).unwrap();
        assert_eq!(set.to_value(), value);
        let paths: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
        assert_eq!(
            paths,
            [".metadata.labels", ".metadata.labels.app", ".spec.ports[port=80]", ".spec.ports[port=80].port"]
        );
        assert_eq!(FieldSet::from_value(&json!({"x:y": {}, "f:a": {"z:": {}}})).unwrap(), FieldSet::of(&["a"]));
        for broken in [json!({"f:a": {"broken": {}}}), json!({"f:a": 1}), json!([])] {
            assert!(FieldSet::from_value(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_parent_is_not_its_children() {
        let (parent, child) = (FieldSet::of(&["a"]), FieldSet::of(&["a.b"]));
        assert_eq!(child.difference(&parent), child);
        assert_eq!(parent.difference(&child), parent);
        assert_eq!(child.difference_below(&parent), FieldSet::default());
        assert_eq!(parent.intersection(&child), FieldSet::default());
    }

    proptest! {
        #[test]
        fn reading_what_was_written_gives_the_same_set(set in any_set()) {
            prop_assert_eq!(FieldSet::from_value(&set.to_value()).unwrap(), set);
        }

        #[test]
        fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set()) {
            prop_assert_eq!(a.clone().union(b.clone()), b.clone().union(a.clone()));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert_eq!(a.difference(&b).union(a.intersection(&b)), a.clone());
            prop_assert!(a.difference(&a).is_empty());
            let mut rest = a.clone();
            prop_assert_eq!(rest.subtract(&b), !a.intersection(&b).is_empty());
            prop_assert_eq!(&rest, &a.difference(&b));
            prop_assert_eq!(a.is_within(&b), a.difference(&b).is_empty());
            prop_assert_eq!(a.difference_below(&b).difference(&a.difference(&b)), FieldSet::default());
            for path in a.paths() {
                prop_assert!(a.has(&path.0));
                prop_assert_eq!(a.difference(&b).has(&path.0), !b.has(&path.0));
            }
        }

        #[test]
        fn no_text_makes_reading_panic(text in "[fkvix]:?.{0,12}") {
            let _ = Step::parse(&text);
            let _ = FieldSet::from_value(&json!({ text: {".": {}} }));
        }
    }
}
