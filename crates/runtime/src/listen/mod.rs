//! Sockets for one or both families. Called by each component that serves, before anything else starts.
//!
//! `0.0.0.0` is IPv4, `::` is both families on one socket, `0.0.0.0,::` is both on a socket each, and addresses of the
//! machine are taken as they are. None of this depends on `net.ipv6.bindv6only`: the option is always set on the
//! socket. Of a pair, the half that the machine lacks is left out, and said so: `127.0.0.1,::1` in a container without IPv6 is
//! `127.0.0.1`. Whoever names one address gets that one or an error.

mod bind;
mod holder;
mod machine;

use net::{DualStack, Family, HasFamily};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

pub use bind::{ListenError, Transport, tcp, udp};
pub use machine::{Machine, Presence, outward};

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

impl Hosts {
    /// What is left of it on a machine: of a pair of wildcards or loopback addresses, those that it has. All of it stays when
    /// nothing would be left, and so does an address of another kind; opening it then tells what is wrong.
    #[must_use]
    pub fn on(&self, machine: Machine) -> Self {
        let Self::Each(addresses) = self else { return self.clone() };
        let kept: Vec<IpAddr> = addresses.iter().copied().filter(|address| is_there(*address, machine)).collect();
        match kept[..] {
            [only] if addresses.is_dual() => Self::Each(DualStack::one(only)),
            _ => self.clone(),
        }
    }

    /// What a machine lacks of it, in words; `None` when it has everything.
    #[must_use]
    pub fn lacking(&self, machine: Machine) -> Option<String> {
        let lacking: Vec<String> = match self {
            Self::Everywhere => {
                let absent = Family::BOTH.into_iter().filter(|family| machine.has(*family) < Presence::Whole);
                absent.map(|family| family.to_string()).collect()
            }
            Self::Each(addresses) => {
                let absent = addresses.iter().filter(|address| !is_there(**address, machine));
                absent.map(|address| format!("{} ({address})", address.family())).collect()
            }
        };
        (!lacking.is_empty()).then(|| format!("this machine has no {}", lacking.join(" and no ")))
    }
}

/// Whether a wildcard or loopback address can be listened on. Others are not looked for.
fn is_there(address: IpAddr, machine: Machine) -> bool {
    let has = machine.has(address.family());
    match address {
        address if address.is_unspecified() => has > Presence::Absent,
        address if address.is_loopback() => has == Presence::Whole,
        _ => true,
    }
}

/// Where clients on this machine find sockets that were opened for `hosts`, one address of each family that is served and there.
#[must_use]
pub fn reachable(hosts: &Hosts, bound: &[SocketAddr], machine: Machine) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for address in bound {
        let at = |family: Family| SocketAddr::new(family.loopback(), address.port());
        match (address.ip().is_unspecified(), address.ip().family()) {
            (false, _) => found.push(*address),
            (true, Family::V6) if *hosts == Hosts::Everywhere => found.extend([Family::V6, Family::V4].map(at)),
            (true, family) => found.push(at(family)),
        }
    }
    let there: Vec<SocketAddr> = found.iter().copied().filter(|address| is_there(address.ip(), machine)).collect();
    if there.is_empty() { found } else { there }
}

/// Where other machines find sockets that were opened for `hosts`, the preferred family first: the addresses themselves, and for
/// wildcards what `outward` knows of the machine. Loopback is for this machine alone.
#[must_use]
pub fn advertised(
    hosts: &Hosts,
    bound: &[SocketAddr],
    preferred: Family,
    outward: impl Fn(Family) -> Option<IpAddr>,
) -> Option<DualStack<IpAddr>> {
    let of = |family: Family| {
        let mut ips = bound.iter().map(SocketAddr::ip);
        let serves = |ip: IpAddr| ip.family() == family || (*hosts == Hosts::Everywhere && ip.is_unspecified());
        ips.find(|ip| serves(*ip)).and_then(|ip| if ip.is_unspecified() { outward(family) } else { Some(ip) })
    };
    let found: Vec<IpAddr> =
        [preferred, preferred.other()].into_iter().filter_map(of).filter(|ip| !ip.is_loopback()).collect();
    match found[..] {
        [first, second] => DualStack::pair(first, second).ok(),
        [only] => Some(DualStack::one(only)),
        _ => None,
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
fn plan(hosts: &Hosts, machine: Machine) -> Vec<(IpAddr, Serves)> {
    match hosts.on(machine) {
        Hosts::Everywhere if machine.v6 > Presence::Absent => vec![(Family::V6.unspecified(), Serves::BothFamilies)],
        Hosts::Everywhere => vec![(Family::V4.unspecified(), Serves::OwnFamily)],
        Hosts::Each(addresses) => addresses.iter().map(|address| (*address, Serves::OwnFamily)).collect(),
    }
}

#[cfg(test)]
mod tests;
