//! The stored definitions as this server knows them, and which of them have to be looked at.

use crate::stored;
use api::object::Fields;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
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
    object: Arc<Value>,
}

impl Index {
    /// Takes in a change and says whose routes it may concern.
    pub(super) fn note(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Put { entry, .. } => self.read(entry),
            Event::Delete { previous, .. } => {
                let name = super::name_of(previous.key())?.to_owned();
                if self.known.get(&name).is_some_and(|known| known.revision > event.revision()) {
                    return None;
                }
                let gone = self.known.remove(&name)?;
                self.due.remove(&name);
                self.names_may_be_free(&gone.object);
                Some(name)
            }
        }
    }

    /// Takes in what is stored.
    pub(super) fn read(&mut self, entry: &Entry) -> Option<String> {
        let name = super::name_of(entry.key())?;
        match stored::parse(entry) {
            Ok(object) => self.put(object, entry.mod_revision()),
            Err(why) => {
                tracing::warn!(definition = name, %why, "a stored definition cannot be read and is not served");
                None
            }
        }
    }

    /// Takes in what was written, which its event will tell once more.
    pub(super) fn put(&mut self, object: Value, revision: u64) -> Option<String> {
        let name = object.str_at("metadata.name").to_owned();
        let old = self.known.get(&name);
        if old.is_some_and(|old| old.revision >= revision) {
            return None;
        }
        let old = old.map(|old| Arc::clone(&old.object));
        if let Some(old) = old.filter(|old| old.at("status.acceptedNames") != object.at("status.acceptedNames")) {
            self.names_may_be_free(&old);
        }
        self.known.insert(name.clone(), Known { revision, object: Arc::new(object) });
        self.due.insert(name.clone());
        Some(name)
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

    /// One definition.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Value>> {
        self.known.get(name).map(|known| Arc::clone(&known.object))
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Arc<Value>)> {
        self.known.iter().map(|(name, known)| (name, &known.object))
    }
}
