//! What to tell the kernel: only what changed, or the whole table.

use super::{
    Fixed, Known,
    chains::{self, Pick},
    compile::{self, Element, Verdict},
    schema::{self, TABLE},
    state::{SharedElement, State, Touched},
};
use kernel::nft::{self, Chain, Operation, Part, Transaction};
use net::Family;
use std::collections::{BTreeMap, BTreeSet, HashSet};

type Entries = BTreeMap<&'static str, Vec<nft::Element>>;

/// Writes what `touched` says has changed, and takes note of the chains it makes.
pub(super) fn change(known: &mut Known, touched: &Touched, transaction: &mut Transaction) {
    let family = transaction.family;
    let mark = schema::mark(&known.fixed);
    let (mut added, mut removed) = (Entries::new(), Entries::new());
    let mut needed = BTreeSet::new();
    for (frontend, before) in &touched.frontends {
        let elements = |route| compile::elements(route).into_iter().collect::<HashSet<Element>>();
        let before = before.as_deref().map(elements).unwrap_or_default();
        let now = known.state.route(*frontend).map(|route| elements(route)).unwrap_or_default();
        before.difference(&now).for_each(|element| put(&mut removed, element.entry()));
        for element in now.difference(&before) {
            needed.extend(pick(element));
            put(&mut added, element.entry());
        }
    }
    for (shared, was_there) in &touched.shared {
        match (*was_there, known.state.has(*shared)) {
            (false, true) => put(&mut added, shared.entry()),
            (true, false) => put(&mut removed, shared.entry()),
            _ => {}
        }
    }
    for pick in needed {
        if known.picks.insert(pick) {
            chain(transaction, &pick.to_string(), &pick.rules(family, &mark));
        }
    }
    sticky(known, touched, &mark, transaction);
    for (set, elements) in removed {
        transaction.push(Operation::DeleteElements { set, elements: sorted(elements) });
    }
    for (set, elements) in added {
        transaction.push(Operation::AddElements { set, elements: sorted(elements) });
    }
    // Only after nothing leads to them any more.
    let gone = touched.sticky.iter().filter(|(_, now)| now.is_none()).map(|(id, _)| *id);
    for id in gone.filter(|id| known.sticky.remove(id).is_some()).collect::<Vec<_>>() {
        for chain in [chains::masquerade_sticky(id), chains::sticky(id)] {
            transaction.push(Operation::FlushChain { chain: chain.clone() });
            known.stale.push(chain);
        }
    }
}

/// Chains of pools with affinity that are new or have other endpoints.
fn sticky(known: &mut Known, touched: &Touched, mark: &str, transaction: &mut Transaction) {
    for (id, pool) in &touched.sticky {
        let Some(pool) = pool else { continue };
        let before = known.sticky.insert(*id, pool.clone());
        if before.as_ref() == Some(pool) {
            continue;
        }
        let (own, masquerade) = (chains::sticky(*id), chains::masquerade_sticky(*id));
        known.stale.retain(|stale| *stale != own && *stale != masquerade);
        chain(transaction, &own, &chains::sticky_rules(transaction.family, pool));
        chain(transaction, &masquerade, &[mark.to_owned(), format!("goto {own}")]);
    }
}

/// A chain with exactly these rules.
fn chain(transaction: &mut Transaction, name: &str, rules: &[String]) {
    transaction.push(Operation::AddChain { chain: name.to_owned(), hook: None });
    transaction.push(Operation::FlushChain { chain: name.to_owned() });
    for rule in rules {
        transaction.push(Operation::AddRule { chain: name.to_owned(), rule: rule.clone() });
    }
}

/// The whole table in place of the one that is there, whose chains are `there`; who is with which endpoint is kept.
pub(super) fn adopt(family: Family, known: &Known, there: &[Chain]) -> Transaction {
    let mut transaction = Transaction::new(family, TABLE);
    let sets = schema::sets(family);
    transaction.push(Operation::AddTable);
    for (kind, set, definition) in &sets {
        transaction.push(Operation::AddSet { kind: *kind, set, definition: definition.clone() });
    }
    for chain in there {
        transaction.push(Operation::FlushChain { chain: chain.name.clone() });
    }
    for (kind, set, _) in sets.iter().filter(|(_, set, _)| *set != schema::AFFINITY && !there.is_empty()) {
        transaction.push(Operation::FlushSet { kind: *kind, set });
    }
    let chains = fill(family, known, &mut transaction);
    for old in there.iter().filter(|old| !chains.contains(&old.name)) {
        transaction.push(Operation::DeleteChain { chain: old.name.clone() });
    }
    transaction
}

/// The whole table, whatever was there before.
pub(super) fn anew(family: Family, known: &Known) -> Transaction {
    let mut transaction = Transaction::new(family, TABLE);
    // Adding first makes deleting right in any case.
    transaction.push(Operation::AddTable);
    transaction.push(Operation::DeleteTable);
    transaction.operations.extend(adopt(family, known, &[]).operations);
    transaction
}

/// Chains, rules and elements; the answer is the names of the chains.
fn fill(family: Family, known: &Known, transaction: &mut Transaction) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (chain, hook) in schema::HOOKS {
        names.insert((*chain).to_owned());
        transaction.push(Operation::AddChain { chain: (*chain).to_owned(), hook: Some(hook) });
    }
    let rules = known.rules(family);
    for chain in rules.keys().filter(|chain| !schema::HOOKS.iter().any(|(hook, _)| hook == chain)) {
        names.insert(chain.clone());
        transaction.push(Operation::AddChain { chain: chain.clone(), hook: None });
    }
    for (chain, rules) in rules {
        transaction.operations.extend(rules.into_iter().map(|rule| Operation::AddRule { chain: chain.clone(), rule }));
    }
    let mut entries = Entries::new();
    for cidr in schema::node_addresses(family, &known.fixed) {
        put(&mut entries, (schema::NODE_ADDRESSES, nft::Element::key(vec![Part::Block(cidr)])));
    }
    known.state.shared().for_each(|shared| put(&mut entries, shared.entry()));
    for route in known.state.routes() {
        compile::elements(route).iter().for_each(|element| put(&mut entries, element.entry()));
    }
    for (set, elements) in entries {
        transaction.push(Operation::AddElements { set, elements: sorted(elements) });
    }
    names
}

impl Known {
    /// What the kernel will have once `state` is written to it as a whole.
    pub(super) fn all(fixed: Fixed, state: State) -> Self {
        let picks = state.routes().flat_map(|route| compile::elements(route)).filter_map(|e| pick(&e)).collect();
        let sticky = state.sticky().map(|(id, pool)| (id, pool.clone())).collect();
        Self { fixed, picks, sticky, stale: Vec::new(), state }
    }

    /// Every chain with its rules.
    pub(super) fn rules(&self, family: Family) -> BTreeMap<String, Vec<String>> {
        let mark = schema::mark(&self.fixed);
        let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (chain, rule) in schema::rules(family, &self.fixed) {
            rules.entry(chain.to_owned()).or_default().push(rule);
        }
        rules.extend(self.picks.iter().map(|pick| (pick.to_string(), pick.rules(family, &mark))));
        for (id, pool) in &self.sticky {
            rules.insert(chains::sticky(*id), chains::sticky_rules(family, pool));
            let chain = vec![mark.clone(), format!("goto {}", chains::sticky(*id))];
            rules.insert(chains::masquerade_sticky(*id), chain);
        }
        rules
    }
}

fn pick(element: &Element) -> Option<Pick> {
    match element {
        Element::MapEntry { verdict: Verdict::Pick(pick), .. } => Some(*pick),
        _ => None,
    }
}

fn put(entries: &mut Entries, (set, element): (&'static str, nft::Element)) {
    entries.entry(set).or_default().push(element);
}

/// The same change is always the same text.
fn sorted(mut elements: Vec<nft::Element>) -> Vec<nft::Element> {
    elements.sort_unstable();
    elements
}

impl SharedElement {
    fn entry(self) -> (&'static str, nft::Element) {
        match self {
            Self::ClusterIp(ip) => (schema::CLUSTER_IPS, nft::Element::key(vec![Part::Address(ip)])),
            Self::Hairpin(ip) => (schema::HAIRPINS, nft::Element::key(vec![Part::Address(ip); 2])),
        }
    }
}
