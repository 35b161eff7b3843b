//! Which rules, sets and virtual servers decide on a packet, for `twinstack proxy explain`.

use super::{
    compile,
    rules::{GATE, SERVICES},
    sets::SetName,
};
use crate::{
    explain::From,
    plan::{Frontend, Route, ServicePlan, Sources, To},
};
use net::Family;
use std::net::SocketAddr;

/// A plan as this mode serves it: a virtual server has one list of destinations for everyone, so under the policy Local this
/// node and its pods go to the endpoints here as well, as long as there are some.
#[must_use]
pub fn served(mut plan: ServicePlan) -> ServicePlan {
    for route in &mut plan.routes {
        if let To::OutsideLocal { own, others } = &mut route.to
            && !others.endpoints.is_empty()
        {
            *own = others.clone();
        }
    }
    plan
}

/// `chain: set` for each rule that may decide, then the virtual server.
#[must_use]
pub fn trace(family: Family, route: &Route, from: From) -> Vec<String> {
    let asked = |chain: &str, set: SetName| format!("{chain}: {}", set.set(family).name);
    let mut list = Vec::new();
    let sets = compile::sets(&route.to);
    if sets.contains(&SetName::Dropped) {
        return vec![asked(GATE, SetName::Dropped)];
    }
    if let (Sources::Only(sources), false) = (&route.sources, route.to == To::Reject) {
        list.push(asked(GATE, SetName::Guarded));
        if sources.is_empty() {
            return list;
        }
    }
    if sets.contains(&SetName::OwnOnly) && from == From::Outside {
        list.push(asked(GATE, SetName::OwnOnly));
        return list;
    }
    let masquerading = [SetName::ClusterIps, SetName::Outside, SetName::Local];
    list.extend(masquerading.into_iter().filter(|set| sets.contains(set)).map(|set| asked(SERVICES, set)));
    list.push(match route.frontend {
        Frontend::Address { ip, protocol, port } => format!("virtual server {protocol} {}", SocketAddr::new(ip, port)),
        Frontend::NodePort { protocol, port } => format!("virtual servers {protocol} {port}"),
    });
    list
}
