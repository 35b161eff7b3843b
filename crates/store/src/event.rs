//! What a watcher is told about one key. Built once per change, shared by every watcher and by the history.

use crate::entry::{Entry, Key};

/// One change of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The key was created (no `previous`) or overwritten.
    Put {
        /// What the key holds from this revision on.
        entry: Entry,
        /// What it held before, so that a reader can tell that an object has left its selection.
        previous: Option<Entry>,
    },
    /// The key was deleted, by a transaction or because its time was over.
    Delete {
        /// The revision of the deletion.
        revision: u64,
        /// What the key held before.
        previous: Entry,
    },
}

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { entry, .. } => entry.key(),
            Self::Delete { previous, .. } => previous.key(),
        }
    }

    /// The revision of the change. Changes of one transaction share it.
    pub fn revision(&self) -> u64 {
        match self {
            Self::Put { entry, .. } => entry.mod_revision(),
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// What the key holds after the change.
    pub fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Put { entry, .. } => Some(entry),
            Self::Delete { .. } => None,
        }
    }

    /// What the key held before the change.
    pub fn previous(&self) -> Option<&Entry> {
        match self {
            Self::Put { previous, .. } => previous.as_ref(),
            Self::Delete { previous, .. } => Some(previous),
        }
    }
}
