//! What clients send to: an address and port, or a port at the node's addresses.

use super::Protocol;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// Where clients send packets to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Frontend {
    /// A cluster IP, external IP or load balancer IP.
    Address { ip: IpAddr, protocol: Protocol, port: u16 },
    /// A port at the node's addresses.
    NodePort { protocol: Protocol, port: u16 },
}

impl Frontend {
    /// Its transport.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Address { protocol, .. } | Self::NodePort { protocol, .. } => *protocol,
        }
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { ip, protocol, port } => write!(f, "{protocol} {}", SocketAddr::new(*ip, *port)),
            Self::NodePort { protocol, port } => write!(f, "{protocol} node port {port}"),
        }
    }
}
