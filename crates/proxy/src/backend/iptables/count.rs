//! How many rules there are, for figures under kube-proxy's names.

use super::lines::Line;
use crate::backend::RuleCount;
use kernel::iptables::{Chains, Operation, Table, Transaction};
use std::collections::BTreeMap;

/// By table. Kept from change to change: counting anew would cost as much as writing everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(BTreeMap<Table, usize>);

impl Counts {
    /// All rules of these chains.
    pub(super) fn add(&mut self, table: Table, chains: &Chains) {
        *self.0.entry(table).or_default() += rules(chains);
    }

    /// A Service has other chains and lines than before.
    pub(super) fn change(&mut self, before: (&Chains, &[Line]), after: (&Chains, &[Line])) {
        for table in Table::ALL {
            let of = |(chains, lines): (&Chains, &[Line])| {
                let own = if table == Table::Nat { rules(chains) } else { 0 };
                own + lines.iter().filter(|(shared, _)| shared.table() == table).count()
            };
            let count = self.0.entry(table).or_default();
            *count = (*count + of(after)).saturating_sub(of(before));
        }
    }

    /// The figures after a change that was this.
    pub(super) fn after(&self, change: &Transaction) -> Vec<RuleCount> {
        let appended = |operation: &&Operation| matches!(operation, Operation::Append(..));
        let written = |table: Table| {
            let changes = change.tables.iter().filter(move |(of, _)| *of == table);
            changes.flat_map(|(_, operations)| operations.iter().filter(appended)).count()
        };
        let figure = |table: Table| RuleCount {
            table: table.name(),
            held: self.0.get(&table).copied().unwrap_or(0),
            written: written(table),
        };
        [Table::Filter, Table::Nat].map(figure).into()
    }
}

fn rules(chains: &Chains) -> usize {
    chains.values().map(Vec::len).sum()
}
