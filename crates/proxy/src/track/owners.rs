//! Who owns an address and port that several Services name.
//!
//! The one that has it as cluster IP, then as load balancer IP, then as external IP; within one rank the older one. Kept by the
//! tracker, so that all backends serve the same Service, and a change costs as much as the frontends of the Service that changed.

use super::{Frontend, Name, Refused, Service};
use jiff::Timestamp;
use net::{Family, HasFamily};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

/// A node port is one in each family.
type Key = (Family, Frontend);

/// What a frontend is to a Service. The first of these goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    ClusterIp,
    LoadBalancerIp,
    ExternalIp,
    NodePort,
}

/// The least of several has the frontend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    rank: Rank,
    /// One without a date is as young as can be.
    created: Timestamp,
    name: Name,
}

/// All claims.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Sorted. There is more than one only by mistake, by intent to take over, or while things change hands.
    claims: HashMap<Key, Vec<Claim>>,
    claimed: HashMap<Name, Vec<Key>>,
}

impl Owners {
    /// Replaces the claims of a Service; nothing for one that is gone. Answers whom frontends changed hands with.
    pub(super) fn set(&mut self, name: &Name, service: Option<&Service>, refused: &Refused) -> BTreeSet<Name> {
        let wanted = service.map(|service| frontends(service, refused)).unwrap_or_default();
        let created = service.and_then(|service| service.created).unwrap_or(Timestamp::MAX);
        let before = self.claimed.remove(name).unwrap_or_default();
        let mut touched: BTreeMap<Key, Option<Name>> = BTreeMap::new();
        for key in before.iter().chain(wanted.keys()) {
            touched.entry(*key).or_insert_with(|| self.owner(*key).cloned());
        }
        for key in before {
            self.release(key, name);
        }
        for (key, rank) in &wanted {
            let claim = Claim { rank: *rank, created, name: name.clone() };
            let claims = self.claims.entry(*key).or_default();
            claims.insert(claims.partition_point(|other| *other < claim), claim);
            if let [owner, _, ..] = &claims[..] {
                let (frontend, count) = (key.1, claims.len());
                tracing::warn!(%frontend, services = count, used = %owner.name, "claimed by several Services");
            }
        }
        if !wanted.is_empty() {
            self.claimed.insert(name.clone(), wanted.into_keys().collect());
        }
        let mut rivals = BTreeSet::new();
        for (key, owner) in touched {
            let now = self.owner(key).cloned();
            if owner != now {
                rivals.extend(owner.into_iter().chain(now));
            }
        }
        rivals.remove(name);
        rivals
    }

    /// The Service that a frontend leads to.
    pub(super) fn owner(&self, key: Key) -> Option<&Name> {
        self.claims.get(&key)?.first().map(|claim| &claim.name)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.claimed.is_empty()
    }

    fn release(&mut self, key: Key, name: &Name) {
        if let Some(claims) = self.claims.get_mut(&key) {
            claims.retain(|claim| claim.name != *name);
            if claims.is_empty() {
                self.claims.remove(&key);
            }
        }
    }
}

/// What a Service claims, each with the best right that it has to it. Without a cluster IP of a family it has no rules in it.
fn frontends(service: &Service, refused: &Refused) -> BTreeMap<Key, Rank> {
    let served = |family: Family| service.cluster_ips.iter().any(|ip| ip.family() == family);
    let external: Vec<IpAddr> = service.external_ips.iter().filter(|ip| !refused.contains_key(*ip)).copied().collect();
    let addresses = [
        (Rank::ClusterIp, &service.cluster_ips),
        (Rank::LoadBalancerIp, &service.load_balancer_ips),
        (Rank::ExternalIp, &external),
    ];
    let mut wanted = BTreeMap::new();
    for port in &service.ports {
        for (rank, ips) in addresses {
            for ip in ips.iter().filter(|ip| served(ip.family())) {
                let frontend = Frontend::Address { ip: *ip, protocol: port.protocol, port: port.port };
                wanted.entry((ip.family(), frontend)).or_insert(rank);
            }
        }
        let node_port = port.node_port.map(|number| Frontend::NodePort { protocol: port.protocol, port: number });
        let families = Family::BOTH.into_iter().filter(|family| served(*family));
        wanted.extend(families.filter_map(|family| Some(((family, node_port?), Rank::NodePort))));
    }
    wanted
}
