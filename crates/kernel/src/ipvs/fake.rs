//! IPVS in memory. For tests and `--dry-run`: refuses what the kernel refuses, and lets tests open connections.

use super::{Change, Destination, Ipvs, IpvsError, Server, ServerKey};
use net::Family;
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write, io, net::SocketAddr};

type Servers = BTreeMap<ServerKey, (Server, BTreeMap<SocketAddr, Destination>)>;

/// Virtual servers in memory.
#[derive(Debug, Default)]
pub struct FakeIpvs {
    servers: Mutex<Servers>,
    /// All that was asked for, in order.
    log: Mutex<Vec<Change>>,
}

impl FakeIpvs {
    /// All servers and destinations as text, in order.
    #[must_use]
    pub fn listing(&self) -> String {
        let mut text = String::new();
        for (key, (server, destinations)) in &*self.servers.lock() {
            let stays =
                if server.persistence > 0 { format!(" persistent {}", server.persistence) } else { String::new() };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{key} {}{stays}", server.scheduler);
            for destination in destinations.values() {
                let _ = writeln!(text, "  -> {} weight {}", destination.at, destination.weight);
            }
        }
        text
    }

    /// As if a destination had so many connections.
    pub fn connect(&self, server: &ServerKey, at: SocketAddr, connections: u64) {
        let mut servers = self.servers.lock();
        let destination = servers.get_mut(server).and_then(|(_, destinations)| destinations.get_mut(&at));
        destination.into_iter().for_each(|destination| destination.connections = connections);
    }

    /// What was asked for since this was last called.
    pub fn take_log(&self) -> Vec<Change> {
        std::mem::take(&mut self.log.lock())
    }

    /// Removes everything behind everyone's back, as `ipvsadm --clear` does.
    pub fn lose(&self) {
        self.servers.lock().clear();
    }
}

impl Ipvs for FakeIpvs {
    fn probe(&self) -> Result<(), IpvsError> {
        Ok(())
    }

    fn servers(&self, family: Family) -> Result<Vec<Server>, IpvsError> {
        let servers = self.servers.lock();
        Ok(servers.values().map(|(server, _)| server).filter(|server| server.key.family() == family).cloned().collect())
    }

    fn destinations(&self, server: &ServerKey) -> Result<Vec<Destination>, IpvsError> {
        let servers = self.servers.lock();
        Ok(servers.get(server).map(|(_, destinations)| destinations.values().copied().collect()).unwrap_or_default())
    }

    fn change(&self, changes: &[Change]) -> Result<(), IpvsError> {
        let mut servers = self.servers.lock();
        for change in changes {
            self.log.lock().push(change.clone());
            apply(&mut servers, change)?;
        }
        Ok(())
    }
}

fn apply(servers: &mut Servers, change: &Change) -> Result<(), IpvsError> {
    match change {
        Change::PutServer(server) => {
            let slot = servers.entry(server.key).or_insert_with(|| (server.clone(), BTreeMap::new()));
            slot.0 = server.clone();
        }
        Change::RemoveServer(key) => drop(servers.remove(key)),
        Change::PutDestination { server, at, weight } => {
            let Some((_, destinations)) = servers.get_mut(server) else {
                let source = io::Error::from(io::ErrorKind::NotFound);
                return Err(IpvsError::Refused { what: format!("make destination {at} of {server}"), source });
            };
            let new = Destination { at: *at, weight: *weight, connections: 0 };
            destinations.entry(*at).or_insert(new).weight = *weight;
        }
        Change::RemoveDestination { server, at } => {
            if let Some((_, destinations)) = servers.get_mut(server) {
                destinations.remove(at);
            }
        }
    }
    Ok(())
}
