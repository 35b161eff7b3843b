//! Sockets for one or both families. Called by each component that serves, before anything else starts.
//!
//! `0.0.0.0` is IPv4, `::` is both families on one socket, `0.0.0.0,::` is both on a socket each, and addresses of the
//! machine are taken as they are. None of this depends on `net.ipv6.bindv6only`: the option is always set on the
//! socket.

mod bind;
mod holder;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use net::{DualStack, Family};

pub use bind::{ListenError, Transport, tcp, udp};

/// `--bind-address`: where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// `::`: every address of both families, through one socket.
    Everywhere,
    /// One address, or one of each family, on a socket each that serves only its own family.
    Each(DualStack<IpAddr>),
}

/// Text that is no [`Hosts`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; give an address, one of each family (0.0.0.0,::), or :: for both families")]
pub struct HostsError {
    problem: String,
}

impl FromStr for Hosts {
    type Err = HostsError;

    fn from_str(text: &str) -> Result<Self, HostsError> {
        let refuse = |problem: String| HostsError { problem };
        let address = |text: &str| net::parse_ip(text.trim()).map_err(|error| refuse(error.to_string()));
        let parts: Vec<&str> = text.split(',').collect();
        match parts[..] {
            [only] => match address(only)? {
                only if only == Family::V6.unspecified() => Ok(Self::Everywhere),
                only => Ok(Self::Each(DualStack::one(only))),
            },
            [first, second] => {
                let pair = DualStack::pair(address(first)?, address(second)?);
                Ok(Self::Each(pair.map_err(|error| refuse(error.to_string()))?))
            }
            _ => Err(refuse(format!("{text:?} has {} addresses", parts.len()))),
        }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everywhere => f.write_str("::"),
            Self::Each(addresses) => {
                let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

/// Which clients a socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    OwnFamily,
    BothFamilies,
}

/// The sockets to open for `hosts`. On a machine without IPv6 the wildcard `::` means what is left: `0.0.0.0`. A
/// specific IPv6 address stays, and binding it will fail with the reason.
fn plan(hosts: &Hosts, machine_has_ipv6: bool) -> Vec<(IpAddr, Serves)> {
    const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    match hosts {
        Hosts::Everywhere if machine_has_ipv6 => vec![(ANY_V6, Serves::BothFamilies)],
        Hosts::Everywhere => vec![(ANY_V4, Serves::OwnFamily)],
        Hosts::Each(addresses) => addresses
            .iter()
            .filter(|address| machine_has_ipv6 || !(addresses.is_dual() && **address == ANY_V6))
            .map(|address| (*address, Serves::OwnFamily))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
