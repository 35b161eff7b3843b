//! Messages of ipset: pure writing and reading. Numbers are those of `linux/netfilter/ipset/ip_set.h`.

use super::{Entry, Kind, Set};
use crate::{
    ipvs::Protocol,
    netlink::{Message, attribute, attributes, attributes_of},
};
use net::{Cidr, Family};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Spoken by every kernel since 2.6.39.
const PROTOCOL: u8 = 6;
/// Of subsystem 6.
const ROOM: u16 = 6 << 8;
/// ipset wants to be told that numbers are in the network's order.
const NETWORK_ORDER: u16 = 0x4000;
/// Instead of 65,536, which a cluster with 30,000 Services has sooner than it thinks.
const MOST: u32 = 1 << 20;

const NAME: u16 = 2;
const DATA: u16 = 7;
const ENTRIES: u16 = 8;

const IP: u16 = 1;
const PORT: u16 = 4;
const TRANSPORT: u16 = 7;
const MAX_ELEMENTS: u16 = 19;
const SECOND_IP: u16 = 20;
const SECOND_PREFIX: u16 = 21;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Create = 2,
    Destroy = 3,
    List = 7,
    Add = 9,
    Remove = 10,
}

/// Asks which version the kernel speaks: the smallest question there is.
pub(super) fn version() -> Message {
    let mut message = Message::new(ROOM | 1, Family::V4);
    message.attribute(1, &[PROTOCOL]);
    message
}

/// Makes a set.
pub(super) fn create(set: &Set) -> Message {
    let mut message = named(Command::Create, set);
    message.text(3, &set.kind.to_string());
    // Revision 1 of the types with ports brought SCTP.
    message.attribute(4, &[if set.kind == Kind::Ip { 0 } else { 1 }]);
    message.attribute(5, &[if set.family == Family::V4 { 2 } else { 10 }]);
    nest(&mut message, DATA, |data| data.attribute(MAX_ELEMENTS | NETWORK_ORDER, &MOST.to_be_bytes()));
    message
}

/// A command that needs nothing but the name.
pub(super) fn named(command: Command, set: &Set) -> Message {
    let mut message = Message::new(ROOM | command as u16, set.family);
    message.attribute(1, &[PROTOCOL]);
    message.text(NAME, &set.name);
    message
}

/// Adds or removes an entry.
pub(super) fn entry(command: Command, set: &Set, entry: &Entry) -> Message {
    let mut message = named(command, set);
    nest(&mut message, DATA, |data| match entry {
        Entry::Ip(ip) => address(data, IP, *ip),
        Entry::IpPort(protocol, at) => ip_port(data, *protocol, *at),
        Entry::IpPortIp(protocol, at, from) => {
            ip_port(data, *protocol, *at);
            address(data, SECOND_IP, *from);
        }
        Entry::IpPortNet(protocol, at, from) => {
            ip_port(data, *protocol, *at);
            address(data, SECOND_IP, from.first());
            data.attribute(SECOND_PREFIX, &[from.prefix()]);
        }
    });
    message
}

fn ip_port(data: &mut Message, protocol: Protocol, at: SocketAddr) {
    address(data, IP, at.ip());
    data.attribute(PORT | NETWORK_ORDER, &at.port().to_be_bytes());
    data.attribute(TRANSPORT, &[protocol.number()]);
}

fn address(data: &mut Message, kind: u16, ip: IpAddr) {
    nest(data, kind, |value| match ip {
        IpAddr::V4(ip) => value.attribute(1 | NETWORK_ORDER, &ip.octets()),
        IpAddr::V6(ip) => value.attribute(2 | NETWORK_ORDER, &ip.octets()),
    });
}

fn nest(message: &mut Message, kind: u16, write: impl FnOnce(&mut Message)) {
    let value = attributes_of(|value| {
        write(value);
        Some(())
    });
    message.nested(kind, &value.unwrap_or_default());
}

/// The entries in one piece of a list; what is not of this kind is left out.
pub(crate) fn read(kind: Kind, answer: &[u8]) -> Vec<Entry> {
    let entries = attribute(answer, ENTRIES).unwrap_or_default();
    attributes(entries).filter(|(entry, _)| *entry == DATA).filter_map(|(_, data)| read_entry(kind, data)).collect()
}

fn read_entry(kind: Kind, data: &[u8]) -> Option<Entry> {
    let ip = read_address(data, IP)?;
    if kind == Kind::Ip {
        return Some(Entry::Ip(ip));
    }
    let port = u16::from_be_bytes(attribute(data, PORT)?.try_into().ok()?);
    let protocol = Protocol::of_number(u16::from(*attribute(data, TRANSPORT)?.first()?))?;
    let at = SocketAddr::new(ip, port);
    match kind {
        Kind::Ip | Kind::IpPort => Some(Entry::IpPort(protocol, at)),
        Kind::IpPortIp => Some(Entry::IpPortIp(protocol, at, read_address(data, SECOND_IP)?)),
        Kind::IpPortNet => {
            let from = read_address(data, SECOND_IP)?;
            // A whole address is listed without its length.
            let prefix = attribute(data, SECOND_PREFIX).and_then(|prefix| prefix.first().copied());
            let block = prefix.map_or_else(|| Cidr::host(from), |prefix| Cidr::containing(from, prefix))?;
            Some(Entry::IpPortNet(protocol, at, block))
        }
    }
}

fn read_address(data: &[u8], kind: u16) -> Option<IpAddr> {
    let value = attribute(data, kind)?;
    let short = || Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(attribute(value, 1)?).ok()?)));
    let long = || Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(attribute(value, 2)?).ok()?)));
    short().or_else(long)
}

#[cfg(test)]
mod tests;
