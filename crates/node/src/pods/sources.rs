//! The ConfigMaps and Secrets that Pods of this node name, each watched by its name, and the Services that they see.
//!
//! A kubelet may read no others: the API server's node authorizer lets it watch one by one what its Pods name.

use crate::{environment::Sources, volumes::Volumes};
use futures::future::join_all;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Pod, Secret, Service},
};
use kube::{Client, Resource, ResourceExt};
use parking_lot::Mutex;
use runtime::task::beside;
use runtime::{
    client::Kind,
    controller::{Key, Scope, Store, Subscription},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::task::AbortHandle;

/// How long a Pod waits for what it names to be read; afterwards it counts as not there, and is looked for again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches of one kind, by key.
struct Watched<K> {
    all: Mutex<BTreeMap<Key, Watch<K>>>,
}

struct Watch<K> {
    store: Store<K>,
    task: AbortHandle,
    _changes: Subscription,
    pods: BTreeSet<String>,
}

impl<K> Drop for Watch<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the Pods of this node take from the API.
pub struct ApiSources {
    client: Client,
    config_maps: Arc<Watched<ConfigMap>>,
    secrets: Arc<Watched<Secret>>,
    services: Store<Service>,
    /// Called with the uids of Pods that name something that changed.
    changed: Arc<dyn Fn(&str) + Send + Sync>,
}

impl<K> Default for Watched<K> {
    fn default() -> Self {
        Self { all: Mutex::default() }
    }
}

impl ApiSources {
    pub fn new(client: Client, services: Store<Service>, changed: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self { client, config_maps: Arc::default(), secrets: Arc::default(), services, changed }
    }

    /// Follows what a Pod names, and waits until it is known.
    pub async fn follow(&self, pod: &Pod) {
        let (namespace, uid) = (pod.namespace().unwrap_or_default(), pod.uid().unwrap_or_default());
        let Named { config_maps, secrets } = named(pod);
        let maps = self.config_maps.follow(&self.client, &namespace, &uid, config_maps, &self.changed);
        let secrets = self.secrets.follow(&self.client, &namespace, &uid, secrets, &self.changed);
        let all = async {
            join_all(maps.iter().map(Store::synced)).await;
            join_all(secrets.iter().map(Store::synced)).await;
            self.services.synced().await;
        };
        // What the API does not tell in time counts as absent for now.
        let _ = tokio::time::timeout(PATIENCE, all).await;
    }

    /// A Pod is gone: nobody else may name what it named.
    pub fn forget(&self, uid: &str) {
        self.config_maps.forget(uid);
        self.secrets.forget(uid);
    }
}

impl<K: Kind + Resource<Scope = NamespaceResourceScope>> Watched<K> {
    fn follow(
        self: &Arc<Self>,
        client: &Client,
        namespace: &str,
        uid: &str,
        names: BTreeSet<String>,
        changed: &Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Vec<Store<K>> {
        let mut stores = Vec::new();
        for name in names {
            let key = Key::new(namespace, name);
            if let Some(watch) = self.all.lock().get_mut(&key) {
                watch.pods.insert(uid.to_owned());
                stores.push(watch.store.clone());
                continue;
            }
            let store = Store::<K>::default();
            let scope = Scope::<K>::namespace(namespace).name(&key.name);
            let (followed, client) = (store.clone(), client.clone());
            let task = beside("pod-sources", async move { scope.follow(client, &followed).await });
            let changes = store.on_change({
                let (watched, changed) = (Arc::downgrade(self), Arc::clone(changed));
                move |change| {
                    let Some(watched) = watched.upgrade() else { return };
                    let pods = watched.all.lock().get(&change.key()).map(|watch| watch.pods.clone());
                    pods.into_iter().flatten().for_each(|uid| changed(&uid));
                }
            });
            let pods = BTreeSet::from([uid.to_owned()]);
            stores.push(store.clone());
            self.all.lock().insert(key, Watch { store, task, _changes: changes, pods });
        }
        stores
    }

    fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = Key::new(namespace, name);
        let store = self.all.lock().get(&key).map(|watch| watch.store.clone());
        store.and_then(|store| store.get(&key))
    }

    fn forget(&self, uid: &str) {
        let mut all = self.all.lock();
        let mut gone = Vec::new();
        for (key, watch) in all.iter_mut() {
            watch.pods.remove(uid);
            if watch.pods.is_empty() {
                gone.push(key.clone());
            }
        }
        let gone: Vec<_> = gone.into_iter().filter_map(|key| all.remove(&key)).collect();
        drop(all);
        drop(gone);
    }
}

impl Sources for ApiSources {
    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>> {
        self.config_maps.get(namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
        self.secrets.get(namespace, name)
    }

    fn services(&self, namespace: &str) -> Vec<Arc<Service>> {
        let mut found = self.services.in_namespace(namespace);
        if namespace != "default" {
            found.extend(self.services.get(&Key::new("default", "kubernetes")));
        }
        found
    }
}

/// What the API has, and the files of a Pod's own volumes.
pub(super) struct WithFiles<'a> {
    pub(super) sources: &'a ApiSources,
    pub(super) volumes: &'a Volumes,
}

impl Sources for WithFiles<'_> {
    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>> {
        self.sources.config_map(namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
        self.sources.secret(namespace, name)
    }

    fn services(&self, namespace: &str) -> Vec<Arc<Service>> {
        self.sources.services(namespace)
    }

    fn env_file(&self, pod: &Pod, volume: &str, path: &str) -> Result<Option<String>, String> {
        self.volumes.read_file(pod, volume, path)
    }
}

/// What a Pod names, in its volumes, variables and pull secrets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

/// Found by the names of fields, wherever they stand: `configMap.name`, `configMapRef.name`, `secretName`.
fn named(pod: &Pod) -> Named {
    let mut named = Named::default();
    if let Ok(value) = objects::to_value(pod) {
        walk(&value["spec"], "", &mut named);
    }
    named
}

fn walk(value: &Value, field: &str, named: &mut Named) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned);
            match field {
                "configMap" | "configMapRef" | "configMapKeyRef" => named.config_maps.extend(name),
                "secretRef" | "secretKeyRef" | "imagePullSecrets" | "nodePublishSecretRef" => {
                    named.secrets.extend(name)
                }
                "secret" => {
                    let other = fields.get("secretName").and_then(Value::as_str).map(str::to_owned);
                    named.secrets.extend(other.or(name));
                }
                _ => {}
            }
            fields.iter().for_each(|(field, value)| walk(value, field, named));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, field, named)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn everything_that_a_pod_names_is_found() {
        let pod: Pod = objects::from_value(&json!({"metadata": {"name": "p"}, "spec": {
            "imagePullSecrets": [{"name": "s1"}],
            "volumes": [
                {"name": "a", "configMap": {"name": "m1"}},
                {"name": "b", "secret": {"secretName": "s2"}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "m2"}}, {"secret": {"name": "s3"}}]}}],
            "containers": [{"name": "c", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m3", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}}],
                "envFrom": [{"configMapRef": {"name": "m4"}}, {"secretRef": {"name": "s5"}}]}]}}))
        .unwrap();
        let named = named(&pod);
        assert_eq!(Vec::from_iter(&named.config_maps), ["m1", "m2", "m3", "m4"]);
        assert_eq!(Vec::from_iter(&named.secrets), ["s1", "s2", "s3", "s4", "s5"]);
    }
}
