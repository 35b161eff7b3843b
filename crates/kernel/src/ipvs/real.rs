//! IPVS of this machine, over generic netlink.

use super::{
    Change, Destination, Ipvs, IpvsError, Machine, Server, ServerKey, Timeouts,
    message::{self, Command},
    sysctl,
};
use crate::netlink::{Message, Room, Socket};
use net::Family;
use std::io;

const ESRCH: i32 = 3;

/// The kernel of this machine, in the network namespace of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealIpvs;

/// A conversation with the room that the kernel gave to IPVS.
struct Talk {
    socket: Socket,
    room: u16,
}

impl Ipvs for RealIpvs {
    fn probe(&self) -> Result<(), IpvsError> {
        Talk::open().map(drop)
    }

    fn servers(&self, family: Family) -> Result<Vec<Server>, IpvsError> {
        let talk = Talk::open()?;
        let mut servers = Vec::new();
        let listed = talk.socket.dump(message::list_services(talk.room), |answer| {
            servers.extend(message::read_service(answer));
        });
        listed.map_err(|source| refused("list virtual servers", source))?;
        servers.retain(|server| server.key.family() == family);
        Ok(servers)
    }

    fn destinations(&self, server: &ServerKey) -> Result<Vec<Destination>, IpvsError> {
        let talk = Talk::open()?;
        let mut destinations = Vec::new();
        let listed = talk.socket.dump(message::list_destinations(talk.room, server), |answer| {
            destinations.extend(message::read_destination(server, answer));
        });
        listed.map_err(|source| refused(&format!("list the destinations of {server}"), source))?;
        Ok(destinations)
    }

    fn change(&self, changes: &[Change]) -> Result<(), IpvsError> {
        if changes.is_empty() {
            return Ok(());
        }
        let talk = Talk::open()?;
        changes.iter().try_for_each(|change| talk.change(change))
    }
}

impl RealIpvs {
    /// Whether IPVS is in use. Unlike [`Ipvs::probe`] it does not make the kernel load it.
    #[must_use]
    pub fn is_loaded() -> bool {
        std::path::Path::new("/proc/net/ip_vs").exists()
    }

    /// Sets what the rest depends on: that translated packets are known to conntrack, so that they can be masqueraded;
    /// that connections to what is gone end; and what the operator asked for.
    pub fn prepare(&self, machine: Machine) -> Result<(), IpvsError> {
        let talk = Talk::open()?;
        sysctl::prepare(machine.strict_arp)?;
        if machine.timeouts == Timeouts::default() {
            return Ok(());
        }
        let config = message::config(talk.room, machine.timeouts);
        talk.socket.ask(config).map_err(|source| refused("set timeouts", source))
    }
}

impl Talk {
    /// Finding the room makes the kernel load the module, if it has one.
    fn open() -> Result<Self, IpvsError> {
        let opened = |source| refused("open netlink", source);
        let socket = Socket::open_to(Room::Generic).map_err(opened)?;
        let mut room = None;
        match socket.get(message::find("IPVS"), |answer| room = message::found(answer).or(room)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(IpvsError::Missing),
            asked => asked.map_err(opened)?,
        }
        Ok(Self { socket, room: room.ok_or(IpvsError::Missing)? })
    }

    fn change(&self, change: &Change) -> Result<(), IpvsError> {
        let room = self.room;
        match change {
            Change::PutServer(server) => {
                let put = |command| message::service(room, command, server);
                let done = self.put(put(Command::NewService), || put(Command::SetService));
                done.map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound => IpvsError::NoScheduler(server.scheduler.clone()),
                    _ => refused(&format!("make virtual server {}", server.key), source),
                })
            }
            Change::RemoveServer(key) => {
                let server = Server { key: *key, scheduler: String::new(), persistence: 0 };
                gone(self.socket.ask(message::service(room, Command::DeleteService, &server)))
                    .map_err(|source| refused(&format!("remove virtual server {key}"), source))
            }
            Change::PutDestination { server, at, weight } => {
                let put = |command| message::destination(room, command, server, *at, Some(*weight));
                self.put(put(Command::NewDestination), || put(Command::SetDestination))
                    .map_err(|source| refused(&format!("make destination {at} of {server}"), source))
            }
            Change::RemoveDestination { server, at } => {
                let delete = message::destination(room, Command::DeleteDestination, server, *at, None);
                gone(self.socket.ask(delete))
                    .map_err(|source| refused(&format!("remove destination {at} of {server}"), source))
            }
        }
    }

    fn put(&self, new: Message, set: impl FnOnce() -> Message) -> io::Result<()> {
        match self.socket.ask(new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.socket.ask(set()),
            done => done,
        }
    }
}

/// What is gone already is as wanted. IPVS says "no such process" for servers and "no such file" for destinations.
fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => Ok(()),
        done => done,
    }
}

fn refused(what: &str, source: io::Error) -> IpvsError {
    IpvsError::Refused { what: what.to_owned(), source }
}
