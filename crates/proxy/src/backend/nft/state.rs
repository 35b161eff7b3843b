//! What the table holds: which frontend is whose, and what Services share.

use crate::{
    plan::{Frontend, Pool, Route, ServicePlan, To},
    track::Name,
};
use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Plans in force.
#[derive(Default)]
pub(super) struct State {
    held: HashMap<Name, Held>,
    /// With the Service that has it. While it changes hands, whoever is named last.
    frontends: HashMap<Frontend, (Name, Arc<Route>)>,
    shared: HashMap<SharedElement, u32>,
}

struct Held {
    routes: Vec<Arc<Route>>,
    shared: Vec<SharedElement>,
}

/// An element that several Services may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SharedElement {
    ClusterIp(IpAddr),
    Hairpin(IpAddr),
}

/// What was there before the changes of one sync.
#[derive(Default)]
pub(super) struct Touched {
    pub(super) frontends: HashMap<Frontend, Option<Arc<Route>>>,
    pub(super) shared: HashMap<SharedElement, bool>,
    pub(super) sticky: HashMap<u64, Option<Pool>>,
}

impl State {
    /// Replaces the plan of a Service.
    pub(super) fn set(&mut self, name: Name, plan: ServicePlan, touched: &mut Touched) {
        let before = self.held.remove(&name);
        if let Some(before) = &before {
            for route in &before.routes {
                self.touch(route.frontend, touched);
                self.release(route.frontend, &name);
                for pool in pools(route) {
                    touched.sticky.extend(pool.affinity.map(|affinity| (affinity.id, None)));
                }
            }
            for shared in &before.shared {
                self.share(*shared, -1, touched);
            }
        }
        if plan == ServicePlan::default() {
            return;
        }
        let mut keep = Keep { before: before.as_ref(), done: Vec::new() };
        let mut routes = Vec::with_capacity(plan.routes.len());
        for route in plan.routes {
            let route = Arc::new(keep.order(route));
            self.touch(route.frontend, touched);
            self.frontends.insert(route.frontend, (name.clone(), Arc::clone(&route)));
            for pool in pools(&route) {
                touched.sticky.extend(pool.affinity.map(|affinity| (affinity.id, Some(pool.clone()))));
            }
            routes.push(route);
        }
        let shared: Vec<SharedElement> = plan
            .cluster_ips
            .into_iter()
            .map(SharedElement::ClusterIp)
            .chain(plan.hairpins.into_iter().map(SharedElement::Hairpin))
            .collect();
        for one in &shared {
            self.share(*one, 1, touched);
        }
        self.held.insert(name, Held { routes, shared });
    }

    /// The route in force at a frontend.
    pub(super) fn route(&self, frontend: Frontend) -> Option<&Arc<Route>> {
        self.frontends.get(&frontend).map(|(_, route)| route)
    }

    /// All routes in force.
    pub(super) fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.frontends.values().map(|(_, route)| route)
    }

    /// All pools with affinity, also of routes that are not in force.
    pub(super) fn sticky(&self) -> impl Iterator<Item = (u64, &Pool)> {
        let routes = self.held.values().flat_map(|held| &held.routes);
        routes.flat_map(|route| pools(route)).filter_map(|pool| Some((pool.affinity?.id, pool)))
    }

    /// Whether a shared element is needed.
    pub(super) fn has(&self, shared: SharedElement) -> bool {
        self.shared.contains_key(&shared)
    }

    /// All shared elements.
    pub(super) fn shared(&self) -> impl Iterator<Item = SharedElement> {
        self.shared.keys().copied()
    }

    fn touch(&self, frontend: Frontend, touched: &mut Touched) {
        touched.frontends.entry(frontend).or_insert_with(|| self.route(frontend).cloned());
    }

    fn release(&mut self, frontend: Frontend, name: &Name) {
        if self.frontends.get(&frontend).is_some_and(|(holder, _)| holder == name) {
            self.frontends.remove(&frontend);
        }
    }

    fn share(&mut self, shared: SharedElement, by: i32, touched: &mut Touched) {
        touched.shared.entry(shared).or_insert_with(|| self.shared.contains_key(&shared));
        let count = self.shared.entry(shared).or_default();
        *count = count.saturating_add_signed(by);
        if *count == 0 {
            self.shared.remove(&shared);
        }
    }
}

pub(super) fn pools(route: &Route) -> impl Iterator<Item = &Pool> {
    let (first, second) = match &route.to {
        To::Reject | To::Drop => (None, None),
        To::Inside(pool) | To::Outside(pool) => (Some(pool), None),
        To::OutsideLocal { own, others } => (Some(own), Some(others)),
    };
    first.into_iter().chain(second)
}

type List = Arc<[SocketAddr]>;

/// Gives endpoints that stay the numbers they had, so that one that goes changes two elements and not all.
struct Keep<'a> {
    before: Option<&'a Held>,
    /// Frontends share their lists; each is ordered once.
    done: Vec<(List, List)>,
}

impl Keep<'_> {
    fn order(&mut self, mut route: Route) -> Route {
        let Some(before) = self.before else { return route };
        let same_frontend = before.routes.iter().find(|old| old.frontend == route.frontend);
        let Some(old) = same_frontend else { return route };
        let old: Vec<&Pool> = pools(old).collect();
        let new: Vec<&mut Pool> = match &mut route.to {
            To::Reject | To::Drop => Vec::new(),
            To::Inside(pool) | To::Outside(pool) => vec![pool],
            To::OutsideLocal { own, others } => vec![own, others],
        };
        for (old, new) in old.into_iter().zip(new) {
            let known = self.done.iter().find(|(sorted, _)| Arc::ptr_eq(sorted, &new.endpoints));
            let ordered = match known {
                Some((_, ordered)) => Arc::clone(ordered),
                None => ordered(&old.endpoints, &new.endpoints),
            };
            self.done.push((Arc::clone(&new.endpoints), Arc::clone(&ordered)));
            new.endpoints = ordered;
        }
        route
    }
}

fn ordered(before: &List, now: &List) -> List {
    let wanted: HashSet<&SocketAddr> = now.iter().collect();
    let mut slots: Vec<Option<SocketAddr>> =
        (0..now.len()).map(|at| before.get(at).copied().filter(|endpoint| wanted.contains(endpoint))).collect();
    let placed: HashSet<SocketAddr> = slots.iter().flatten().copied().collect();
    let mut rest = now.iter().filter(|endpoint| !placed.contains(*endpoint));
    for slot in &mut slots {
        if slot.is_none() {
            *slot = rest.next().copied();
        }
    }
    let order: Vec<SocketAddr> = slots.into_iter().flatten().collect();
    if order[..] == before[..] { Arc::clone(before) } else { order.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ports: &[u16]) -> List {
        ports.iter().map(|port| SocketAddr::new(net::Family::V6.loopback(), *port)).collect()
    }

    #[test]
    fn endpoints_that_stay_keep_their_numbers() {
        for (before, now, expected) in [
            (&[1, 2, 3][..], &[1, 2, 3][..], &[1, 2, 3][..]),
            (&[1, 2, 3], &[2, 3], &[3, 2]),
            (&[3, 2], &[1, 2, 3], &[3, 2, 1]),
            (&[1, 2, 3], &[1, 3, 4], &[1, 4, 3]),
            (&[1, 2], &[], &[]),
            (&[], &[5, 6], &[5, 6]),
        ] {
            assert_eq!(ordered(&list(before), &list(now)), list(expected));
        }
    }
}
