//! The routes of a Service, grouped by its ports: routes of one port share chains.

use super::names::PortName;
use crate::{
    plan::{Frontend, Pool, Route, To},
    track::Name,
};

/// What leads to endpoints at one port of a Service.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) port: PortName,
    /// Cluster IPs, and where they lead.
    pub(super) inside: Vec<&'a Route>,
    /// All other frontends.
    pub(super) outside: Vec<&'a Route>,
}

/// Groups of the routes that lead to endpoints. A plan names the addresses of a port before its node port.
pub(super) fn groups<'a>(service: &Name, routes: &'a [Route]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut current = None;
    for route in routes {
        let port = match route.frontend {
            Frontend::Address { protocol, port, .. } => PortName::new(service, protocol, port),
            Frontend::NodePort { protocol, port } => current
                .take_if(|(of, _)| *of == protocol)
                .map_or_else(|| PortName::node_port(service, protocol, port), |(_, port)| port),
        };
        current = Some((route.frontend.protocol(), port.clone()));
        if matches!(route.to, To::Reject | To::Drop) {
            continue;
        }
        match groups.iter_mut().find(|group| group.port == port) {
            Some(group) if group.fits(route) => group.add(route),
            Some(_) => groups.push(Group::new(alone(service, route.frontend), route)),
            None => groups.push(Group::new(port, route)),
        }
    }
    groups
}

/// For a route that goes elsewhere than the others of its port, which no valid Service has.
fn alone(service: &Name, frontend: Frontend) -> PortName {
    let (Frontend::Address { protocol, port, .. } | Frontend::NodePort { protocol, port }) = frontend;
    PortName::node_port(service, protocol, port)
}

impl<'a> Group<'a> {
    fn new(port: PortName, route: &'a Route) -> Self {
        let mut group = Self { port, inside: Vec::new(), outside: Vec::new() };
        group.add(route);
        group
    }

    fn add(&mut self, route: &'a Route) {
        let list = if matches!(route.to, To::Inside(_)) { &mut self.inside } else { &mut self.outside };
        list.push(route);
    }

    /// Whether the chains of the group can serve this route too.
    fn fits(&self, route: &Route) -> bool {
        let same = |list: &[&Route]| list.first().is_none_or(|first| first.to == route.to);
        match &route.to {
            To::Reject | To::Drop => true,
            To::Inside(_) => self.outside.is_empty() && same(&self.inside),
            To::Outside(_) => same(&self.outside),
            To::OutsideLocal { own, others } => {
                let known = |inside: &Pool| inside == own || inside == others || others.endpoints.is_empty();
                same(&self.outside) && self.inside_pool().is_none_or(known)
            }
        }
    }

    fn inside_pool(&self) -> Option<&'a Pool> {
        self.inside.first().and_then(|route| if let To::Inside(pool) = &route.to { Some(pool) } else { None })
    }

    /// Endpoints of the policy Cluster; of the cluster IP's policy where there is nothing else.
    pub(super) fn cluster(&self) -> Option<&'a Pool> {
        match self.outside.first().map(|route| &route.to) {
            Some(To::Outside(pool) | To::OutsideLocal { own: pool, .. }) => Some(pool),
            _ => self.inside_pool(),
        }
    }

    /// Endpoints of the policy Local, where they are others.
    pub(super) fn local(&self) -> Option<&'a Pool> {
        match self.outside.first().map(|route| &route.to) {
            Some(To::OutsideLocal { others, .. }) if !others.endpoints.is_empty() => Some(others),
            _ => self.inside_pool().filter(|inside| Some(*inside) != self.cluster()),
        }
    }

    /// The chain that cluster IPs lead to.
    pub(super) fn inside_chain(&self) -> String {
        if self.inside_pool() == self.cluster() { self.port.cluster() } else { self.port.local() }
    }
}
