//! What is known of a cluster, ready to be answered with. Readers never wait: each shard is an immutable table that is
//! replaced as a whole, and a change of one Service replaces one shard of 256.

use crate::{hash::Seed, wire::Name};
use arc_swap::ArcSwap;
use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet},
    hash::{BuildHasher, Hash, Hasher},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

const SHARDS: usize = 256;

/// A port of a Service or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Port {
    /// In lower case.
    pub(super) name: Box<str>,
    /// In lower case.
    pub(super) protocol: Box<str>,
    pub(super) number: u16,
}

/// An address behind a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Hostname or dashed address, in lower case.
    pub(super) label: Arc<str>,
    pub(super) address: IpAddr,
    pub(super) ports: Arc<[Port]>,
    /// As `names::zone_key` writes it; only where names of zones are answered.
    pub(super) zone: Option<Arc<[u8]>>,
}

/// What a Service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// With these addresses.
    Cluster(Arc<[IpAddr]>),
    /// Its endpoints are its addresses.
    Headless,
    /// Another name.
    External(Box<str>),
}

/// A Service with its endpoints and its addresses as they are written into answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) kind: Kind,
    pub(super) ports: Arc<[Port]>,
    /// The endpoints of each of its slices.
    pub(super) slices: Box<[Arc<[Endpoint]>]>,
    /// A and AAAA.
    pub(super) written: [Written; 2],
}

impl Service {
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.slices.iter().flat_map(|slice| slice.iter())
    }
}

/// Records whose owner points to the question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) count: u16,
    /// Room for one record: most Services have no more.
    bytes: Bytes<28>,
}

/// Bytes that are kept in place when there are few of them: finding them elsewhere takes longer than reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bytes<const FEW: usize> {
    Few(u8, [u8; FEW]),
    Many(Box<[u8]>),
}

impl<const FEW: usize> Bytes<FEW> {
    fn new(bytes: &[u8]) -> Self {
        let mut few = [0; FEW];
        match few.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Self::Few(bytes.len() as u8, few)
            }
            None => Self::Many(bytes.into()),
        }
    }
}

impl<const FEW: usize> Default for Bytes<FEW> {
    fn default() -> Self {
        Self::Few(0, [0; FEW])
    }
}

impl<const FEW: usize> Borrow<[u8]> for Bytes<FEW> {
    fn borrow(&self) -> &[u8] {
        match self {
            Self::Few(length, bytes) => &bytes[..usize::from(*length)],
            Self::Many(bytes) => bytes,
        }
    }
}

impl<const FEW: usize> Hash for Bytes<FEW> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bytes: &[u8] = self.borrow();
        bytes.hash(state);
    }
}

impl Written {
    /// The addresses of one family.
    pub(super) fn new(addresses: impl Iterator<Item = IpAddr>, ttl: u32) -> [Self; 2] {
        let mut families: [(u16, Vec<u8>); 2] = Default::default();
        for address in addresses {
            let (count, bytes) = &mut families[usize::from(address.is_ipv6())];
            let (rtype, octets) = match address {
                IpAddr::V4(v4) => (1, v4.octets().to_vec()),
                IpAddr::V6(v6) => (28, v6.octets().to_vec()),
            };
            bytes.extend([0xc0, 12, 0, rtype, 0, 1]);
            bytes.extend(ttl.to_be_bytes());
            bytes.extend([0, octets.len() as u8]);
            bytes.extend(octets);
            *count += 1;
        }
        families.map(|(count, bytes)| Self { count, bytes: Bytes::new(&bytes) })
    }

    /// The records, one after another.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.borrow()
    }
}

/// Who has an address: a Service by its key, or the endpoint of it with this label.
pub(super) type Owner = (Arc<[u8]>, Option<Arc<str>>);

/// How a Service is reached from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Address(IpAddr),
    /// Of a load balancer that has no address of its own.
    Name(Arc<Name>),
}

/// Room for most names of a Service with its namespace.
const NAMES: usize = 46;
/// Room for an address.
const ADDRESSES: usize = 16;

type Table<V, const FEW: usize> = HashMap<Bytes<FEW>, Arc<V>, Seed>;

/// A map in shards, whose keys are kept in place up to this length.
pub(super) struct Shards<V: ?Sized, const FEW: usize> {
    hasher: Seed,
    shards: Box<[ArcSwap<Table<V, FEW>>]>,
}

impl<V: ?Sized, const FEW: usize> Shards<V, FEW> {
    fn new() -> Self {
        Self { hasher: Seed::default(), shards: (0..SHARDS).map(|_| ArcSwap::default()).collect() }
    }

    fn shard(&self, key: &[u8]) -> &ArcSwap<Table<V, FEW>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<V>> {
        self.shard(key).load().get(key).cloned()
    }

    pub(super) fn set(&self, key: &[u8], value: Option<impl Into<Arc<V>>>) {
        let shard = self.shard(key);
        let mut table = Table::clone(&shard.load());
        match value {
            Some(value) => table.insert(Bytes::new(key), value.into()),
            None => table.remove(key),
        };
        if table.len() < table.capacity() / 4 {
            table.shrink_to(2 * table.len());
        }
        shard.store(Arc::new(table));
    }

    /// Everything at once: each shard is written once.
    pub(super) fn replace<K: AsRef<[u8]>>(&self, all: impl Iterator<Item = (K, impl Into<Arc<V>>)>) {
        let mut tables: Vec<Table<V, FEW>> = (0..SHARDS).map(|_| Table::default()).collect();
        for (key, value) in all {
            let key = key.as_ref();
            tables[self.hasher.hash_one(key) as usize % SHARDS].insert(Bytes::new(key), value.into());
        }
        for (shard, mut table) in self.shards.iter().zip(tables) {
            table.shrink_to_fit();
            shard.store(Arc::new(table));
        }
    }
}

/// Namespaces of the Pods at one address, and how many they have there: on the host's network there are several.
type Tenant = (Arc<[u8]>, u32);

/// Everything that answers are made of.
pub struct Records {
    pub(super) services: Shards<Service, NAMES>,
    /// By address; in order of the Services.
    pub(super) owners: Shards<[Owner], ADDRESSES>,
    /// Services that are reached from outside; empty unless somebody asks.
    pub(super) externals: Shards<[Target], NAMES>,
    /// Keys of Services by such an address, in order.
    pub(super) external_owners: Shards<[Arc<[u8]>], ADDRESSES>,
    /// Pods by address.
    pods: Shards<[Tenant], ADDRESSES>,
    pub(super) namespaces: ArcSwap<HashSet<Box<[u8]>, Seed>>,
    pub(super) ttl: u32,
    synced: AtomicBool,
    serial: AtomicU32,
}

impl Records {
    /// Nothing yet.
    #[must_use]
    pub fn new(ttl: u32) -> Self {
        Self {
            services: Shards::new(),
            owners: Shards::new(),
            externals: Shards::new(),
            external_owners: Shards::new(),
            pods: Shards::new(),
            namespaces: ArcSwap::default(),
            ttl,
            synced: AtomicBool::new(false),
            serial: AtomicU32::new(0),
        }
    }

    /// Whether everything was seen once.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    pub(super) fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Seconds since 1970 of the last change.
    pub(super) fn serial(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    pub(super) fn touch(&self, serial: u32) {
        self.serial.store(serial, Ordering::Relaxed);
    }

    /// The namespace of a Pod that has this address.
    pub(super) fn namespace_of_pod(&self, address: IpAddr) -> Option<Arc<[u8]>> {
        self.pods.get(&bytes(address))?.first().map(|(namespace, _)| Arc::clone(namespace))
    }

    /// Whether a Pod of this namespace has this address.
    pub(super) fn has_pod(&self, address: IpAddr, namespace: &[u8]) -> bool {
        self.pods.get(&bytes(address)).is_some_and(|tenants| tenants.iter().any(|(of, _)| **of == *namespace))
    }

    /// One more Pod of a namespace has this address, or one less.
    pub(super) fn count_pod(&self, address: IpAddr, namespace: &Arc<[u8]>, comes: bool) {
        let key = bytes(address);
        let mut tenants = self.pods.get(&key).map(|known| known.to_vec()).unwrap_or_default();
        let place = tenants.iter().position(|(of, _)| of == namespace);
        match (place, comes) {
            (Some(place), true) => tenants[place].1 += 1,
            (None, true) => tenants.push((Arc::clone(namespace), 1)),
            (Some(place), false) if tenants[place].1 > 1 => tenants[place].1 -= 1,
            (Some(place), false) => drop(tenants.remove(place)),
            (None, false) => return,
        }
        self.pods.set(&key, (!tenants.is_empty()).then_some(tenants));
    }
}

/// An address as a key.
pub(super) fn bytes(address: IpAddr) -> Box<[u8]> {
    match address {
        IpAddr::V4(v4) => v4.octets().into(),
        IpAddr::V6(v6) => v6.octets().into(),
    }
}
