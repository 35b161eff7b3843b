//! Steps on tables of one family, and their text for `iptables-restore --noflush`.

use super::IptablesError;
use net::Family;
use std::fmt::{self, Write};

/// A table of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Mangle,
    Filter,
    Nat,
}

impl Table {
    /// Those that are used here, in the order in which they are changed.
    pub const ALL: [Self; 3] = [Self::Mangle, Self::Filter, Self::Nat];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mangle => "mangle",
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }

    /// The chains that the kernel calls. They are always there.
    #[must_use]
    pub const fn hooks(self) -> &'static [&'static str] {
        match self {
            Self::Mangle => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
            Self::Filter => &["INPUT", "FORWARD", "OUTPUT"],
            Self::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One step in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes a chain, or empties the one that is there. A chain is made before rules lead to it.
    Chain(String),
    /// Adds a rule at the end of a chain.
    Append(String, String),
    /// Adds a rule at the beginning of a chain.
    Insert(String, String),
    /// Deletes a rule, in the words of `iptables-save`.
    Delete(String, String),
    /// Deletes an empty chain that nothing leads to.
    DeleteChain(String),
}

/// Steps on the tables of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// iptables or ip6tables.
    pub family: Family,
    pub tables: Vec<(Table, Vec<Operation>)>,
}

impl Transaction {
    /// One that does nothing yet.
    #[must_use]
    pub const fn new(family: Family) -> Self {
        Self { family, tables: Vec::new() }
    }

    /// Adds steps in a table; none is no table.
    pub fn push(&mut self, table: Table, operations: Vec<Operation>) {
        if !operations.is_empty() {
            self.tables.push((table, operations));
        }
    }

    /// Whether it would do nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// What `iptables-restore --noflush` reads. A step that would become two lines is refused.
    pub fn text(&self) -> Result<String, IptablesError> {
        let mut text = String::new();
        for (table, operations) in &self.tables {
            // Writing to a string does not fail.
            let _ = writeln!(text, "*{table}");
            for operation in operations {
                let line = operation.to_string();
                if line.chars().any(char::is_control) {
                    return Err(IptablesError::Text(line));
                }
                text.push_str(&line);
                text.push('\n');
            }
            text.push_str("COMMIT\n");
        }
        Ok(text)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(chain) => write!(f, ":{chain} - [0:0]"),
            Self::Append(chain, rule) => write!(f, "-A {chain} {rule}"),
            Self::Insert(chain, rule) => write!(f, "-I {chain} {rule}"),
            Self::Delete(chain, rule) => write!(f, "-D {chain} {rule}"),
            Self::DeleteChain(chain) => write!(f, "-X {chain}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_lines_between_the_table_and_commit() {
        let mut transaction = Transaction::new(Family::V6);
        transaction.push(Table::Mangle, vec![]);
        assert!(transaction.is_empty());
        let (a, rule) = ("A".to_owned(), "-j B".to_owned());
        transaction.push(
            Table::Nat,
            vec![
                Operation::Chain(a.clone()),
                Operation::Append(a.clone(), rule.clone()),
                Operation::Insert(a.clone(), rule.clone()),
                Operation::Delete(a.clone(), rule),
                Operation::DeleteChain(a.clone()),
            ],
        );
        let text = "*nat\n:A - [0:0]\n-A A -j B\n-I A -j B\n-D A -j B\n-X A\nCOMMIT\n";
        assert_eq!(transaction.text().unwrap(), text);
        transaction.push(Table::Filter, vec![Operation::Append(a, "-j B\n-F".to_owned())]);
        assert!(transaction.text().unwrap_err().to_string().contains("not one line"));
    }
}
