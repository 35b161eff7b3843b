//! Which rules on nodes' groups each Service wants, so that deleting one never cuts another.
//!
//! A rule on a group exists once, whoever wants it. Until every Service that was there at the start has said what it wants, nothing that could be
//! shared is taken away.

use crate::{
    account::{Peer, Rule},
    model::{Desired, rules::OWN_GROUP},
    plan::Others,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

type Wants = BTreeMap<String, BTreeSet<Rule>>;

/// What is wanted, by the Service's UID.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    wants: BTreeMap<String, Wants>,
    silent: BTreeSet<String>,
}

impl Ledger {
    /// A Service that was there before this process, and may want something.
    pub(super) fn expect(&self, uid: &str) {
        let mut inner = self.inner.lock();
        if !inner.wants.contains_key(uid) {
            inner.silent.insert(uid.to_owned());
        }
    }

    /// What a Service wants now. Rules for its own group are nobody else's and not noted.
    pub(super) fn note(&self, desired: &Desired) {
        let shared = |rule: &&Rule| rule.peer != Peer::Group(OWN_GROUP.to_owned());
        let wants = desired
            .node_rules
            .iter()
            .map(|(group, rules)| (group.clone(), rules.iter().filter(shared).cloned().collect()))
            .collect();
        let mut inner = self.inner.lock();
        inner.silent.remove(&desired.owner.uid);
        inner.wants.insert(desired.owner.uid.clone(), wants);
    }

    /// A Service is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut inner = self.inner.lock();
        inner.silent.remove(uid);
        inner.wants.remove(uid);
    }

    /// What all Services but this one want.
    pub(super) fn others(&self, uid: Option<&str>) -> Others {
        let inner = self.inner.lock();
        let mut others =
            Others { wants: BTreeMap::new(), complete: inner.silent.iter().all(|one| Some(one.as_str()) == uid) };
        for (_, wants) in inner.wants.iter().filter(|(one, _)| Some(one.as_str()) != uid) {
            for (group, rules) in wants {
                others.wants.entry(group.clone()).or_default().extend(rules.iter().cloned());
            }
        }
        others
    }
}
