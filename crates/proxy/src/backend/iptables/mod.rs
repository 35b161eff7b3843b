//! Plans as chains of iptables and ip6tables, under kube-proxy's names.
//!
//! Each Service port has chains of its own; shared chains have a line per frontend. A change rewrites the chains that are
//! different and no others, so an endpoint that comes or goes touches two or three. Which chains the kernel has is known from
//! what was written: nothing is read in steady state but a few chains now and then, to see that they are still there.
//!
//! `run` calls [`Backend::sync`]; the kernel is reached through [`Iptables`]. The rules outlive the process, and the next
//! one, or the first one after kube-proxy, replaces them table by table, each at one moment.

mod base;
mod chains;
mod count;
mod group;
mod lines;
mod names;
mod state;
mod trace;
mod write;

use super::{Backend, Done, Fixed, Result, RuleCount};
use crate::{plan::ServicePlan, track::Name};
use kernel::iptables::{Iptables, IptablesError, Table, Transaction, target, tcp_is_liberal};
use net::Family;
use std::{collections::BTreeMap, sync::Arc};

pub use trace::trace;

use base::Base;
use count::Counts;
use state::{Before, State};

/// What this mode alone is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IptablesOptions {
    /// Node ports are open at 127.0.0.1 too, where they are open at all addresses or that one is named.
    pub localhost_node_ports: bool,
    /// Forwarded packets that belong to no connection are dropped.
    pub drop_invalid: bool,
}

impl IptablesOptions {
    /// With what this machine's kernel is set to.
    #[must_use]
    pub fn of_machine(localhost_node_ports: bool) -> Self {
        Self { localhost_node_ports, drop_invalid: !tcp_is_liberal() }
    }
}

/// The chains of one family.
pub struct IptablesBackend {
    family: Family,
    iptables: Arc<dyn Iptables>,
    options: IptablesOptions,
    /// What the kernel has, or `None` when that is not known: at the start and after a failure.
    known: Option<Known>,
    /// After the last sync that went well.
    rules: Vec<RuleCount>,
}

/// What the kernel has.
struct Known {
    base: Base,
    state: State,
    counts: Counts,
}

impl IptablesBackend {
    /// Of a family; nothing is done yet.
    #[must_use]
    pub fn new(family: Family, iptables: Arc<dyn Iptables>, options: IptablesOptions) -> Self {
        Self { family, iptables, options, known: None, rules: Vec::new() }
    }

    fn change(
        &mut self,
        mut known: Known,
        plans: &mut dyn Iterator<Item = (Name, ServicePlan)>,
    ) -> Result<Done, IptablesError> {
        let mut before = Before::new();
        for (name, plan) in plans {
            known.state.set(&known.base, name, plan, &mut before);
        }
        let transaction = write::change(&known.base, &known.state, &before, &mut known.counts);
        let done = if transaction.is_empty() { Done::Nothing } else { Done::Partial };
        if done == Done::Partial {
            // After a failure nobody knows what the kernel has; `known` stays empty.
            self.iptables.commit(&transaction)?;
        }
        self.rules = known.counts.after(&transaction);
        self.known = Some(known);
        Ok(done)
    }

    fn replace(
        &mut self,
        fixed: &Fixed,
        plans: &mut dyn Iterator<Item = (Name, ServicePlan)>,
    ) -> Result<Done, IptablesError> {
        let base = Base { family: self.family, fixed: fixed.clone(), options: self.options };
        let mut state = State::default();
        for (name, plan) in plans {
            state.set(&base, name, plan, &mut Before::new());
        }
        if base.opens_loopback()
            && let Err(error) = self.iptables.route_loopback()
        {
            tracing::warn!(%error, "node ports will not answer at 127.0.0.1; set the sysctl, or --iptables-localhost-nodeports=false");
        }
        let mut there = BTreeMap::new();
        for table in Table::ALL {
            there.insert(table, self.iptables.save(self.family, table)?);
        }
        let mut counts = Counts::default();
        let transaction = write::everything(&base, &state, &there, &mut counts);
        if !transaction.is_empty() {
            self.iptables.commit(&transaction)?;
        }
        self.rules = counts.after(&transaction);
        self.known = Some(Known { base, state, counts });
        Ok(Done::Full)
    }
}

impl Backend for IptablesBackend {
    fn family(&self) -> Family {
        self.family
    }

    fn wants_everything(&self, fixed: &Fixed) -> bool {
        self.known.as_ref().is_none_or(|known| known.base.fixed != *fixed)
    }

    fn sync(&mut self, fixed: &Fixed, plans: &mut dyn Iterator<Item = (Name, ServicePlan)>) -> Result<Done> {
        match self.known.take() {
            Some(known) if known.base.fixed == *fixed => Ok(self.change(known, plans)?),
            _ => Ok(self.replace(fixed, plans)?),
        }
    }

    /// Looks for the canaries, which go when somebody replaces a table, and for the rules that lead to our chains, which go
    /// when somebody empties one. Chains of single Services are not looked at.
    fn check(&mut self) -> Result<bool> {
        let Some(known) = &self.known else { return Ok(false) };
        let rules = |table, chain| self.iptables.rules(self.family, table, chain);
        let mut intact = true;
        for table in Table::ALL {
            intact &= rules(table, names::CANARY)?.is_some();
            let mut hooks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (hook, rule) in known.base.jumps(table) {
                hooks.entry(hook).or_default().push(rule);
            }
            for (hook, wanted) in hooks {
                let there = rules(table, hook)?.unwrap_or_default();
                intact &= wanted.iter().all(|rule| there.iter().any(|there| target(there) == target(rule)));
            }
        }
        if !intact {
            self.known = None;
        }
        Ok(intact)
    }

    /// Nothing is left over: a chain goes in the change that ends its use.
    fn tidy(&mut self) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self) {
        self.known = None;
    }

    fn rules(&self) -> &[RuleCount] {
        &self.rules
    }
}

/// Removes our chains from both families' tables; says which families had some. Chains of the same names that kube-proxy
/// made stay: they are its own to clean up.
pub fn remove(iptables: &dyn Iptables) -> Result<Vec<Family>, IptablesError> {
    let mut removed = Vec::new();
    for family in Family::BOTH {
        let mut transaction = Transaction::new(family);
        for table in Table::ALL {
            let there = iptables.save(family, table)?;
            if there.contains_key(names::OWNER) {
                transaction.push(table, write::nothing(&there));
            }
        }
        if !transaction.is_empty() {
            iptables.commit(&transaction)?;
            removed.push(family);
        }
    }
    Ok(removed)
}

impl std::fmt::Debug for IptablesBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IptablesBackend").field("family", &self.family).field("known", &self.known.is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
