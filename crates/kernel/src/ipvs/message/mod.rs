//! Messages of IPVS: pure writing and reading. Numbers are those of `linux/ip_vs.h`.

use super::{Destination, Protocol, Server, ServerKey, Timeouts};
use crate::netlink::{Message, attribute, attributes_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const VERSION: u8 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;
const PERSISTENT: u32 = 1;

const SERVICE: u16 = 1;
const DESTINATION: u16 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    NewService = 1,
    SetService = 2,
    DeleteService = 3,
    GetServices = 4,
    NewDestination = 5,
    SetDestination = 6,
    DeleteDestination = 7,
    GetDestinations = 8,
    SetConfig = 12,
}

fn message(room: u16, command: Command) -> Message {
    Message::with_header(room, &[command as u8, VERSION, 0, 0])
}

/// Asks for the number of a room of generic netlink.
pub(super) fn find(name: &str) -> Message {
    const CONTROL: u16 = 0x10;
    const GET_FAMILY: u8 = 3;
    let mut message = Message::with_header(CONTROL, &[GET_FAMILY, 1, 0, 0]);
    message.text(2, name);
    message
}

/// The number in the answer.
pub(super) fn found(answer: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(attribute(answer, 1)?.try_into().ok()?))
}

/// Makes, changes (all fields) or deletes (the key alone) a server.
pub(super) fn service(room: u16, command: Command, server: &Server) -> Message {
    let mut message = message(room, command);
    let whole = matches!(command, Command::NewService | Command::SetService);
    let value = attributes_of(|value| {
        key(value, &server.key);
        if whole {
            // A client is one address: all bits of the mask.
            let mask = if server.key.at.is_ipv4() { u32::MAX } else { 128 };
            let flags = if server.persistence > 0 { PERSISTENT } else { 0 };
            value.text(6, &server.scheduler);
            value.attribute(7, &[flags.to_ne_bytes(), u32::MAX.to_ne_bytes()].concat());
            value.attribute(8, &server.persistence.to_ne_bytes());
            value.attribute(9, &mask.to_ne_bytes());
        }
        Some(())
    });
    message.nested(SERVICE, &value.unwrap_or_default());
    message
}

/// Makes, changes (with a weight) or deletes a destination.
pub(super) fn destination(
    room: u16,
    command: Command,
    server: &ServerKey,
    at: SocketAddr,
    weight: Option<u32>,
) -> Message {
    let mut message = of_server(room, command, server);
    let value = attributes_of(|value| {
        value.attribute(1, &address(at.ip()));
        value.attribute(2, &at.port().to_be_bytes());
        if let Some(weight) = weight {
            // Method 0 is NAT; thresholds of 0 are none.
            for (kind, number) in [(3, 0), (4, weight), (5, 0), (6, 0)] {
                value.attribute(kind, &u32::to_ne_bytes(number));
            }
        }
        value.attribute(11, &family(at.ip()).to_ne_bytes());
        Some(())
    });
    message.nested(DESTINATION, &value.unwrap_or_default());
    message
}

/// Asks for all servers of both families.
pub(super) fn list_services(room: u16) -> Message {
    message(room, Command::GetServices)
}

/// Asks for the destinations of a server.
pub(super) fn list_destinations(room: u16, server: &ServerKey) -> Message {
    of_server(room, Command::GetDestinations, server)
}

/// Sets those timeouts that are not zero.
pub(super) fn config(room: u16, timeouts: Timeouts) -> Message {
    let mut message = message(room, Command::SetConfig);
    for (kind, time) in [(4, timeouts.tcp), (5, timeouts.tcp_fin), (6, timeouts.udp)] {
        let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        if seconds > 0 {
            message.attribute(kind, &seconds.to_ne_bytes());
        }
    }
    message
}

fn of_server(room: u16, command: Command, server: &ServerKey) -> Message {
    let mut message = message(room, command);
    let value = attributes_of(|value| {
        key(value, server);
        Some(())
    });
    message.nested(SERVICE, &value.unwrap_or_default());
    message
}

fn key(value: &mut Message, key: &ServerKey) {
    value.attribute(1, &family(key.at.ip()).to_ne_bytes());
    value.attribute(2, &u16::from(key.protocol.number()).to_ne_bytes());
    value.attribute(3, &address(key.at.ip()));
    value.attribute(4, &key.at.port().to_be_bytes());
}

fn family(ip: IpAddr) -> u16 {
    if ip.is_ipv4() { INET } else { INET6 }
}

/// Always as long as the longer kind.
fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
    }
}

/// A server, unless it is one by firewall mark or of another transport: those are not ours.
pub(crate) fn read_service(answer: &[u8]) -> Option<Server> {
    let value = attribute(answer, SERVICE)?;
    let family = number16(value, 1)?;
    let protocol = Protocol::of_number(number16(value, 2)?)?;
    let at = SocketAddr::new(read_address(family, attribute(value, 3)?)?, read_port(value, 4)?);
    let scheduler = attribute(value, 6)?;
    let scheduler = scheduler.strip_suffix(&[0]).unwrap_or(scheduler);
    let flags = u32::from_ne_bytes(*attribute(value, 7)?.first_chunk()?);
    let persistence = if flags & PERSISTENT == 0 { 0 } else { number32(value, 8)? };
    Some(Server {
        key: ServerKey { protocol, at },
        scheduler: String::from_utf8_lossy(scheduler).into_owned(),
        persistence,
    })
}

/// A destination of a server of `family`; kernels before 3.18 do not say the family.
pub(crate) fn read_destination(server: &ServerKey, answer: &[u8]) -> Option<Destination> {
    let value = attribute(answer, DESTINATION)?;
    let family = number16(value, 11).unwrap_or_else(|| family(server.at.ip()));
    let count = |kind| number32(value, kind).map_or(0, u64::from);
    Some(Destination {
        at: SocketAddr::new(read_address(family, attribute(value, 1)?)?, read_port(value, 2)?),
        weight: number32(value, 4)?,
        connections: count(7) + count(8),
    })
}

fn read_address(family: u16, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        INET => Some(IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?))),
        INET6 => Some(IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk::<16>()?))),
        _ => None,
    }
}

fn read_port(value: &[u8], kind: u16) -> Option<u16> {
    Some(u16::from_be_bytes(attribute(value, kind)?.try_into().ok()?))
}

fn number16(value: &[u8], kind: u16) -> Option<u16> {
    Some(u16::from_ne_bytes(attribute(value, kind)?.try_into().ok()?))
}

fn number32(value: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_ne_bytes(attribute(value, kind)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
