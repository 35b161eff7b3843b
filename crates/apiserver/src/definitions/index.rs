//! The stored definitions as this server knows them, and which of them have to be looked at.

use crate::stored;
use api::object::Fields;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store::{Entry, Event};

/// Definitions by name.
#[derive(Default)]
pub(super) struct Index {
    known: BTreeMap<String, Known>,
    /// To be looked at.
    due: BTreeSet<String>,
}

struct Known {
    revision: u64,
    /// Its outline: the store has all of it.
    object: Value,
}

impl Index {
    /// Takes in a change and says whose routes it may concern, and what they are made of now.
    pub(super) fn note(&mut self, event: &Event) -> Option<(String, Option<Value>)> {
        match event {
            Event::Put { entry, .. } => self.read(entry).map(|(name, object)| (name, Some(object))),
            Event::Delete { previous, .. } => {
                let name = super::name_of(previous.key())?.to_owned();
                if self.known.get(&name).is_some_and(|known| known.revision > event.revision()) {
                    return None;
                }
                let gone = self.known.remove(&name)?;
                self.due.remove(&name);
                self.names_may_be_free(&gone.object);
                Some((name, None))
            }
        }
    }

    /// Takes in what is stored.
    pub(super) fn read(&mut self, entry: &Entry) -> Option<(String, Value)> {
        let name = super::name_of(entry.key())?;
        // The event of what this server has written itself: read already, and long.
        if self.known.get(name).is_some_and(|known| known.revision >= entry.mod_revision()) {
            return None;
        }
        match stored::parse(entry) {
            Ok(object) => self.put(object, entry.mod_revision()),
            Err(why) => {
                tracing::warn!(definition = name, %why, "a stored definition cannot be read and is not served");
                None
            }
        }
    }

    /// Takes in what was written, which its event will tell once more.
    pub(super) fn put(&mut self, object: Value, revision: u64) -> Option<(String, Value)> {
        let name = object.str_at("metadata.name").to_owned();
        let old = self.known.get(&name);
        if old.is_some_and(|old| old.revision >= revision) {
            return None;
        }
        let old = old.map(|old| old.object.clone());
        if let Some(old) = old.filter(|old| old.at("status.acceptedNames") != object.at("status.acceptedNames")) {
            self.names_may_be_free(&old);
        }
        self.known.insert(name.clone(), Known { revision, object: outline(&object) });
        self.due.insert(name.clone());
        Some((name, object))
    }

    /// Definitions of the same group that wait for a name get another look.
    fn names_may_be_free(&mut self, by: &Value) {
        let waiting = self.known.iter().filter(|(_, other)| {
            other.object.at("spec.group") == by.at("spec.group")
                && other.object.at("spec.names") != other.object.at("status.acceptedNames")
        });
        self.due.extend(waiting.map(|(name, _)| name.clone()));
    }

    /// Has a definition looked at.
    pub(super) fn wake(&mut self, name: String) {
        if self.known.contains_key(&name) {
            self.due.insert(name);
        }
    }

    /// Those to be looked at, which are then no longer due.
    pub(super) fn take_due(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.due)
    }

    /// The outline of one definition.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.known.get(name).map(|known| &known.object)
    }

    /// The revision at which one definition was taken in.
    pub(super) fn revision(&self, name: &str) -> Option<u64> {
        self.known.get(name).map(|known| known.revision)
    }

    /// All outlines.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.known.iter().map(|(name, known)| (name, &known.object))
    }
}

/// What names, routes and endings are decided by: all but the schemas, and what clients keep for themselves.
fn outline(object: &Value) -> Value {
    let kept = |path: &str, fields: &[&str]| -> Value {
        let found = fields.iter().filter_map(|name| Some(((*name).to_owned(), object.at(path).get(*name)?.clone())));
        found.collect::<serde_json::Map<_, _>>().into()
    };
    let metadata = kept("metadata", &["name", "uid", "resourceVersion", "deletionTimestamp", "finalizers"]);
    json!({"metadata": metadata, "spec": kept("spec", &["group", "names"]), "status": object.at("status")})
}
