//! A transaction on one table, and its text for `nft -f -`.

use super::{Element, word};
use net::Family;
use std::fmt::Write;

/// A set has keys, a map has a value for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// Keys alone.
    Set,
    /// Keys and values.
    Map,
}

/// One step. Names and texts are trusted: callers make them from parsed values, never from text of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    AddTable,
    DeleteTable,
    AddChain { chain: String, hook: Option<&'static str> },
    FlushChain { chain: String },
    DeleteChain { chain: String },
    AddRule { chain: String, rule: String },
    AddSet { kind: SetKind, set: &'static str, definition: String },
    FlushSet { kind: SetKind, set: &'static str },
    AddElements { set: &'static str, elements: Vec<Element> },
    DeleteElements { set: &'static str, elements: Vec<Element> },
}

/// Steps on one table that take effect together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The family of the table.
    pub family: Family,
    /// Its name.
    pub table: &'static str,
    pub operations: Vec<Operation>,
}

impl Transaction {
    /// One that does nothing yet.
    #[must_use]
    pub fn new(family: Family, table: &'static str) -> Self {
        Self { family, table, operations: Vec::new() }
    }

    /// Whether it would do nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Adds a step.
    pub fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// The text for `nft -f -`: a command per line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for operation in &self.operations {
            self.write(operation, &mut text);
        }
        text
    }

    fn write(&self, operation: &Operation, text: &mut String) {
        let table = format!("{} {}", word(self.family), self.table);
        // Writing to a string does not fail.
        let _ = match operation {
            Operation::AddTable => writeln!(text, "add table {table}"),
            Operation::DeleteTable => writeln!(text, "delete table {table}"),
            Operation::AddChain { chain, hook: None } => writeln!(text, "add chain {table} {chain}"),
            Operation::AddChain { chain, hook: Some(hook) } => {
                writeln!(text, "add chain {table} {chain} {{ {hook}; policy accept; }}")
            }
            Operation::FlushChain { chain } => writeln!(text, "flush chain {table} {chain}"),
            Operation::DeleteChain { chain } => writeln!(text, "delete chain {table} {chain}"),
            Operation::AddRule { chain, rule } => writeln!(text, "add rule {table} {chain} {rule}"),
            Operation::AddSet { kind, set, definition } => {
                writeln!(text, "add {} {table} {set} {{ {definition}; }}", kind.word())
            }
            Operation::FlushSet { kind, set } => writeln!(text, "flush {} {table} {set}", kind.word()),
            Operation::AddElements { set, elements } => {
                write_elements(text, &format!("add element {table} {set}"), elements, Values::Shown)
            }
            Operation::DeleteElements { set, elements } => {
                write_elements(text, &format!("delete element {table} {set}"), elements, Values::Hidden)
            }
        };
    }
}

impl SetKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Map => "map",
        }
    }
}

/// A deletion names keys alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Shown,
    Hidden,
}

fn write_elements(text: &mut String, start: &str, elements: &[Element], values: Values) -> std::fmt::Result {
    // nft reads a line of any length, but people read errors.
    for some in elements.chunks(500) {
        write!(text, "{start} {{ ")?;
        for (at, element) in some.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match values {
                Values::Shown => write!(text, "{comma}{element}")?,
                Values::Hidden => write!(text, "{comma}{}", element.key_text())?,
            }
        }
        text.push_str(" }\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::{Part, Value};

    #[test]
    fn each_step_is_a_line_of_nft() {
        let mut transaction = Transaction::new(Family::V6, "t");
        let key = || {
            let key = vec![Part::Address("fd00::1".parse().unwrap()), Part::Tcp, Part::Port(80)];
            Element::pair(key, Value::Goto("pick".to_owned()))
        };
        for operation in [
            Operation::AddTable,
            Operation::AddSet { kind: SetKind::Map, set: "m", definition: "type x : verdict".to_owned() },
            Operation::FlushSet { kind: SetKind::Map, set: "m" },
            Operation::AddChain { chain: "pick".to_owned(), hook: None },
            Operation::AddChain { chain: "in".to_owned(), hook: Some("type nat hook output priority -100") },
            Operation::FlushChain { chain: "pick".to_owned() },
            Operation::AddRule { chain: "pick".to_owned(), rule: "drop".to_owned() },
            Operation::AddElements { set: "m", elements: vec![key(), key()] },
            Operation::DeleteElements { set: "m", elements: vec![key()] },
            Operation::DeleteChain { chain: "pick".to_owned() },
            Operation::DeleteTable,
        ] {
            transaction.push(operation);
        }
        assert_eq!(
            transaction.text(),
            "add table ip6 t\n\
             add map ip6 t m { type x : verdict; }\n\
             flush map ip6 t m\n\
             add chain ip6 t pick\n\
             add chain ip6 t in { type nat hook output priority -100; policy accept; }\n\
             flush chain ip6 t pick\n\
             add rule ip6 t pick drop\n\
             add element ip6 t m { fd00::1 . tcp . 80 : goto pick, fd00::1 . tcp . 80 : goto pick }\n\
             delete element ip6 t m { fd00::1 . tcp . 80 }\n\
             delete chain ip6 t pick\n\
             delete table ip6 t\n"
        );
    }
}
