//! What to tell iptables: only what changed, or everything in place of what is there.

use super::{
    base::Base,
    chains,
    count::Counts,
    group,
    lines::{Line, SharedChain},
    names,
    state::{Before, Held, State},
};
use crate::{plan::ServicePlan, track::Name};
use kernel::iptables::{Chains, Operation, Table, Transaction, target};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Writes what is different from `before`, and counts it.
///
/// What leads nowhere is refused in filter, and what leads somewhere is translated in nat, before filter sees it. At no moment may
/// a packet find neither: it would be let through, and the kernel would remember the flow as one without translation. So new
/// refusals come before the change of nat, and old ones go after it.
pub(super) fn change(base: &Base, state: &State, before: &Before, counts: &mut Counts) -> Transaction {
    let none = Held::default();
    let (mut old, mut new) = (Chains::new(), Chains::new());
    let mut changed: BTreeMap<SharedChain, Difference> = BTreeMap::new();
    for (name, was) in before {
        let now = state.get(name).unwrap_or(&none);
        let (old_chains, new_chains) = (own_chains(base, name, &was.plan), own_chains(base, name, &now.plan));
        counts.change((&old_chains, &was.lines), (&new_chains, &now.lines));
        old.extend(old_chains);
        new.extend(new_chains);
        let (had, has): (HashSet<&Line>, HashSet<&Line>) = (was.lines.iter().collect(), now.lines.iter().collect());
        for (shared, rule) in was.lines.iter().filter(|line| !has.contains(line)) {
            changed.entry(*shared).or_default().gone.push(rule.clone());
        }
        for (shared, _) in now.lines.iter().filter(|line| !had.contains(line)) {
            changed.entry(*shared).or_default().more = true;
        }
    }
    let stale: Vec<String> = old.keys().filter(|chain| !new.contains_key(*chain)).cloned().collect();
    new.retain(|chain, rules| old.get(chain) != Some(rules));
    let (mut nat, mut closing, mut opening) = (new, Chains::new(), Chains::new());
    for (shared, Difference { more, gone }) in changed {
        let rules = shared_rules(base, state, shared);
        let chain = shared.chain().to_owned();
        match (shared.table(), more, gone.is_empty()) {
            (Table::Nat | Table::Mangle, ..) => drop(nat.insert(chain, rules)),
            (Table::Filter, _, true) => drop(closing.insert(chain, rules)),
            (Table::Filter, false, false) => drop(opening.insert(chain, rules)),
            (Table::Filter, true, false) => {
                closing.insert(chain.clone(), rules.iter().cloned().chain(gone).collect());
                opening.insert(chain, rules);
            }
        }
    }
    let mut transaction = Transaction::new(base.family);
    for (table, chains, stale) in
        [(Table::Filter, closing, &[][..]), (Table::Nat, nat, &stale[..]), (Table::Filter, opening, &[])]
    {
        let mut operations = emptied(chains.keys().chain(stale));
        operations.extend(filled(&chains));
        operations.extend(stale.iter().cloned().map(Operation::DeleteChain));
        transaction.push(table, operations);
    }
    transaction
}

/// What is different in a shared chain.
#[derive(Default)]
struct Difference {
    /// There are lines that were not there.
    more: bool,
    /// Lines that are there no more.
    gone: Vec<String>,
}

/// Makes everything true in place of what `there` has of ours, or of kube-proxy's. Each table changes at one moment. A chain
/// that is there as it should be is left alone: the kernel is slow with many chains in one change.
pub(super) fn everything(
    base: &Base,
    state: &State,
    there: &BTreeMap<Table, Chains>,
    counts: &mut Counts,
) -> Transaction {
    let none = Chains::new();
    let mut transaction = Transaction::new(base.family);
    for table in Table::ALL {
        let there = there.get(&table).unwrap_or(&none);
        let mut chains = all_chains(base, state, table);
        counts.add(table, &chains);
        let stale: Vec<&String> = ours(there).filter(|chain| !chains.contains_key(*chain)).collect();
        chains.retain(|chain, rules| there.get(chain) != Some(rules));
        let mut operations = emptied(chains.keys().chain(stale.iter().copied()));
        operations.extend(jumps(base, table, there));
        operations.extend(filled(&chains));
        let needed = needed_by_others(there);
        let gone = stale.into_iter().filter(|chain| !needed.contains(chain.as_str()));
        operations.extend(gone.cloned().map(Operation::DeleteChain));
        transaction.push(table, operations);
    }
    transaction
}

/// Removes what is ours from a table.
pub(super) fn nothing(there: &Chains) -> Vec<Operation> {
    let needed = needed_by_others(there);
    // What others need stays; it is emptied only where it leads to what goes.
    let stays = |chain: &str| {
        let leads_on = |rule: &String| target(rule).is_some_and(names::is_ours);
        needed.contains(chain) && !there.get(chain).is_some_and(|rules| rules.iter().any(leads_on))
    };
    let mut operations: Vec<Operation> = hook_rules(there).map(|(hook, rule)| delete(hook, rule)).collect();
    operations.extend(emptied(ours(there).filter(|chain| !stays(chain))));
    operations
        .extend(ours(there).filter(|chain| !needed.contains(chain.as_str())).cloned().map(Operation::DeleteChain));
    operations
}

fn all_chains(base: &Base, state: &State, table: Table) -> Chains {
    let mut chains: Chains = base.chains(table).into_iter().map(|(chain, rules)| (chain.to_owned(), rules)).collect();
    for shared in SharedChain::ALL.into_iter().filter(|shared| shared.table() == table) {
        chains.insert(shared.chain().to_owned(), shared_rules(base, state, shared));
    }
    if table == Table::Nat {
        for (name, held) in state.iter() {
            chains.extend(own_chains(base, name, &held.plan));
        }
    }
    chains
}

fn own_chains(base: &Base, name: &Name, plan: &ServicePlan) -> Chains {
    group::groups(name, &plan.routes).iter().flat_map(|group| chains::chains(&base.fixed, group)).collect()
}

fn shared_rules(base: &Base, state: &State, shared: SharedChain) -> Vec<String> {
    let mut rules = base.head(shared);
    let lines = state.iter().flat_map(|(_, held)| &held.lines);
    rules.extend(lines.filter(|(at, _)| *at == shared).map(|(_, rule)| rule.clone()));
    rules.extend(base.tail(shared));
    rules
}

/// Puts the rules of the kernel's chains right: those that are missing come first, those of other versions go.
fn jumps(base: &Base, table: Table, there: &Chains) -> Vec<Operation> {
    let mut missing = base.jumps(table);
    let mut operations = Vec::new();
    for (hook, rule) in hook_rules(there) {
        match missing.iter().position(|(at, wanted)| at == hook && wanted == rule) {
            Some(found) => drop(missing.remove(found)),
            None => operations.push(delete(hook, rule)),
        }
    }
    let insert = |(hook, rule): (&str, String)| Operation::Insert(hook.to_owned(), rule);
    operations.extend(missing.into_iter().rev().map(insert));
    operations
}

fn delete(hook: &str, rule: &str) -> Operation {
    Operation::Delete(hook.to_owned(), rule.to_owned())
}

/// Rules of chains that are not ours and lead to ours. In the kernel's chains these are a proxy's.
fn hook_rules(there: &Chains) -> impl Iterator<Item = (&String, &String)> {
    foreign_rules(there).filter(|(chain, _)| is_hook(chain))
}

fn foreign_rules(there: &Chains) -> impl Iterator<Item = (&String, &String)> {
    let foreign = there.iter().filter(|(chain, _)| !names::is_ours(chain));
    let rules = foreign.flat_map(|(chain, rules)| rules.iter().map(move |rule| (chain, rule)));
    rules.filter(|(_, rule)| target(rule).is_some_and(names::is_ours))
}

fn needed_by_others(there: &Chains) -> BTreeSet<&str> {
    foreign_rules(there).filter(|(chain, _)| !is_hook(chain)).filter_map(|(_, rule)| target(rule)).collect()
}

fn is_hook(chain: &str) -> bool {
    Table::Mangle.hooks().contains(&chain)
}

fn ours(there: &Chains) -> impl Iterator<Item = &String> {
    there.keys().filter(|chain| names::is_ours(chain))
}

fn emptied<'a>(chains: impl Iterator<Item = &'a String>) -> Vec<Operation> {
    chains.cloned().map(Operation::Chain).collect()
}

fn filled(chains: &Chains) -> impl Iterator<Item = Operation> {
    let rules = chains.iter().flat_map(|(chain, rules)| rules.iter().map(move |rule| (chain, rule)));
    rules.map(|(chain, rule)| Operation::Append(chain.clone(), rule.clone()))
}
