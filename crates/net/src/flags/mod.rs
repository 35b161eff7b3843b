//! Flags that take one value, or two of different families: `--cluster-cidr`, `--node-ip` and their like.
//!
//! Called by every component while it reads its flags. All mistakes of a flag come back together; each names the flag.

use crate::{
    address::parse_ip,
    address_error::AddressError,
    cidr::Cidr,
    cidr_text::CidrError,
    dual_stack::{DualStack, HasFamily, NotDualStack, SameFamily},
    family::Family,
    mistakes::Mistakes,
    port_range::{PortRange, PortRangeError},
    service_range::{ServiceRange, ServiceRangeError},
    text::Quoted,
};
use std::{fmt, net::IpAddr};

/// What can stand in such a list.
pub trait FlagValue: HasFamily + fmt::Display + Sized {
    /// What one is called in messages.
    const KIND: &'static str;

    /// Reads one value, strictly.
    fn read(text: &str) -> Result<Self, ValueError>;
}

impl FlagValue for IpAddr {
    const KIND: &'static str = "IP address";

    fn read(text: &str) -> Result<Self, ValueError> {
        Ok(parse_ip(text)?)
    }
}

impl FlagValue for Cidr {
    const KIND: &'static str = "CIDR";

    fn read(text: &str) -> Result<Self, ValueError> {
        Ok(text.parse::<Self>()?)
    }
}

impl FlagValue for ServiceRange {
    const KIND: &'static str = "CIDR";

    fn read(text: &str) -> Result<Self, ValueError> {
        Ok(text.parse::<Self>()?)
    }
}

/// Why one value of a list is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum ValueError {
    /// Not an address.
    Address(#[from] AddressError),
    /// Not a CIDR.
    Cidr(#[from] CidrError),
    /// Not a range for Services.
    ServiceRange(#[from] ServiceRangeError),
    /// Not a range of ports.
    PortRange(#[from] PortRangeError),
}

/// A mistake in a flag. Not retryable: the operator must change the flag. `flag` is its name without the dashes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// Nothing was given.
    #[error("--{flag} is empty; give one {kind}, or one of each family separated by a comma")]
    Empty { flag: &'static str, kind: &'static str },
    /// Nothing between two commas, or before the first or after the last.
    #[error("--{flag}: value {position} of {} is empty; give one {kind}, or one of each family", Quoted(.list))]
    Gap { flag: &'static str, kind: &'static str, position: usize, list: String },
    /// A value is not what the flag takes.
    #[error("--{flag}: {problem}")]
    Value { flag: &'static str, problem: ValueError },
    /// Three or more values.
    #[error("--{flag}: {} has {count} values; give one {kind}, or one of each family", Quoted(.list))]
    TooMany { flag: &'static str, kind: &'static str, count: usize, list: String },
    /// Two values of one family.
    #[error("--{flag}: {first} and {second} are both {family}; give one {kind}, or one of each family")]
    SameFamily { flag: &'static str, kind: &'static str, first: String, second: String, family: Family },
    /// An address that stands for all or for many, where that of one machine is needed.
    #[error("--{flag}: {address} is not the address of one machine; {accepted}")]
    NotOneMachine { flag: &'static str, address: IpAddr, accepted: &'static str },
    /// The first address has the family that Services do not have first.
    #[error("--{flag}: {address} is {}, but the first service range is {wanted}; put an {wanted} address first", .address.family())]
    NotPrimary { flag: &'static str, address: IpAddr, wanted: Family },
}

/// All mistakes of a flag.
pub type FlagErrors = Mistakes<FlagError>;

/// Reads a list of one value, or two of different families. Space around a value is ignored.
///
/// Enough for `--cluster-cidr`, `--pod-cidr` and `--bind-address`; the functions below add a flag's own rules.
pub fn one_or_pair<T: FlagValue>(flag: &'static str, list: &str) -> Result<DualStack<T>, FlagErrors> {
    let kind = T::KIND;
    if list.trim().is_empty() {
        return Err(FlagError::Empty { flag, kind }.into());
    }
    let mut mistakes = Vec::new();
    let mut values = Vec::new();
    for (at, text) in list.split(',').map(str::trim).enumerate() {
        match T::read(text) {
            Ok(value) => values.push(value),
            Err(_) if text.is_empty() => {
                mistakes.push(FlagError::Gap { flag, kind, position: at + 1, list: list.to_owned() });
            }
            Err(problem) => mistakes.push(FlagError::Value { flag, problem }),
        }
    }
    let count = list.split(',').count();
    if count > 2 {
        mistakes.push(FlagError::TooMany { flag, kind, count, list: list.to_owned() });
    }
    Mistakes::check(mistakes)?;
    DualStack::try_from(values).map_err(|error| match error {
        NotDualStack::SameFamily(SameFamily { first, second, family }) => {
            FlagError::SameFamily { flag, kind, first: first.to_string(), second: second.to_string(), family }.into()
        }
        NotDualStack::Empty => FlagError::Empty { flag, kind }.into(),
        NotDualStack::TooMany(count) => FlagError::TooMany { flag, kind, count, list: list.to_owned() }.into(),
    })
}

/// `--service-cluster-ip-range`: CIDRs of a size that Services can live in. The first is the cluster's default family.
pub fn service_ranges(list: &str) -> Result<DualStack<ServiceRange>, FlagErrors> {
    one_or_pair("service-cluster-ip-range", list)
}

/// `--node-ip`: nothing, one address, or one of each family. `0.0.0.0` and `::` alone ask for detection in that family.
pub fn node_ip(list: &str) -> Result<Option<DualStack<IpAddr>>, FlagErrors> {
    let flag = "node-ip";
    if list.is_empty() {
        return Ok(None);
    }
    let addresses = one_or_pair::<IpAddr>(flag, list)?;
    let accepted = "a pair names both addresses; 0.0.0.0 or :: may stand alone, to detect one";
    let unspecified = addresses.iter().filter(|ip| addresses.is_dual() && ip.is_unspecified());
    Mistakes::check(unspecified.map(|&address| FlagError::NotOneMachine { flag, address, accepted }).collect())?;
    Ok(Some(addresses))
}

/// `--advertise-address`: where others reach the API server; the first in the family that Services have first, since
/// the `kubernetes` Service leads there.
pub fn advertise_address(list: &str, service_primary: Family) -> Result<DualStack<IpAddr>, FlagErrors> {
    let flag = "advertise-address";
    let addresses = one_or_pair::<IpAddr>(flag, list)?;
    let accepted = "give an address that other machines reach";
    let unreachable = addresses.iter().filter(|ip| ip.is_unspecified() || ip.is_multicast());
    let mut mistakes: Vec<_> =
        unreachable.map(|&address| FlagError::NotOneMachine { flag, address, accepted }).collect();
    let address = *addresses.primary();
    if address.family() != service_primary {
        mistakes.push(FlagError::NotPrimary { flag, address, wanted: service_primary });
    }
    Mistakes::check(mistakes)?;
    Ok(addresses)
}

/// `--service-node-port-range`: the ports that Services may have on every node; `0-0` means none.
pub fn node_port_range(text: &str) -> Result<Option<PortRange>, FlagErrors> {
    match text.trim() {
        "0-0" => Ok(None),
        range => match range.parse() {
            Ok(range) => Ok(Some(range)),
            Err(error) => {
                Err(FlagError::Value { flag: "service-node-port-range", problem: ValueError::PortRange(error) }.into())
            }
        },
    }
}

#[cfg(test)]
mod tests;
