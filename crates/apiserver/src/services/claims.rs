//! Who has an address or a port, as the store keeps it: an IPAddress object, or a key per port.
//!
//! They are written in the transaction that writes the Service, on the condition that nobody has them. So two servers on
//! one etcd never give the same to two Services, and a crash leaves nothing behind.

use crate::stored;
use api::{
    error::ApiError,
    object::{Fields, timestamp},
};
use bytes::Bytes;
use net::HasFamily;
use serde_json::{Value, json};
use std::net::IpAddr;
use store::{Compare, Entry, Key, Op, Store, Txn};

/// Below it are the IPAddress objects.
pub const ADDRESSES: &str = "ipaddresses/";
/// Below it is a key for each node port that a Service has.
pub const PORTS: &str = "ranges/servicenodeports/";

const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
const MANAGER: &str = "ipallocator.k8s.io";

/// A Service by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub namespace: String,
    pub name: String,
}

impl Holder {
    /// The Service itself.
    pub fn of(service: &Value) -> Self {
        let text = |path: &str| service.str_at(path).to_owned();
        Self { namespace: text("metadata.namespace"), name: text("metadata.name") }
    }

    /// Who has the address by its IPAddress object; none when that is not a Service.
    pub fn of_address(address: &Value) -> Option<Self> {
        let parent = address.at("spec.parentRef");
        let is_service = parent.str_at("group").is_empty() && parent.str_at("resource") == "services";
        is_service
            .then(|| Self { namespace: parent.str_at("namespace").to_owned(), name: parent.str_at("name").to_owned() })
    }

    /// Who has the port by the value of its key.
    pub fn of_port(value: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(value).ok()?;
        Some(Self { namespace: value["namespace"].as_str()?.to_owned(), name: value["name"].as_str()?.to_owned() })
    }
}

pub fn address_key(ip: IpAddr) -> Key {
    format!("{ADDRESSES}{ip}").into()
}

pub fn port_key(port: u16) -> Key {
    format!("{PORTS}{port}").into()
}

/// What a key of this file stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    Address(IpAddr),
    /// A node port.
    Port(u16),
}

impl Claimed {
    /// Reads a key; none for any other.
    pub fn of_key(key: &str) -> Option<Self> {
        match (key.strip_prefix(ADDRESSES), key.strip_prefix(PORTS)) {
            (Some(ip), _) => ip.parse().ok().map(Self::Address),
            (_, Some(port)) => port.parse().ok().map(Self::Port),
            _ => None,
        }
    }
}

/// Whether the server made the IPAddress and may take it away.
pub fn is_managed(address: &Value) -> bool {
    address.at("metadata.labels").get(MANAGER_LABEL).is_some_and(|manager| manager == MANAGER)
}

/// The IPAddress object that gives `ip` to a Service, as it is stored.
pub fn address_bytes(ip: IpAddr, holder: &Holder, now: jiff::Timestamp) -> Result<Bytes, ApiError> {
    stored::encode(&json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": ip.to_string(),
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": timestamp(now),
            "labels": {FAMILY_LABEL: ip.family().to_string(), MANAGER_LABEL: MANAGER},
        },
        "spec": {"parentRef": {"resource": "services", "namespace": holder.namespace, "name": holder.name}},
    }))
}

/// The value of a port's key.
pub fn port_bytes(holder: &Holder) -> Bytes {
    json!({"namespace": holder.namespace, "name": holder.name}).to_string().into()
}

/// Adds to `txn` that nobody has the key and that it is written.
pub fn claim(txn: &mut Txn, key: Key, bytes: Bytes) {
    txn.compare.push((key.clone(), Compare::Absent));
    txn.ops.push(Op::Put(key, bytes));
}

/// Adds to `txn` that the key goes, if `holder` has it.
pub fn release(txn: &mut Txn, store: &Store, key: Key, holder: &Holder) {
    if let Some(entry) = store.get(&key)
        && holder_of(&entry).as_ref() == Some(holder)
    {
        txn.compare.push((key.clone(), Compare::ModRevision(entry.mod_revision())));
        txn.ops.push(Op::Delete(key));
    }
}

/// Who has what the entry stands for.
pub fn holder_of(entry: &Entry) -> Option<Holder> {
    match Claimed::of_key(entry.key())? {
        Claimed::Address(_) => Holder::of_address(&stored::parse(entry).ok()?),
        Claimed::Port(_) => Holder::of_port(entry.value()),
    }
}
