//! Which subnets a load balancer gets, and why the others do not do.
//!
//! Mirrors upstream's discovery; differs in that a dual-stack load balancer takes only subnets with an IPv6 block, and that every
//! rejected subnet is told with its reason.

use super::{
    names::{CLUSTER_TAG, Cluster},
    request::Note,
};
use crate::account::{AvailabilityZone, RouteTable, RouteTarget, Scheme, Subnet};
use std::{cmp::Reverse, collections::BTreeMap};

/// What a load balancer needs of its subnets.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Internet-facing ones need public subnets.
    pub scheme: Scheme,
    /// Whether each needs an IPv6 block.
    pub ipv6: bool,
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Subnets of the VPC.
    pub subnets: &'a [Subnet],
    pub tables: &'a [RouteTable],
    /// Zones of the region.
    pub zones: &'a [AvailabilityZone],
}

/// A subnet that does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its id.
    pub subnet: String,
    pub reason: String,
}

/// The best subnet of each zone, by zone; and the others with the reason.
pub fn discover(offer: Offer<'_>, cluster: &Cluster, need: Need) -> (Vec<Subnet>, Vec<Rejected>) {
    let role = match need.scheme {
        Scheme::InternetFacing => "kubernetes.io/role/elb",
        Scheme::Internal => "kubernetes.io/role/internal-elb",
    };
    let mut rejected = Vec::new();
    let mut by_zone: BTreeMap<&str, Vec<&Subnet>> = BTreeMap::new();
    for subnet in offer.subnets {
        match unfit(subnet, offer, cluster, need) {
            Some(reason) => rejected.push(Rejected { subnet: subnet.id.clone(), reason }),
            None => by_zone.entry(&subnet.zone).or_default().push(subnet),
        }
    }
    let mut chosen = Vec::new();
    for (zone, mut subnets) in by_zone {
        subnets.sort_by_key(|subnet| {
            (Reverse(subnet.tags.contains_key(role)), Reverse(cluster.uses(&subnet.tags)), subnet.id.clone())
        });
        let mut subnets = subnets.into_iter();
        let Some(best) = subnets.next() else { continue };
        for other in subnets {
            let reason = format!("{} is preferred in zone {zone}", best.id);
            rejected.push(Rejected { subnet: other.id.clone(), reason });
        }
        chosen.push(best.clone());
    }
    rejected.sort_by(|a, b| a.subnet.cmp(&b.subnet));
    (chosen, rejected)
}

const WITHOUT_IPV6: &str = "has no associated IPv6 CIDR block";

/// Zones that a dual-stack load balancer does without because their subnets have no IPv6 block.
pub fn lost_zones(all: &[Subnet], chosen: &[Subnet], rejected: &[Rejected]) -> Option<Note> {
    let served = |zone: &str| chosen.iter().any(|subnet| subnet.zone == zone);
    let lost: Vec<String> = rejected
        .iter()
        .filter(|one| one.reason == WITHOUT_IPV6)
        .filter_map(|one| all.iter().find(|subnet| subnet.id == one.subnet))
        .filter(|subnet| !served(&subnet.zone))
        .map(|subnet| format!("{} in zone {}", subnet.id, subnet.zone))
        .collect();
    (!lost.is_empty()).then(|| Note {
        reason: "SubnetsSkipped",
        message: format!("{} {WITHOUT_IPV6}: the load balancer does without", lost.join(", ")),
    })
}

/// Why a subnet cannot be had for this load balancer.
fn unfit(subnet: &Subnet, offer: Offer<'_>, cluster: &Cluster, need: Need) -> Option<String> {
    let claimed = subnet.tags.keys().any(|key| key.starts_with(CLUSTER_TAG));
    if claimed && !cluster.uses(&subnet.tags) {
        return Some("is tagged for another cluster".to_owned());
    }
    let zone = offer.zones.iter().find(|zone| zone.name == subnet.zone);
    if let Some(zone) = zone.filter(|zone| zone.kind != "availability-zone") {
        return Some(format!("lies in {}, a {}", zone.name, zone.kind));
    }
    if need.scheme == Scheme::InternetFacing && !is_public(subnet, offer.tables) {
        return Some("is private: its route table has no route to an internet gateway".to_owned());
    }
    if need.ipv6 && subnet.ipv6.is_empty() {
        return Some(WITHOUT_IPV6.to_owned());
    }
    None
}

/// Whether its route table, or the VPC's main one, leads to an internet gateway.
fn is_public(subnet: &Subnet, tables: &[RouteTable]) -> bool {
    let own = tables.iter().find(|table| table.subnets.contains(&subnet.id));
    let table = own.or_else(|| tables.iter().find(|table| table.main && table.vpc == subnet.vpc));
    table.is_some_and(|table| {
        table.routes.iter().any(|route| matches!(&route.via, RouteTarget::Gateway(id) if id.starts_with("igw")))
    })
}

/// The subnets that an annotation names, by id or by the tag `Name`, in zone order.
pub fn named(wanted: &[String], offer: Offer<'_>, need: Need) -> Result<Vec<Subnet>, String> {
    let mut found: Vec<&Subnet> = Vec::new();
    let mut problems = Vec::new();
    for word in wanted {
        let fits = |subnet: &&Subnet| {
            if word.starts_with("subnet-") { subnet.id == *word } else { subnet.tags.get("Name") == Some(word) }
        };
        let matches: Vec<&Subnet> = offer.subnets.iter().filter(fits).collect();
        match matches.as_slice() {
            [] => problems.push(format!("{word} is not in the VPC")),
            [one] => found.push(one),
            many => {
                let ids: Vec<&str> = many.iter().map(|subnet| subnet.id.as_str()).collect();
                problems.push(format!("{word} is the name of several: {}; give ids", ids.join(", ")));
            }
        }
    }
    found.sort_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
    found.dedup_by(|a, b| a.id == b.id);
    for pair in found.windows(2).filter(|pair| pair[0].zone == pair[1].zone) {
        problems.push(format!("{} and {} are both in zone {}; one per zone", pair[0].id, pair[1].id, pair[0].zone));
    }
    if need.ipv6 {
        let without: Vec<&str> =
            found.iter().filter(|subnet| subnet.ipv6.is_empty()).map(|subnet| subnet.id.as_str()).collect();
        if !without.is_empty() {
            problems.push(format!("{} have no associated IPv6 CIDR block, which dual-stack needs", without.join(", ")));
        }
    }
    if !problems.is_empty() {
        return Err(format!(
            "expected to find {} subnets, but found {}: {}",
            wanted.len(),
            found.len(),
            problems.join("; ")
        ));
    }
    Ok(found.into_iter().cloned().collect())
}
