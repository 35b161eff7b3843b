//! At which of the node's addresses node ports are open: `--nodeport-addresses`.

use crate::track::Node;
use net::{Cidr, CidrError, Family, HasFamily};
use std::str::FromStr;

/// The flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// `primary`: at the first address of each family that the Node names.
    #[default]
    Primary,
    /// `all`: at every address but loopback.
    All,
    /// At addresses in these blocks. A family without a block has no node ports (upstream would open all of it).
    In(Vec<Cidr>),
}

/// Why the flag is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodePortError {
    /// A word beside others.
    #[error("{0:?} cannot stand beside other values")]
    Alone(String),
    /// Not a block.
    #[error(transparent)]
    Cidr(#[from] CidrError),
}

/// What it comes to in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortMatch {
    /// Every address of the node but loopback.
    All,
    /// Addresses of the node in these blocks; none when empty.
    In(Vec<Cidr>),
}

impl FromStr for NodePortAddresses {
    type Err = NodePortError;

    fn from_str(text: &str) -> Result<Self, NodePortError> {
        let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        match words[..] {
            [] | ["primary"] => Ok(Self::Primary),
            ["all"] => Ok(Self::All),
            _ => {
                if let Some(word) = words.iter().find(|word| matches!(**word, "primary" | "all")) {
                    return Err(NodePortError::Alone((*word).to_owned()));
                }
                let cidrs: Result<Vec<Cidr>, CidrError> = words.iter().map(|word| word.parse()).collect();
                Ok(Self::In(cidrs?))
            }
        }
    }
}

impl NodePortAddresses {
    /// For one family, with what the Node says now.
    #[must_use]
    pub fn in_family(&self, family: Family, node: &Node) -> NodePortMatch {
        match self {
            Self::All => NodePortMatch::All,
            Self::Primary => NodePortMatch::In(node.address(family).and_then(Cidr::host).into_iter().collect()),
            Self::In(cidrs) => {
                let mut own: Vec<Cidr> = cidrs.iter().copied().filter(|cidr| cidr.family() == family).collect();
                own.sort_unstable();
                let all = own.clone();
                own.retain(|cidr| !all.iter().any(|other| other != cidr && other.contains_cidr(cidr)));
                own.dedup();
                NodePortMatch::In(own)
            }
        }
    }
}
