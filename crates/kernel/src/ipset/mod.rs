//! Sets of addresses and ports that iptables rules ask: `ipset`, over netlink.
//!
//! `message` writes and reads what goes over the wire, and is pure; [`RealIpset`] sends it, [`FakeIpset`] keeps it in memory.

mod fake;
pub(crate) mod message;
mod real;

use crate::ipvs::Protocol;
use net::{Cidr, Family};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
};

pub use fake::FakeIpset;
pub use real::RealIpset;

/// What the proxy asks of ipset.
pub trait Ipset: Send + Sync {
    /// Makes a set, unless it is there.
    fn make(&self, set: &Set) -> Result<(), IpsetError>;

    /// What a set holds, or `None` when there is no such set.
    fn entries(&self, set: &Set) -> Result<Option<Vec<Entry>>, IpsetError>;

    /// Makes changes one after the other. What is there already or gone already is as wanted.
    fn change(&self, changes: &[Change]) -> Result<(), IpsetError>;

    /// Removes a set that no rule asks any more; one that is gone already is as wanted.
    fn destroy(&self, set: &Set) -> Result<(), IpsetError>;
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set {
    /// At most 31 bytes.
    pub name: String,
    /// What its entries are.
    pub kind: Kind,
    /// Family of the addresses.
    pub family: Family,
}

/// What entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `hash:ip`
    Ip,
    /// `hash:ip,port`
    IpPort,
    /// `hash:ip,port,ip`
    IpPortIp,
    /// `hash:ip,port,net`
    IpPortNet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Of [`Kind::Ip`].
    Ip(IpAddr),
    /// Of [`Kind::IpPort`].
    IpPort(Protocol, SocketAddr),
    /// Of [`Kind::IpPortIp`].
    IpPortIp(Protocol, SocketAddr, IpAddr),
    /// Of [`Kind::IpPortNet`]. The block is never everything: ipset has no such entry.
    IpPortNet(Protocol, SocketAddr, Cidr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Puts an entry into a set.
    Add(Set, Entry),
    /// Takes an entry out of a set.
    Remove(Set, Entry),
}

/// Why a set could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[error("ipset {set}: cannot {what}: {why}")]
pub struct IpsetError {
    /// Its name.
    pub set: String,
    /// What was tried.
    pub what: &'static str,
    pub why: String,
}

impl IpsetError {
    fn new(set: &Set, what: &'static str, error: &io::Error) -> Self {
        // Numbers from 4096 are ipset's own.
        let why = match error.raw_os_error() {
            Some(4098) => format!("this kernel has no sets of type {}", set.kind),
            Some(4100 | 4108) => "a rule still asks it".to_owned(),
            Some(4102) => "a set of another type has this name".to_owned(),
            Some(4352) => "it is full".to_owned(),
            _ => error.to_string(),
        };
        Self { set: set.name.clone(), what, why }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "hash:ip",
            Self::IpPort => "hash:ip,port",
            Self::IpPortIp => "hash:ip,port,ip",
            Self::IpPortNet => "hash:ip,port,net",
        })
    }
}

/// As `ipset list` writes it.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::IpPort(protocol, at) => write!(f, "{},{protocol}:{}", at.ip(), at.port()),
            Self::IpPortIp(protocol, at, from) => write!(f, "{},{protocol}:{},{from}", at.ip(), at.port()),
            Self::IpPortNet(protocol, at, from) => write!(f, "{},{protocol}:{},{from}", at.ip(), at.port()),
        }
    }
}
