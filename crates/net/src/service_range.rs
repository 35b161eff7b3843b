//! A CIDR that Services get their addresses from: which sizes are allowed, which addresses are handed out.
//!
//! Made by `flags::service_ranges` and from ServiceCIDR objects. Mirrors the size rules of kube-apiserver and the
//! bounds of its allocator; the older caps of /12 and /108 are gone there too.

use crate::{cidr::Cidr, cidr_text::CidrError, dual_stack::HasFamily, family::Family, text::serde_by_text};
use std::{fmt, net::IpAddr, str::FromStr};

/// The shortest IPv6 prefix: the addresses of a /64 still count in 64 bits.
const SHORTEST_V6_PREFIX: u8 = 64;
/// The fewest addresses, the unusable ones included.
const SMALLEST: u128 = 8;

/// A CIDR of a size that Services can live in. Prints as the CIDR.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceRange(Cidr);

impl ServiceRange {
    /// Checks the size.
    pub fn new(cidr: Cidr) -> Result<Self, ServiceRangeError> {
        if cidr.size() < SMALLEST {
            let longest = cidr.family().bits() - SMALLEST.ilog2() as u8;
            return Err(ServiceRangeError::TooSmall { cidr, size: cidr.size(), longest });
        }
        if cidr.family() == Family::V6 && cidr.prefix() < SHORTEST_V6_PREFIX {
            return Err(ServiceRangeError::TooBig { cidr });
        }
        if cidr.covers_mapped() {
            return Err(ServiceRangeError::Mapped { cidr });
        }
        Ok(Self(cidr))
    }

    /// The CIDR itself.
    pub fn cidr(&self) -> Cidr {
        self.0
    }

    /// The first address that a Service may have: the one after the network address. `kubernetes.default` has it.
    pub fn first(&self) -> IpAddr {
        self.nth(1)
    }

    /// The last address that a Service may have: in IPv4 the one before the broadcast address.
    pub fn last(&self) -> IpAddr {
        self.nth(self.usable())
    }

    /// The tenth address, which cluster DNS has by custom. None if the range is too small for it.
    pub fn dns(&self) -> Option<IpAddr> {
        (self.usable() >= 10).then(|| self.nth(10))
    }

    /// How many addresses Services may have.
    pub fn usable(&self) -> u64 {
        let unusable = match self.0.family() {
            Family::V4 => 2,
            Family::V6 => 1,
        };
        u64::try_from(self.0.size() - unusable).expect("an IPv6 service range is a /64 or smaller")
    }

    /// How many of the first usable addresses are kept for those who ask for one by name.
    pub fn static_band(&self) -> u64 {
        match self.0.size() {
            0..=16 => 0,
            size => (size / 16).clamp(16, 256) as u64,
        }
    }

    /// The usable address number `n`, from 1.
    pub(crate) fn nth(&self, n: u64) -> IpAddr {
        self.0.nth(n.into()).expect("n counts usable addresses, which are inside the CIDR")
    }
}

impl HasFamily for ServiceRange {
    fn family(&self) -> Family {
        self.0.family()
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A CIDR that Services cannot get addresses from. Not retryable: the operator must choose another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRangeError {
    /// Not a CIDR at all.
    #[error(transparent)]
    Text(#[from] CidrError),
    /// Fewer than 8 addresses.
    #[error("{cidr} is too small ({size} of at least {SMALLEST} addresses); use a prefix of /{longest} or shorter")]
    TooSmall {
        cidr: Cidr,
        /// How many addresses it has.
        size: u128,
        /// The longest prefix of its family that will do.
        longest: u8,
    },
    /// An IPv6 prefix shorter than /64.
    #[error("{cidr} is too big; use an IPv6 prefix of /{SHORTEST_V6_PREFIX} or longer")]
    TooBig { cidr: Cidr },
    /// IPv4-mapped addresses are inside.
    #[error("{cidr} contains IPv4-mapped IPv6 addresses; choose a range outside ::ffff:0:0/96")]
    Mapped { cidr: Cidr },
}

impl FromStr for ServiceRange {
    type Err = ServiceRangeError;

    fn from_str(text: &str) -> Result<Self, ServiceRangeError> {
        Self::new(text.parse()?)
    }
}

serde_by_text!(ServiceRange);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_and_bounds_are_those_of_kube_apiserver() {
        for (text, first, last, band, dns) in [
            ("10.0.0.0/29", "10.0.0.1", "10.0.0.6", 0, None),
            ("10.0.0.0/28", "10.0.0.1", "10.0.0.14", 0, Some("10.0.0.10")),
            ("10.0.0.0/27", "10.0.0.1", "10.0.0.30", 16, Some("10.0.0.10")),
            ("10.0.0.0/24", "10.0.0.1", "10.0.0.254", 16, Some("10.0.0.10")),
            ("10.0.0.0/22", "10.0.0.1", "10.0.3.254", 64, Some("10.0.0.10")),
            ("10.96.0.0/20", "10.96.0.1", "10.96.15.254", 256, Some("10.96.0.10")),
            ("10.96.0.0/12", "10.96.0.1", "10.111.255.254", 256, Some("10.96.0.10")),
            ("fd00::/125", "fd00::1", "fd00::7", 0, None),
            ("fd00::/124", "fd00::1", "fd00::f", 0, Some("fd00::a")),
            ("fd00::/112", "fd00::1", "fd00::ffff", 256, Some("fd00::a")),
            ("fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff", 256, Some("fd00::a")),
        ] {
            let range: ServiceRange = text.parse().unwrap();
            assert_eq!((range.first().to_string(), range.last().to_string()), (first.into(), last.into()));
            assert_eq!(range.static_band(), band, "{text}");
            assert_eq!(range.dns().map(|ip| ip.to_string()).as_deref(), dns);
        }
    }

    #[test]
    fn sizes_outside_the_rules_are_refused() {
        for (text, message) in [
            ("10.0.0.0/30", "10.0.0.0/30 is too small (4 of at least 8 addresses); use a prefix of /29 or shorter"),
            ("fd00::1/128", "fd00::1/128 is too small (1 of at least 8 addresses); use a prefix of /125 or shorter"),
            ("fd00::/63", "fd00::/63 is too big; use an IPv6 prefix of /64 or longer"),
            ("::/0", "::/0 is too big; use an IPv6 prefix of /64 or longer"),
            ("::/64", "::/64 contains IPv4-mapped IPv6 addresses; choose a range outside ::ffff:0:0/96"),
            ("10.0.0.1/24", r#""10.0.0.1/24" has host bits set; write 10.0.0.0/24"#),
        ] {
            assert_eq!(text.parse::<ServiceRange>().unwrap_err().to_string(), message);
        }
    }
}
