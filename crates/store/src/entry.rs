//! A key, and the value it had at one revision. Handed out by every read and carried by every event.

use bytes::Bytes;
use std::{
    any::Any,
    borrow::Borrow,
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

/// A key: text, cloned by reference count, ordered by its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Key {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When a key goes away by itself: milliseconds since the Unix epoch, so that it means the same after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Deadline(pub(crate) u64);

impl Deadline {
    /// This moment by the wall clock.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Everything about a value except the bytes; what an engine writes beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) create_revision: u64,
    pub(crate) mod_revision: u64,
    pub(crate) version: u64,
    /// `None` also where the engine itself expires the key (an etcd lease).
    pub(crate) deadline: Option<Deadline>,
}

/// How the value was found where it lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StoredForm {
    /// As a write would leave it.
    Current,
    /// Readable, but a write would leave it otherwise.
    Stale,
    /// Not readable, for this reason; the value here is empty.
    Unreadable(String),
}

/// The value of a key as one revision wrote it. Cloning copies one pointer.
#[derive(Clone)]
pub struct Entry(Arc<Inner>);

struct Inner {
    key: Key,
    value: Bytes,
    stamp: Stamp,
    form: StoredForm,
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Entry {
    pub(crate) fn new(key: Key, value: Bytes, stamp: Stamp) -> Self {
        Self::stored(key, value, stamp, StoredForm::Current)
    }

    pub(crate) fn stored(key: Key, value: Bytes, stamp: Stamp, form: StoredForm) -> Self {
        Self(Arc::new(Inner { key, value, stamp, form, view: OnceLock::new() }))
    }

    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The bytes as they were put. `Bytes::clone` of them copies nothing.
    pub fn value(&self) -> &Bytes {
        &self.0.value
    }

    /// The revision that created the key; a key deleted and put again is a new one.
    pub fn create_revision(&self) -> u64 {
        self.0.stamp.create_revision
    }

    /// The revision that wrote this value.
    pub fn mod_revision(&self) -> u64 {
        self.0.stamp.mod_revision
    }

    /// How often the key was written since its creation; 1 for the value that created it.
    pub fn version(&self) -> u64 {
        self.0.stamp.version
    }

    /// Whether writing the same value again would change how it is stored, such as by a newer key.
    pub fn is_stale(&self) -> bool {
        self.0.form == StoredForm::Stale
    }

    /// Why the stored form could not be read. Such an entry has no bytes, and whoever asks for it must hear this.
    pub fn unreadable(&self) -> Option<&str> {
        match &self.0.form {
            StoredForm::Unreadable(why) => Some(why),
            StoredForm::Current | StoredForm::Stale => None,
        }
    }

    /// What `parse` makes of the bytes, computed by whoever asks first and shared by all readers and watchers of this value.
    ///
    /// The cell holds one type: asking for a second one works but parses each time, so a caller keeps to one `T`.
    pub fn view<T: Any + Send + Sync>(&self, parse: impl FnOnce(&Bytes) -> T) -> Arc<T> {
        let mut parse = Some(parse);
        let cell = self.0.view.get_or_init(|| {
            let parse = parse.take().expect("the cell is filled by one call of this closure");
            Arc::new(parse(&self.0.value))
        });
        match Arc::clone(cell).downcast::<T>() {
            Ok(view) => view,
            Err(_) => {
                let parse = parse.take().expect("the cell was filled with another type, so this call did not fill it");
                Arc::new(parse(&self.0.value))
            }
        }
    }

    /// The same entry with other bytes: what is stored, in other words.
    #[must_use]
    pub fn with_value(&self, value: Bytes) -> Self {
        Self::stored(self.0.key.clone(), value, self.0.stamp, self.0.form.clone())
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.0.stamp
    }
}

/// Equal when key, bytes and revisions are; what was parsed from the bytes does not matter.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.key == other.0.key
                && self.create_revision() == other.create_revision()
                && self.mod_revision() == other.mod_revision()
                && self.version() == other.version()
                && self.0.value == other.0.value)
    }
}

impl Eq for Entry {}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.0.key)
            .field("bytes", &self.0.value.len())
            .field("create_revision", &self.create_revision())
            .field("mod_revision", &self.mod_revision())
            .field("version", &self.version())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let stamp = Stamp { create_revision: 2, mod_revision: 3, version: 2, deadline: None };
        Entry::new("a".into(), Bytes::from_static(b"41"), stamp)
    }

    #[test]
    fn a_view_is_computed_once_and_shared_by_clones() {
        let one = entry();
        let two = one.clone();
        let first = one.view(|bytes| bytes.len());
        let second = two.view(|_| -> usize { panic!("parsed a second time") });
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(*first, 2);
    }

    #[test]
    fn a_view_of_a_second_type_is_parsed_on_its_own() {
        let one = entry();
        assert_eq!(*one.view(|bytes| bytes.len()), 2);
        assert_eq!(*one.view(|bytes| bytes[0]), b'4');
        assert_eq!(*one.view(|_| 7_usize), 2);
    }
}
