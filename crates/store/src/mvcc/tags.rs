//! What an entry is watched by beside its key, such as the node of a Pod: named by whoever knows what the bytes mean.

use crate::{
    entry::{Entry, Key},
    event::Event,
};
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    ops::Bound,
    sync::Arc,
};

/// Names what an entry belongs to. For the same bytes always the same.
pub(crate) type TagOf = dyn Fn(&Entry) -> Option<Arc<str>> + Send + Sync;

/// How entries are tagged; at first not at all.
#[derive(Clone, Default)]
pub(crate) struct Tagger(Option<Arc<TagOf>>);

impl fmt::Debug for Tagger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tagger").field(&self.0.is_some()).finish()
    }
}

impl Tagger {
    pub(crate) fn new(tag_of: Arc<TagOf>) -> Self {
        Self(Some(tag_of))
    }

    /// The tags that an event concerns: what the key belonged to, and what it belongs to now.
    pub(crate) fn tags(&self, event: &Event) -> Tags {
        let Some(tag_of) = &self.0 else { return Tags::default() };
        Tags {
            before: event.previous().and_then(|entry| tag_of(entry)),
            now: event.entry().and_then(|entry| tag_of(entry)),
        }
    }

    fn tag(&self, entry: &Entry) -> Option<Arc<str>> {
        self.0.as_ref().and_then(|tag_of| tag_of(entry))
    }
}

/// What a key belonged to before a change, and after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    before: Option<Arc<str>>,
    now: Option<Arc<str>>,
}

impl Tags {
    /// Each once.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.before.iter().chain(self.now.iter().filter(|now| self.before.as_ref() != Some(now)))
    }

    pub(super) fn has(&self, tag: &str) -> bool {
        self.iter().any(|one| **one == *tag)
    }
}

/// The live keys of each tag.
#[derive(Debug, Default)]
pub(super) struct TaggedKeys(HashMap<Arc<str>, BTreeSet<Key>>);

impl TaggedKeys {
    pub(super) fn of<'a>(tagger: &Tagger, live: impl Iterator<Item = &'a Entry>) -> Self {
        let mut keys = Self::default();
        for entry in live {
            if let Some(tag) = tagger.tag(entry) {
                keys.0.entry(tag).or_default().insert(entry.key().clone());
            }
        }
        keys
    }

    /// Follows one change.
    pub(super) fn apply(&mut self, key: &Key, tags: &Tags) {
        if tags.before == tags.now {
            return;
        }
        if let Some(before) = &tags.before
            && let Some(keys) = self.0.get_mut(before)
        {
            keys.remove(&**key);
            if keys.is_empty() {
                self.0.remove(before);
            }
        }
        if let Some(now) = &tags.now {
            self.0.entry(Arc::clone(now)).or_default().insert(key.clone());
        }
    }

    /// Those of a tag that start with `prefix`, in order.
    pub(super) fn get<'a>(&'a self, tag: &str, prefix: &'a str) -> impl Iterator<Item = &'a Key> {
        let after = move |keys: &'a BTreeSet<Key>| keys.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        self.0.get(tag).into_iter().flat_map(after).take_while(move |key| key.starts_with(prefix))
    }
}

/// What a watcher watches: the keys of a prefix, all of them or those of a tag.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) prefix: Arc<str>,
    pub(crate) tag: Option<Arc<str>>,
}

impl Topic {
    pub(super) fn covers(&self, event: &Event, tags: &Tags) -> bool {
        event.key().starts_with(&*self.prefix) && self.tag.as_ref().is_none_or(|tag| tags.has(tag))
    }
}
