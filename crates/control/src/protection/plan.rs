//! What a ServiceCIDR should look like: kept while addresses would be lost with it.
//!
//! Called by the controller in `mod.rs`. Mirrors the ServiceCIDR controller of kube-controller-manager.

use k8s_openapi::api::networking::v1::ServiceCIDR;
use net::{Cidr, legacy::parse_stored_cidr};
use std::net::IpAddr;

/// Keeps a ServiceCIDR from going.
pub const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// What to do with a ServiceCIDR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// Give it its finalizer.
    Protect,
    /// Say that it serves.
    Ready,
    /// It is to go, but so many addresses are in no other range: say so.
    Waiting(usize),
    /// It may go when those who hand out addresses have noticed.
    Release,
}

/// Decides for one, given all others and all addresses in use.
#[must_use]
pub fn decide<'a>(
    cidr: &ServiceCIDR,
    others: impl Iterator<Item = &'a ServiceCIDR>,
    addresses: impl Iterator<Item = IpAddr>,
) -> Decision {
    let protected = cidr.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    if cidr.metadata.deletion_timestamp.is_none() {
        return match (protected, condition(cidr)) {
            (false, _) => Decision::Protect,
            // Somebody who knows why has said that it does not serve.
            (true, Some(_)) => Decision::Keep,
            (true, None) => Decision::Ready,
        };
    }
    if !protected {
        return Decision::Keep;
    }
    let own = ranges(cidr);
    let serving =
        |other: &&ServiceCIDR| other.metadata.name != cidr.metadata.name && other.metadata.deletion_timestamp.is_none();
    let others: Vec<Cidr> = others.filter(serving).flat_map(ranges).collect();
    if own.iter().all(|range| others.iter().any(|other| other.contains_cidr(range))) {
        return Decision::Release;
    }
    let lost = addresses
        .filter(|ip| own.iter().any(|range| range.contains(*ip)) && !others.iter().any(|range| range.contains(*ip)));
    match lost.count() {
        0 => Decision::Release,
        _ if condition(cidr) == Some(("False", "Terminating")) => Decision::Keep,
        count => Decision::Waiting(count),
    }
}

/// The ranges of a ServiceCIDR; what does not read is left out.
pub fn ranges(cidr: &ServiceCIDR) -> Vec<Cidr> {
    let texts = cidr.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    texts.filter_map(|text| parse_stored_cidr(text).ok()).collect()
}

/// Status and reason of its condition Ready.
fn condition(cidr: &ServiceCIDR) -> Option<(&str, &str)> {
    let conditions = cidr.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((&ready.status, &ready.reason))
}
