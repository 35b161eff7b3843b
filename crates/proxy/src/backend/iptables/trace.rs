//! Which chains a packet passes, for `twinstack proxy explain`.

use super::{
    chains,
    group::{self, Group},
    lines::{self, SharedChain},
    names,
};
use crate::{
    explain::From,
    plan::{Frontend, Route, ServicePlan, Sources, To},
    track::Name,
};
use kernel::iptables::{Table, target};
use net::Family;

/// The chains of the table nat in order, up to the one that chooses an endpoint, or the line of the table filter that ends it.
#[must_use]
pub fn trace(family: Family, name: &Name, plan: &ServicePlan, route: &Route, from: From) -> Vec<String> {
    let groups = group::groups(name, &plan.routes);
    let mut list = Vec::new();
    let lines = lines::lines(family, name, plan, &groups);
    // What a line of the table filter says of it.
    let ends = |only: fn(SharedChain) -> bool| {
        let packets = format!("{} ", lines::destination(route.frontend));
        let found = lines
            .iter()
            .find(|(shared, rule)| shared.table() == Table::Filter && only(*shared) && rule.starts_with(&packets));
        found.map(|(shared, rule)| format!("filter {}: {}", shared.chain(), target(rule).unwrap_or_default()))
    };
    let is_firewall = |shared| shared == SharedChain::Firewall;
    let is_closed = |shared| shared != SharedChain::Firewall;
    let Some(group) = groups.iter().find(|group| holds(group, route)) else {
        list.extend(ends(is_closed));
        return list;
    };
    let node_port = matches!(route.frontend, Frontend::NodePort { .. });
    list.push(format!("nat {}", if node_port { names::NODE_PORTS } else { names::SERVICES }));
    if let To::Inside(_) = route.to {
        list.push(group.inside_chain());
        return list;
    }
    if let Some((chain, _)) = chains::firewall(&group.port, route) {
        list.push(chain);
    }
    if route.sources == Sources::Only(Vec::new()) {
        list.extend(ends(is_firewall));
        return list;
    }
    list.push(group.port.external());
    match &route.to {
        To::OutsideLocal { others, .. } if from == From::Outside && others.endpoints.is_empty() => {
            list.extend(ends(is_closed));
        }
        To::OutsideLocal { .. } if from == From::Outside => list.push(group.port.local()),
        _ => list.push(group.port.cluster()),
    }
    list
}

fn holds(group: &Group<'_>, route: &Route) -> bool {
    group.inside.iter().chain(&group.outside).any(|held| held.frontend == route.frontend)
}
