//! Which addresses and ports are free, as far as this server knows.
//!
//! What decides is the store: an address belongs to whoever has its IPAddress object, a port to whoever has its key
//! (`claims`). The pools propose; a proposal that was outrun by another server fails in the transaction and is made anew.

use super::settings::Settings;
use net::{Family, HasFamily, NodePortPool, Reservation, ReserveError, ServiceIpPool, ServiceRange};
use parking_lot::RwLock;
use std::net::IpAddr;

/// The pools of a cluster.
pub struct Pools {
    /// In the order in which they are asked: those of the default ServiceCIDR first.
    ranges: RwLock<Vec<ServiceIpPool>>,
    ports: Option<NodePortPool>,
}

/// Why an address cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAddress {
    /// The range or ranges refuse.
    #[error(transparent)]
    Pool(#[from] ReserveError<IpAddr>),
    /// No ServiceCIDR of the family is ready.
    #[error("no {0} service range is ready")]
    NoRange(Family),
    /// No range has the address.
    #[error("{ip} is in no service range; accepted are {ranges}")]
    Outside {
        /// The address.
        ip: IpAddr,
        /// The ranges of its family.
        ranges: String,
    },
}

impl Pools {
    /// Empty pools of the configured ranges.
    pub fn new(settings: &Settings) -> Self {
        let ranges = settings.ranges.iter().map(|range| ServiceIpPool::new(*range, seed())).collect();
        Self { ranges: RwLock::new(ranges), ports: settings.node_ports.map(|range| NodePortPool::new(range, seed())) }
    }

    /// Serves these ranges, in this order. Pools of ranges that stay are kept; `fill` says who has what in a new one.
    pub fn serve(&self, wanted: &[ServiceRange], fill: impl Fn(&ServiceIpPool)) {
        let before = self.ranges.read().clone();
        let pools = wanted.iter().map(|range| match before.iter().find(|pool| pool.space() == range) {
            Some(pool) => pool.clone(),
            None => {
                let pool = ServiceIpPool::new(*range, seed());
                fill(&pool);
                pool
            }
        });
        *self.ranges.write() = pools.collect();
    }

    /// The ranges being served.
    pub fn ranges(&self) -> Vec<ServiceRange> {
        self.ranges.read().iter().map(|pool| *pool.space()).collect()
    }

    pub fn addresses(&self) -> Vec<ServiceIpPool> {
        self.ranges.read().clone()
    }

    pub fn ports(&self) -> Option<&NodePortPool> {
        self.ports.as_ref()
    }

    /// Any free address of the family.
    pub fn any_address(&self, family: Family) -> Result<Reservation<IpAddr>, NoAddress> {
        let mut refusal = NoAddress::NoRange(family);
        for pool in self.ranges.read().iter().filter(|pool| pool.family() == family) {
            match pool.reserve_any() {
                Ok(taken) => return Ok(taken),
                Err(full) => refusal = full.into(),
            }
        }
        Err(refusal)
    }

    pub fn this_address(&self, ip: IpAddr) -> Result<Reservation<IpAddr>, NoAddress> {
        let ranges = self.ranges.read();
        match ranges.iter().find(|pool| pool.space().cidr().contains(ip)) {
            Some(pool) => Ok(pool.reserve(ip)?),
            None => {
                let same = ranges.iter().filter(|pool| pool.family() == ip.family());
                let ranges = same.map(ToString::to_string).collect::<Vec<_>>().join(", ");
                Err(NoAddress::Outside { ip, ranges })
            }
        }
    }

    /// Learns whether somebody has an address. Ranges may overlap, so all are told.
    pub fn note_address(&self, ip: IpAddr, taken: bool) {
        for pool in self.ranges.read().iter().filter(|pool| pool.space().cidr().contains(ip)) {
            if !taken {
                pool.release(ip);
            } else if pool.occupy(ip).is_err() {
                tracing::debug!(%ip, "the network or broadcast address of a range is taken; nobody is given it anyway");
            }
        }
    }

    /// Learns whether somebody has a port.
    pub fn note_port(&self, port: u16, taken: bool) {
        if let Some(pool) = &self.ports {
            if !taken {
                pool.release(port);
            } else if pool.occupy(port).is_err() {
                tracing::debug!(port, "a port outside the range of node ports is taken");
            }
        }
    }
}

/// Each server proposes in an order of its own, so that two seldom propose the same.
fn seed() -> u64 {
    getrandom::u64().unwrap_or_default()
}
