//! What the API holds of one kind, kept current by a watch, with indexes and callbacks. The types of [`Objects`].

use super::{
    Key,
    erased::{Changed, Object, Objects, Synced},
    trim::trim,
};
use crate::watch::{self as changes, Event};
use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

/// All objects of a kind; clones share them.
pub struct Store<K> {
    objects: Arc<Objects>,
    kind: PhantomData<fn() -> K>,
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
        Self { objects: Arc::clone(&self.objects), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

impl<K: Resource + Send + Sync + 'static> Default for Store<K> {
    fn default() -> Self {
        Self { objects: Arc::new(Objects::new(meta::<K>)), kind: PhantomData }
    }
}

impl<K: Resource + Send + Sync + 'static> Store<K> {
    /// The object of this key.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).map(typed)
    }

    /// Every object. Costs as much as there are: not for a reconcile that another object's change can cause.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.objects.all().into_iter().map(typed).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of this name; made, and filled from what is there, the first time it is asked for.
    pub fn index(&self, name: &'static str, values: fn(&K) -> Vec<String>) -> Index {
        Index(self.objects.index(name, Box::new(move |object| values(shown(object)))))
    }

    /// The objects that an index has under this value.
    pub fn by(&self, index: Index, value: &str) -> Vec<Arc<K>> {
        self.objects.by(index.0, value).into_iter().map(typed).collect()
    }

    /// How many objects an index has under this value.
    pub fn count_by(&self, index: Index, value: &str) -> usize {
        self.objects.count_by(index.0, value)
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let index = self.index("namespace", |object| vec![object.meta().namespace.clone().unwrap_or_default()]);
        self.by(index, namespace)
    }

    /// Calls `callback` for every object there is, as if it had just come, and for every change from then on. It may
    /// read any store and add to queues; it must not write to this one.
    pub fn on_change(&self, callback: impl Fn(&Change<'_, K>) + Send + Sync + 'static) -> Subscription {
        let id = self.objects.on_change(Box::new(move |Changed { old, new, ours }| {
            let [old, new] = [old, new].map(|side| side.map(|object| typed(Arc::clone(object))));
            callback(&Change { old: old.as_ref(), new: new.as_ref(), ours: *ours });
        }));
        let objects = Arc::downgrade(&self.objects);
        Subscription(Some(Box::new(move || {
            if let Some(objects) = objects.upgrade() {
                objects.end(id);
            }
        })))
    }

    /// Puts in what the API answered to a write, unless the watch has brought something newer.
    pub fn remember(&self, object: K) {
        self.objects.remember(kept(object));
    }

    /// Takes out an object that the API has deleted for good on our request, before the watch says so.
    pub fn forget(&self, object: &K) {
        self.objects.forget(object.meta());
    }

    /// Resolves when the first list is complete.
    pub async fn synced(&self) {
        // The sender lives in self.
        let _ = self.objects.synced.subscribe().wait_for(|synced| *synced == Synced::Listed).await;
    }

    /// Resolves when the first list is complete, or when the API has said that it does not serve the kind; whether it does.
    pub async fn known(&self) -> bool {
        let mut synced = self.objects.synced.subscribe();
        // The sender lives in self.
        synced.wait_for(|synced| *synced != Synced::Nothing).await.is_ok_and(|synced| *synced == Synced::Listed)
    }

    /// Follows a watch until it ends. It recovers by itself and tells of its errors.
    pub async fn follow(&self, events: impl Stream<Item = Result<Event<K>, changes::Error>> + Send) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event),
                Err(error) => self.objects.failed(&error),
            }
        }
    }

    /// Takes in one event of a watch.
    pub fn apply(&self, event: Event<K>) {
        self.objects.apply(match event {
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(kept(object)),
            Event::InitDone => Event::InitDone,
            Event::Apply(object) => Event::Apply(kept(object)),
            Event::Delete(object) => Event::Delete(kept(object)),
        });
    }
}

fn kept<K: Resource + Send + Sync + 'static>(mut object: K) -> Object {
    object.meta_mut().managed_fields = None;
    trim(&mut object);
    Arc::new(object)
}

fn shown<K: 'static>(object: &Object) -> &K {
    let object: &(dyn Any + Send + Sync) = &**object;
    object.downcast_ref().expect("a store holds one kind")
}

fn typed<K: Send + Sync + 'static>(object: Object) -> Arc<K> {
    object.downcast().unwrap_or_else(|_| unreachable!("a store holds one kind"))
}

fn meta<K: Resource + 'static>(object: &Object) -> &ObjectMeta {
    shown::<K>(object).meta()
}
