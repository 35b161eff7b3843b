//! Objects in memory for tests.

use super::{Delta, Id, Model, Objects, Source};
use crate::router::settings::Admission;
use k8s_openapi::api::{
    core::v1::{Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::Ingress,
};
use runtime::{
    controller::Key,
    operator::Route,
    pki::{Authority, Purpose},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::SystemTime,
};

/// Chain and key for a name.
pub(crate) fn certificate(name: &str) -> (String, String) {
    let now = SystemTime::now();
    let authority = Authority::create("test", now).unwrap();
    let purpose = Purpose::Serving { names: vec![name.to_owned()], addresses: Vec::new() };
    let identity = authority.issue(&purpose, now).unwrap();
    (identity.chain_pem().to_owned(), identity.key_pem().expose().clone())
}

/// A cluster's objects and the model of them.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) routes: BTreeMap<Key, Arc<Route>>,
    pub(crate) ingresses: BTreeMap<Key, Arc<Ingress>>,
    pub(crate) services: BTreeMap<Key, Arc<Service>>,
    pub(crate) slices: BTreeMap<Key, Vec<Arc<EndpointSlice>>>,
    pub(crate) secrets: BTreeMap<Key, Arc<Secret>>,
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Addresses without a way.
    pub(crate) cut_off: BTreeSet<IpAddr>,
}

impl Objects for Cluster {
    fn route(&self, key: &Key) -> Option<Arc<Route>> {
        self.routes.get(key).cloned()
    }
    fn ingress(&self, key: &Key) -> Option<Arc<Ingress>> {
        self.ingresses.get(key).cloned()
    }
    fn service(&self, key: &Key) -> Option<Arc<Service>> {
        self.services.get(key).cloned()
    }
    fn slices(&self, service: &Key) -> Vec<Arc<EndpointSlice>> {
        self.slices.get(service).cloned().unwrap_or_default()
    }
    fn secret(&self, key: &Key) -> Option<Arc<Secret>> {
        self.secrets.get(key).cloned()
    }
    fn namespace_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.namespaces.get(name).cloned()
    }
    fn reaches(&self, ip: IpAddr) -> bool {
        !self.cut_off.contains(&ip)
    }
}

/// An object from JSON.
pub(crate) fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

impl Cluster {
    /// A Route `namespace/name` of this age in seconds; `spec` is merged over one that leads to Service `s`.
    pub(crate) fn put_route(&mut self, namespace: &str, name: &str, born: u32, spec: Value) -> Key {
        let mut full = json!({"to": {"kind": "Service", "name": "s", "weight": 100}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let annotations = full.as_object_mut().unwrap().remove("annotations").unwrap_or_default();
        let labels = full.as_object_mut().unwrap().remove("labels").unwrap_or_default();
        let time = format!("2026-01-01T00:{:02}:{:02}Z", born / 60, born % 60);
        let meta = json!({"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "creationTimestamp": time,
            "annotations": annotations, "labels": labels});
        let key = Key::new(namespace, name);
        self.routes.insert(key.clone(), read(json!({"metadata": meta, "spec": full})));
        key
    }

    /// A Service of these families with pods, one address of each family for every pod.
    pub(crate) fn put_service(&mut self, namespace: &str, name: &str, families: &[&str], pods: u8) -> Key {
        let key = Key::new(namespace, name);
        let service = json!({"metadata": {"name": name, "namespace": namespace},
            "spec": {"ipFamilies": families, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
        self.services.insert(key.clone(), read(service));
        let slice = |family: &&str| {
            let address = |pod: u8| if *family == "IPv4" { format!("10.1.0.{pod}") } else { format!("fd01::{pod:x}") };
            let endpoint = |pod: u8| {
                json!({"addresses": [address(pod)], "conditions": {"ready": true},
                "targetRef": {"kind": "Pod", "name": format!("{name}-{pod}"), "namespace": namespace}})
            };
            let endpoints: Vec<Value> = (1..=pods).map(endpoint).collect();
            read(
                json!({"metadata": {"name": format!("{name}-{family}"), "namespace": namespace}, "addressType": family,
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints}),
            )
        };
        self.slices.insert(key.clone(), families.iter().map(slice).collect());
        key
    }

    /// A model of everything.
    pub(crate) fn model(&self, rules: Admission) -> Model {
        let mut model = Model::new(rules);
        self.take_all(&mut model);
        model
    }

    /// Says that everything changed.
    pub(crate) fn take_all(&self, model: &mut Model) -> Delta {
        self.routes.keys().for_each(|key| model.object_changed(Source::Route, key.clone()));
        self.ingresses.keys().for_each(|key| model.object_changed(Source::Ingress, key.clone()));
        model.settle(self)
    }
}

/// Reason of refusal of a Route, or nothing.
pub(crate) fn reason(model: &Model, key: &Key) -> String {
    let verdicts = model.verdicts(Source::Route, key).unwrap_or_default();
    verdicts
        .first()
        .and_then(|verdict| verdict.as_ref().err())
        .map(|refusal| refusal.reason.to_owned())
        .unwrap_or_default()
}

/// Addresses and weights of a Route's servers.
pub(crate) fn servers(model: &Model, key: &Key) -> Vec<(String, u16)> {
    let backend = model.backend(&Id::route(key.clone()));
    backend
        .iter()
        .flat_map(|backend| &backend.servers)
        .map(|server| (server.address.to_string(), server.weight))
        .collect()
}
