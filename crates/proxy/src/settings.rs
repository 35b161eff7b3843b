//! What the proxy is told by flags.

use crate::{
    backend::Fixed,
    plan::{DetectLocal, NodePortAddresses},
    track::Tracker,
};
use net::Family;
use std::{net::IpAddr, time::Duration};

#[derive(Clone, Debug)]
pub struct Settings {
    pub node_name: String,
    /// Addresses of this node that count before those of the Node (`--bind-address`).
    pub own_addresses: Vec<IpAddr>,
    /// How pods are told from others.
    pub detect_local: DetectLocal,
    /// Where node ports are open.
    pub node_port_addresses: NodePortAddresses,
    /// Whether node ports at all addresses are open at 127.0.0.1 too, where the mode can do that.
    pub localhost_node_ports: bool,
    /// The bit of a packet's mark that asks for masquerading, as a mask.
    pub masquerade_mark: u32,
    /// Masquerade everything to cluster IPs.
    pub masquerade_all: bool,
    /// How often the table is looked after when nothing happens.
    pub sync_period: Duration,
    /// The shortest time between two changes of the kernel.
    pub min_sync_period: Duration,
    /// Families that this machine has.
    pub families: Vec<Family>,
}

impl Settings {
    /// What all Services of a family share, with what the Node and the ServiceCIDRs say now.
    #[must_use]
    pub fn fixed(&self, family: Family, tracker: &Tracker) -> Fixed {
        let node = tracker.node();
        Fixed {
            masquerade_mark: self.masquerade_mark,
            masquerade_all: self.masquerade_all,
            local: self.detect_local.in_family(family, node),
            node_ports: self.node_port_addresses.in_family(family, node),
            service_cidrs: tracker.service_cidrs(family),
        }
    }
}

/// The families that this machine's kernel has: IPv6 can be switched off at boot.
#[must_use]
pub fn families_of_machine() -> Vec<Family> {
    let has_v6 = std::path::Path::new("/proc/net/if_inet6").exists();
    Family::BOTH.into_iter().filter(|family| *family == Family::V4 || has_v6).collect()
}
