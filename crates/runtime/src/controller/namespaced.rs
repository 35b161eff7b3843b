//! Stores of one namespace, for those who have no business in others: a Role there is all the right they need.

use super::{Context, Store};
use crate::watch;
use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use std::{collections::HashMap, fmt};

/// Those of a kind, by namespace.
struct Namespaced<K>(Mutex<HashMap<&'static str, Store<K>>>);

impl<O> Context<O> {
    /// What the API holds of a kind in one namespace. Everybody who asks for it in this process gets the same.
    pub fn store_in<K>(&self, namespace: &'static str) -> Store<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    {
        let all = self.once(|| Namespaced::<K>(Mutex::default()));
        let follow = || {
            let (task, api) =
                (format!("watch-{namespace}-{}", K::plural(&())), Api::namespaced(self.client(), namespace));
            self.store_of(&task, api, watch::Config::default())
        };
        all.0.lock().entry(namespace).or_insert_with(follow).clone()
    }
}
