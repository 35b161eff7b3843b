//! Plans as IPVS: a virtual server per frontend and a destination per endpoint, chosen by the kernel's own load balancer.
//!
//! Three things belong to it. An interface, `kube-ipvs0`, gives the machine every Service's addresses, because IPVS takes
//! only packets for the machine. Sets (ipset) say what kind of frontend each is. A few iptables rules, the same for any
//! number of Services, ask them: who may, who is masqueraded. A change is the things of the Services that changed.
//!
//! `run` calls [`Backend::sync`]. Everything outlives the process; the next one looks at the kernel and changes what differs.

mod apply;
mod compile;
mod rules;
mod sets;
mod state;
mod text;
mod trace;

use super::{Backend, Done, Fixed, Result};
use crate::{plan::ServicePlan, track::Name};
use kernel::{
    dummy::Links,
    ipset::{Entry, Ipset},
    iptables::Iptables,
    ipvs::{Change, Ipvs, ServerKey},
};
use net::{Cidr, Family};
use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

pub use trace::{served, trace};

use apply::{Depth, Leaving};
use compile::{Compiled, Item, NodeAddresses};
use sets::SetName;
use state::{State, Touched};

/// The interface that holds addresses of Services. Its name is kube-proxy's, because CNI plugins know to leave it alone.
pub const INTERFACE: &str = "kube-ipvs0";

/// Schedulers of Linux.
pub const SCHEDULERS: [&str; 14] =
    ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "fo", "ovf", "mh", "twos"];

/// What the flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How destinations are chosen; one of [`SCHEDULERS`].
    pub scheduler: String,
    /// Virtual servers at addresses in these blocks are neither made nor changed nor removed.
    pub excluded: Vec<Cidr>,
}

/// The parts of the kernel that it works on.
#[derive(Clone)]
pub struct Parts {
    /// Virtual servers.
    pub ipvs: Arc<dyn Ipvs>,
    /// Sets.
    pub ipset: Arc<dyn Ipset>,
    /// The interface.
    pub links: Arc<dyn Links>,
    /// Rules.
    pub iptables: Arc<dyn Iptables>,
}

/// One family in IPVS.
pub struct IpvsBackend {
    family: Family,
    settings: Settings,
    parts: Parts,
    /// What the kernel has, or `None` when that is not known: at the start and after a failure.
    known: Option<Known>,
}

/// What the kernel has.
struct Known {
    fixed: Fixed,
    /// Addresses of the machine that are not of Services.
    own: BTreeSet<IpAddr>,
    state: State,
    leaving: Leaving,
}

impl IpvsBackend {
    /// Of a family; nothing is done yet.
    #[must_use]
    pub fn new(family: Family, settings: Settings, parts: Parts) -> Self {
        Self { family, settings, parts, known: None }
    }

    /// What the last sync that went well made, as text for `ipset`, `ip`, `ipvsadm` and iptables; nothing before it.
    pub fn text(&self) -> Result<String> {
        let Some(known) = &self.known else { return Ok(String::new()) };
        Ok(text::text(self.family, &self.settings, &known.fixed, &known.state)?)
    }

    fn change(&mut self, mut known: Known, plans: &mut dyn Iterator<Item = (Name, ServicePlan)>) -> Result<Done> {
        let mut touched = Touched::default();
        for (name, plan) in plans {
            let compiled = self.compile(&known.fixed, &known.own, &plan);
            known.state.set(name, compiled, &mut touched);
        }
        let diff = touched.diff(&known.state);
        if !diff.is_empty() {
            // After a failure nobody knows what the kernel has; `known` stays empty.
            self.parts.apply(self.family, &self.settings.scheduler, &diff, &mut known.leaving)?;
        }
        self.known = Some(known);
        Ok(if diff.is_empty() { Done::Nothing } else { Done::Partial })
    }

    fn replace(&mut self, fixed: &Fixed, plans: &mut dyn Iterator<Item = (Name, ServicePlan)>) -> Result<Done> {
        let own = self.parts.addresses(self.family)?.elsewhere;
        let mut state = State::default();
        for (name, plan) in plans {
            state.set(name, self.compile(fixed, &own, &plan), &mut Touched::default());
        }
        self.parts.make(self.family)?;
        let seen = self.parts.look(self.family, &self.settings, Depth::Destinations)?;
        rules::write(&*self.parts.iptables, self.family, fixed)?;
        let mut leaving = seen.leaving;
        self.parts.apply(self.family, &self.settings.scheduler, &state.diff(&seen.items), &mut leaving)?;
        self.known = Some(Known { fixed: fixed.clone(), own, state, leaving });
        Ok(Done::Full)
    }

    fn compile(&self, fixed: &Fixed, own: &BTreeSet<IpAddr>, plan: &ServicePlan) -> Compiled {
        compile::compile(plan, &NodeAddresses { own, node_ports: &fixed.node_ports, excluded: &self.settings.excluded })
    }

    fn is_intact(&self, known: &Known) -> Result<bool> {
        if self.parts.addresses(self.family)?.elsewhere != known.own {
            tracing::info!(family = %self.family, "the addresses of this machine have changed");
            return Ok(false);
        }
        let seen = self.parts.look(self.family, &self.settings, Depth::Servers)?;
        let wanted = known.state.items().filter(|item| !matches!(item, Item::Destination(..) | Item::Draining(..)));
        Ok(wanted.eq(seen.items.iter()) && rules::intact(&*self.parts.iptables, self.family, &known.fixed)?)
    }
}

impl Backend for IpvsBackend {
    fn family(&self) -> Family {
        self.family
    }

    fn wants_everything(&self, fixed: &Fixed) -> bool {
        self.known.as_ref().is_none_or(|known| known.fixed != *fixed)
    }

    fn sync(&mut self, fixed: &Fixed, plans: &mut dyn Iterator<Item = (Name, ServicePlan)>) -> Result<Done> {
        match self.known.take() {
            Some(known) if known.fixed == *fixed => self.change(known, plans),
            _ => self.replace(fixed, plans),
        }
    }

    /// Looks whether addresses, sets, virtual servers and rules are as they were left, and whether the machine still has
    /// the addresses at which node ports are open.
    fn check(&mut self) -> Result<bool> {
        let Some(known) = &self.known else { return Ok(false) };
        let intact = self.is_intact(known)?;
        if !intact {
            self.known = None;
        }
        Ok(intact)
    }

    /// Removes destinations whose last connection has ended.
    fn tidy(&mut self) -> Result<()> {
        let Some(known) = &mut self.known else { return Ok(()) };
        self.parts.see_off(&mut known.leaving, |_| true)
    }

    fn forget(&mut self) {
        self.known = None;
    }
}

/// Removes everything of ours in both families, and nothing else; says in which there was something.
pub fn remove(parts: &Parts) -> Result<Vec<Family>> {
    let mut removed = Vec::new();
    for family in Family::BOTH {
        if remove_family(parts, family)? {
            removed.push(family);
        }
    }
    let left = |family| parts.addresses(family).map(|addresses| addresses.here.len());
    if !removed.is_empty() && left(Family::V4)? + left(Family::V6)? == 0 {
        parts.links.delete(INTERFACE).map_err(|error| format!("cannot remove interface {INTERFACE}: {error}"))?;
    }
    Ok(removed)
}

/// The sets say what is ours, so they go last: a removal that was cut off can be repeated.
fn remove_family(parts: &Parts, family: Family) -> Result<bool> {
    let entries = |name: SetName| parts.ipset.entries(&name.set(family));
    let Some(servers) = entries(SetName::Servers)? else { return Ok(false) };
    let key = |entry: Entry| match entry {
        Entry::IpPort(protocol, at) => Some(Change::RemoveServer(ServerKey { protocol, at })),
        _ => None,
    };
    parts.ipvs.change(&servers.into_iter().filter_map(key).collect::<Vec<_>>())?;
    let addresses = entries(SetName::Addresses)?.unwrap_or_default();
    let address = |entry| if let Entry::Ip(ip) = entry { Some(ip) } else { None };
    let ips: Vec<IpAddr> = addresses.into_iter().filter_map(address).collect();
    let done = parts.links.remove(INTERFACE, &ips);
    done.map_err(|error| format!("cannot remove addresses from {INTERFACE}: {error}"))?;
    rules::remove(&*parts.iptables, family)?;
    SetName::ALL.iter().rev().try_for_each(|name| parts.ipset.destroy(&name.set(family)))?;
    Ok(true)
}

impl std::fmt::Debug for IpvsBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IpvsBackend").field("family", &self.family).field("known", &self.known.is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
