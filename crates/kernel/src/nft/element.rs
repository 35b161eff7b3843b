//! Elements of sets and maps, typed, so that they can be written as text and as bytes.

use net::Cidr;
use std::{fmt, net::IpAddr};

/// One element: its key, and in a map its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// What is looked up.
    pub key: Vec<Part>,
    /// What is found.
    pub value: Option<Value>,
}

/// A part of a key or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Address(IpAddr),
    /// A block of addresses, in sets of intervals.
    Block(Cidr),
    Tcp,
    Udp,
    Sctp,
    Port(u16),
    /// A number as numgen makes it.
    Number(u32),
}

/// What a map gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// The packet is dropped.
    Drop,
    /// The packet goes on in this chain.
    Goto(String),
    /// Data, such as an address and a port.
    Parts(Vec<Part>),
}

impl Element {
    /// Key of a set.
    #[must_use]
    pub fn key(key: Vec<Part>) -> Self {
        Self { key, value: None }
    }

    /// Key and value of a map.
    #[must_use]
    pub fn pair(key: Vec<Part>, value: Value) -> Self {
        Self { key, value: Some(value) }
    }

    pub(super) fn key_text(&self) -> String {
        parts(&self.key)
    }
}

/// As nft writes it.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} : {value}", parts(&self.key)),
            None => f.write_str(&parts(&self.key)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drop => f.write_str("drop"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Parts(list) => f.write_str(&parts(list)),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip) => ip.fmt(f),
            Self::Block(cidr) => cidr.fmt(f),
            Self::Tcp => f.write_str("tcp"),
            Self::Udp => f.write_str("udp"),
            Self::Sctp => f.write_str("sctp"),
            Self::Port(port) => port.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

fn parts(list: &[Part]) -> String {
    let mut text = String::new();
    for (at, part) in list.iter().enumerate() {
        if at > 0 {
            text.push_str(" . ");
        }
        // Writing to a string does not fail.
        let _ = fmt::Write::write_fmt(&mut text, format_args!("{part}"));
    }
    text
}
