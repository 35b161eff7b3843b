//! What the kernel should hold: who claims which frontend, and how often each thing is needed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

use super::compile::{Compiled, Item, Needs};
use crate::plan::Frontend;
use crate::stale::UdpChange;
use crate::track::{Name, Protocol};

/// Plans in force.
#[derive(Default)]
pub(super) struct State {
    held: HashMap<Name, Held>,
    /// By name of the Service; the first counts. There is more than one only by mistake or while things change hands.
    claims: HashMap<Frontend, Vec<(Name, Needs)>>,
    needed: BTreeMap<Item, u32>,
}

struct Held {
    frontends: Vec<Frontend>,
    own: Vec<Item>,
}

/// What was there before the changes of one sync.
#[derive(Default)]
pub(super) struct Touched {
    items: BTreeMap<Item, bool>,
    udp: HashMap<Frontend, HashSet<SocketAddr>>,
}

/// What has to change in the kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Diff {
    pub(super) added: BTreeSet<Item>,
    pub(super) removed: BTreeSet<Item>,
}

impl State {
    /// Replaces what a Service needs; nothing for one that is gone.
    pub(super) fn set(&mut self, name: Name, compiled: Compiled, touched: &mut Touched) {
        if let Some(before) = self.held.remove(&name) {
            for frontend in before.frontends {
                self.touch(frontend, touched);
                self.release(frontend, &name, touched);
            }
            before.own.into_iter().for_each(|item| self.count(item, -1, touched));
        }
        let Compiled { frontends, own } = compiled;
        if frontends.is_empty() && own.is_empty() {
            return;
        }
        own.iter().for_each(|item| self.count(*item, 1, touched));
        let held = Held { frontends: frontends.iter().map(|(frontend, _)| *frontend).collect(), own };
        for (frontend, needs) in frontends {
            self.touch(frontend, touched);
            self.claim(frontend, &name, needs, touched);
        }
        self.held.insert(name, held);
    }

    /// Everything that is needed.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.needed.keys()
    }

    /// Whether something is needed.
    pub(super) fn has(&self, item: &Item) -> bool {
        self.needed.contains_key(item)
    }

    /// What to do so that a kernel that holds `there` holds what is needed.
    pub(super) fn diff(&self, there: &BTreeSet<Item>) -> Diff {
        Diff {
            added: self.items().filter(|item| !there.contains(item)).copied().collect(),
            removed: there.iter().filter(|item| !self.has(item)).copied().collect(),
        }
    }

    /// All UDP frontends with their endpoints.
    pub(super) fn udp(&self) -> impl Iterator<Item = UdpChange> {
        let udp = self.claims.keys().filter(|frontend| frontend.protocol() == Protocol::Udp);
        udp.map(|frontend| UdpChange { frontend: *frontend, endpoints: self.endpoints(*frontend) })
    }

    fn endpoints(&self, frontend: Frontend) -> HashSet<SocketAddr> {
        let first = self.claims.get(&frontend).and_then(|claims| claims.first());
        first.map(|(_, needs)| needs.endpoints.clone()).unwrap_or_default()
    }

    fn touch(&self, frontend: Frontend, touched: &mut Touched) {
        if frontend.protocol() == Protocol::Udp {
            touched.udp.entry(frontend).or_insert_with(|| self.endpoints(frontend));
        }
    }

    fn claim(&mut self, frontend: Frontend, name: &Name, needs: Needs, touched: &mut Touched) {
        let mut claims = self.claims.remove(&frontend).unwrap_or_default();
        let at = claims.partition_point(|(other, _)| other < name);
        if at == 0 {
            claims.first().into_iter().for_each(|(_, first)| self.count_all(first, -1, touched));
            self.count_all(&needs, 1, touched);
        }
        claims.insert(at, (name.clone(), needs));
        if let [(first, _), _, ..] = &claims[..] {
            tracing::warn!(%frontend, services = claims.len(), used = %first, "claimed by several Services");
        }
        self.claims.insert(frontend, claims);
    }

    fn release(&mut self, frontend: Frontend, name: &Name, touched: &mut Touched) {
        let Some(mut claims) = self.claims.remove(&frontend) else { return };
        if let Some(at) = claims.iter().position(|(other, _)| other == name) {
            let (_, needs) = claims.remove(at);
            if at == 0 {
                self.count_all(&needs, -1, touched);
                claims.first().into_iter().for_each(|(_, next)| self.count_all(next, 1, touched));
            }
        }
        if !claims.is_empty() {
            self.claims.insert(frontend, claims);
        }
    }

    fn count_all(&mut self, needs: &Needs, by: i32, touched: &mut Touched) {
        needs.items.iter().for_each(|item| self.count(*item, by, touched));
    }

    fn count(&mut self, item: Item, by: i32, touched: &mut Touched) {
        touched.items.entry(item).or_insert_with(|| self.needed.contains_key(&item));
        let count = self.needed.entry(item).or_default();
        *count = count.saturating_add_signed(by);
        if *count == 0 {
            self.needed.remove(&item);
        }
    }
}

impl Touched {
    /// What became needed and what no longer is.
    pub(super) fn diff(&self, state: &State) -> Diff {
        let mut diff = Diff::default();
        for (item, was_there) in &self.items {
            match (*was_there, state.has(item)) {
                (false, true) => diff.added.insert(*item),
                (true, false) => diff.removed.insert(*item),
                _ => false,
            };
        }
        diff
    }

    /// UDP frontends that lost endpoints or the last of them, or got their first.
    pub(super) fn udp(&self, state: &State) -> impl Iterator<Item = UdpChange> {
        self.udp.iter().filter_map(|(frontend, before)| {
            let endpoints = state.endpoints(*frontend);
            let only_more = !before.is_empty() && before.is_subset(&endpoints);
            (!only_more).then_some(UdpChange { frontend: *frontend, endpoints })
        })
    }
}

impl Diff {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}
