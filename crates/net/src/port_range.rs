//! A range of ports: `30000-32767`, `30000+2767` or `30000`.

use crate::text::{Quoted, plain_number, serde_by_text};
use std::{fmt, str::FromStr};

/// A non-empty range of ports, both ends included, without port 0. Prints as `first-last`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Where Services get node ports unless told otherwise.
    pub const NODE_PORTS: Self = Self { first: 30000, last: 32767 };

    /// The range from `first` to `last`, both included.
    pub fn new(first: u16, last: u16) -> Result<Self, PortRangeError> {
        match (first, last) {
            (0, _) | (_, 0) => Err(PortRangeError::Zero(format!("{first}-{last}"))),
            _ if last < first => Err(PortRangeError::Backwards { first: first.into(), last: last.into() }),
            _ => Ok(Self { first, last }),
        }
    }

    /// The lowest port.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The highest port.
    pub fn last(&self) -> u16 {
        self.last
    }

    /// How many ports there are.
    pub fn size(&self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    /// Whether the port is inside.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A text that is not a range of ports. Not retryable: the author must change the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortRangeError {
    /// Not numbers in one of the three forms.
    #[error("{} is not a range of ports; accepted are first-last, first+more and a single port, like 30000-32767", Quoted(.0))]
    NotARange(String),
    /// Port 0 is inside.
    #[error("{} contains port 0; ports are 1 to 65535", Quoted(.0))]
    Zero(String),
    /// A port above 65535 is inside.
    #[error("port range {first}-{last} ends above 65535; ports are 1 to 65535")]
    TooHigh {
        /// Where the range begins.
        first: u64,
        /// Where it would end.
        last: u64,
    },
    /// The end comes before the beginning.
    #[error("port range {first}-{last} ends before it begins; write {last}-{first}")]
    Backwards {
        /// Where the range begins.
        first: u64,
        /// Where it ends.
        last: u64,
    },
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        // u32 on the way in, so that a number that is merely too high is told apart from one that is none.
        let number = |part: &str| {
            plain_number::<u32>(part).map(u64::from).ok_or_else(|| PortRangeError::NotARange(text.to_owned()))
        };
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            (number(first)?, number(last)?)
        } else if let Some((first, more)) = text.split_once('+') {
            (number(first)?, number(first)? + number(more)?)
        } else {
            (number(text)?, number(text)?)
        };
        match (u16::try_from(first), u16::try_from(last)) {
            (Ok(0), _) | (_, Ok(0)) => Err(PortRangeError::Zero(text.to_owned())),
            (Ok(first), Ok(last)) => Self::new(first, last),
            _ => Err(PortRangeError::TooHigh { first, last }),
        }
    }
}

serde_by_text!(PortRange);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_in_three_forms_and_print_in_one() {
        for (text, printed, size) in [
            ("30000-32767", "30000-32767", 2768),
            ("30000+100", "30000-30100", 101),
            ("30000", "30000-30000", 1),
            ("30000+0", "30000-30000", 1),
            ("1-65535", "1-65535", 65535),
        ] {
            let range: PortRange = text.parse().unwrap();
            assert_eq!((range.to_string().as_str(), range.size()), (printed, size));
        }
        assert_eq!(PortRange::NODE_PORTS.to_string(), "30000-32767");
    }

    #[test]
    fn a_refusal_says_what_is_accepted() {
        let forms = "is not a range of ports; accepted are first-last, first+more and a single port, like 30000-32767";
        for (text, message) in [
            ("", format!(r#""" {forms}"#)),
            (" 1-2", format!(r#"" 1-2" {forms}"#)),
            ("1-2-3", format!(r#""1-2-3" {forms}"#)),
            ("1-+2", format!(r#""1-+2" {forms}"#)),
            ("99999999999", format!(r#""99999999999" {forms}"#)),
            ("0-10", r#""0-10" contains port 0; ports are 1 to 65535"#.into()),
            ("10-0", r#""10-0" contains port 0; ports are 1 to 65535"#.into()),
            ("60000+6000", "port range 60000-66000 ends above 65535; ports are 1 to 65535".into()),
            ("70000-80000", "port range 70000-80000 ends above 65535; ports are 1 to 65535".into()),
            ("32767-30000", "port range 32767-30000 ends before it begins; write 30000-32767".into()),
        ] {
            assert_eq!(text.parse::<PortRange>().unwrap_err().to_string(), message);
        }
    }
}
