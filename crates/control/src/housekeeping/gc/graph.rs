//! Who owns whom, across all kinds, and what follows for one object. Pure.

use super::super::discovery::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// The finalizer of an owner that waits for its dependents to go.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents stay.
pub(super) const ORPHAN: &str = "orphan";

/// One object, as far as owners go.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) kind: Arc<Kind>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: Option<String>,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    pub(super) deleting: bool,
}

impl Item {
    /// None for an object without an identity.
    pub(super) fn new(kind: &Arc<Kind>, meta: &ObjectMeta) -> Option<Self> {
        Some(Self {
            kind: Arc::clone(kind),
            namespace: meta.namespace.clone(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            version: meta.resource_version.clone(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        })
    }

    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }

    fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has(FOREGROUND)
    }
}

/// How what an object owns is treated when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What follows for one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It stays.
    Keep,
    /// First find out whether these owners exist.
    Ask(Vec<OwnerReference>),
    /// It stays, without these owners.
    Disown(BTreeSet<String>),
    /// Nobody who owned it is left.
    Delete(Propagation),
    /// These dependents lose their owner, then its finalizer goes.
    Orphan(Vec<String>),
    /// All that had to go before it is gone: its finalizer goes.
    Finish,
}

/// All objects and who owns whom.
#[derive(Debug, Default)]
pub(super) struct Graph {
    items: HashMap<String, Item>,
    dependents: HashMap<String, HashSet<String>>,
    /// Owners that do not exist. A uid is never used again, so this stays true.
    absent: HashSet<String>,
}

/// Memory for owners that do not exist; they are asked about again when it is full.
const MOST_ABSENT: usize = 10_000;

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    /// Takes in an object. Answers whom that concerns.
    pub(super) fn put(&mut self, item: Item) -> Vec<String> {
        let uid = item.uid.clone();
        if self.items.get(&uid).is_some_and(|old| old.version == item.version) {
            return Vec::new();
        }
        let mut concerned = self.unlink(&uid);
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        concerned.extend(self.waiting_owners(&item));
        if item.deleting {
            concerned.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        concerned.push(uid.clone());
        self.items.insert(uid, item);
        concerned
    }

    /// An object is gone. Answers whom that concerns.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        let mut concerned = self.unlink(uid);
        self.items.remove(uid);
        let dependents = self.dependents.get(uid).into_iter().flatten().cloned();
        concerned.extend(dependents);
        self.note_absent(uid);
        concerned
    }

    /// The objects of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> Vec<String> {
        self.items.values().filter(|item| item.kind.name() == kind).map(|item| item.uid.clone()).collect()
    }

    /// An owner was asked for and does not exist.
    pub(super) fn note_absent(&mut self, uid: &str) {
        if self.absent.len() >= MOST_ABSENT {
            self.absent.clear();
        }
        self.absent.insert(uid.to_owned());
    }

    /// What follows for an object, as things stand.
    pub(super) fn decide(&self, uid: &str) -> Verdict {
        let Some(item) = self.items.get(uid) else { return Verdict::Keep };
        if item.deleting {
            return self.decide_deleting(item);
        }
        let (mut solid, mut waiting, mut dangling, mut unknown) = (0, BTreeSet::new(), BTreeSet::new(), Vec::new());
        for reference in &item.owners {
            match self.items.get(&reference.uid) {
                Some(owner) if !reaches(owner, item) => {
                    dangling.insert(reference.uid.clone());
                }
                Some(owner) if owner.waits_for_dependents() => {
                    waiting.insert(reference.uid.clone());
                }
                Some(_) => solid += 1,
                None if self.absent.contains(&reference.uid) => {
                    dangling.insert(reference.uid.clone());
                }
                None => unknown.push(reference.clone()),
            }
        }
        if !unknown.is_empty() {
            Verdict::Ask(unknown)
        } else if solid > 0 {
            let lost: BTreeSet<String> = dangling.into_iter().chain(waiting).collect();
            if lost.is_empty() { Verdict::Keep } else { Verdict::Disown(lost) }
        } else if item.owners.is_empty() {
            Verdict::Keep
        } else if !waiting.is_empty() && self.dependents.get(uid).is_some_and(|all| !all.is_empty()) {
            // The owner waits for all that hangs on it, so its dependents wait for theirs.
            Verdict::Delete(Propagation::Foreground)
        } else if item.has(ORPHAN) {
            Verdict::Delete(Propagation::Orphan)
        } else if item.has(FOREGROUND) {
            Verdict::Delete(Propagation::Foreground)
        } else {
            Verdict::Delete(Propagation::Background)
        }
    }

    fn decide_deleting(&self, item: &Item) -> Verdict {
        let dependents = || self.dependents.get(&item.uid).into_iter().flatten().filter_map(|uid| self.items.get(uid));
        if item.has(ORPHAN) {
            let mut uids: Vec<String> = dependents().map(|dependent| dependent.uid.clone()).collect();
            uids.sort();
            return Verdict::Orphan(uids);
        }
        let blocked = self.blockers(item).any(|blocker| !self.waits_for(blocker, item));
        if item.has(FOREGROUND) && !blocked { Verdict::Finish } else { Verdict::Keep }
    }

    /// The dependents that an owner has to wait for.
    fn blockers(&self, owner: &Item) -> impl Iterator<Item = &Item> {
        let uid = owner.uid.clone();
        let dependents = self.dependents.get(&uid).into_iter().flatten().filter_map(|uid| self.items.get(uid));
        dependents.filter(move |dependent| {
            dependent.owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
        })
    }

    /// Whether a deleted owner waits, itself or through what it waits for, until `goal` is gone. In a circle somebody has to go
    /// first. kube-controller-manager takes `blockOwnerDeletion` from the one that closes the circle, and leaves one that was
    /// closed before it looked.
    fn waits_for(&self, owner: &Item, goal: &Item) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![owner];
        while let Some(item) = next.pop() {
            if !item.waits_for_dependents() || !seen.insert(item.uid.as_str()) {
                continue;
            }
            for blocker in self.blockers(item) {
                if blocker.uid == goal.uid {
                    return true;
                }
                next.push(blocker);
            }
        }
        false
    }

    /// Takes the object's links away; its old owners that wait for it are concerned.
    fn unlink(&mut self, uid: &str) -> Vec<String> {
        let Some(old) = self.items.get(uid) else { return Vec::new() };
        let concerned = self.waiting_owners(old);
        for owner in old.owners.iter().map(|owner| owner.uid.clone()).collect::<Vec<_>>() {
            if let Some(dependents) = self.dependents.get_mut(&owner) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
        }
        concerned
    }

    fn waiting_owners(&self, item: &Item) -> Vec<String> {
        let owners = item.owners.iter().filter_map(|owner| self.items.get(&owner.uid));
        owners.filter(|owner| owner.deleting).map(|owner| owner.uid.clone()).collect()
    }
}

/// Owners are in the dependent's namespace or in none. A cluster-wide object cannot name one in a namespace, but deleting
/// it for that would be wrong: it counts as owned.
fn reaches(owner: &Item, dependent: &Item) -> bool {
    !owner.kind.namespaced || dependent.namespace.is_none() || owner.namespace == dependent.namespace
}
