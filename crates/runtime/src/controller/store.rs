//! What the API holds of one kind, kept current by a watch, with indexes and callbacks.
//!
//! A watch lags behind the API; a controller that only saw the watch would do things twice. So whoever writes puts the
//! API's answer into the store at once, and what the watch brings later is ignored if it is older.

use super::{Key, trim::trim};
use crate::watch::{self as changes, Event};
use futures::{Stream, StreamExt};
use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};
use tokio::sync::watch;

type IndexValues<K> = fn(&K) -> Vec<String>;
type Callback<K> = Arc<dyn Fn(&Change<'_, K>) + Send + Sync>;
type Table<K> = HashMap<String, HashMap<Arc<Key>, Arc<K>>>;

/// All objects of a kind; clones share them.
pub struct Store<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    state: RwLock<State<K>>,
    /// Held while a change is made and told, so that callbacks see changes in order. Taken before `state`.
    telling: Mutex<Callbacks<K>>,
    synced: watch::Sender<Synced>,
}

/// What is known of the kind as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
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

struct State<K> {
    objects: HashMap<Arc<Key>, Arc<K>>,
    indexes: Vec<(&'static str, IndexValues<K>, Table<K>)>,
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

struct Callbacks<K> {
    next: u64,
    list: Vec<(u64, Callback<K>)>,
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

/// An index of a [`Store`], made by [`Store::index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index(usize);

/// One object came, changed or went; at least one side is there.
pub struct Change<'a, K> {
    /// Before; `None` for a new object.
    pub old: Option<&'a Arc<K>>,
    /// After; `None` for a deleted one.
    pub new: Option<&'a Arc<K>>,
    /// Whether it came from a writer in this process ([`Store::remember`], [`Store::forget`]), who knows it already.
    pub ours: bool,
}

impl<'a, K: Resource> Change<'a, K> {
    /// The newer of the two.
    pub fn object(&self) -> &'a Arc<K> {
        self.new.or(self.old).expect("a change has a side")
    }

    /// Before and after, as far as they exist.
    pub fn both(&self) -> impl Iterator<Item = &'a Arc<K>> + use<'a, K> {
        self.old.into_iter().chain(self.new)
    }

    /// Whose change it is.
    pub fn key(&self) -> Key {
        Key::of(&**self.object())
    }
}

/// A callback's life: it is called until this is dropped.
#[must_use = "the callback ends when this is dropped"]
pub struct Subscription(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("objects", &self.inner.state.read().objects.len()).finish_non_exhaustive()
    }
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        let state =
            State { objects: HashMap::new(), indexes: Vec::new(), listing: None, deleted: HashSet::new(), seen: 0 };
        let inner = Inner {
            state: RwLock::new(state),
            telling: Mutex::new(Callbacks { next: 0, list: Vec::new() }),
            synced: watch::Sender::new(Synced::Nothing),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl<K: Resource + Send + Sync + 'static> Store<K> {
    /// The object of this key.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.state.read().objects.get(key).cloned()
    }

    /// Every object. Costs as much as there are: not for a reconcile that another object's change can cause.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.inner.state.read().objects.values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inner.state.read().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of this name; made, and filled from what is there, the first time it is asked for.
    pub fn index(&self, name: &'static str, values: IndexValues<K>) -> Index {
        let mut state = self.inner.state.write();
        if let Some(at) = state.indexes.iter().position(|(known, ..)| *known == name) {
            return Index(at);
        }
        let mut table = Table::new();
        for (key, object) in &state.objects {
            for value in values(object) {
                table.entry(value).or_default().insert(Arc::clone(key), Arc::clone(object));
            }
        }
        state.indexes.push((name, values, table));
        Index(state.indexes.len() - 1)
    }

    /// The objects that an index has under this value.
    pub fn by(&self, index: Index, value: &str) -> Vec<Arc<K>> {
        let state = self.inner.state.read();
        state.indexes[index.0].2.get(value).into_iter().flat_map(|found| found.values().cloned()).collect()
    }

    /// How many objects an index has under this value.
    pub fn count_by(&self, index: Index, value: &str) -> usize {
        self.inner.state.read().indexes[index.0].2.get(value).map_or(0, HashMap::len)
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let index = self.index("namespace", |object| vec![object.meta().namespace.clone().unwrap_or_default()]);
        self.by(index, namespace)
    }

    /// Calls `callback` for every object there is, as if it had just come, and for every change from then on. It may
    /// read any store and add to queues; it must not write to this one.
    pub fn on_change(&self, callback: impl Fn(&Change<'_, K>) + Send + Sync + 'static) -> Subscription {
        let mut telling = self.inner.telling.lock();
        for object in self.all() {
            callback(&Change { old: None, new: Some(&object), ours: false });
        }
        let id = telling.next;
        telling.next += 1;
        telling.list.push((id, Arc::new(callback)));
        let inner = Arc::downgrade(&self.inner);
        Subscription(Some(Box::new(move || {
            if let Some(inner) = inner.upgrade() {
                inner.telling.lock().list.retain(|(known, _)| *known != id);
            }
        })))
    }

    /// Puts in what the API answered to a write, unless the watch has brought something newer.
    pub fn remember(&self, object: K) {
        let telling = self.inner.telling.lock();
        {
            let mut state = self.inner.state.write();
            // The watch is past this version and does not know the object: it is gone already.
            let (key, passed) = (Key::of(&object), version(&object).is_some_and(|version| version <= state.seen));
            if passed && !state.objects.contains_key(&key) {
                return;
            }
            state.listing.iter_mut().for_each(|listing| _ = listing.ours.insert(key.clone()));
        }
        self.put(&telling, object, Source::Writer);
    }

    /// Takes out an object that the API has deleted for good on our request, before the watch says so.
    pub fn forget(&self, object: &K) {
        let telling = self.inner.telling.lock();
        let key = Key::of(object);
        {
            let mut state = self.inner.state.write();
            let known = state.objects.get(&key).and_then(|known| known.uid());
            let Some(uid) = known.filter(|uid| Some(uid) == object.meta().uid.as_ref()) else { return };
            state.deleted.insert(uid);
            state.listing.iter_mut().for_each(|listing| _ = listing.ours.insert(key.clone()));
        }
        self.take(&telling, &key, true);
    }

    /// Resolves when the first list is complete.
    pub async fn synced(&self) {
        // The sender lives in self.
        let _ = self.inner.synced.subscribe().wait_for(|synced| *synced == Synced::Listed).await;
    }

    /// Resolves when the first list is complete, or when the API has said that it does not serve the kind; whether it does.
    pub async fn known(&self) -> bool {
        let mut synced = self.inner.synced.subscribe();
        // The sender lives in self.
        synced.wait_for(|synced| *synced != Synced::Nothing).await.is_ok_and(|synced| *synced == Synced::Listed)
    }

    /// Follows a watch until it ends. It recovers by itself and tells of its errors.
    pub async fn follow(&self, events: impl Stream<Item = Result<Event<K>, changes::Error>> + Send) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event),
                // Numbers of another history say nothing about what comes.
                Err(changes::Error::WentBack { .. }) => self.inner.state.write().seen = 0,
                // Objects that are known stay: their deletion would have been told.
                Err(error) if error.is_not_served() => _ = self.inner.synced.send_if_modified(Synced::not_served),
                Err(_) => {}
            }
        }
    }

    /// Takes in one event of a watch.
    pub fn apply(&self, event: Event<K>) {
        let telling = self.inner.telling.lock();
        match event {
            Event::Init => {
                let mut state = self.inner.state.write();
                state.listing = Some(Listing::default());
                // The list is made after all these deletions: what it still has is there.
                state.deleted.clear();
            }
            Event::InitApply(object) => {
                let key = Key::of(&object);
                let source = {
                    let mut state = self.inner.state.write();
                    let listing = state.listing.get_or_insert_default();
                    let ours = listing.ours.contains(&key);
                    listing.listed.insert(key);
                    if ours { Source::Watch } else { Source::List }
                };
                self.put_seen(&telling, object, source);
            }
            Event::InitDone => {
                let gone: Vec<Arc<Key>> = {
                    let mut state = self.inner.state.write();
                    let Listing { listed, ours } = state.listing.take().unwrap_or_default();
                    let there = |key: &Key| listed.contains(key) || ours.contains(key);
                    state.objects.keys().filter(|key| !there(key)).cloned().collect()
                };
                for key in gone {
                    self.take(&telling, &key, false);
                }
                self.inner.synced.send_replace(Synced::Listed);
            }
            Event::Apply(object) => self.put_seen(&telling, object, Source::Watch),
            Event::Delete(object) => {
                let key = Key::of(&object);
                let newer_one = {
                    let mut state = self.inner.state.write();
                    state.seen = state.seen.max(version(&object).unwrap_or(0));
                    if let Some(uid) = object.meta().uid.as_ref() {
                        state.deleted.remove(uid);
                    }
                    state.objects.get(&key).is_some_and(|known| known.meta().uid != object.meta().uid)
                };
                if !newer_one {
                    self.take(&telling, &key, false);
                }
            }
        }
    }

    fn put_seen(&self, telling: &Callbacks<K>, object: K, source: Source) {
        {
            let mut state = self.inner.state.write();
            state.seen = state.seen.max(version(&object).unwrap_or(0));
            if object.meta().uid.as_ref().is_some_and(|uid| state.deleted.contains(uid)) {
                return;
            }
        }
        self.put(telling, object, source);
    }

    fn put(&self, telling: &Callbacks<K>, mut object: K, source: Source) {
        trim(&mut object);
        let key = Key::of(&object);
        let (old, new) = {
            let mut state = self.inner.state.write();
            let known = state.objects.get_key_value(&key).map(|(key, old)| (Arc::clone(key), Arc::clone(old)));
            let (key, old) = match known {
                Some((key, old)) => (key, Some(old)),
                None => (Arc::new(key), None),
            };
            let counts = |old: &Arc<K>| match source {
                Source::List => object.meta().resource_version != old.meta().resource_version,
                Source::Watch | Source::Writer => is_newer(&object, old),
            };
            if !old.as_ref().is_none_or(counts) {
                return;
            }
            let new = Arc::new(object);
            if let Some(old) = &old {
                state.unindex(&key, old);
            }
            for (_, values, table) in &mut state.indexes {
                for value in values(&new) {
                    table.entry(value).or_default().insert(Arc::clone(&key), Arc::clone(&new));
                }
            }
            state.objects.insert(key, Arc::clone(&new));
            (old, new)
        };
        telling.tell(&Change { old: old.as_ref(), new: Some(&new), ours: source == Source::Writer });
    }

    fn take(&self, telling: &Callbacks<K>, key: &Key, ours: bool) {
        let old = {
            let mut state = self.inner.state.write();
            let Some((key, old)) = state.objects.remove_entry(key) else { return };
            state.unindex(&key, &old);
            old
        };
        telling.tell(&Change { old: Some(&old), new: None, ours });
    }
}

impl<K> State<K> {
    fn unindex(&mut self, key: &Arc<Key>, old: &K) {
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

impl<K> Callbacks<K> {
    fn tell(&self, change: &Change<'_, K>) {
        for (_, callback) in &self.list {
            callback(change);
        }
    }
}

/// Versions are numbers that grow, as Kubernetes promises since 1.35 and always did.
fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

/// Versions count across objects, so this also tells an object from its successor of the same name.
fn is_newer<K: Resource>(object: &K, known: &K) -> bool {
    match (version(object), version(known)) {
        (Some(version), Some(known)) => version > known,
        _ => object.meta().resource_version != known.meta().resource_version,
    }
}
