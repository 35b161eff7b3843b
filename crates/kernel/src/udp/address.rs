//! Socket addresses as the kernel lays them out: family in the machine's order, port and address in the network's.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Length of the longer one, `sockaddr_in6`.
pub(super) const LONGEST: usize = 28;
/// Length of `sockaddr_in`.
const V4: usize = 16;

/// The address in what the kernel wrote; `None` for a family that is neither.
pub(crate) fn read(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(SocketAddrV4::new(octets.into(), port).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(octets.into(), port, 0, scope).into())
        }
        _ => None,
    }
}

/// Writes an address; returns its length.
pub(super) fn write(address: SocketAddr, bytes: &mut [u8; LONGEST]) -> usize {
    *bytes = [0; LONGEST];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&Ipv4Addr::octets(v4.ip()));
            V4
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&Ipv6Addr::octets(v6.ip()));
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            LONGEST
        }
    }
}
