//! The two IP families, and one or two of them in order of preference.

use crate::text::{Quoted, serde_by_text};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// An IP family. Prints and parses as the Kubernetes API spells it: `IPv4`, `IPv6`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families, for code that does the same for each.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The family that this one is not.
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    /// How many bits an address has; the longest prefix.
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// `0.0.0.0` or `::`.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// `127.0.0.1` or `::1`.
    pub const fn loopback(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The text names no IP family.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not an IP family; accepted are IPv4 and IPv6", Quoted(.0))]
pub struct UnknownFamily(pub String);

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(text: &str) -> Result<Self, UnknownFamily> {
        match text {
            "IPv4" => Ok(Self::V4),
            "IPv6" => Ok(Self::V6),
            _ => Err(UnknownFamily(text.to_owned())),
        }
    }
}

/// One or two families, distinct, in order of preference. There is no empty or doubled one to check for.
///
/// Prints and parses as `IPv4`, `IPv6`, `IPv4,IPv6` or `IPv6,IPv4`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Families {
    primary: Family,
    dual: bool,
}

impl Families {
    /// Every shape a cluster can have, for tables: v4, v6, v4v6, v6v4.
    pub const ALL: [Self; 4] =
        [Self::one(Family::V4), Self::one(Family::V6), Self::both(Family::V4), Self::both(Family::V6)];

    /// This family alone.
    pub const fn one(family: Family) -> Self {
        Self { primary: family, dual: false }
    }

    /// Both families, `primary` first.
    pub const fn both(primary: Family) -> Self {
        Self { primary, dual: true }
    }

    /// The first family.
    pub const fn primary(self) -> Family {
        self.primary
    }

    /// The second family, if there are two.
    pub fn secondary(self) -> Option<Family> {
        self.dual.then_some(self.primary.other())
    }

    /// Whether both families are there.
    pub const fn is_dual(self) -> bool {
        self.dual
    }

    /// Whether `family` is one of them.
    pub fn contains(self, family: Family) -> bool {
        self.dual || self.primary == family
    }

    /// The families, preferred first.
    pub fn iter(self) -> impl Iterator<Item = Family> {
        std::iter::once(self.primary).chain(self.secondary())
    }
}

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.secondary() {
            None => write!(f, "{}", self.primary),
            Some(secondary) => write!(f, "{},{secondary}", self.primary),
        }
    }
}

/// The text is not one or two distinct families.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FamiliesError {
    /// A part names no family.
    #[error(transparent)]
    Unknown(#[from] UnknownFamily),
    /// Both parts name the same family.
    #[error("{0} is listed twice; list a family once")]
    Doubled(Family),
    /// More than two parts.
    #[error("{} lists more than two families; accepted are IPv4, IPv6, or both", Quoted(.0))]
    TooMany(String),
}

impl FromStr for Families {
    type Err = FamiliesError;

    fn from_str(text: &str) -> Result<Self, FamiliesError> {
        let mut parts = text.split(',');
        let primary: Family = parts.next().unwrap_or_default().parse()?;
        let Some(second) = parts.next() else { return Ok(Self::one(primary)) };
        if parts.next().is_some() {
            return Err(FamiliesError::TooMany(text.to_owned()));
        }
        match second.parse::<Family>()? {
            same if same == primary => Err(FamiliesError::Doubled(same)),
            _ => Ok(Self::both(primary)),
        }
    }
}

serde_by_text!(Family);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_print_and_parse_in_every_shape() {
        for (shape, text) in Families::ALL.into_iter().zip(["IPv4", "IPv6", "IPv4,IPv6", "IPv6,IPv4"]) {
            assert_eq!(shape.to_string(), text);
            assert_eq!(text.parse(), Ok(shape));
            assert_eq!(shape.iter().count(), if shape.is_dual() { 2 } else { 1 });
            assert_eq!(Family::BOTH.into_iter().filter(|f| shape.contains(*f)).count(), shape.iter().count());
        }
    }

    #[test]
    fn a_list_that_is_not_one_or_two_families_says_what_is_accepted() {
        for (text, message) in [
            ("", r#""" is not an IP family; accepted are IPv4 and IPv6"#),
            ("ipv4", r#""ipv4" is not an IP family; accepted are IPv4 and IPv6"#),
            ("IPv4,", r#""" is not an IP family; accepted are IPv4 and IPv6"#),
            ("IPv6,IPv6", "IPv6 is listed twice; list a family once"),
            ("IPv4,IPv6,IPv4", r#""IPv4,IPv6,IPv4" lists more than two families; accepted are IPv4, IPv6, or both"#),
        ] {
            assert_eq!(text.parse::<Families>().unwrap_err().to_string(), message);
        }
    }
}
