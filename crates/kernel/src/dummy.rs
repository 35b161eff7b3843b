//! Addresses of this machine, and an interface that holds addresses and nothing else (`dummy`), over netlink.
//!
//! IPVS takes a packet only if its destination is an address of the machine. The interface makes it one, for every Service.

use crate::netlink::{Message, Room, Socket, attribute, attributes_of};
use net::{Family, HasFamily};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const EADDRNOTAVAIL: i32 = 99;
const ENODEV: i32 = 19;

/// What the proxy asks of interfaces.
pub trait Links: Send + Sync {
    /// Makes a dummy interface, unless it is there.
    fn make(&self, interface: &str) -> io::Result<()>;

    /// The addresses of a family at an interface and at all others; none at one that is not there.
    fn addresses(&self, interface: &str, family: Family) -> io::Result<Addresses>;

    /// Gives an interface addresses, unless it has them. The kernel does not choose them as senders of anything else.
    fn add(&self, interface: &str, ips: &[IpAddr]) -> io::Result<()>;

    /// Takes addresses away; one that is gone already is as wanted.
    fn remove(&self, interface: &str, ips: &[IpAddr]) -> io::Result<()>;

    /// Removes an interface; one that is gone already is as wanted.
    fn delete(&self, interface: &str) -> io::Result<()>;
}

/// Addresses of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// At the interface that was asked for.
    pub here: BTreeSet<IpAddr>,
    /// At all others.
    pub elsewhere: BTreeSet<IpAddr>,
}

/// The interfaces of this machine, in the network namespace of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealLinks;

impl Links for RealLinks {
    fn make(&self, interface: &str) -> io::Result<()> {
        match Socket::open_to(Room::Routing)?.make(make_message(interface)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }

    fn addresses(&self, interface: &str, family: Family) -> io::Result<Addresses> {
        let socket = Socket::open_to(Room::Routing)?;
        let index = index(&socket, interface)?;
        let mut found = Addresses::default();
        let list = Message::with_header(GET_ADDRESS, &address_header(family, 0, 0));
        socket.dump_whole(list, |answer| {
            if let Some((at, ip)) = read_address(answer).filter(|(_, ip)| ip.family() == family) {
                if Some(at) == index {
                    found.here.insert(ip)
                } else {
                    found.elsewhere.insert(ip)
                };
            }
        })?;
        Ok(found)
    }

    fn add(&self, interface: &str, ips: &[IpAddr]) -> io::Result<()> {
        let socket = Socket::open_to(Room::Routing)?;
        let index = index(&socket, interface)?.ok_or_else(|| io::Error::from_raw_os_error(ENODEV))?;
        ips.iter().try_for_each(|ip| match socket.make(address_message(NEW_ADDRESS, index, *ip)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        })
    }

    fn remove(&self, interface: &str, ips: &[IpAddr]) -> io::Result<()> {
        let socket = Socket::open_to(Room::Routing)?;
        let Some(index) = index(&socket, interface)? else { return Ok(()) };
        ips.iter().try_for_each(|ip| match socket.ask(address_message(DELETE_ADDRESS, index, *ip)) {
            Err(error) if error.raw_os_error() == Some(EADDRNOTAVAIL) => Ok(()),
            done => done,
        })
    }

    fn delete(&self, interface: &str) -> io::Result<()> {
        let mut message = Message::with_header(DELETE_LINK, &[0; LINK_HEADER]);
        message.text(3, interface);
        match Socket::open_to(Room::Routing)?.ask(message) {
            Err(error) if error.raw_os_error() == Some(ENODEV) => Ok(()),
            done => done,
        }
    }
}

fn make_message(interface: &str) -> Message {
    let mut message = Message::with_header(NEW_LINK, &[0; LINK_HEADER]);
    message.text(3, interface);
    let kind = attributes_of(|kind| {
        kind.text(1, "dummy");
        Some(())
    });
    message.nested(18, &kind.unwrap_or_default());
    message
}

/// The number of an interface; `None` when there is none of that name.
fn index(socket: &Socket, interface: &str) -> io::Result<Option<u32>> {
    let mut name = interface.as_bytes().to_vec();
    name.push(0);
    let mut index = None;
    socket.dump_whole(Message::with_header(GET_LINK, &[0; LINK_HEADER]), |answer| {
        let attributes = answer.get(LINK_HEADER..).unwrap_or_default();
        if attribute(attributes, 3) == Some(&name) {
            index = answer.get(4..).and_then(|rest| rest.first_chunk()).map(|number| u32::from_ne_bytes(*number));
        }
    })?;
    Ok(index)
}

fn address_header(family: Family, prefix: u8, index: u32) -> [u8; ADDRESS_HEADER] {
    /// Of this host alone: the kernel does not choose it as the sender of anything.
    const HOST: u8 = 254;
    let (number, scope) = if family == Family::V4 { (2, HOST) } else { (10, 0) };
    let [a, b, c, d] = index.to_ne_bytes();
    [number, prefix, 0, scope, a, b, c, d]
}

fn address_message(kind: u16, index: u32, ip: IpAddr) -> Message {
    const NO_DUPLICATE_DETECTION: u32 = 0x2;
    let family = ip.family();
    let mut message = Message::with_header(kind, &address_header(family, family.bits(), index));
    match ip {
        IpAddr::V4(ip) => {
            message.attribute(1, &ip.octets());
            message.attribute(2, &ip.octets());
        }
        IpAddr::V6(ip) => {
            message.attribute(1, &ip.octets());
            message.attribute(2, &ip.octets());
            // Never preferred, always valid: IPv6's way to say that nothing is to be sent from it.
            let life = [0, u32::MAX, 0, 0].map(u32::to_ne_bytes).concat();
            message.attribute(6, &life);
            message.attribute(8, &NO_DUPLICATE_DETECTION.to_ne_bytes());
        }
    }
    message
}

/// The number of the interface, and the address.
pub(crate) fn read_address(answer: &[u8]) -> Option<(u32, IpAddr)> {
    let index = u32::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let attributes = answer.get(ADDRESS_HEADER..)?;
    // With a peer, the second is ours and the first is theirs.
    let bytes = attribute(attributes, 2).or_else(|| attribute(attributes, 1))?;
    let short = || Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)));
    let long = || Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)));
    Some((index, short().or_else(long)?))
}

/// Interfaces in memory, for tests and `--dry-run`.
#[derive(Debug, Default)]
pub struct FakeLinks {
    interfaces: Mutex<BTreeMap<String, BTreeSet<IpAddr>>>,
}

impl FakeLinks {
    /// A machine with an interface that has these addresses.
    #[must_use]
    pub fn with(interface: &str, ips: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { interfaces: Mutex::new([(interface.to_owned(), ips.into_iter().collect())].into()) }
    }
}

impl Links for FakeLinks {
    fn make(&self, interface: &str) -> io::Result<()> {
        self.interfaces.lock().entry(interface.to_owned()).or_default();
        Ok(())
    }

    fn addresses(&self, interface: &str, family: Family) -> io::Result<Addresses> {
        let mut found = Addresses::default();
        for (name, ips) in &*self.interfaces.lock() {
            let list = if name == interface { &mut found.here } else { &mut found.elsewhere };
            list.extend(ips.iter().copied().filter(|ip| ip.family() == family));
        }
        Ok(found)
    }

    fn add(&self, interface: &str, ips: &[IpAddr]) -> io::Result<()> {
        let mut interfaces = self.interfaces.lock();
        let there = interfaces.get_mut(interface).ok_or_else(|| io::Error::from_raw_os_error(ENODEV))?;
        there.extend(ips);
        Ok(())
    }

    fn remove(&self, interface: &str, ips: &[IpAddr]) -> io::Result<()> {
        let mut interfaces = self.interfaces.lock();
        interfaces.get_mut(interface).into_iter().for_each(|there| there.retain(|ip| !ips.contains(ip)));
        Ok(())
    }

    fn delete(&self, interface: &str) -> io::Result<()> {
        self.interfaces.lock().remove(interface);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_these() {
        assert_eq!(
            make_message("kube-ipvs0").golden(),
            "00000000000000000000000000000000\
             0f0003006b7562652d6970767330000010001280\
             0a00010064756d6d79000000"
        );
        assert_eq!(
            address_message(NEW_ADDRESS, 7, "10.0.0.1".parse().unwrap()).golden(),
            "022000fe07000000080001000a000001080002000a000001"
        );
        assert_eq!(
            address_message(DELETE_ADDRESS, 7, "fd00::1".parse().unwrap()).golden(),
            "0a80000007000000\
             14000100fd000000000000000000000000000001\
             14000200fd000000000000000000000000000001\
             1400060000000000ffffffff0000000000000000\
             0800080002000000"
        );
    }

    #[test]
    fn an_address_reads_back_and_cut_off_bytes_are_none() {
        for ip in ["10.0.0.1", "fd00::1"].map(|ip| ip.parse::<IpAddr>().unwrap()) {
            let text = address_message(NEW_ADDRESS, 7, ip).golden();
            let bytes: Vec<u8> =
                (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
            assert_eq!(read_address(&bytes), Some((7, ip)));
            for cut in 0..12 {
                assert_eq!(read_address(&bytes[..cut]), None);
            }
        }
    }
}
