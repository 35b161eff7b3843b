//! Plans in force, and who claims which frontend.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

use crate::plan::{Frontend, Route, ServicePlan, To};
use crate::stale::UdpChange;
use crate::track::{Name, Protocol};

/// Plans by Service.
#[derive(Default)]
pub(super) struct State {
    plans: BTreeMap<Name, ServicePlan>,
    /// Sorted; the first counts. There is more than one only by mistake or while things change hands.
    claims: HashMap<Frontend, Vec<Name>>,
}

/// Plans as they were in force before a change.
pub(super) type Before = BTreeMap<Name, ServicePlan>;

impl State {
    /// Replaces the plan of a Service, and notes in `before` what that changes.
    pub(super) fn set(&mut self, name: Name, plan: ServicePlan, before: &mut Before) {
        let none = ServicePlan::default();
        let old = self.plans.get(&name).unwrap_or(&none);
        if *old == plan {
            return;
        }
        let frontends = old.routes.iter().chain(&plan.routes).map(|route| route.frontend);
        let rivals = frontends.filter_map(|frontend| self.claims.get(&frontend)).flatten();
        for touched in rivals.chain([&name]) {
            if !before.contains_key(touched) {
                before.insert(touched.clone(), self.plan(touched).into_owned());
            }
        }
        for route in self.plans.remove(&name).unwrap_or_default().routes {
            self.release(route.frontend, &name);
        }
        for route in &plan.routes {
            self.claim(route.frontend, &name);
        }
        if plan != none {
            self.plans.insert(name, plan);
        }
    }

    /// The part of a plan that is in force.
    pub(super) fn plan(&self, name: &Name) -> Cow<'_, ServicePlan> {
        let Some(plan) = self.plans.get(name) else { return Cow::Owned(ServicePlan::default()) };
        let counts = |route: &Route| self.claims.get(&route.frontend).and_then(|claims| claims.first()) == Some(name);
        if plan.routes.iter().all(counts) {
            return Cow::Borrowed(plan);
        }
        let routes = plan.routes.iter().filter(|route| counts(route)).cloned().collect();
        Cow::Owned(ServicePlan { routes, ..plan.clone() })
    }

    /// All Services, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.plans.keys()
    }

    fn claim(&mut self, frontend: Frontend, name: &Name) {
        let claims = self.claims.entry(frontend).or_default();
        let at = claims.partition_point(|other| other < name);
        claims.insert(at, name.clone());
        if let [first, _, ..] = &claims[..] {
            tracing::warn!(%frontend, services = claims.len(), used = %first, "claimed by several Services");
        }
    }

    fn release(&mut self, frontend: Frontend, name: &Name) {
        if let Some(claims) = self.claims.get_mut(&frontend) {
            claims.retain(|other| other != name);
            if claims.is_empty() {
                self.claims.remove(&frontend);
            }
        }
    }

    /// UDP frontends that lost endpoints or the last of them, or got their first.
    pub(super) fn udp(&self, before: &Before) -> Vec<UdpChange> {
        let (mut old, mut new) = (HashMap::new(), HashMap::new());
        for (name, plan) in before {
            old.extend(udp(plan));
            new.extend(udp(&self.plan(name)));
        }
        let frontends: HashSet<Frontend> = old.keys().chain(new.keys()).copied().collect();
        let change = |frontend| {
            let before = old.remove(&frontend).unwrap_or_default();
            let endpoints = new.remove(&frontend).unwrap_or_default();
            let only_more = !before.is_empty() && before.is_subset(&endpoints);
            (!only_more).then_some(UdpChange { frontend, endpoints })
        };
        frontends.into_iter().filter_map(change).collect()
    }

    /// All UDP frontends with their endpoints.
    pub(super) fn all_udp(&self) -> Vec<UdpChange> {
        let changes = |name| udp(&self.plan(name)).collect::<Vec<_>>();
        let all = self.names().flat_map(changes);
        all.map(|(frontend, endpoints)| UdpChange { frontend, endpoints }).collect()
    }
}

fn udp(plan: &ServicePlan) -> impl Iterator<Item = (Frontend, HashSet<SocketAddr>)> {
    let udp = plan.routes.iter().filter(|route| route.frontend.protocol() == Protocol::Udp);
    udp.map(|route| {
        let pools = match &route.to {
            To::Reject | To::Drop => [None, None],
            To::Inside(pool) | To::Outside(pool) => [Some(pool), None],
            To::OutsideLocal { own, others } => [Some(own), Some(others)],
        };
        (route.frontend, pools.into_iter().flatten().flat_map(|pool| pool.endpoints.iter().copied()).collect())
    })
}
