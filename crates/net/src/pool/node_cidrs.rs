//! Node CIDRs: one pool per cluster CIDR. Mirrors the CIDR set of kube-controller-manager's range allocator.

use super::{
    Pool,
    order::Order,
    space::{Space, Span},
};
use crate::{cidr::Cidr, dual_stack::HasFamily, node_blocks::NodeBlocks};

/// Hands out node CIDRs in order, round and round. A CIDR of another size takes every block that it overlaps.
pub type NodeCidrPool = Pool<NodeBlocks>;

impl Pool<NodeBlocks> {
    /// An empty pool.
    pub fn new(blocks: NodeBlocks) -> Self {
        Self::with_order(blocks, Order::RoundRobin { next: 0 })
    }
}

impl Space for NodeBlocks {
    type Item = Cidr;
    const KIND: &'static str = "node CIDR";

    fn last_index(&self) -> u64 {
        self.count() - 1
    }

    fn static_band(&self) -> u64 {
        0
    }

    fn span(&self, cidr: Cidr) -> Option<Span<u64>> {
        let cluster = self.cluster();
        if cidr.contains_cidr(&cluster) {
            return Some(Span { first: 0, last: self.count() - 1 });
        }
        let shift = self.family().bits() - self.mask();
        let index = |offset: u128| u64::try_from(offset >> shift).ok();
        let first = index(cluster.offset(cidr.first())?)?;
        let last = index(cluster.offset(cidr.last())?)?;
        Some(Span { first, last })
    }

    fn item(&self, index: u64) -> Cidr {
        self.cluster().subnet(self.mask(), index.into()).expect("a place counts blocks of the cluster CIDR")
    }
}
