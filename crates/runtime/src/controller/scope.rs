//! Which objects of a kind a store holds: all, those of a namespace, those of a selector.

use super::{Context, Store};
use crate::{
    client::{Api, Kind},
    watch::{self, watch},
};
use kube::{Client, Resource};
use parking_lot::Mutex;
use std::collections::HashMap;

/// A part of the objects of a kind. For those who have no business with the others, a right to this part is enough.
#[derive(Clone)]
pub struct Scope<K> {
    part: Part,
    api: fn(Client, &str) -> Api<K>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Part {
    namespace: String,
    labels: Option<String>,
    fields: Option<String>,
}

/// The stores of a kind, by what they hold.
struct Scoped<K>(Mutex<HashMap<Part, Store<K>>>);

impl<K: Resource<DynamicType = ()>> Default for Scope<K> {
    fn default() -> Self {
        Self { part: Part::default(), api: |client, _| Api::all(client) }
    }
}

impl<K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>> Scope<K> {
    /// Those of one namespace.
    #[must_use]
    pub fn namespace(namespace: &str) -> Self {
        let part = Part { namespace: namespace.to_owned(), ..Part::default() };
        Self { part, api: |client, namespace| Api::namespaced(client, namespace) }
    }
}

impl<K> Scope<K> {
    /// Those that a label selector picks.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.part.labels = Some(selector.to_owned());
        self
    }

    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.fields(&format!("metadata.name={name}"))
    }

    /// Those that a field selector picks, such as the Pods of a node.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.part.fields = Some(selector.to_owned());
        self
    }
}

impl<K: Kind> Scope<K> {
    /// Keeps a store current. Ends only by being dropped.
    pub async fn follow(self, client: Client, store: &Store<K>) {
        let Part { namespace, labels, fields } = self.part;
        let config = watch::Config { label_selector: labels, field_selector: fields, ..watch::Config::default() };
        store.follow(watch((self.api)(client, &namespace), config)).await;
    }
}

impl<O> Context<O> {
    /// All objects of a kind.
    pub fn store<K: Kind>(&self) -> Store<K> {
        self.store_of(Scope::default())
    }

    /// Those of one namespace.
    pub fn store_in<K>(&self, namespace: &str) -> Store<K>
    where
        K: Kind + Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        self.store_of(Scope::namespace(namespace))
    }

    /// Those of a scope. The watch begins when the first controller asks and serves all that ask for the same later.
    pub fn store_of<K: Kind>(&self, scope: Scope<K>) -> Store<K> {
        let all = self.once(|| Scoped::<K>(Mutex::default()));
        let mut all = all.0.lock();
        if let Some(store) = all.get(&scope.part) {
            return store.clone();
        }
        let (store, client, part) = (Store::<K>::default(), self.client(), scope.part.clone());
        let followed = store.clone();
        let task = match part.namespace.as_str() {
            "" => format!("watch-{}", K::plural(&())),
            namespace => format!("watch-{namespace}-{}", K::plural(&())),
        };
        self.tasks().restarting(&task, move |stop| {
            let (store, scope, client) = (followed.clone(), scope.clone(), client.clone());
            async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = scope.follow(client, &store) => {}
                }
                super::Result::<()>::Ok(())
            }
        });
        all.insert(part, store.clone());
        store
    }
}
