//! Chains that come and go with Services: one per number of endpoints and transport, and one per Service port with affinity.

use super::schema::{self, AFFINITY};
use crate::{plan::Pool, track::Protocol};
use kernel::nft::word;
use net::Family;
use std::fmt;

/// Endpoints for `others` are numbered from here, beside those for `own` of the same frontend.
pub(super) const OTHERS_OFFSET: u32 = 65_536;

/// What a frontend is, for the keys of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum At {
    Address,
    NodePort,
}

/// Which of the endpoints of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Which {
    /// The usual ones.
    Plain,
    /// The usual ones, masquerading.
    Masquerade,
    /// Those for clients from elsewhere under the policy Local.
    Others,
}

/// The chain that chooses one of `count` endpoints of the frontend that the packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pick {
    pub(super) at: At,
    pub(super) which: Which,
    pub(super) protocol: Protocol,
    pub(super) count: u32,
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at == At::NodePort { "node-port-" } else { "" };
        let which = match self.which {
            Which::Plain => "pick",
            Which::Masquerade => "masquerade-pick",
            Which::Others => "others-pick",
        };
        write!(f, "{at}{which}-{}-{}", self.count, self.protocol)
    }
}

impl Pick {
    pub(super) fn rules(self, family: Family, mark: &str) -> Vec<String> {
        let ip = word(family);
        let key = match self.at {
            At::Address => format!("{ip} daddr . meta l4proto . th dport"),
            At::NodePort => "meta l4proto . th dport".to_owned(),
        };
        let map = schema::endpoints(self.at, self.protocol);
        let offset = if self.which == Which::Others { format!(" offset {OTHERS_OFFSET}") } else { String::new() };
        let mut rules = Vec::new();
        if self.which == Which::Masquerade {
            rules.push(mark.to_owned());
        }
        rules.push(format!(
            "meta l4proto {} dnat {ip} to {key} . numgen random mod {}{offset} map @{map}",
            self.protocol, self.count
        ));
        rules
    }
}

/// Name of the chain of a pool with affinity.
pub(super) fn sticky(id: u64) -> String {
    format!("sticky-{id:016x}")
}

/// Name of the chain that masquerades on the way there.
pub(super) fn masquerade_sticky(id: u64) -> String {
    format!("masquerade-sticky-{id:016x}")
}

/// A client that was here goes where it went; another is given one at random, and that is noted.
pub(super) fn sticky_rules(family: Family, pool: &Pool) -> Vec<String> {
    let ip = word(family);
    let Some(affinity) = pool.affinity else { return Vec::new() };
    let target = |endpoint: &std::net::SocketAddr| {
        // A number that is always the same: numgen is the only constant that nft takes inside a key.
        let key = format!("{ip} saddr . numgen inc mod 1 offset {}", affinity.endpoint_id(*endpoint));
        let note = format!(
            "update @{AFFINITY} {{ {key} timeout {}s }} meta l4proto {} dnat to {endpoint}",
            affinity.seconds, affinity.protocol
        );
        (key, note)
    };
    let targets: Vec<(String, String)> = pool.endpoints.iter().map(target).collect();
    let mut rules: Vec<String> = targets.iter().map(|(key, note)| format!("{key} @{AFFINITY} {note}")).collect();
    for (at, (_, note)) in targets.iter().enumerate() {
        let left = targets.len() - at;
        rules.push(if left > 1 { format!("numgen random mod {left} 0 {note}") } else { note.clone() });
    }
    rules
}
