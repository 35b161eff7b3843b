//! Which packets go where, per family: what every backend has to bring about. Pure; tests are tables.
//!
//! Called by `run` for each Service that changed. A plan is one Service in one family: its frontends (addresses and node
//! ports) and where each leads. Mirrors the decisions of kube-proxy, with one difference (docs/guide/proxy.md): where an
//! operator restricted one family, the other is closed, not open.

mod endpoints;
mod local;
mod node_ports;
mod ranges;
mod route;

use crate::track::{Name, Policy, Port, Service, Tracker};
use net::{Family, HasFamily};
use runtime::stable_hash;
use std::{net::IpAddr, sync::Arc};

pub use crate::track::Frontend;

pub use local::{DetectLocal, LocalPods};
pub use node_ports::{NodePortAddresses, NodePortError, NodePortMatch};
pub use route::{Affinity, Pool, Route, Sources, To};

use endpoints::Usable;

/// What one Service needs in one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePlan {
    /// One per frontend.
    pub routes: Vec<Route>,
    /// The addresses at which an unknown port is refused.
    pub cluster_ips: Vec<IpAddr>,
    /// Endpoints on this node: a pod that is sent to itself must not see its own address as the sender.
    pub hairpins: Vec<IpAddr>,
    /// Where this node tells load balancers whether it has endpoints.
    pub health_check_port: Option<u16>,
}

/// Plans a Service: the frontends that are its own. One without an address of this family has no rules in it.
#[must_use]
pub fn plan(family: Family, name: &Name, tracker: &Tracker) -> ServicePlan {
    let entry = tracker.get(name);
    let Some((entry, service)) = entry.and_then(|entry| Some((entry, entry.service.as_ref()?))) else {
        return ServicePlan::default();
    };
    let cluster_ips: Vec<IpAddr> = of_family(&service.cluster_ips, family).collect();
    if cluster_ips.is_empty() {
        return ServicePlan::default();
    }
    let node = tracker.node();
    let sources = ranges::sources(service, family, node);
    let mut routes = Vec::new();
    let mut hairpins = Vec::new();
    for port in &service.ports {
        let usable = endpoints::usable(family, entry, port, node);
        hairpins.extend(usable.on_this_node.iter().copied());
        let inside = inside(name, service, port, &usable);
        let outside = outside(name, service, port, &usable);
        let address = |ip| Frontend::Address { ip, protocol: port.protocol, port: port.port };
        let route = |frontend, sources, to: &To| Route {
            frontend,
            sources,
            to: to.clone(),
            serving: Arc::clone(&usable.serving),
        };
        let everyone = |frontend, to: &To| route(frontend, Sources::Everyone, to);
        // In the order of rights to an address: who has it as load balancer IP too is held to the source ranges.
        routes.extend(cluster_ips.iter().map(|ip| everyone(address(*ip), &inside)));
        routes.extend(
            of_family(&service.load_balancer_ips, family)
                .map(|ip| route(address(ip), sources.clone().with_own_address(ip, node), &outside)),
        );
        routes.extend(of_family(&service.external_ips, family).map(|ip| everyone(address(ip), &outside)));
        if let Some(port_on_node) = port.node_port {
            let frontend = Frontend::NodePort { protocol: port.protocol, port: port_on_node };
            routes.push(everyone(frontend, &outside));
        }
    }
    routes.retain(|route: &Route| tracker.owns(name, family, route.frontend));
    first_of_each(name, &mut routes);
    hairpins.sort_unstable();
    hairpins.dedup();
    ServicePlan { routes, cluster_ips, hairpins, health_check_port: service.health_check_port }
}

fn of_family(list: &[IpAddr], family: Family) -> impl Iterator<Item = IpAddr> {
    list.iter().copied().filter(move |ip| ip.family() == family)
}

/// Where the cluster IP leads.
fn inside(name: &Name, service: &Service, port: &Port, usable: &Usable) -> To {
    let pool = match service.internal {
        Policy::Cluster => &usable.cluster,
        Policy::Local => &usable.local,
    };
    match (pool.is_empty(), usable.anywhere) {
        (false, _) => To::Inside(Pool::new(pool, affinity(name, service, port, service.internal))),
        (true, true) => To::Drop,
        (true, false) => To::Reject,
    }
}

/// Where node ports, external addresses and load balancer addresses lead.
fn outside(name: &Name, service: &Service, port: &Port, usable: &Usable) -> To {
    if usable.cluster.is_empty() {
        return To::Reject;
    }
    let pool = |list, policy| Pool::new(list, affinity(name, service, port, policy));
    let cluster = pool(&usable.cluster, Policy::Cluster);
    match service.external {
        Policy::Cluster => To::Outside(cluster),
        Policy::Local => To::OutsideLocal { own: cluster, others: pool(&usable.local, Policy::Local) },
    }
}

fn affinity(name: &Name, service: &Service, port: &Port, policy: Policy) -> Option<Affinity> {
    let seconds = service.affinity?;
    let near = if policy == Policy::Local { "local" } else { "cluster" };
    let of = format!("{name}/{}/{}/{near}", port.protocol, port.port);
    Some(Affinity { seconds, protocol: port.protocol, id: stable_hash(of.as_bytes()) })
}

/// A Service that names a frontend twice (an external address that is also the load balancer's) means it once.
fn first_of_each(name: &Name, routes: &mut Vec<Route>) {
    let mut seen = std::collections::HashSet::new();
    routes.retain(|route| {
        let new = seen.insert(route.frontend);
        if !new {
            tracing::debug!(service = %name, frontend = %route.frontend, "named twice; the first counts");
        }
        new
    });
}

#[cfg(test)]
mod tests;
