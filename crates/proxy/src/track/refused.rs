//! External IPs that are not served: whoever may write a Service must not take over the traffic to others.

use super::Name;
use net::Cidr;
use std::{collections::BTreeMap, fmt, net::IpAddr};

/// External IPs of a Service that are not served, and why.
pub type Refused = BTreeMap<IpAddr, Refusal>;

/// Why an external IP is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// Addresses of this range are for cluster IPs.
    ServiceRange(Cidr),
    NodeAddress,
}

impl Refusal {
    /// The reason of an event.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ServiceRange(_) => "ExternalIPInServiceRange",
            Self::NodeAddress => "ExternalIPOfNode",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceRange(cidr) => write!(f, "it lies in the Service range {cidr}"),
            Self::NodeAddress => f.write_str("it is an address of a node"),
        }
    }
}

/// A refusal that nobody was told of yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefusal {
    pub service: Name,
    /// Which of all that ever had the name.
    pub uid: String,
    /// The address.
    pub ip: IpAddr,
    pub why: Refusal,
}
