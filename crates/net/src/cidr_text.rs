//! How a CIDR is written: strict reading, canonical printing, and why a text is refused.

use crate::{
    address::parse_ip,
    address_error::{AddressProblem, undressed},
    cidr::Cidr,
    dual_stack::HasFamily,
    legacy,
    text::{Quoted, plain_number, serde_by_text},
};
use std::{fmt, str::FromStr};

/// A text that is not a CIDR: what is wrong with it and, where that can be told, what to write.
///
/// Not retryable: the author must change the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CidrError {
    /// The text as given.
    pub text: String,
    pub problem: CidrProblem,
    /// The CIDR that was probably meant.
    pub suggestion: Option<Cidr>,
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; ", Quoted(&self.text), self.problem)?;
        match self.suggestion {
            Some(cidr) => write!(f, "write {cidr}"),
            None => f.write_str("accepted are CIDRs like 10.0.0.0/16 and fd00::/64"),
        }
    }
}

/// What is wrong with the text of a CIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrProblem {
    #[error("is empty")]
    Empty,
    #[error("has space around it")]
    Space,
    #[error("has no address")]
    NoAddress,
    #[error("has no prefix length")]
    NoPrefix,
    #[error("has a prefix length that is not a plain number")]
    Prefix,
    #[error("has a prefix length over {0}")]
    PrefixTooLong(u8),
    #[error("has host bits set")]
    HostBits,
    #[error(transparent)]
    Address(#[from] AddressProblem),
}

impl CidrError {
    pub(crate) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), problem: problem_of(text), suggestion: suggestion(text) }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        text.split_once('/')
            .and_then(|(address, prefix)| {
                let address = parse_ip(address).ok()?;
                Self::containing(address, plain_number(prefix)?).filter(|cidr| cidr.network() == address)
            })
            .ok_or_else(|| CidrError::of(text))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.prefix())
    }
}

serde_by_text!(Cidr);

fn suggestion(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.trim().split_once('/')?;
    legacy::read_cidr(&format!("{}/{prefix}", undressed(address)))
}

fn problem_of(text: &str) -> CidrProblem {
    if text.is_empty() {
        return CidrProblem::Empty;
    }
    if text.trim() != text {
        return CidrProblem::Space;
    }
    let (address, prefix) = match text.split_once('/') {
        Some(("", _)) => return CidrProblem::NoAddress,
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address = match parse_ip(address) {
        Ok(address) => address,
        Err(error) => return error.problem.into(),
    };
    let longest = address.family().bits();
    match prefix.map(plain_number::<u128>) {
        None => CidrProblem::NoPrefix,
        Some(None) => CidrProblem::Prefix,
        Some(Some(prefix)) if prefix > longest.into() => CidrProblem::PrefixTooLong(longest),
        Some(Some(_)) => CidrProblem::HostBits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong_and_what_to_write() {
        for (text, message) in [
            ("", r#""" is empty; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"#),
            (" 10.0.0.0/8", r#"" 10.0.0.0/8" has space around it; write 10.0.0.0/8"#),
            ("/8", r#""/8" has no address; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"#),
            ("10.0.0.0", r#""10.0.0.0" has no prefix length; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"#),
            ("10.0.0.1/24", r#""10.0.0.1/24" has host bits set; write 10.0.0.0/24"#),
            ("fd00::1/64", r#""fd00::1/64" has host bits set; write fd00::/64"#),
            ("10.0.0.0/08", r#""10.0.0.0/08" has a prefix length that is not a plain number; write 10.0.0.0/8"#),
            (
                "10.0.0.0/+8",
                r#""10.0.0.0/+8" has a prefix length that is not a plain number; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"#,
            ),
            (
                "10.0.0.0/33",
                r#""10.0.0.0/33" has a prefix length over 32; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"#,
            ),
            (
                "fd00::/1000",
                r#""fd00::/1000" has a prefix length over 128; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"#,
            ),
            ("010.0.0.0/8", r#""010.0.0.0/8" has a leading zero in octet 1; write 10.0.0.0/8"#),
            ("[fd00::]/64", r#""[fd00::]/64" is in brackets; write fd00::/64"#),
            ("fe80::%eth0/64", r#""fe80::%eth0/64" has a zone id; write fe80::/64"#),
            ("::ffff:10.0.0.0/104", r#""::ffff:10.0.0.0/104" is an IPv4-mapped IPv6 address; write 10.0.0.0/8"#),
            ("pods", r#""pods" is not an IP address; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"#),
        ] {
            assert_eq!(text.parse::<Cidr>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_cidr_is_a_string_in_json() {
        for text in ["10.0.0.0/8", "fd00::/64"] {
            let json = format!("\"{text}\"");
            let cidr: Cidr = serde_json::from_str(&json).unwrap();
            assert_eq!(serde_json::to_string(&cidr).unwrap(), json);
        }
        let refused = serde_json::from_str::<Cidr>(r#""10.0.0.1/8""#).unwrap_err().to_string();
        assert!(refused.starts_with(r#""10.0.0.1/8" has host bits set; write 10.0.0.0/8"#), "{refused}");
    }
}
