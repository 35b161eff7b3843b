//! nftables in memory: keeps tables and refuses what the kernel would refuse. For tests and `--dry-run`.
//!
//! It checks references, not grammar: chains that rules and verdicts name, sets that rules name, elements that are there
//! twice or not at all, chains that are deleted while something still leads to them.

use super::{Chain, Element, Nft, NftError, Operation, Transaction, word};
use net::Family;
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write};

/// Tables in memory.
#[derive(Debug, Default)]
pub struct FakeNft {
    tables: Mutex<BTreeMap<(Family, String), Table>>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    chains: BTreeMap<String, Vec<String>>,
    sets: BTreeMap<&'static str, Set>,
}

#[derive(Clone, Debug)]
struct Set {
    definition: String,
    elements: BTreeMap<String, Option<String>>,
}

impl FakeNft {
    /// A table as text, in order of names; empty when it is not there.
    #[must_use]
    pub fn listing(&self, family: Family, table: &str) -> String {
        let tables = self.tables.lock();
        let Some(found) = tables.get(&(family, table.to_owned())) else { return String::new() };
        let mut text = format!("table {} {table}\n", word(family));
        for (name, set) in &found.sets {
            for (key, value) in &set.elements {
                // Writing to a string does not fail.
                let _ = match value {
                    Some(value) => writeln!(text, "  {name}: {key} : {value}"),
                    None => writeln!(text, "  {name}: {key}"),
                };
            }
        }
        for (name, rules) in &found.chains {
            let _ = writeln!(text, "  chain {name}");
            for rule in rules {
                let _ = writeln!(text, "    {rule}");
            }
        }
        text
    }

    /// Removes a table behind everyone's back, as `nft flush ruleset` does.
    pub fn lose(&self, family: Family, table: &str) {
        self.tables.lock().remove(&(family, table.to_owned()));
    }

    /// Removes the rules of a table, as `nft flush table` does.
    pub fn lose_rules(&self, family: Family, table: &str) {
        if let Some(table) = self.tables.lock().get_mut(&(family, table.to_owned())) {
            table.chains.values_mut().for_each(Vec::clear);
        }
    }
}

impl Nft for FakeNft {
    fn commit(&self, transaction: &Transaction) -> Result<(), NftError> {
        let mut tables = self.tables.lock();
        let key = (transaction.family, transaction.table.to_owned());
        let mut table = tables.get(&key).cloned();
        for operation in &transaction.operations {
            apply(&mut table, operation)
                .map_err(|why| NftError::Refused(format!("{why} (table {} {})", word(key.0), key.1)))?;
        }
        if let Some(table) = &table {
            dangling(table).map_err(NftError::Refused)?;
        }
        match table {
            Some(table) => tables.insert(key, table),
            None => tables.remove(&key),
        };
        Ok(())
    }

    fn chains(&self, family: Family, table: &str) -> Result<Option<Vec<Chain>>, NftError> {
        let tables = self.tables.lock();
        Ok(tables.get(&(family, table.to_owned())).map(|table| {
            let chain = |(name, rules): (&String, &Vec<String>)| Chain { name: name.clone(), rules: rules.len() };
            table.chains.iter().map(chain).collect()
        }))
    }
}

fn apply(slot: &mut Option<Table>, operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::AddTable => {
            slot.get_or_insert_default();
            return Ok(());
        }
        Operation::DeleteTable => return slot.take().map(drop).ok_or_else(|| "no such table".to_owned()),
        _ => {}
    }
    let table = slot.as_mut().ok_or("no such table")?;
    match operation {
        Operation::AddTable | Operation::DeleteTable => {}
        Operation::AddChain { chain, .. } => drop(table.chains.entry(chain.clone()).or_default()),
        Operation::FlushChain { chain } => table.chain(chain)?.clear(),
        Operation::DeleteChain { chain } => {
            if !table.chain(chain)?.is_empty() {
                return Err(format!("chain {chain} still has rules"));
            }
            table.chains.remove(chain);
        }
        Operation::AddRule { chain, rule } => table.chain(chain)?.push(rule.clone()),
        Operation::AddSet { set, definition, .. } => {
            let made = || Set { definition: definition.clone(), elements: BTreeMap::new() };
            let there = table.sets.entry(set).or_insert_with(made);
            if there.definition != *definition {
                return Err(format!("set {set} is there with another definition: {}", there.definition));
            }
        }
        Operation::FlushSet { set, .. } => table.set(set)?.elements.clear(),
        Operation::AddElements { set, elements } => {
            let there = table.set(set)?;
            for element in elements {
                let (key, value) = (element.key_text(), element.value.as_ref().map(ToString::to_string));
                let old = there.elements.insert(key.clone(), value.clone());
                if old.is_some_and(|old| old != value) {
                    return Err(format!("element {key} of {set} is there with another value"));
                }
            }
        }
        Operation::DeleteElements { set, elements } => {
            let there = table.set(set)?;
            for key in elements.iter().map(Element::key_text) {
                there.elements.remove(&key).ok_or_else(|| format!("element {key} of {set} is not there"))?;
            }
        }
    }
    Ok(())
}

impl Table {
    fn chain(&mut self, name: &str) -> Result<&mut Vec<String>, String> {
        self.chains.get_mut(name).ok_or_else(|| format!("no chain {name}"))
    }

    fn set(&mut self, name: &str) -> Result<&mut Set, String> {
        self.sets.get_mut(name).ok_or_else(|| format!("no set {name}"))
    }
}

/// What leads nowhere.
fn dangling(table: &Table) -> Result<(), String> {
    let rules = table.chains.values().flatten().map(String::as_str);
    let values = table.sets.values().flat_map(|set| set.elements.values()).flatten().map(String::as_str);
    for text in rules.chain(values) {
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            if matches!(word, "goto" | "jump") {
                let chain = words.next().unwrap_or_default();
                if !table.chains.contains_key(chain) {
                    return Err(format!("{text:?} leads to chain {chain}, which is not there"));
                }
            } else if let Some(set) = word.strip_prefix('@')
                && !table.sets.contains_key(set)
            {
                return Err(format!("{text:?} asks set {set}, which is not there"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::{Part, SetKind, Value};

    fn commit(nft: &FakeNft, operations: Vec<Operation>) -> Result<(), String> {
        let transaction = Transaction { family: Family::V4, table: "t", operations };
        nft.commit(&transaction).map_err(|error| error.to_string())
    }

    fn chain(name: &str) -> Operation {
        Operation::AddChain { chain: name.to_owned(), hook: None }
    }

    fn rule(chain: &str, rule: &str) -> Operation {
        Operation::AddRule { chain: chain.to_owned(), rule: rule.to_owned() }
    }

    fn map() -> Operation {
        Operation::AddSet { kind: SetKind::Map, set: "m", definition: "d".to_owned() }
    }

    fn element(value: &str) -> Operation {
        let value = Value::Goto(value.trim_start_matches("goto ").to_owned());
        Operation::AddElements { set: "m", elements: vec![Element::pair(vec![Part::Port(1)], value)] }
    }

    #[test]
    fn what_the_kernel_refuses_is_refused_and_changes_nothing() {
        let nft = FakeNft::default();
        commit(&nft, vec![Operation::AddTable, map(), chain("a"), chain("b"), rule("a", "goto b"), element("goto b")])
            .unwrap();
        let before = nft.listing(Family::V4, "t");
        for (operations, why) in [
            (vec![Operation::DeleteChain { chain: "a".to_owned() }], "still has rules"),
            (vec![Operation::DeleteChain { chain: "b".to_owned() }], "leads to chain b"),
            (vec![rule("a", "goto c")], "leads to chain c"),
            (vec![rule("a", "x @nowhere drop")], "asks set nowhere"),
            (vec![chain("c"), element("goto c")], "another value"),
            (
                vec![Operation::DeleteElements { set: "m", elements: vec![Element::key(vec![Part::Port(2)])] }],
                "is not there",
            ),
            (vec![Operation::FlushChain { chain: "x".to_owned() }], "no chain x"),
            (
                vec![Operation::AddSet { kind: SetKind::Set, set: "m", definition: "e".to_owned() }],
                "another definition",
            ),
        ] {
            let refused = commit(&nft, operations).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert_eq!(nft.listing(Family::V4, "t"), before);
        }
        commit(&nft, vec![Operation::DeleteTable]).unwrap();
        assert_eq!(nft.chains(Family::V4, "t").unwrap(), None);
    }
}
