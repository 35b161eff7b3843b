//! Service addresses: one pool per service range. Mirrors the cluster IP allocator of kube-apiserver (KEP-3070 bands).

use super::{
    Pool,
    order::Order,
    space::{Space, Span},
};
use crate::service_range::ServiceRange;
use std::net::IpAddr;

/// Hands out Service addresses of one range: random in the upper band, and when that is full in the lower one.
pub type ServiceIpPool = Pool<ServiceRange>;

impl Pool<ServiceRange> {
    /// An empty pool. Different seeds give addresses in a different order.
    pub fn new(range: ServiceRange, seed: u64) -> Self {
        Self::with_order(range, Order::Random(seed))
    }
}

/// Place 0 is the first usable address: the network address is nobody's, nor is the broadcast address of IPv4.
impl Space for ServiceRange {
    type Item = IpAddr;
    const KIND: &'static str = "address";

    fn last_index(&self) -> u64 {
        self.usable() - 1
    }

    fn static_band(&self) -> u64 {
        Self::static_band(self)
    }

    fn span(&self, ip: IpAddr) -> Option<Span<u64>> {
        let index = u64::try_from(self.cidr().offset(ip)?.checked_sub(1)?).ok()?;
        (index <= self.last_index()).then(|| Span::one(index))
    }

    fn item(&self, index: u64) -> IpAddr {
        self.nth(index + 1)
    }
}
