//! Which families this machine has, as far as sockets can tell. Containers often lack one: `net.ipv6.conf.all.disable_ipv6=1` takes away
//! `::1` and leaves sockets, `ipv6.disable=1` takes both, and a namespace may have no `127.0.0.1`.

use net::Family;
use socket2::{Domain, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What a family is good for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// The kernel does not know it: no socket can be opened.
    Absent,
    /// Sockets can be opened, but the loopback address is not there.
    NoLoopback,
    /// As it should be.
    Whole,
}

/// Both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// IPv4.
    pub v4: Presence,
    /// IPv6.
    pub v6: Presence,
}

impl Machine {
    /// Looks now; nothing is kept, because addresses come and go.
    #[must_use]
    pub fn look() -> Self {
        Self { v4: presence(Family::V4), v6: presence(Family::V6) }
    }

    /// What a family is good for.
    #[must_use]
    pub fn has(self, family: Family) -> Presence {
        match family {
            Family::V4 => self.v4,
            Family::V6 => self.v6,
        }
    }

    /// The address at which this machine reaches itself: that of IPv4 where there is one, else that of IPv6.
    #[must_use]
    pub fn loopback(self) -> IpAddr {
        let whole = Family::BOTH.into_iter().find(|family| self.has(*family) == Presence::Whole);
        whole.unwrap_or(Family::V4).loopback()
    }
}

/// The address by which other machines reach this one: that from which it would talk to them. None without a route, and none
/// that only this machine or this link knows. Nothing is sent.
#[must_use]
pub fn outward(family: Family) -> Option<IpAddr> {
    // Addresses for documentation: routed as any other, and nobody's.
    let anybody: IpAddr = match family {
        Family::V4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind((family.unspecified(), 0)).ok()?;
    socket.connect((anybody, 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    let of_the_link = match own {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    (!own.is_loopback() && !own.is_unspecified() && !of_the_link).then_some(own)
}

fn presence(family: Family) -> Presence {
    let domain = match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    };
    let Ok(socket) = Socket::new(domain, Type::DGRAM, None) else { return Presence::Absent };
    match socket.bind(&SocketAddr::new(family.loopback(), 0).into()) {
        Ok(()) => Presence::Whole,
        Err(_) => Presence::NoLoopback,
    }
}
