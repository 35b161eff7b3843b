//! The sets that rules ask, by what they are for.

use kernel::ipset::{Kind, Set};
use net::Family;
use std::fmt;

/// A set. Additions are made in this order and removals in the other, so that a frontend is never more open than it
/// should be: who may come in is written before others are kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SetName {
    /// Every virtual server of ours. By this the next process knows which are ours: node ports are at addresses that
    /// others may use too.
    Servers,
    /// Cluster IPs: masqueraded unless a pod asks.
    ClusterIps,
    /// Frontends that are always masqueraded.
    Outside,
    /// Frontends of the policy Local: the sender's address stays, unless it is one of this node.
    Local,
    /// With the one before: who may.
    AllowedSources,
    /// Frontends that only `AllowedSources` may use.
    Guarded,
    /// Frontends of the policy Local without an endpoint here: only this node and its pods may use them.
    OwnOnly,
    /// Frontends whose endpoints are all elsewhere, under the internal policy Local.
    Dropped,
    /// Endpoints on this node, each with itself as the sender.
    Hairpins,
    /// Addresses that the machine has for Services alone: other ports are refused.
    Addresses,
}

impl SetName {
    pub(super) const ALL: [Self; 10] = [
        Self::Servers,
        Self::ClusterIps,
        Self::Outside,
        Self::Local,
        Self::AllowedSources,
        Self::Guarded,
        Self::OwnOnly,
        Self::Dropped,
        Self::Hairpins,
        Self::Addresses,
    ];

    pub(super) fn set(self, family: Family) -> Set {
        let kind = match self {
            Self::AllowedSources => Kind::IpPortNet,
            Self::Hairpins => Kind::IpPortIp,
            Self::Addresses => Kind::Ip,
            _ => Kind::IpPort,
        };
        let number = if family == Family::V4 { 4 } else { 6 };
        Set { name: format!("twinstack-{number}-{self}"), kind, family }
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Servers => "servers",
            Self::ClusterIps => "cluster-ips",
            Self::Outside => "outside",
            Self::Local => "local",
            Self::AllowedSources => "allowed-sources",
            Self::Guarded => "guarded",
            Self::OwnOnly => "own-only",
            Self::Dropped => "dropped",
            Self::Hairpins => "hairpins",
            Self::Addresses => "addresses",
        })
    }
}
