//! iptables in memory: keeps tables and refuses what the kernel would refuse. For tests and `--dry-run`.
//!
//! It checks references, not grammar: chains that are not there, rules that lead nowhere, chains that are deleted while
//! something leads to them or is in them.

use super::{Chains, Iptables, IptablesError, Operation, Table, Transaction, saved::target};
use net::Family;
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write};

/// Tables in memory.
#[derive(Debug, Default)]
pub struct FakeIptables {
    tables: Mutex<BTreeMap<(Family, Table), Chains>>,
    failures: Mutex<Vec<Table>>,
    routes_loopback: Mutex<bool>,
}

impl FakeIptables {
    /// The tables of a family as text, in order of names.
    #[must_use]
    pub fn listing(&self, family: Family) -> String {
        let tables = self.tables.lock();
        let mut text = String::new();
        for ((_, table), chains) in tables.iter().filter(|((of, _), _)| *of == family) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "*{table}");
            for (chain, rules) in chains {
                let _ = writeln!(text, ":{chain}");
                for rule in rules {
                    let _ = writeln!(text, "-A {chain} {rule}");
                }
            }
        }
        text
    }

    /// Removes everything from a table behind everyone's back, as a firewall that loads its own rules does.
    pub fn lose(&self, family: Family, table: Table) {
        self.tables.lock().remove(&(family, table));
    }

    /// Removes the rules of a table, as `iptables -F` does.
    pub fn lose_rules(&self, family: Family, table: Table) {
        if let Some(chains) = self.tables.lock().get_mut(&(family, table)) {
            chains.values_mut().for_each(Vec::clear);
        }
    }

    /// The next change of this table fails; tables before it are changed.
    pub fn fail_at(&self, table: Table) {
        self.failures.lock().push(table);
    }

    /// Whether packets of loopback addresses are routed.
    pub fn routes_loopback(&self) -> bool {
        *self.routes_loopback.lock()
    }
}

impl Iptables for FakeIptables {
    fn commit(&self, transaction: &Transaction) -> Result<(), IptablesError> {
        transaction.text()?;
        for (table, operations) in &transaction.tables {
            let mut failures = self.failures.lock();
            if let Some(at) = failures.iter().position(|failing| failing == table) {
                failures.remove(at);
                return Err(IptablesError::Refused(format!("told to fail at table {table}")));
            }
            let mut tables = self.tables.lock();
            let slot = tables.entry((transaction.family, *table)).or_insert_with(|| empty(*table));
            let mut chains = slot.clone();
            for operation in operations {
                apply(*table, &mut chains, operation)
                    .map_err(|why| IptablesError::Refused(format!("{operation}: {why} (table {table})")))?;
            }
            *slot = chains;
        }
        Ok(())
    }

    fn save(&self, family: Family, table: Table) -> Result<Chains, IptablesError> {
        Ok(self.tables.lock().get(&(family, table)).cloned().unwrap_or_default())
    }

    fn rules(&self, family: Family, table: Table, chain: &str) -> Result<Option<Vec<String>>, IptablesError> {
        Ok(self.save(family, table)?.remove(chain))
    }

    fn route_loopback(&self) -> Result<(), IptablesError> {
        *self.routes_loopback.lock() = true;
        Ok(())
    }
}

fn empty(table: Table) -> Chains {
    table.hooks().iter().map(|hook| ((*hook).to_owned(), Vec::new())).collect()
}

fn apply(table: Table, chains: &mut Chains, operation: &Operation) -> Result<(), String> {
    let missing = |chain: &str| format!("there is no chain {chain}");
    match operation {
        Operation::Chain(chain) => chains.entry(chain.clone()).or_default().clear(),
        Operation::Append(chain, rule) | Operation::Insert(chain, rule) => {
            // Chains of users have a dash in their name here; verdicts and extensions have none.
            if let Some(target) = target(rule).filter(|target| target.contains('-') && !chains.contains_key(*target)) {
                return Err(missing(target));
            }
            let rules = chains.get_mut(chain).ok_or_else(|| missing(chain))?;
            let at = if matches!(operation, Operation::Insert(..)) { 0 } else { rules.len() };
            rules.insert(at, rule.clone());
        }
        Operation::Delete(chain, rule) => {
            let rules = chains.get_mut(chain).ok_or_else(|| missing(chain))?;
            let at = rules.iter().position(|there| there == rule).ok_or("there is no such rule")?;
            rules.remove(at);
        }
        Operation::DeleteChain(chain) => {
            let rules = chains.get(chain).ok_or_else(|| missing(chain))?;
            if !rules.is_empty() {
                return Err("it still has rules".to_owned());
            }
            if table.hooks().contains(&&**chain) {
                return Err("the kernel calls it".to_owned());
            }
            let from = chains.iter().find(|(_, rules)| rules.iter().any(|rule| target(rule) == Some(chain)));
            if let Some((from, _)) = from {
                return Err(format!("chain {from} leads to it"));
            }
            chains.remove(chain);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(iptables: &FakeIptables, operations: Vec<Operation>) -> Result<(), String> {
        let mut transaction = Transaction::new(Family::V6);
        transaction.push(Table::Nat, operations);
        iptables.commit(&transaction).map_err(|error| error.to_string())
    }

    fn chain(name: &str) -> Operation {
        Operation::Chain(name.to_owned())
    }

    fn append(chain: &str, rule: &str) -> Operation {
        Operation::Append(chain.to_owned(), rule.to_owned())
    }

    #[test]
    fn what_the_kernel_refuses_is_refused_and_changes_nothing() {
        let iptables = FakeIptables::default();
        let start = vec![chain("K-A"), chain("K-B"), append("K-A", "-p tcp -j K-B"), append("OUTPUT", "-j K-A")];
        commit(&iptables, start).unwrap();
        let before = iptables.listing(Family::V6);
        for (operation, why) in [
            (Operation::DeleteChain("K-A".to_owned()), "still has rules"),
            (Operation::DeleteChain("K-B".to_owned()), "chain K-A leads to it"),
            (Operation::DeleteChain("OUTPUT".to_owned()), "still has rules"),
            (Operation::DeleteChain("INPUT".to_owned()), "the kernel calls it"),
            (Operation::DeleteChain("K-C".to_owned()), "no chain K-C"),
            (append("K-A", "-j K-C"), "no chain K-C"),
            (append("K-C", "-j DROP"), "no chain K-C"),
            (Operation::Delete("K-A".to_owned(), "-j K-B".to_owned()), "no such rule"),
        ] {
            let refused = commit(&iptables, vec![chain("K-D"), operation]).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert_eq!(iptables.listing(Family::V6), before);
        }
        commit(&iptables, vec![chain("K-A"), Operation::DeleteChain("K-B".to_owned())]).unwrap();
        assert_eq!(iptables.rules(Family::V6, Table::Nat, "K-A").unwrap(), Some(vec![]));
        assert_eq!(iptables.rules(Family::V6, Table::Nat, "K-B").unwrap(), None);
        assert_eq!(iptables.save(Family::V4, Table::Nat).unwrap(), Chains::new());
    }
}
