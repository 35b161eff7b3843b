//! Which rules on nodes' groups each Service wants, so that deleting one never cuts another.
//!
//! A rule on a group exists once, whoever wants it. Until every Service that was there at the start has said what it wants, nothing that could be
//! shared is taken away. A Service says what it begins to want before it looks at the groups, and a rule is revoked only while nobody can begin:
//! so whoever looks and sees a rule keeps it, however many are at work at a time.

use crate::{
    account::{Peer, Rule},
    model::{Desired, Groups, rules::OWN_GROUP},
    plan::Others,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

type Wants = BTreeMap<String, BTreeSet<Rule>>;

/// What is wanted, by the Service's UID.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    inner: Mutex<Inner>,
    /// Held while rules are revoked, and by whoever begins to want some.
    revoking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What Services have come to.
    settled: BTreeMap<String, Wants>,
    /// What they are on their way to.
    begun: BTreeMap<String, Wants>,
    silent: BTreeSet<String>,
}

/// While it is held nobody begins to want anything.
pub(super) struct Held<'a> {
    _revoking: tokio::sync::MutexGuard<'a, ()>,
    others: Others,
}

impl Held<'_> {
    /// Whether somebody else wants a rule, or begins to.
    pub(super) fn by_others(&self, group: &str, rule: &Rule) -> bool {
        self.others.want(group, rule)
    }
}

impl Ledger {
    /// A Service that was there before this process, and may want something.
    pub(super) fn expect(&self, uid: &str) {
        let mut inner = self.inner.lock();
        if !inner.settled.contains_key(uid) {
            inner.silent.insert(uid.to_owned());
        }
    }

    /// What a Service will want, beside what it wants until then. Waits while rules are revoked: whoever looks afterwards sees what is left.
    pub(super) async fn begin(&self, desired: &Desired) {
        let _revoking = self.revoking.lock().await;
        self.inner.lock().begun.insert(desired.owner.uid.clone(), wants(desired));
    }

    /// A Service has come to what it wants.
    pub(super) fn settle(&self, desired: &Desired) {
        let uid = &desired.owner.uid;
        let mut inner = self.inner.lock();
        inner.silent.remove(uid);
        inner.begun.remove(uid);
        inner.settled.insert(uid.clone(), wants(desired));
    }

    /// What a Service began is refused: it wants what it wanted before.
    pub(super) fn abandon(&self, uid: &str) {
        self.inner.lock().begun.remove(uid);
    }

    /// A Service is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut inner = self.inner.lock();
        inner.silent.remove(uid);
        inner.begun.remove(uid);
        inner.settled.remove(uid);
    }

    /// What all Services but this one want, until it is let go.
    pub(super) async fn hold(&self, uid: Option<&str>) -> Held<'_> {
        let revoking = self.revoking.lock().await;
        Held { _revoking: revoking, others: self.others(uid) }
    }

    /// What all Services but this one want.
    pub(super) fn others(&self, uid: Option<&str>) -> Others {
        let inner = self.inner.lock();
        let mut others =
            Others { wants: BTreeMap::new(), complete: inner.silent.iter().all(|one| Some(one.as_str()) == uid) };
        let all = inner.settled.iter().chain(&inner.begun);
        for (_, wants) in all.filter(|(one, _)| Some(one.as_str()) != uid) {
            for (group, rules) in wants {
                others.wants.entry(group.clone()).or_default().extend(rules.iter().cloned());
            }
        }
        others
    }
}

/// Rules for its own group are nobody else's and not noted. Groups that its load balancer has beside its own are, also where there are no
/// nodes, and so no rules about them.
fn wants(desired: &Desired) -> Wants {
    let shared = |rule: &&Rule| rule.peer != Peer::Group(OWN_GROUP.to_owned());
    let of = |rules: &BTreeSet<Rule>| rules.iter().filter(shared).cloned().collect();
    let beside = match &desired.groups {
        Groups::Managed(own) => own.beside.clone(),
        Groups::AsIs | Groups::Given(_) => BTreeSet::new(),
    };
    let mut wants: Wants = beside.into_iter().map(|group| (group, BTreeSet::new())).collect();
    wants.extend(desired.node_rules.iter().map(|(group, rules)| (group.clone(), of(rules))));
    wants
}
