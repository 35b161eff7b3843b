//! Lenient reading of values that are stored already, and warnings for spellings that should be changed.
//!
//! Objects written by older API servers may hold `010.0.0.1` or `::ffff:10.0.0.1`; refusing them would make the object
//! impossible to update. Mirrors what upstream's parsers did: leading zeros are decimal, a mapped address is IPv4, and
//! a CIDR loses its host bits. Never use this for a value that is new.

use crate::{
    address::{is_canonical, parse_ip},
    address_error::AddressError,
    cidr::Cidr,
    cidr_text::CidrError,
    family::Family,
    text::Quoted,
};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Reads a stored address: leading zeros and IPv4-mapped IPv6 are taken for what they were meant to be.
pub fn parse_stored_ip(text: &str) -> Result<IpAddr, AddressError> {
    read_ip(text).ok_or_else(|| AddressError::of(text))
}

/// Reads a stored CIDR: as [`parse_stored_ip`], and host bits are dropped.
pub fn parse_stored_cidr(text: &str) -> Result<Cidr, CidrError> {
    read_cidr(text).ok_or_else(|| CidrError::of(text))
}

/// A spelling that is understood but should be another. Prints as a sentence for an API warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// The text as given.
    pub given: String,
    /// How to write it.
    pub canonical: String,
    /// Whether it is taken only because it may be stored already; a new value of this spelling is refused.
    pub stored_only: bool,
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let complaint =
            if self.stored_only { "is accepted only in existing objects" } else { "is not the canonical spelling" };
        write!(f, "{} {complaint}; write {}", Quoted(&self.given), self.canonical)
    }
}

/// The warning for an address that reads but is not canonical. None for a canonical one and for what is no address.
pub fn ip_spelling(text: &str) -> Option<Spelling> {
    let canonical = read_ip(text).filter(|_| !is_canonical(text))?.to_string();
    Some(Spelling { given: text.to_owned(), canonical, stored_only: parse_ip(text).is_err() })
}

/// The warning for a CIDR that reads but is not canonical. None for a canonical one and for what is no CIDR.
pub fn cidr_spelling(text: &str) -> Option<Spelling> {
    let canonical = read_cidr(text)?.to_string();
    let stored_only = text.parse::<Cidr>().is_err();
    (canonical != text).then(|| Spelling { given: text.to_owned(), canonical, stored_only })
}

pub(crate) fn read_ip(text: &str) -> Option<IpAddr> {
    let ip = read_v4(text).map(IpAddr::V4).or_else(|| read_v6(text).map(IpAddr::V6))?;
    Some(ip.to_canonical())
}

pub(crate) fn read_cidr(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    let prefix: u8 = read_decimal(prefix)?;
    match read_v4(address) {
        Some(v4) => Cidr::containing(v4.into(), prefix),
        None => {
            let v6 = read_v6(address)?;
            match v6.to_ipv4_mapped() {
                // The first 96 bits say "mapped": a shorter prefix would be of neither family.
                Some(v4) => Cidr::containing(v4.into(), prefix.checked_sub(Family::V6.bits() - Family::V4.bits())?),
                None => Cidr::containing(v6.into(), prefix),
            }
        }
    }
}

fn read_v6(text: &str) -> Option<Ipv6Addr> {
    text.parse().ok().or_else(|| {
        let dotted = text.rfind(':')? + 1;
        let v4 = read_v4(&text[dotted..])?;
        format!("{}{v4}", &text[..dotted]).parse().ok()
    })
}

fn read_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = read_decimal(parts.next()?)?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Decimal digits with any number of leading zeros.
pub(crate) fn read_decimal(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.trim_start_matches('0') {
        _ if !digits => None,
        "" => Some(0),
        significant => significant.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_addresses_read_as_they_were_meant() {
        for (text, warning) in [
            ("10.0.0.1", None),
            ("fd00::1", None),
            ("010.000.0.01", Some(r#""010.000.0.01" is accepted only in existing objects; write 10.0.0.1"#)),
            ("::ffff:10.0.0.1", Some(r#""::ffff:10.0.0.1" is accepted only in existing objects; write 10.0.0.1"#)),
            ("::ffff:10.0.0.01", Some(r#""::ffff:10.0.0.01" is accepted only in existing objects; write 10.0.0.1"#)),
            ("FD00::0:1", Some(r#""FD00::0:1" is not the canonical spelling; write fd00::1"#)),
        ] {
            let ip = parse_stored_ip(text).unwrap();
            assert!(ip == parse_ip("10.0.0.1").unwrap() || ip == parse_ip("fd00::1").unwrap());
            assert_eq!(ip_spelling(text).map(|s| s.to_string()).as_deref(), warning);
        }
        for text in
            ["", " 10.0.0.1", "10.0.0", "10.0.0.256", "10.0.0.1.", "fe80::1%eth0", "[::1]", "::1.2.3", "+1.0.0.0"]
        {
            assert!(parse_stored_ip(text).is_err(), "{text}");
            assert_eq!(ip_spelling(text), None);
        }
    }

    #[test]
    fn stored_cidrs_read_as_they_were_meant() {
        for (text, cidr, warning) in [
            ("10.0.0.0/8", "10.0.0.0/8", None),
            ("fd00::/64", "fd00::/64", None),
            (
                "010.1.2.3/08",
                "10.0.0.0/8",
                Some(r#""010.1.2.3/08" is accepted only in existing objects; write 10.0.0.0/8"#),
            ),
            (
                "::ffff:10.0.0.0/104",
                "10.0.0.0/8",
                Some(r#""::ffff:10.0.0.0/104" is accepted only in existing objects; write 10.0.0.0/8"#),
            ),
            ("fd00::1/64", "fd00::/64", Some(r#""fd00::1/64" is accepted only in existing objects; write fd00::/64"#)),
            ("FD00::/64", "fd00::/64", Some(r#""FD00::/64" is not the canonical spelling; write fd00::/64"#)),
        ] {
            assert_eq!(parse_stored_cidr(text).unwrap().to_string(), cidr);
            assert_eq!(cidr_spelling(text).map(|s| s.to_string()).as_deref(), warning);
        }
        for text in
            ["", "/", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "::ffff:10.0.0.0/95", "10.0.0.0/ 8", "10.0.0.0/8/8"]
        {
            assert!(parse_stored_cidr(text).is_err(), "{text}");
            assert_eq!(cidr_spelling(text), None);
        }
    }
}
