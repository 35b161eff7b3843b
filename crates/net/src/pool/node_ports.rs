//! Node ports: one pool for the cluster, since a port is the same on every node and in both families.
//!
//! Mirrors the port allocator of kube-apiserver (KEP-3668 bands).

use super::{
    Pool,
    order::Order,
    space::{Space, Span},
};
use crate::port_range::PortRange;

/// Hands out node ports: random in the upper band, and when that is full in the lower one.
pub type NodePortPool = Pool<PortRange>;

impl Pool<PortRange> {
    /// An empty pool. Different seeds give ports in a different order.
    pub fn new(range: PortRange, seed: u64) -> Self {
        Self::with_order(range, Order::Random(seed))
    }
}

impl Space for PortRange {
    type Item = u16;
    const KIND: &'static str = "node port";

    fn last_index(&self) -> u64 {
        u64::from(self.size()) - 1
    }

    fn static_band(&self) -> u64 {
        match self.size() {
            0..=16 => 0,
            size => (size / 32).clamp(16, 128).into(),
        }
    }

    fn span(&self, port: u16) -> Option<Span<u64>> {
        self.contains(port).then(|| Span::one(u64::from(port - self.first())))
    }

    fn item(&self, index: u64) -> u16 {
        u16::try_from(u64::from(self.first()) + index).expect("a place counts ports of the range")
    }
}
