//! Looking at the kernel, and changing it: in an order that can be cut off after any step.

use super::{INTERFACE, Parts, Settings, compile::Item, sets::SetName, state::Diff};
use crate::backend::Result;
use kernel::{
    dummy::Addresses,
    ipset::{self, Entry},
    ipvs::{Change, Protocol, Server, ServerKey},
};
use net::{Cidr, Family};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

/// Destinations that get no new connections, and go when their last one has ended.
pub(super) type Leaving = BTreeSet<(ServerKey, SocketAddr)>;

/// What the kernel holds of ours.
#[derive(Default)]
pub(super) struct KernelState {
    pub(super) items: BTreeSet<Item>,
    /// Destinations with weight 0, but for UDP.
    pub(super) leaving: Leaving,
}

/// Whether to list the destinations of every server too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Destinations,
    Servers,
}

impl Parts {
    /// Makes the interface and the sets, unless they are there.
    pub(super) fn make(&self, family: Family) -> Result<()> {
        self.links.make(INTERFACE).map_err(|error| format!("cannot make interface {INTERFACE}: {error}"))?;
        SetName::ALL.iter().try_for_each(|name| self.ipset.make(&name.set(family)))?;
        Ok(())
    }

    /// The addresses of the machine. Without those of single links: they come and go with every pod, and nobody serves there.
    pub(super) fn addresses(&self, family: Family) -> Result<Addresses> {
        let found = self.links.addresses(INTERFACE, family);
        let mut found = found.map_err(|error| format!("cannot list addresses: {error}"))?;
        let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        found.here.retain(|ip| !link_local(ip));
        found.elsewhere.retain(|ip| !link_local(ip));
        Ok(found)
    }

    /// What the kernel holds of ours. Virtual servers are ours if they are in our set and in no excluded block.
    pub(super) fn look(&self, family: Family, settings: &Settings, depth: Depth) -> Result<KernelState> {
        let mut seen = KernelState::default();
        for name in SetName::ALL {
            let entries = self.ipset.entries(&name.set(family))?.unwrap_or_default();
            seen.items.extend(entries.into_iter().map(|entry| Item::Entry(name, entry)));
        }
        let excluded = |ip: &IpAddr| settings.excluded.iter().any(|block| block.contains(*ip));
        let addresses = self.addresses(family)?.here.into_iter();
        seen.items.extend(addresses.filter(|ip| !excluded(ip)).map(Item::Address));
        for server in self.own_servers(family, &seen.items, &settings.excluded)? {
            // One with another scheduler counts as one that nobody wants: changed in place, or removed.
            let as_wanted = server.scheduler == settings.scheduler;
            seen.items.insert(Item::Server(server.key, if as_wanted { server.persistence } else { u32::MAX }));
            if depth == Depth::Destinations {
                for destination in self.ipvs.destinations(&server.key)? {
                    match (destination.weight, server.key.protocol) {
                        (0, Protocol::Udp) => seen.items.insert(Item::Draining(server.key, destination.at)),
                        (0, _) => seen.leaving.insert((server.key, destination.at)),
                        _ => seen.items.insert(Item::Destination(server.key, destination.at)),
                    };
                }
            }
        }
        Ok(seen)
    }

    fn own_servers(&self, family: Family, items: &BTreeSet<Item>, excluded: &[Cidr]) -> Result<Vec<Server>> {
        let mut servers = self.ipvs.servers(family)?;
        servers.retain(|server| {
            let ServerKey { protocol, at } = server.key;
            items.contains(&Item::Entry(SetName::Servers, Entry::IpPort(protocol, at)))
                && !excluded.iter().any(|block| block.contains(at.ip()))
        });
        Ok(servers)
    }

    /// Makes a change. First what is new, then away with what is old: nothing leads to what is not there.
    pub(super) fn apply(&self, family: Family, scheduler: &str, diff: &Diff, leaving: &mut Leaving) -> Result<()> {
        self.ipset.change(&entries(family, diff.added.iter(), ipset::Change::Add))?;
        let ips = addresses(&diff.added);
        if !ips.is_empty() {
            self.links.add(INTERFACE, &ips).map_err(|error| format!("cannot add addresses to {INTERFACE}: {error}"))?;
        }
        let mut changes = Vec::new();
        for item in &diff.added {
            match *item {
                Item::Server(key, persistence) => {
                    let server = Server { key, scheduler: scheduler.to_owned(), persistence };
                    changes.push(Change::PutServer(server));
                }
                Item::Destination(server, at) => {
                    leaving.remove(&(server, at));
                    changes.push(Change::PutDestination { server, at, weight: 1 });
                }
                Item::Draining(server, at) => changes.push(Change::PutDestination { server, at, weight: 0 }),
                Item::Entry(..) | Item::Address(_) => {}
            }
        }
        self.ipvs.change(&changes)?;
        self.take_away(diff, leaving)?;
        let ips = addresses(&diff.removed);
        if !ips.is_empty() {
            let done = self.links.remove(INTERFACE, &ips);
            done.map_err(|error| format!("cannot remove addresses from {INTERFACE}: {error}"))?;
        }
        self.ipset.change(&entries(family, diff.removed.iter().rev(), ipset::Change::Remove))?;
        Ok(())
    }

    fn take_away(&self, diff: &Diff, leaving: &mut Leaving) -> Result<()> {
        let server = |item: &Item| if let Item::Server(key, _) = item { Some(*key) } else { None };
        // A server with another persistence is in both lists and stays.
        let stays: BTreeSet<ServerKey> = diff.added.iter().filter_map(server).collect();
        let gone: BTreeSet<ServerKey> =
            diff.removed.iter().filter_map(server).filter(|key| !stays.contains(key)).collect();
        let mut changes = Vec::new();
        let mut asked = BTreeSet::new();
        for item in diff.removed.iter().rev() {
            let (Item::Destination(server, at) | Item::Draining(server, at)) = *item else { continue };
            let has_another_weight = [Item::Destination(server, at), Item::Draining(server, at)]
                .iter()
                .any(|other| diff.added.contains(other));
            if gone.contains(&server) || has_another_weight {
                continue;
            }
            match server.protocol {
                Protocol::Tcp => {
                    changes.push(Change::PutDestination { server, at, weight: 0 });
                    leaving.insert((server, at));
                    asked.insert(server);
                }
                Protocol::Udp | Protocol::Sctp => changes.push(Change::RemoveDestination { server, at }),
            }
        }
        changes.extend(gone.iter().map(|key| Change::RemoveServer(*key)));
        leaving.retain(|(server, _)| !gone.contains(server));
        self.ipvs.change(&changes)?;
        self.see_off(leaving, |server| asked.contains(server))
    }

    /// Removes those destinations of some servers whose last connection has ended.
    pub(super) fn see_off(&self, leaving: &mut Leaving, of: impl Fn(&ServerKey) -> bool) -> Result<()> {
        let mut by_server: BTreeMap<ServerKey, Vec<SocketAddr>> = BTreeMap::new();
        for (server, at) in leaving.iter().filter(|(server, _)| of(server)) {
            by_server.entry(*server).or_default().push(*at);
        }
        for (server, list) in by_server {
            let there = self.ipvs.destinations(&server)?;
            for at in list {
                let busy = there.iter().any(|there| there.at == at && there.connections > 0);
                if !busy {
                    self.ipvs.change(&[Change::RemoveDestination { server, at }])?;
                    leaving.remove(&(server, at));
                }
            }
        }
        Ok(())
    }
}

fn entries<'a>(
    family: Family,
    items: impl Iterator<Item = &'a Item>,
    change: impl Fn(ipset::Set, Entry) -> ipset::Change,
) -> Vec<ipset::Change> {
    let entry = |item: &Item| match item {
        Item::Entry(name, entry) => Some(change(name.set(family), *entry)),
        _ => None,
    };
    items.filter_map(entry).collect()
}

fn addresses(items: &BTreeSet<Item>) -> Vec<IpAddr> {
    items.iter().filter_map(|item| if let Item::Address(ip) = item { Some(*ip) } else { None }).collect()
}
