//! Plans in force, and the lines that they have in shared chains.

use super::{
    base::Base,
    group,
    lines::{self, Line},
};
use crate::{plan::ServicePlan, track::Name};
use std::collections::BTreeMap;

/// Plans by Service.
#[derive(Default)]
pub(super) struct State {
    held: BTreeMap<Name, Held>,
}

/// A Service.
#[derive(Clone, Default)]
pub(super) struct Held {
    pub(super) plan: ServicePlan,
    /// Kept, because a shared chain is written as a whole.
    pub(super) lines: Vec<Line>,
}

/// Services as they were before a change.
pub(super) type Before = BTreeMap<Name, Held>;

impl State {
    /// Replaces the plan of a Service, and notes in `before` what that changes.
    pub(super) fn set(&mut self, base: &Base, name: Name, plan: ServicePlan, before: &mut Before) {
        let none = ServicePlan::default();
        if self.get(&name).map_or(&none, |held| &held.plan) == &plan {
            return;
        }
        let old = match plan == none {
            true => self.held.remove(&name),
            false => {
                let lines = lines::lines(base.family, &name, &plan, &group::groups(&name, &plan.routes));
                self.held.insert(name.clone(), Held { plan, lines })
            }
        };
        before.entry(name).or_insert_with(|| old.unwrap_or_default());
    }

    /// A Service.
    pub(super) fn get(&self, name: &Name) -> Option<&Held> {
        self.held.get(name)
    }

    /// All Services, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Held)> {
        self.held.iter()
    }
}
