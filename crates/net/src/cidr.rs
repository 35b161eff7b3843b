//! A block of addresses: network address and prefix length. Its text is in `cidr_text`.

use crate::{
    address::{from_bits, is_mapped, to_bits},
    cidr_text::CidrError,
    dual_stack::HasFamily,
    family::Family,
};
use std::net::{IpAddr, Ipv4Addr};

/// A CIDR whose address is the first of the block: host bits are zero, the prefix fits the family, and no IPv4 hides in
/// IPv6. Orders by family, then address, then prefix: a block comes before those inside it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The block with this network address and prefix length.
    pub fn new(network: IpAddr, prefix: u8) -> Result<Self, CidrError> {
        Self::containing(network, prefix)
            .filter(|cidr| cidr.network == network)
            .ok_or_else(|| CidrError::of(&format!("{network}/{prefix}")))
    }

    /// The block of this prefix length that `ip` lies in. None if the prefix is too long, or `ip` IPv4-mapped IPv6.
    pub fn containing(ip: IpAddr, prefix: u8) -> Option<Self> {
        if prefix > ip.family().bits() || is_mapped(ip) {
            return None;
        }
        let network = from_bits(ip.family(), to_bits(ip) & !host_mask(ip.family(), prefix));
        Some(Self { network, prefix })
    }

    /// The block of this one address.
    pub fn host(ip: IpAddr) -> Option<Self> {
        Self::containing(ip, ip.family().bits())
    }

    /// The first address, which names the block.
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// The prefix length.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The first address; same as [`network`](Self::network).
    pub fn first(&self) -> IpAddr {
        self.network
    }

    /// The last address: of an IPv4 block the broadcast address.
    pub fn last(&self) -> IpAddr {
        from_bits(self.family(), to_bits(self.network) | self.host_mask())
    }

    /// How many addresses there are. `::/0` has one more than fits and says [`u128::MAX`].
    pub fn size(&self) -> u128 {
        self.host_mask().saturating_add(1)
    }

    /// The address `n` after the first one, if it is inside.
    pub fn nth(&self, n: u128) -> Option<IpAddr> {
        (n <= self.host_mask()).then(|| from_bits(self.family(), to_bits(self.network) | n))
    }

    /// How far `ip` is from the first address, if it is inside. The reverse of [`nth`](Self::nth).
    pub fn offset(&self, ip: IpAddr) -> Option<u128> {
        self.contains(ip).then(|| to_bits(ip) & self.host_mask())
    }

    /// The block number `n` of those that this one is cut into by a longer prefix. None if there is no such block, or
    /// if it would be one of IPv4-mapped addresses.
    pub fn subnet(&self, prefix: u8, n: u128) -> Option<Self> {
        if prefix < self.prefix || prefix > self.family().bits() {
            return None;
        }
        let shift = u32::from(self.family().bits() - prefix);
        let offset = n.checked_shl(shift).unwrap_or_default();
        let fits = n == 0 || (shift < 128 && offset >> shift == n && offset <= self.host_mask());
        let network = fits.then(|| from_bits(self.family(), to_bits(self.network) | offset))?;
        Self::containing(network, prefix)
    }

    /// Whether the address is inside.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.family() == self.family() && (to_bits(ip) ^ to_bits(self.network)) & !self.host_mask() == 0
    }

    /// Whether all of the other block is inside.
    pub fn contains_cidr(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.network)
    }

    /// Whether any address is in both. Two blocks overlap only when one contains the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains_cidr(other) || other.contains_cidr(self)
    }

    /// Whether IPv4-mapped addresses are inside, which nobody may be given.
    pub(crate) fn covers_mapped(&self) -> bool {
        self.contains(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().into())
    }

    fn host_mask(&self) -> u128 {
        host_mask(self.family(), self.prefix)
    }
}

impl HasFamily for Cidr {
    fn family(&self) -> Family {
        self.network.family()
    }
}

/// Ones where addresses of one block differ. The prefix must fit the family.
fn host_mask(family: Family, prefix: u8) -> u128 {
    let host_bits = u32::from(family.bits() - prefix);
    1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_block_knows_its_bounds_size_and_addresses() {
        for (text, first, last, size, tenth) in [
            ("10.96.0.0/12", "10.96.0.0", "10.111.255.255", 1 << 20, Some("10.96.0.10")),
            ("10.0.0.0/30", "10.0.0.0", "10.0.0.3", 4, None),
            ("10.0.0.7/32", "10.0.0.7", "10.0.0.7", 1, None),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255", 1 << 32, Some("0.0.0.10")),
            ("fd00::/108", "fd00::", "fd00::f:ffff", 1 << 20, Some("fd00::a")),
            ("fd00::7/128", "fd00::7", "fd00::7", 1, None),
            ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", u128::MAX, Some("::a")),
        ] {
            let block = cidr(text);
            assert_eq!((block.first().to_string(), block.last().to_string()), (first.into(), last.into()));
            assert_eq!(block.size(), size, "{text}");
            assert_eq!(block.nth(10).map(|ip| ip.to_string()).as_deref(), tenth);
            assert_eq!(block.nth(10).and_then(|ip| block.offset(ip)), tenth.map(|_| 10));
            assert!(block.contains(block.first()) && block.contains(block.last()) && block.contains_cidr(&block));
        }
    }

    #[test]
    fn blocks_overlap_exactly_when_one_is_inside_the_other() {
        for (a, b, inside, overlap) in [
            ("10.0.0.0/8", "10.1.0.0/16", true, true),
            ("10.1.0.0/16", "10.0.0.0/8", false, true),
            ("10.1.0.0/16", "10.2.0.0/16", false, false),
            ("fd00::/48", "fd00:0:0:1::/64", true, true),
            ("fd00:0:0:1::/64", "fd00:0:0:2::/64", false, false),
            ("::/0", "10.0.0.0/8", false, false),
            ("0.0.0.0/0", "::/128", false, false),
        ] {
            assert_eq!(cidr(a).contains_cidr(&cidr(b)), inside, "{a} {b}");
            assert_eq!(cidr(a).overlaps(&cidr(b)), overlap);
            assert_eq!(cidr(b).overlaps(&cidr(a)), overlap);
        }
    }

    #[test]
    fn a_block_is_cut_into_numbered_blocks() {
        for (block, prefix, n, expected) in [
            ("10.244.0.0/16", 24, 0, Some("10.244.0.0/24")),
            ("10.244.0.0/16", 24, 255, Some("10.244.255.0/24")),
            ("10.244.0.0/16", 24, 256, None),
            ("10.244.0.0/16", 15, 0, None),
            ("10.244.0.0/16", 33, 0, None),
            ("10.244.0.0/16", 16, 0, Some("10.244.0.0/16")),
            ("fd00::/48", 64, 65535, Some("fd00:0:0:ffff::/64")),
            ("fd00::/48", 64, 65536, None),
            ("fd00::/48", 64, u128::MAX, None),
            ("::/0", 0, 0, Some("::/0")),
            ("::/0", 0, 1, None),
        ] {
            assert_eq!(cidr(block).subnet(prefix, n).map(|c| c.to_string()).as_deref(), expected, "{block} {n}");
        }
    }

    #[test]
    fn a_block_needs_its_network_address() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(Cidr::new(ip("10.0.0.0"), 8), Ok(cidr("10.0.0.0/8")));
        assert_eq!(Cidr::host(ip("fd00::1")), Some(cidr("fd00::1/128")));
        assert_eq!(Cidr::containing(ip("fd00::1"), 64), Some(cidr("fd00::/64")));
        assert_eq!(Cidr::containing(ip("10.0.0.1"), 33), None);
        assert_eq!(Cidr::host(ip("::ffff:10.0.0.1")), None);
        assert_eq!(
            Cidr::new(ip("fd00::1"), 64).unwrap_err().to_string(),
            r#""fd00::1/64" has host bits set; write fd00::/64"#
        );
    }
}
