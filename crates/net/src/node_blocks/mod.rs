//! How cluster CIDRs are cut into one CIDR per node: the mask-size flags and their rules.
//!
//! Called once, when the controller manager starts. Mirrors the flag checks of kube-controller-manager.

use crate::{
    cidr::Cidr,
    dual_stack::{DualStack, HasFamily},
    family::Family,
    mistakes::Mistakes,
};
use std::fmt;

/// An IPv6 cluster CIDR is cut into at most 2^16 node CIDRs.
const MOST_V6_BITS: u8 = 16;

/// A cluster CIDR and the prefix length of the node CIDRs in it. Prints as `10.244.0.0/16 by /24`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeBlocks {
    cluster: Cidr,
    mask: u8,
}

impl NodeBlocks {
    /// Cuts `cluster` into blocks of prefix length `mask`.
    pub fn new(cluster: Cidr, mask: u8) -> Result<Self, MaskError> {
        let family = cluster.family();
        if mask > family.bits() {
            return Err(MaskError::TooLong { mask, family, longest: family.bits() });
        }
        if mask < cluster.prefix() {
            return Err(MaskError::ClusterTooSmall { cluster, mask });
        }
        let bits = mask - cluster.prefix();
        if family == Family::V6 && bits > MOST_V6_BITS {
            return Err(MaskError::TooMany { cluster, mask, bits, longest: cluster.prefix() + MOST_V6_BITS });
        }
        if cluster.covers_mapped() {
            return Err(MaskError::Mapped { cluster });
        }
        Ok(Self { cluster, mask })
    }

    /// The CIDR that is cut.
    pub fn cluster(&self) -> Cidr {
        self.cluster
    }

    /// The prefix length of each node's CIDR.
    pub fn mask(&self) -> u8 {
        self.mask
    }

    /// How many node CIDRs there are.
    pub fn count(&self) -> u64 {
        1 << (self.mask - self.cluster.prefix())
    }
}

impl HasFamily for NodeBlocks {
    fn family(&self) -> Family {
        self.cluster.family()
    }
}

impl fmt::Display for NodeBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by /{}", self.cluster, self.mask)
    }
}

/// The three mask-size flags as given; 0 counts as not given.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NodeMaskFlags {
    /// `--node-cidr-mask-size`, for single-stack clusters.
    pub plain: Option<u8>,
    /// `--node-cidr-mask-size-ipv4`.
    pub ipv4: Option<u8>,
    /// `--node-cidr-mask-size-ipv6`.
    pub ipv6: Option<u8>,
}

impl NodeMaskFlags {
    fn plain(&self) -> Option<u8> {
        self.plain.filter(|mask| *mask != 0)
    }

    fn of(&self, family: Family) -> Option<u8> {
        match family {
            Family::V4 => self.ipv4,
            Family::V6 => self.ipv6,
        }
        .filter(|mask| *mask != 0)
    }
}

/// The prefix length that each family gets without a flag.
pub fn default_node_mask(family: Family) -> u8 {
    match family {
        Family::V4 => 24,
        Family::V6 => 64,
    }
}

/// A mask-size flag that does not fit the cluster CIDRs or another flag. Not retryable: the operator must change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// The plain flag with two cluster CIDRs: it cannot mean both.
    #[error(
        "--node-cidr-mask-size={mask} cannot be used with two cluster CIDRs ({clusters}); \
         use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6"
    )]
    PlainWithDual {
        /// The flag's value.
        mask: u8,
        /// The cluster CIDRs.
        clusters: DualStack<Cidr>,
    },
    /// The plain flag beside one of a family.
    #[error("--node-cidr-mask-size={mask} and {}={other} cannot be used together; keep one", flag(*.family))]
    PlainWithFamily {
        /// The plain flag's value.
        mask: u8,
        /// The family of the other flag.
        family: Family,
        /// The other flag's value.
        other: u8,
    },
    /// The flag of a family that the cluster does not have.
    #[error("{}={mask} needs an {family} cluster CIDR; there is only {cluster}", flag(*.family))]
    FamilyAbsent {
        /// The flag's value.
        mask: u8,
        /// The flag's family.
        family: Family,
        /// The only cluster CIDR.
        cluster: Cidr,
    },
    /// Longer than an address of the family.
    #[error("node mask size {mask} is over {longest}, the longest {family} prefix")]
    TooLong {
        /// The mask size.
        mask: u8,
        family: Family,
        /// The longest prefix of the family.
        longest: u8,
    },
    /// Not even one node CIDR fits.
    #[error("cluster CIDR {cluster} is smaller than one node CIDR of /{mask}; choose a mask size of {} or more", .cluster.prefix())]
    ClusterTooSmall {
        cluster: Cidr,
        /// The mask size.
        mask: u8,
    },
    /// More than 2^16 node CIDRs.
    #[error(
        "cluster CIDR {cluster} holds 2^{bits} node CIDRs of /{mask}, more than 2^{MOST_V6_BITS}; \
         choose a mask size of {longest} or less, or a smaller cluster CIDR"
    )]
    TooMany {
        cluster: Cidr,
        /// The mask size.
        mask: u8,
        /// The logarithm of the number of node CIDRs.
        bits: u8,
        /// The longest mask size that will do.
        longest: u8,
    },
    /// IPv4-mapped addresses are inside.
    #[error("cluster CIDR {cluster} contains IPv4-mapped IPv6 addresses; choose one outside ::ffff:0:0/96")]
    Mapped { cluster: Cidr },
}

fn flag(family: Family) -> &'static str {
    match family {
        Family::V4 => "--node-cidr-mask-size-ipv4",
        Family::V6 => "--node-cidr-mask-size-ipv6",
    }
}

/// How each cluster CIDR is cut, or every mistake in the flags.
pub fn node_blocks(
    clusters: &DualStack<Cidr>,
    flags: NodeMaskFlags,
) -> Result<DualStack<NodeBlocks>, Mistakes<MaskError>> {
    let mut mistakes = Vec::new();
    if let Some(mask) = flags.plain() {
        if clusters.is_dual() {
            mistakes.push(MaskError::PlainWithDual { mask, clusters: *clusters });
        }
        for family in Family::BOTH {
            if let Some(other) = flags.of(family) {
                mistakes.push(MaskError::PlainWithFamily { mask, family, other });
            }
        }
    }
    for family in Family::BOTH {
        if let (Some(mask), None) = (flags.of(family), clusters.get(family)) {
            mistakes.push(MaskError::FamilyAbsent { mask, family, cluster: *clusters.primary() });
        }
    }
    let plain = flags.plain().filter(|_| !clusters.is_dual());
    let blocks = clusters.map(|family, cluster| {
        NodeBlocks::new(cluster, flags.of(family).or(plain).unwrap_or_else(|| default_node_mask(family)))
    });
    mistakes.extend(blocks.iter().filter_map(|cut| cut.as_ref().err().cloned()));
    Mistakes::check(mistakes)?;
    Ok(blocks.map(|_, cut| cut.expect("every failed cut is a mistake, and there are none")))
}

#[cfg(test)]
mod tests;
