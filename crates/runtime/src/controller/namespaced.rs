//! Stores of one namespace, for those who have no business in others: a Role there is all the right they need.

use super::{Context, Result, Store};
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
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
        all.0.lock().entry(namespace).or_insert_with(|| self.follow_in(namespace)).clone()
    }

    fn follow_in<K>(&self, namespace: &'static str) -> Store<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    {
        let (store, client) = (Store::<K>::default(), self.client());
        let followed = store.clone();
        self.tasks().restarting(&format!("watch-{namespace}-{}", K::plural(&())), move |stop| {
            let (api, store) = (Api::<K>::namespaced(client.clone(), namespace), followed.clone());
            async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = store.follow(watcher(api, watcher::Config::default()).default_backoff()) => {}
                }
                Result::<()>::Ok(())
            }
        });
        store
    }
}
