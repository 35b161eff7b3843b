//! IPVS, the kernel's own load balancer: virtual servers and the destinations behind them.
//!
//! `message` writes and reads what goes over the wire, and is pure; [`RealIpvs`] sends it, [`FakeIpvs`] keeps it in memory.

mod fake;
pub(crate) mod message;
mod real;
mod sysctl;

use net::Family;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

pub use fake::FakeIpvs;
pub use real::RealIpvs;

/// What the proxy asks of IPVS.
pub trait Ipvs: Send + Sync {
    /// Whether the kernel has it.
    fn probe(&self) -> Result<(), IpvsError>;

    /// All virtual servers of a family.
    fn servers(&self, family: Family) -> Result<Vec<Server>, IpvsError>;

    /// The destinations of a virtual server; none when there is no such server.
    fn destinations(&self, server: &ServerKey) -> Result<Vec<Destination>, IpvsError>;

    /// Makes changes one after the other. Each can be repeated: what is there already or gone already is as wanted.
    fn change(&self, changes: &[Change]) -> Result<(), IpvsError>;
}

/// What clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerKey {
    /// Transport.
    pub protocol: Protocol,
    /// Address and port.
    pub at: SocketAddr,
}

/// A virtual server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// What clients connect to.
    pub key: ServerKey,
    /// How a destination is chosen: `rr`, `lc` and so on.
    pub scheduler: String,
    /// A client stays with its destination for so many seconds; 0 for not at all.
    pub persistence: u32,
}

/// A destination as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Address and port.
    pub at: SocketAddr,
    /// Its share of new connections; at 0 it gets none.
    pub weight: u32,
    /// Connections that are open or just ended.
    pub connections: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes a server, or changes the one at the same address and port.
    PutServer(Server),
    /// Removes a server and its destinations.
    RemoveServer(ServerKey),
    /// Makes a destination, or changes its weight. NAT is the way there.
    PutDestination {
        server: ServerKey,
        /// Address and port.
        at: SocketAddr,
        /// Its share of new connections.
        weight: u32,
    },
    /// Removes a destination at once.
    RemoveDestination {
        server: ServerKey,
        /// Address and port.
        at: SocketAddr,
    },
}

/// How long connections are remembered; zero leaves the kernel's own value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP connections without packets.
    pub tcp: Duration,
    /// TCP connections after a FIN.
    pub tcp_fin: Duration,
    /// UDP flows without packets.
    pub udp: Duration,
}

/// What the whole machine is set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// How long connections are remembered.
    pub timeouts: Timeouts,
    /// Whether an interface answers ARP for its own addresses alone, not for those of Services.
    pub strict_arp: bool,
}

/// Transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// Why IPVS could not be asked or changed.
#[derive(Debug, thiserror::Error)]
pub enum IpvsError {
    /// Nothing to retry: the machine has to be changed, or the mode.
    #[error(
        "this kernel has no IPVS: load it with `modprobe ip_vs`, install a kernel that has it, or use --proxy-mode=nftables"
    )]
    Missing,
    /// The kernel does not know the scheduler.
    #[error("this kernel has no IPVS scheduler {0:?}: load it with `modprobe ip_vs_{0}`, or choose another")]
    NoScheduler(String),
    /// A setting of the kernel.
    #[error("cannot write {path}: {source}")]
    Sysctl { path: &'static str, source: io::Error },
    /// The kernel refused.
    #[error("IPVS: cannot {what}: {source}")]
    Refused {
        /// What was tried.
        what: String,
        source: io::Error,
    },
}

impl Protocol {
    /// Its number in IP headers.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    pub(crate) fn of_number(number: u16) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp].into_iter().find(|protocol| u16::from(protocol.number()) == number)
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

impl std::fmt::Display for ServerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.protocol, self.at)
    }
}

impl ServerKey {
    /// The family of its address.
    #[must_use]
    pub const fn family(&self) -> Family {
        match self.at.ip() {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}
