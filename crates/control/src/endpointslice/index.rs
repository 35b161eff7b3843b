//! From a Service to its Pods and back, without walking a namespace. Used by the endpoints controllers alike.
//!
//! Pods are indexed by each of their labels, Services by one pair of their selector. A changed Pod finds its Services
//! through its labels; a Service finds its Pods through the rarest pair of its selector.

use super::{endpoint, families::selector};
use crate::framework::{Change, Index, Key, Store, selects};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use std::{collections::BTreeSet, sync::Arc};

/// The two stores with their indexes.
#[derive(Clone, Debug)]
pub struct Selected {
    services: Store<Service>,
    pods: Store<Pod>,
    by_selector: Index,
    by_label: Index,
    by_node: Index,
}

impl Selected {
    /// Makes the indexes, if nobody has yet.
    pub fn new(services: Store<Service>, pods: Store<Pod>) -> Self {
        let by_selector = services.index("selector", |service| {
            let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
            selector(service)
                .into_iter()
                .flat_map(|pairs| pairs.iter().next())
                .map(|pair| value(namespace, pair))
                .collect()
        });
        let by_label = pods.index("label", |pod| {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            pod.metadata.labels.iter().flatten().map(|pair| value(namespace, pair)).collect()
        });
        let by_node = pods.index("node", |pod| endpoint::node_name(pod).map(str::to_owned).into_iter().collect());
        Self { services, pods, by_selector, by_label, by_node }
    }

    pub fn service(&self, key: &Key) -> Option<Arc<Service>> {
        self.services.get(key)
    }

    /// The Pods that a Service picks.
    pub fn pods_of(&self, service: &Service) -> Vec<Arc<Pod>> {
        let Some(pairs) = selector(service) else { return Vec::new() };
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let values = pairs.iter().map(|pair| value(namespace, pair));
        let Some(rarest) = values.min_by_key(|value| self.pods.count_by(self.by_label, value)) else {
            return Vec::new();
        };
        let mut found = self.pods.by(self.by_label, &rarest);
        found.retain(|pod| selects(pairs, pod.metadata.labels.as_ref()));
        found
    }

    /// The Services that pick a Pod.
    pub fn services_of(&self, pod: &Pod) -> BTreeSet<Key> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let labels = pod.metadata.labels.as_ref();
        let candidates =
            labels.into_iter().flatten().flat_map(|pair| self.services.by(self.by_selector, &value(namespace, pair)));
        let picked = candidates.filter(|service| selector(service).is_some_and(|pairs| selects(pairs, labels)));
        picked.map(|service| Key::of(&*service)).collect()
    }

    /// The Services whose endpoints a change of a Pod can change.
    pub fn touched_by_pod(&self, change: &Change<'_, Pod>) -> BTreeSet<Key> {
        if let (Some(old), Some(new)) = (change.old, change.new)
            && old.metadata.labels == new.metadata.labels
        {
            return if endpoint::endpoint_differs(old, new) { self.services_of(new) } else { BTreeSet::new() };
        }
        change.both().flat_map(|pod| self.services_of(pod)).collect()
    }

    /// The Services whose endpoints a change of a node can change: it came or went, or its zone did.
    pub fn touched_by_node(&self, change: &Change<'_, Node>) -> BTreeSet<Key> {
        if let (Some(old), Some(new)) = (change.old, change.new)
            && endpoint::zone(old) == endpoint::zone(new)
        {
            return BTreeSet::new();
        }
        let name = change.key().name;
        self.pods.by(self.by_node, &name).iter().flat_map(|pod| self.services_of(pod)).collect()
    }
}

fn value(namespace: &str, (key, value): (&String, &String)) -> String {
    format!("{namespace}/{key}={value}")
}
