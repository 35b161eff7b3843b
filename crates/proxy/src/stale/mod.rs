//! UDP flows that lead where they should not. UDP has no beginning: as long as a client goes on sending, the kernel goes on with
//! what it once decided, be it an endpoint that is gone or no translation at all.
//!
//! `run` hands over every plan, and after each sync makes the kernel forget flows to the frontends that changed. It looks at them
//! a second time later: a packet that passed the old rules may enter the kernel's memory after the first look.

use crate::{
    plan::{Frontend, ServicePlan},
    track::{Name, Protocol},
};
use kernel::conntrack::{Conntrack, Flow};
use net::Family;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// UDP frontends of a family, with the endpoints whose flows go on.
#[derive(Debug, Default)]
pub struct UdpFrontends {
    held: HashMap<Frontend, (Name, Arc<[SocketAddr]>)>,
    of_service: HashMap<Name, Vec<Frontend>>,
    /// Those that have lost endpoints, or were closed, or are gone.
    due: HashSet<Frontend>,
    /// Those that were looked at once.
    again: HashSet<Frontend>,
}

impl UdpFrontends {
    /// Replaces what is known of a Service; an empty plan is one that is gone. A frontend may change hands in either order.
    pub fn set(&mut self, name: &Name, plan: &ServicePlan) {
        let udp = plan.routes.iter().filter(|route| route.frontend.protocol() == Protocol::Udp);
        let now: HashMap<Frontend, &Arc<[SocketAddr]>> = udp.map(|route| (route.frontend, &route.serving)).collect();
        for frontend in self.of_service.remove(name).unwrap_or_default() {
            let gone = !now.contains_key(&frontend);
            if gone && self.held.get(&frontend).is_some_and(|(holder, _)| holder == name) {
                self.held.remove(&frontend);
                self.due.insert(frontend);
            }
        }
        for (frontend, serving) in &now {
            let before = self.held.insert(*frontend, (name.clone(), Arc::clone(serving)));
            let only_more = before.is_some_and(|(_, before)| {
                !before.is_empty() && before.iter().all(|endpoint| serving.binary_search(endpoint).is_ok())
            });
            if !only_more {
                self.due.insert(*frontend);
            }
        }
        if !now.is_empty() {
            self.of_service.insert(name.clone(), now.into_keys().collect());
        }
    }

    /// Nothing is taken for granted: only these Services are there, and all of their flows are looked at.
    pub fn all_due(&mut self, there: impl Fn(&Name) -> bool) {
        let gone: Vec<Name> = self.of_service.keys().filter(|name| !there(name)).cloned().collect();
        gone.iter().for_each(|name| self.set(name, &ServicePlan::default()));
        self.due.extend(self.held.keys().copied());
    }

    /// Makes the kernel forget flows to frontends that changed since the last look, and says how many; `None` when none did.
    ///
    /// # Errors
    /// When the kernel cannot be asked. The second look makes up for it.
    pub fn look(&mut self, conntrack: &dyn Conntrack, family: Family) -> Option<io::Result<u64>> {
        let due = std::mem::take(&mut self.due);
        self.again.extend(due.iter().copied());
        self.forget(conntrack, family, &due)
    }

    /// The second look.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn look_again(&mut self, conntrack: &dyn Conntrack, family: Family) -> Option<io::Result<u64>> {
        let again = std::mem::take(&mut self.again);
        self.forget(conntrack, family, &again)
    }

    fn forget(&self, conntrack: &dyn Conntrack, family: Family, at: &HashSet<Frontend>) -> Option<io::Result<u64>> {
        if at.is_empty() {
            return None;
        }
        let forgotten = conntrack.udp_flows(family).and_then(|flows| {
            let node_ports = at.iter().any(|frontend| matches!(frontend, Frontend::NodePort { .. }));
            let own = if node_ports { conntrack.own_addresses(family)? } else { BTreeSet::new() };
            let stale: Vec<&Flow> = flows.iter().filter(|flow| self.is_stale(flow, at, &own)).collect();
            conntrack.forget(family, &stale)?;
            Ok(stale.len() as u64)
        });
        Some(forgotten)
    }

    /// Whether a flow to one of these frontends leads to none of its endpoints, or was never translated.
    fn is_stale(&self, flow: &Flow, at: &HashSet<Frontend>, own: &BTreeSet<IpAddr>) -> bool {
        let (ip, port, protocol) = (flow.to.ip(), flow.to.port(), Protocol::Udp);
        let address = Frontend::Address { ip, protocol, port };
        let to_node = own.contains(&ip) || ip.is_loopback();
        // The same port of another machine is none of ours. At an address of the node a Service's own address goes first.
        let node_port = (to_node && !self.held.contains_key(&address)).then_some(Frontend::NodePort { protocol, port });
        let frontend =
            Some(address).filter(|address| at.contains(address)).or_else(|| node_port.filter(|port| at.contains(port)));
        frontend.is_some_and(|frontend| {
            let serving = self.held.get(&frontend).map(|(_, serving)| &**serving).unwrap_or_default();
            serving.binary_search(&flow.from).is_err()
        })
    }
}

#[cfg(test)]
mod tests;
