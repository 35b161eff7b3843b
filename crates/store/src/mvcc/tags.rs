//! What an entry is watched by beside its key, such as the node of a Pod: named by whoever knows what the bytes mean.

use std::fmt;
use std::sync::Arc;

use crate::entry::Entry;
use crate::event::Event;

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
        let before = event.previous().and_then(|entry| tag_of(entry));
        let now = event.entry().and_then(|entry| tag_of(entry)).filter(|now| before.as_ref() != Some(now));
        Tags([before, now])
    }
}

/// None, one or two different tags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags([Option<Arc<str>>; 2]);

impl Tags {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flatten()
    }

    pub(super) fn has(&self, tag: &str) -> bool {
        self.iter().any(|one| **one == *tag)
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
