//! What the kernel should hold: which frontend is whose, and how often each thing is needed.

use super::compile::{Compiled, Item};
use crate::{plan::Frontend, track::Name};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Plans in force.
#[derive(Default)]
pub(super) struct State {
    held: HashMap<Name, Held>,
    /// With the Service that has it. While it changes hands, whoever is named last.
    frontends: HashMap<Frontend, (Name, Vec<Item>)>,
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
            needs.iter().for_each(|item| self.count(*item, 1, touched));
            if let Some((_, others)) = self.frontends.insert(frontend, (name.clone(), needs)) {
                others.into_iter().for_each(|item| self.count(item, -1, touched));
            }
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

    fn release(&mut self, frontend: Frontend, name: &Name, touched: &mut Touched) {
        if self.frontends.get(&frontend).is_some_and(|(holder, _)| holder == name)
            && let Some((_, needs)) = self.frontends.remove(&frontend)
        {
            needs.into_iter().for_each(|item| self.count(item, -1, touched));
        }
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
}

impl Diff {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}
