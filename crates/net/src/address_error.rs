//! Why a text is not an address, and what its author meant. Only reached after the text was refused.

use crate::{legacy, text::Quoted};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// A text that is not an address: what is wrong with it and, where that can be told, what to write.
///
/// Not retryable: the author must change the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AddressError {
    /// The text as given.
    pub text: String,
    pub problem: AddressProblem,
    /// The address that was probably meant.
    pub suggestion: Option<IpAddr>,
}

impl AddressError {
    pub(crate) fn of(text: &str) -> Self {
        let suggestion = legacy::read_ip(undressed(text));
        Self { text: text.to_owned(), problem: problem_of(text), suggestion }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; ", Quoted(&self.text), self.problem)?;
        match self.suggestion {
            Some(ip) => write!(f, "write {ip}"),
            None => f.write_str("accepted are addresses like 10.0.0.1 and fd00::1"),
        }
    }
}

/// What is wrong with the text of an address. Octets and groups count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressProblem {
    #[error("is empty")]
    Empty,
    #[error("has space around it")]
    Space,
    #[error("is in brackets")]
    Brackets,
    #[error("has a port")]
    Port,
    #[error("has a zone id")]
    Zone,
    #[error("has a prefix length")]
    Prefix,
    #[error("is an IPv4-mapped IPv6 address")]
    Mapped,
    #[error("has a leading zero in octet {0}")]
    LeadingZero(usize),
    #[error("has something other than 0 to 255 in octet {0}")]
    Octet(usize),
    #[error("has {0} octets, not four")]
    OctetCount(usize),
    #[error("has something other than one to four hex digits in group {0}")]
    Group(usize),
    #[error("has neither eight groups nor fewer and one ::")]
    GroupCount,
    #[error("has :: more than once")]
    DoubleColon,
    #[error("is not an IP address")]
    NotAnAddress,
}

/// The text without what people put around an address: space, brackets, port, zone id, prefix length.
pub(crate) fn undressed(text: &str) -> &str {
    let text = text.trim();
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None if text.parse::<SocketAddr>().is_ok() => text.split(':').next(),
        None => Some(text),
    };
    bare.unwrap_or_default().split(['%', '/']).next().unwrap_or_default()
}

fn problem_of(text: &str) -> AddressProblem {
    if text.is_empty() {
        AddressProblem::Empty
    } else if text.trim() != text {
        AddressProblem::Space
    } else if text.parse::<SocketAddr>().is_ok() {
        AddressProblem::Port
    } else if text.starts_with('[') {
        AddressProblem::Brackets
    } else if text.contains('/') {
        AddressProblem::Prefix
    } else if text.contains('%') {
        AddressProblem::Zone
    } else if text.contains(':') {
        v6_problem(text)
    } else {
        v4_problem(text)
    }
}

fn v4_problem(text: &str) -> AddressProblem {
    let octets: Vec<&str> = text.split('.').collect();
    let is_number = |octet: &&str| !octet.is_empty() && octet.bytes().all(|b| b.is_ascii_digit());
    let is_octet = |octet: &&str| legacy::read_decimal(octet).is_some();
    if octets.len() == 1 || !octets.iter().any(is_number) {
        return AddressProblem::NotAnAddress;
    }
    if octets.len() != 4 {
        return AddressProblem::OctetCount(octets.len());
    }
    if let Some(at) = octets.iter().position(|octet| !is_octet(octet)) {
        return AddressProblem::Octet(at + 1);
    }
    match octets.iter().position(|octet| octet.len() > 1 && octet.starts_with('0')) {
        Some(at) => AddressProblem::LeadingZero(at + 1),
        None => AddressProblem::NotAnAddress,
    }
}

fn v6_problem(text: &str) -> AddressProblem {
    if text.parse::<IpAddr>().is_ok() {
        return AddressProblem::Mapped;
    }
    let groups: Vec<&str> = text.split(':').filter(|group| !group.is_empty()).collect();
    for (at, group) in groups.iter().enumerate() {
        let hex = group.len() <= 4 && group.bytes().all(|b| b.is_ascii_hexdigit());
        let dotted = group.contains('.') && at + 1 == groups.len();
        match (hex, dotted) {
            (true, _) => {}
            (false, false) => return AddressProblem::Group(at + 1),
            (false, true) => match v4_problem(group) {
                AddressProblem::NotAnAddress if group.parse::<IpAddr>().is_ok() => {}
                problem => return problem,
            },
        }
    }
    if text.matches("::").count() > 1 { AddressProblem::DoubleColon } else { AddressProblem::GroupCount }
}
