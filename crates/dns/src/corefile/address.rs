//! Keys of server blocks: `[scheme://]zone[:port]`, where a CIDR stands for its reverse zones.

use super::{Problem, Token};
use crate::wire::Name;
use std::net::IpAddr;

/// How packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain DNS over UDP and TCP.
    Dns,
    /// Over TLS (RFC 7858).
    Tls,
    /// Over HTTPS (RFC 8484).
    Https,
}

impl Scheme {
    /// As keys and metrics write it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Https => "https",
        }
    }

    /// The port where none is named; that of plain DNS can be chosen.
    fn port(self, plain: u16) -> u16 {
        match self {
            Self::Dns => plain,
            Self::Tls => 853,
            Self::Https => 443,
        }
    }
}

/// What one key of a server block asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub scheme: Scheme,
    /// For which names, in lower case.
    pub zone: Name,
    pub port: u16,
}

impl Address {
    /// Reads a key; a CIDR may give several zones.
    pub fn parse(key: &Token, default_port: u16) -> Result<Vec<Self>, Problem> {
        let text = key.text.as_str();
        let accepted = "accepted: dns://, tls://, https://";
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Dns, text),
            Some(("dns", rest)) => (Scheme::Dns, rest),
            Some(("tls", rest)) => (Scheme::Tls, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some((scheme @ ("quic" | "grpc" | "https3" | "unix"), _)) => {
                return Err(Problem::at(key, format!("{scheme}:// is not served here; {accepted}")));
            }
            Some(_) => return Err(Problem::at(key, format!("unknown scheme; {accepted}"))),
        };
        let (zone, port) = split_port(rest);
        let port = match port {
            None => scheme.port(default_port),
            Some(port) => port.parse().map_err(|_| Problem::at(key, "the port is not a number up to 65535"))?,
        };
        let zone = if zone.is_empty() { "." } else { zone };
        let zones = zones(zone).map_err(|problem| Problem::at(key, problem))?;
        Ok(zones.into_iter().map(|zone| Self { scheme, zone, port }).collect())
    }
}

/// The part after the last colon, if it is a number.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((zone, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => (zone, Some(port)),
        Some((zone, "")) => (zone, None),
        _ => (text, None),
    }
}

/// A zone as plugins are given it, in lower case: scheme and port are dropped, and a CIDR becomes its reverse zones.
pub fn zones(text: &str) -> Result<Vec<Name>, String> {
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let (text, _) = split_port(text);
    if let Some((address, bits)) = text.split_once('/') {
        let address: IpAddr = address.parse().map_err(|_| format!("{address:?} is no address of a CIDR"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= most);
        let bits: u32 = bits.ok_or_else(|| format!("the prefix length is not a number up to {most}"))?;
        return reverse_zones(address, bits).map_err(|error| format!("the reverse zone {error}"));
    }
    Name::parse(text).map(|name| vec![name.lower()]).map_err(|error| format!("the zone {error}"))
}

/// Reverse zones are cut at octets and nibbles: a prefix between two cuts becomes several zones.
fn reverse_zones(address: IpAddr, bits: u32) -> Result<Vec<Name>, crate::wire::NameError> {
    let (step, suffix, number, width) = match address {
        IpAddr::V4(v4) => (8, "in-addr.arpa.", u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (4, "ip6.arpa.", v6.to_bits(), 128),
    };
    let cut = bits.div_ceil(step) * step;
    let mask = if bits == 0 { 0 } else { u128::MAX << (width - bits) };
    let first = number & mask;
    (0..1u128 << (cut - bits))
        .map(|index| {
            let network = if cut == 0 { 0 } else { first + (index << (width - cut)) };
            let mut text = String::new();
            for part in (0..cut / step).rev() {
                let value = network >> (width - (part + 1) * step) & ((1 << step) - 1);
                text.push_str(&if step == 8 { format!("{value}.") } else { format!("{value:x}.") });
            }
            Name::parse(&(text + suffix))
        })
        .collect()
}
