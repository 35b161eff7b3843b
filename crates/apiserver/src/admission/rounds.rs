//! The rounds of one request: what changes objects is asked once, and once more where that is wanted and somebody else changed
//! the object since.

use serde_json::Value;
use std::collections::BTreeSet;

/// Policies and webhooks, each with what became of them.
#[derive(Default)]
pub(super) struct Rounds {
    /// 0 is the first.
    pub(super) round: usize,
    pub(super) policies: Asked,
    pub(super) webhooks: Asked,
    pub(super) changed: bool,
}

/// What happened to policies or webhooks.
#[derive(Default)]
pub(super) struct Asked {
    /// Those that were asked and want to be asked again after a change.
    again: BTreeSet<Vec<String>>,
    /// Those of them for which there was a change since.
    due: BTreeSet<Vec<String>>,
    /// The object as they left it.
    left: Option<Value>,
}

impl Asked {
    /// Begins a round: what the server's own plugins changed counts as a change.
    pub(super) fn begin(&mut self, round: usize, object: Option<&Value>) {
        if round > 0 && self.left.as_ref() != object {
            self.change();
        }
    }

    /// Whether somebody is asked in this round.
    pub(super) fn is_due(&self, round: usize, id: &[String]) -> bool {
        round == 0 || self.due.contains(id)
    }

    /// Notes a change of the object.
    pub(super) fn change(&mut self) {
        self.due.append(&mut self.again);
    }

    /// Notes somebody who wants to be asked again.
    pub(super) fn wants_again(&mut self, id: Vec<String>) {
        self.again.insert(id);
    }

    pub(super) fn end(&mut self, object: Option<&Value>) {
        self.left = object.cloned();
    }
}
