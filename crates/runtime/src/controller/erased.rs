//! What [`Store`](super::Store) is for every kind, compiled once: objects without their type, and how to find their metadata.
//!
//! A watch lags behind the API; a controller that only saw the watch would do things twice. So whoever writes puts the
//! API's answer into the store at once, and what the watch brings later is ignored if it is older.

use super::Key;
use crate::watch::{self as changes, Event};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::{Mutex, RwLock};
use std::{
    any::Any,
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio::sync::watch;

/// An object of the store's kind.
pub(super) type Object = Arc<dyn Any + Send + Sync>;
type Values = Box<dyn Fn(&Object) -> Vec<String> + Send + Sync>;
type Callback = Box<dyn Fn(&Changed<'_>) + Send + Sync>;
type Table = HashMap<String, HashMap<Arc<Key>, Object>>;

/// All objects of a kind.
pub(super) struct Objects {
    meta: fn(&Object) -> &ObjectMeta,
    state: RwLock<State>,
    /// Held while a change is made and told, so that callbacks see changes in order. Taken before `state`.
    notifying: Mutex<Callbacks>,
    pub(super) synced: watch::Sender<Synced>,
}

/// What is known of the kind as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    Nothing,
    /// The API does not serve it, or did not when it was last asked.
    NotServed,
    Listed,
}

impl Synced {
    fn not_served(&mut self) -> bool {
        let first = *self == Self::Nothing;
        if first {
            *self = Self::NotServed;
        }
        first
    }
}

#[derive(Default)]
struct State {
    objects: HashMap<Arc<Key>, Object>,
    indexes: Vec<(&'static str, Values, Table)>,
    /// The list that is under way.
    listing: Option<Listing>,
    /// UIDs of objects that we deleted and that the watch still believes in.
    deleted: HashSet<String>,
    /// The newest version that the watch has brought.
    seen: u64,
}

/// What has happened since a list was asked for.
#[derive(Default)]
struct Listing {
    /// What it has brought. What is not among it at its end is gone.
    listed: HashSet<Key>,
    /// What we wrote meanwhile, which the list may not have yet. All else is as the list says, even if that is older: the
    /// API may have been restored from a backup.
    ours: HashSet<Key>,
}

#[derive(Default)]
struct Callbacks {
    next: u64,
    list: Vec<(u64, Callback)>,
}

/// Where an object comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A list that was made after all that is known: it is right.
    List,
    /// Counts if it is newer.
    Watch,
    /// As `Watch`; the callbacks' own side knows it already.
    Writer,
}

/// One object came, changed or went; at least one side is there.
pub(super) struct Changed<'a> {
    pub(super) old: Option<&'a Object>,
    pub(super) new: Option<&'a Object>,
    pub(super) ours: bool,
}

impl Objects {
    pub(super) fn new(meta: fn(&Object) -> &ObjectMeta) -> Self {
        Self {
            meta,
            state: RwLock::default(),
            notifying: Mutex::default(),
            synced: watch::Sender::new(Synced::Nothing),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Object> {
        self.state.read().objects.get(key).cloned()
    }

    pub(super) fn all(&self) -> Vec<Object> {
        self.state.read().objects.values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    pub(super) fn index(&self, name: &'static str, values: Values) -> usize {
        let mut state = self.state.write();
        if let Some(at) = state.indexes.iter().position(|(known, ..)| *known == name) {
            return at;
        }
        let mut table = Table::new();
        for (key, object) in &state.objects {
            for value in values(object) {
                table.entry(value).or_default().insert(Arc::clone(key), Arc::clone(object));
            }
        }
        state.indexes.push((name, values, table));
        state.indexes.len() - 1
    }

    pub(super) fn by(&self, index: usize, value: &str) -> Vec<Object> {
        let state = self.state.read();
        state.indexes[index].2.get(value).into_iter().flat_map(|found| found.values().cloned()).collect()
    }

    pub(super) fn count_by(&self, index: usize, value: &str) -> usize {
        self.state.read().indexes[index].2.get(value).map_or(0, HashMap::len)
    }

    /// Calls it for every object there is, and for every change from then on. The number is for [`Objects::end`].
    pub(super) fn on_change(&self, callback: Callback) -> u64 {
        let mut notifying = self.notifying.lock();
        for object in self.all() {
            callback(&Changed { old: None, new: Some(&object), ours: false });
        }
        let id = notifying.next;
        notifying.next += 1;
        notifying.list.push((id, callback));
        id
    }

    pub(super) fn end(&self, id: u64) {
        self.notifying.lock().list.retain(|(known, _)| *known != id);
    }

    pub(super) fn remember(&self, object: Object) {
        let notifying = self.notifying.lock();
        {
            let mut state = self.state.write();
            // The watch is past this version and does not know the object: it is gone already.
            let meta = (self.meta)(&object);
            let (key, passed) = (Key::from(meta), version(meta).is_some_and(|version| version <= state.seen));
            if passed && !state.objects.contains_key(&key) {
                return;
            }
            state.listing.iter_mut().for_each(|listing| _ = listing.ours.insert(key.clone()));
        }
        self.put(&notifying, object, Source::Writer);
    }

    pub(super) fn forget(&self, meta: &ObjectMeta) {
        let notifying = self.notifying.lock();
        let key = Key::from(meta);
        {
            let mut state = self.state.write();
            let known = state.objects.get(&key).and_then(|known| (self.meta)(known).uid.clone());
            let Some(uid) = known.filter(|uid| Some(uid) == meta.uid.as_ref()) else { return };
            state.deleted.insert(uid);
            state.listing.iter_mut().for_each(|listing| _ = listing.ours.insert(key.clone()));
        }
        self.take(&notifying, &key, true);
    }

    /// The watch had to begin anew.
    pub(super) fn failed(&self, error: &changes::Error) {
        match error {
            // Numbers of another history say nothing about what comes.
            changes::Error::WentBack { .. } => self.state.write().seen = 0,
            // Objects that are known stay: their deletion would have been told.
            error if error.is_not_served() => _ = self.synced.send_if_modified(Synced::not_served),
            _ => {}
        }
    }

    pub(super) fn apply(&self, event: Event<Object>) {
        let notifying = self.notifying.lock();
        match event {
            Event::Init => {
                let mut state = self.state.write();
                state.listing = Some(Listing::default());
                // The list is made after all these deletions: what it still has is there.
                state.deleted.clear();
            }
            Event::InitApply(object) => {
                let key = Key::from((self.meta)(&object));
                let source = {
                    let mut state = self.state.write();
                    let listing = state.listing.get_or_insert_default();
                    let ours = listing.ours.contains(&key);
                    listing.listed.insert(key);
                    if ours { Source::Watch } else { Source::List }
                };
                self.put_seen(&notifying, object, source);
            }
            Event::InitDone => {
                let gone: Vec<Arc<Key>> = {
                    let mut state = self.state.write();
                    let Listing { listed, ours } = state.listing.take().unwrap_or_default();
                    let there = |key: &Key| listed.contains(key) || ours.contains(key);
                    state.objects.keys().filter(|key| !there(key)).cloned().collect()
                };
                for key in gone {
                    self.take(&notifying, &key, false);
                }
                self.synced.send_replace(Synced::Listed);
            }
            Event::Apply(object) => self.put_seen(&notifying, object, Source::Watch),
            Event::Delete(object) => {
                let meta = (self.meta)(&object);
                let key = Key::from(meta);
                let newer_one = {
                    let mut state = self.state.write();
                    state.seen = state.seen.max(version(meta).unwrap_or(0));
                    if let Some(uid) = meta.uid.as_ref() {
                        state.deleted.remove(uid);
                    }
                    state.objects.get(&key).is_some_and(|known| (self.meta)(known).uid != meta.uid)
                };
                if !newer_one {
                    self.take(&notifying, &key, false);
                }
            }
        }
    }

    fn put_seen(&self, notifying: &Callbacks, object: Object, source: Source) {
        {
            let mut state = self.state.write();
            let meta = (self.meta)(&object);
            state.seen = state.seen.max(version(meta).unwrap_or(0));
            if meta.uid.as_ref().is_some_and(|uid| state.deleted.contains(uid)) {
                return;
            }
        }
        self.put(notifying, object, source);
    }

    fn put(&self, notifying: &Callbacks, new: Object, source: Source) {
        let meta = (self.meta)(&new);
        let old = {
            let mut state = self.state.write();
            let key = Key::from(meta);
            let known = state.objects.get_key_value(&key).map(|(key, old)| (Arc::clone(key), Arc::clone(old)));
            let (key, old) = match known {
                Some((key, old)) => (key, Some(old)),
                None => (Arc::new(key), None),
            };
            let counts = |old: &Object| match source {
                Source::List => meta.resource_version != (self.meta)(old).resource_version,
                Source::Watch | Source::Writer => is_newer(meta, (self.meta)(old)),
            };
            if !old.as_ref().is_none_or(counts) {
                return;
            }
            if let Some(old) = &old {
                state.unindex(&key, old);
            }
            for (_, values, table) in &mut state.indexes {
                for value in values(&new) {
                    table.entry(value).or_default().insert(Arc::clone(&key), Arc::clone(&new));
                }
            }
            state.objects.insert(key, Arc::clone(&new));
            old
        };
        notifying.notify(&Changed { old: old.as_ref(), new: Some(&new), ours: source == Source::Writer });
    }

    fn take(&self, notifying: &Callbacks, key: &Key, ours: bool) {
        let old = {
            let mut state = self.state.write();
            let Some((key, old)) = state.objects.remove_entry(key) else { return };
            state.unindex(&key, &old);
            old
        };
        notifying.notify(&Changed { old: Some(&old), new: None, ours });
    }
}

impl State {
    fn unindex(&mut self, key: &Arc<Key>, old: &Object) {
        for (_, values, table) in &mut self.indexes {
            for value in values(old) {
                if let Some(found) = table.get_mut(&value) {
                    found.remove(key);
                    if found.is_empty() {
                        table.remove(&value);
                    }
                }
            }
        }
    }
}

impl Callbacks {
    fn notify(&self, change: &Changed<'_>) {
        for (_, callback) in &self.list {
            callback(change);
        }
    }
}

/// Versions are numbers that grow, as Kubernetes promises since 1.35 and always did.
fn version(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_ref()?.parse().ok()
}

/// Versions count across objects, so this also tells an object from its successor of the same name.
fn is_newer(object: &ObjectMeta, known: &ObjectMeta) -> bool {
    match (version(object), version(known)) {
        (Some(version), Some(known)) => version > known,
        _ => object.resource_version != known.resource_version,
    }
}
