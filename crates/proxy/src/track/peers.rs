//! Addresses of all nodes. Nobody's external IP may be one of them, so they are followed as soon as a Service has external IPs; in
//! clusters without, no proxy hears of other nodes.

use super::Node;
use k8s_openapi::api::core::v1 as core;
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

/// By name of the Node.
#[derive(Debug, Default)]
pub(super) struct Peers {
    known: HashMap<String, Vec<IpAddr>>,
    listed: HashSet<String>,
}

impl Peers {
    /// Says whether addresses came or went.
    pub(super) fn set(&mut self, object: &core::Node) -> bool {
        let Node { name, addresses, .. } = Node::read(object);
        self.listed.insert(name.clone());
        let before = self.known.insert(name, addresses.clone());
        before.unwrap_or_default() != addresses
    }

    pub(super) fn remove(&mut self, object: &core::Node) -> bool {
        object.metadata.name.as_ref().is_some_and(|name| self.known.remove(name).is_some())
    }

    pub(super) fn list_begins(&mut self) {
        self.listed.clear();
    }

    pub(super) fn list_ends(&mut self) -> bool {
        let before = self.known.len();
        self.known.retain(|name, _| self.listed.contains(name));
        self.known.len() != before
    }

    pub(super) fn have(&self, ip: IpAddr) -> bool {
        self.known.values().any(|addresses| addresses.contains(&ip))
    }
}
