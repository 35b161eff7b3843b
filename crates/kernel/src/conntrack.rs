//! The kernel's memory of UDP flows: who talks to whom, and where that was translated to.
//!
//! UDP has no beginning: as long as a client goes on sending, the kernel goes on translating to the endpoint that it once
//! chose, even if that is gone. Whoever changes endpoints has to make it forget.

use crate::{
    dummy::{Links, RealLinks},
    netlink::{Message, Socket, attribute},
};
use net::Family;
use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

const GET: u16 = 0x0101;
const DELETE: u16 = 0x0102;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
const UDP: u8 = 17;

/// What is asked of it. `RealConntrack` speaks netlink; tests have their own.
pub trait Conntrack: Send + Sync {
    /// All UDP flows of a family.
    fn udp_flows(&self, family: Family) -> io::Result<Vec<Flow>>;

    /// Forgets flows; one that is gone already is as wanted.
    fn forget(&self, family: Family, flows: &[&Flow]) -> io::Result<()>;

    /// The addresses of this machine: a flow to another one only passes through.
    fn own_addresses(&self, family: Family) -> io::Result<BTreeSet<IpAddr>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where the client sends to.
    pub to: SocketAddr,
    /// Who answers: the endpoint that it was translated to, or `to` itself.
    pub from: SocketAddr,
    /// By which the kernel knows it.
    handle: Handle,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Handle {
    tuple: Vec<u8>,
    id: Vec<u8>,
    zone: Option<Vec<u8>>,
}

impl Flow {
    /// One that no kernel knows, for tests.
    #[must_use]
    pub fn new(to: SocketAddr, from: SocketAddr) -> Self {
        Self { to, from, handle: Handle::default() }
    }
}

/// The kernel of this machine, in the network namespace of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealConntrack;

impl Conntrack for RealConntrack {
    fn udp_flows(&self, family: Family) -> io::Result<Vec<Flow>> {
        let mut flows = Vec::new();
        Socket::open()?.dump(Message::new(GET, family), |entry| flows.extend(read(entry)))?;
        Ok(flows)
    }

    fn forget(&self, family: Family, flows: &[&Flow]) -> io::Result<()> {
        let socket = Socket::open()?;
        flows.iter().try_for_each(|flow| {
            let Handle { tuple, id, zone } = &flow.handle;
            let mut message = Message::new(DELETE, family);
            message.nested(ORIGINAL, tuple);
            message.attribute(ID, id);
            if let Some(zone) = zone {
                message.attribute(ZONE, zone);
            }
            match socket.ask(message) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done,
            }
        })
    }

    fn own_addresses(&self, family: Family) -> io::Result<BTreeSet<IpAddr>> {
        // No interface has no name, so all are others.
        Ok(RealLinks.addresses("", family)?.elsewhere)
    }
}

/// A flow, if it is UDP.
pub(crate) fn read(entry: &[u8]) -> Option<Flow> {
    let original = attribute(entry, ORIGINAL)?;
    let reply = attribute(entry, REPLY)?;
    let protocol = attribute(attribute(original, 2)?, 1)?;
    if protocol != [UDP] {
        return None;
    }
    let handle = Handle {
        tuple: original.to_vec(),
        id: attribute(entry, ID)?.to_vec(),
        zone: attribute(entry, ZONE).map(<[u8]>::to_vec),
    };
    Some(Flow { to: end(original, End::Destination)?, from: end(reply, End::Source)?, handle })
}

#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

/// One end of a tuple: addresses are its attribute 1, ports its attribute 2.
fn end(tuple: &[u8], end: End) -> Option<SocketAddr> {
    let (v4, v6, port) = match end {
        End::Source => (1, 3, 2),
        End::Destination => (2, 4, 3),
    };
    let addresses = attribute(tuple, 1)?;
    let short = || Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(attribute(addresses, v4)?).ok()?)));
    let long = || Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(attribute(addresses, v6)?).ok()?)));
    let port = <[u8; 2]>::try_from(attribute(attribute(tuple, 2)?, port)?).ok()?;
    Some(SocketAddr::new(short().or_else(long)?, u16::from_be_bytes(port)))
}
