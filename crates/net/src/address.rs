//! Strict reading of an IP address, and addresses as numbers.
//!
//! Everything an operator or an API client writes goes through [`parse_ip`]. Values that are stored already may be
//! spelled worse; `legacy` reads those.

use crate::{address_error::AddressError, family::Family};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address as it should be written: no leading zeros, no IPv4-mapped IPv6, no zone id, no brackets, no space.
///
/// IPv6 may be spelled in any way of RFC 4291; printing the result gives the canonical spelling of RFC 5952.
pub fn parse_ip(text: &str) -> Result<IpAddr, AddressError> {
    match text.parse::<IpAddr>() {
        Ok(ip) if !is_mapped(ip) => Ok(ip),
        _ => Err(AddressError::of(text)),
    }
}

/// Whether the text is an address in the one spelling that names and comparisons use.
pub fn is_canonical(text: &str) -> bool {
    parse_ip(text).is_ok_and(|ip| ip.to_string() == text)
}

/// Whether this is an IPv4 address in IPv6 clothes: programs disagree on its family, so nothing here takes one.
pub(crate) fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// The address as a number; an IPv4 one in the low 32 bits.
pub(crate) fn to_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The address with this number. Of an IPv4 one the low 32 bits count.
pub(crate) fn from_bits(family: Family, bits: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(bits as u32).into(),
        Family::V6 => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_rfc_5952_says() {
        for (given, canonical) in [
            ("10.0.0.1", "10.0.0.1"),
            ("0.0.0.0", "0.0.0.0"),
            ("::", "::"),
            ("2001:DB8::1", "2001:db8::1"),
            ("2001:0db8:0:0:0:0:0:0001", "2001:db8::1"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
            ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("fd00::10.0.0.1", "fd00::a00:1"),
        ] {
            assert_eq!(parse_ip(given).unwrap().to_string(), canonical);
            assert_eq!(is_canonical(given), given == canonical, "{given}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_wrong_and_what_to_write() {
        for (text, message) in [
            ("", r#""" is empty; accepted are addresses like 10.0.0.1 and fd00::1"#),
            (" 10.0.0.1", r#"" 10.0.0.1" has space around it; write 10.0.0.1"#),
            ("fd00::1\n", r#""fd00::1\n" has space around it; write fd00::1"#),
            ("[fd00::1]", r#""[fd00::1]" is in brackets; write fd00::1"#),
            ("10.0.0.1:80", r#""10.0.0.1:80" has a port; write 10.0.0.1"#),
            ("[fd00::1]:80", r#""[fd00::1]:80" has a port; write fd00::1"#),
            ("fe80::1%eth0", r#""fe80::1%eth0" has a zone id; write fe80::1"#),
            ("10.0.0.1/24", r#""10.0.0.1/24" has a prefix length; write 10.0.0.1"#),
            ("10.010.0.1", r#""10.010.0.1" has a leading zero in octet 2; write 10.10.0.1"#),
            ("::ffff:10.0.0.1", r#""::ffff:10.0.0.1" is an IPv4-mapped IPv6 address; write 10.0.0.1"#),
            ("::FFFF:a00:1", r#""::FFFF:a00:1" is an IPv4-mapped IPv6 address; write 10.0.0.1"#),
            ("fd00::10.0.0.01", r#""fd00::10.0.0.01" has a leading zero in octet 4; write fd00::a00:1"#),
            (
                "10.0.256.1",
                r#""10.0.256.1" has something other than 0 to 255 in octet 3; accepted are addresses like 10.0.0.1 and fd00::1"#,
            ),
            ("10.0.1", r#""10.0.1" has 3 octets, not four; accepted are addresses like 10.0.0.1 and fd00::1"#),
            (
                "fd00::xyz:1",
                r#""fd00::xyz:1" has something other than one to four hex digits in group 2; accepted are addresses like 10.0.0.1 and fd00::1"#,
            ),
            ("1::2::3", r#""1::2::3" has :: more than once; accepted are addresses like 10.0.0.1 and fd00::1"#),
            (
                "1:2:3",
                r#""1:2:3" has neither eight groups nor fewer and one ::; accepted are addresses like 10.0.0.1 and fd00::1"#,
            ),
            ("localhost", r#""localhost" is not an IP address; accepted are addresses like 10.0.0.1 and fd00::1"#),
        ] {
            assert_eq!(parse_ip(text).unwrap_err().to_string(), message);
        }
    }
}
