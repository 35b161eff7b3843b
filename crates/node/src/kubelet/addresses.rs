//! The addresses of this node: those of `--node-ip`, or one of each family that the machine would send from.

use net::{DualStack, Family, HasFamily};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Which addresses are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeIps {
    /// One of each family that there is, this family first.
    Detect(Family),
    /// These and no others.
    Given(DualStack<IpAddr>),
}

/// Why a node has no address. Retried: interfaces come up in their own time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("--node-ip: {0} is on no interface of this machine")]
    NotHere(IpAddr),
    #[error("this machine has no route to anywhere, so that its address cannot be told; give --node-ip")]
    NoRoute,
}

/// What `--node-ip` may not be, in words.
#[must_use]
pub fn unfit(ip: IpAddr) -> Option<&'static str> {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    match () {
        () if ip.is_loopback() => Some("is the address of loopback"),
        () if ip.is_multicast() => Some("is an address of many"),
        () if link_local => Some("is good on one link alone"),
        () => None,
    }
}

/// The addresses, primary first.
pub fn find(wanted: &NodeIps) -> Result<Vec<IpAddr>, AddressError> {
    match wanted {
        NodeIps::Given(ips) => {
            if let Some(away) = ips.iter().find(|ip| !is_here(**ip)) {
                return Err(AddressError::NotHere(*away));
            }
            Ok(ips.iter().copied().collect())
        }
        NodeIps::Detect(first) => {
            let found: Vec<_> = [*first, first.other()].into_iter().filter_map(sends_from).collect();
            if found.is_empty() { Err(AddressError::NoRoute) } else { Ok(found) }
        }
    }
}

/// Only an address of this machine can be bound to.
fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
}

/// The address that packets to the world leave with. Nothing is sent: the kernel looks up the route.
fn sends_from(family: Family) -> Option<IpAddr> {
    let world = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };
    let socket = UdpSocket::bind(SocketAddr::new(family.unspecified(), 0)).ok()?;
    socket.connect(SocketAddr::new(world, 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (ip.family() == family && unfit(ip).is_none()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_can_reach_is_a_nodes_address() {
        for (ip, fits) in
            [("192.0.2.1", true), ("2001:db8::1", true), ("127.0.0.1", false), ("fe80::1", false), ("ff02::1", false)]
        {
            assert_eq!(unfit(ip.parse().unwrap()).is_none(), fits, "{ip}");
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let away: IpAddr = "192.0.2.77".parse().unwrap();
        assert_eq!(find(&NodeIps::Given(DualStack::one(away))), Err(AddressError::NotHere(away)));
    }
}
