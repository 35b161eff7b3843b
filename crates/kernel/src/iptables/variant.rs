//! Which of the two kinds of iptables to use: the one over nftables, or the legacy one with tables of its own.
//!
//! Rules of both are in force at once, so whoever programs a node must use the same one: packets would pass two sets of
//! rules otherwise. The kubelet leaves a chain by which the right one is found.

use super::{Iptables, RealIptables, Table};
use net::Family;
use std::fs;

/// Chains in the table mangle by which the kubelet and proxies show which variant is in use.
const HINTS: [&str; 3] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY", "KUBE-PROXY-CANARY"];

/// The programs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// `iptables`, whichever the machine has made that.
    Default,
    /// `iptables-nft`.
    Nft,
    /// `iptables-legacy`.
    Legacy,
}

impl Variant {
    /// Name of the program for a family, without `-save` or `-restore`.
    #[must_use]
    pub const fn program(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::Default, Family::V4) => "iptables",
            (Self::Default, Family::V6) => "ip6tables",
            (Self::Nft, Family::V4) => "iptables-nft",
            (Self::Nft, Family::V6) => "ip6tables-nft",
            (Self::Legacy, Family::V4) => "iptables-legacy",
            (Self::Legacy, Family::V6) => "ip6tables-legacy",
        }
    }

    /// Whether the kernel may have such a table. Asking legacy programs for one that it has not would make it.
    pub(super) fn may_have(self, family: Family, table: Table) -> bool {
        if self != Self::Legacy {
            return true;
        }
        let list = match family {
            Family::V4 => "/proc/net/ip_tables_names",
            Family::V6 => "/proc/net/ip6_tables_names",
        };
        fs::read_to_string(list).is_ok_and(|names| names.lines().any(|name| name == table.name()))
    }
}

/// The variant that others on this machine use; `Default` when nobody left a trace.
#[must_use]
pub fn detect() -> Variant {
    let used = |variant: &Variant| {
        let iptables = RealIptables::new(*variant);
        Family::BOTH.iter().any(|family| {
            let chains = iptables.save(*family, Table::Mangle).unwrap_or_default();
            HINTS.iter().any(|hint| chains.contains_key(*hint))
        })
    };
    [Variant::Nft, Variant::Legacy].into_iter().find(used).unwrap_or(Variant::Default)
}

/// The variants whose programs are on this machine.
#[must_use]
pub fn installed() -> Vec<Variant> {
    let there = |variant: &Variant| RealIptables::new(*variant).probe(Family::V4).is_ok();
    let named: Vec<Variant> = [Variant::Nft, Variant::Legacy].into_iter().filter(there).collect();
    if named.is_empty() { [Variant::Default].into_iter().filter(there).collect() } else { named }
}
