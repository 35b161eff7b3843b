//! Control messages: beside a packet the kernel tells to which address it came, and is told from which one to send.
//!
//! A message is its length (a `size_t`, header included), level and type (an `int` each), and the data; the next one
//! begins at a multiple of a `size_t`.

use super::Asked;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for either of the two: a header and `in6_pktinfo`.
pub(super) const LONGEST: usize = 40;

const WORD: usize = size_of::<usize>();
const HEADER: usize = WORD + 8;

/// The address in what the kernel wrote; messages of other kinds are passed over.
pub(crate) fn read(mut bytes: &[u8]) -> Option<Asked> {
    loop {
        let length = usize::from_ne_bytes(*bytes.first_chunk()?);
        let level = i32::from_ne_bytes(*bytes.get(WORD..)?.first_chunk()?);
        let sort = i32::from_ne_bytes(*bytes.get(WORD + 4..)?.first_chunk()?);
        let data = bytes.get(HEADER..length)?;
        match (level, sort) {
            // in_pktinfo: interface, our address, the address in the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let octets: [u8; 4] = *data.get(4..)?.first_chunk()?;
                return Some(Asked { address: Ipv4Addr::from(octets).into(), interface: 0 });
            }
            // in6_pktinfo: the address, the interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let octets: [u8; 16] = *data.first_chunk()?;
                let interface = u32::from_ne_bytes(*data.get(16..)?.first_chunk()?);
                let address = Ipv6Addr::from(octets);
                // Only there is an address not enough: elsewhere the routes know better.
                let interface = if address.is_unicast_link_local() { interface } else { 0 };
                return Some(Asked { address: address.into(), interface });
            }
            _ => bytes = bytes.get(length.checked_next_multiple_of(WORD)?..)?,
        }
    }
}

/// Writes the message that makes a packet leave from an address; returns its length.
pub(super) fn write(asked: Asked, bytes: &mut [u8; LONGEST]) -> usize {
    *bytes = [0; LONGEST];
    let (level, sort, length) = match asked.address {
        IpAddr::V4(v4) => {
            bytes[HEADER..HEADER + 4].copy_from_slice(&asked.interface.to_ne_bytes());
            bytes[HEADER + 4..HEADER + 8].copy_from_slice(&v4.octets());
            (libc::IPPROTO_IP, libc::IP_PKTINFO, 12)
        }
        IpAddr::V6(v6) => {
            bytes[HEADER..HEADER + 16].copy_from_slice(&v6.octets());
            bytes[HEADER + 16..HEADER + 20].copy_from_slice(&asked.interface.to_ne_bytes());
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
        }
    };
    bytes[..WORD].copy_from_slice(&(HEADER + length).to_ne_bytes());
    bytes[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
    bytes[WORD + 4..HEADER].copy_from_slice(&sort.to_ne_bytes());
    (HEADER + length).next_multiple_of(WORD)
}
