//! Plans as one nftables table per family, changed by elements alone.
//!
//! Chains exist per *number* of endpoints, not per Service; everything else is elements of named maps. So neither a packet
//! nor a change costs more in a large cluster: a change is the elements of the Services that changed. Only a Service with
//! session affinity has a chain of its own.
//!
//! `run` calls [`Backend::sync`]; the kernel is reached through [`Nft`]. The table outlives the process, and the next
//! one takes it over in one transaction: at no moment are there no rules.

mod chains;
mod compile;
mod schema;
mod state;
mod trace;
mod write;

use super::{Backend, Done, Fixed, Result};
use crate::{
    plan::{Pool, ServicePlan},
    track::Name,
};
use kernel::nft::{Nft, NftError, Operation, Transaction};
use net::Family;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use schema::TABLE;
pub use trace::trace;

use state::{State, Touched};

/// The table of one family.
pub struct NftBackend {
    family: Family,
    nft: Arc<dyn Nft>,
    /// What the kernel has, or `None` when that is not known: at the start and after a failure.
    known: Option<Known>,
}

/// What the kernel has.
struct Known {
    fixed: Fixed,
    state: State,
    /// Chains per number of endpoints; kept, for the next Service with as many.
    picks: BTreeSet<chains::Pick>,
    /// Chains of Services with affinity.
    sticky: BTreeMap<u64, Pool>,
    /// Chains that nothing leads to any more. Removed later: kernels before 6.2 count references until they have cleaned up.
    stale: Vec<String>,
}

impl NftBackend {
    /// Of a family; nothing is done yet.
    #[must_use]
    pub fn new(family: Family, nft: Arc<dyn Nft>) -> Self {
        Self { family, nft, known: None }
    }

    fn change(
        &mut self,
        mut known: Known,
        plans: impl IntoIterator<Item = (Name, ServicePlan)>,
    ) -> Result<Done, NftError> {
        let mut touched = Touched::default();
        for (name, plan) in plans {
            known.state.set(name, plan, &mut touched);
        }
        let mut transaction = Transaction::new(self.family, TABLE);
        write::change(&mut known, &touched, &mut transaction);
        if transaction.is_empty() {
            self.known = Some(known);
            return Ok(Done::Nothing);
        }
        // After a failure nobody knows what the kernel has; `known` stays empty.
        self.nft.commit(&transaction)?;
        self.known = Some(known);
        Ok(Done::Partial)
    }

    fn replace(
        &mut self,
        fixed: &Fixed,
        plans: impl IntoIterator<Item = (Name, ServicePlan)>,
    ) -> Result<Done, NftError> {
        let mut state = State::default();
        for (name, plan) in plans {
            state.set(name, plan, &mut Touched::default());
        }
        let known = Known::all(fixed.clone(), state);
        let there = self.nft.chains(self.family, TABLE)?;
        let adopt = write::adopt(self.family, &known, &there.unwrap_or_default());
        if let Err(error) = self.nft.commit(&adopt) {
            // A table of another version, or one that somebody changed.
            tracing::warn!(family = %self.family, %error, "cannot take over the nftables table; making it anew");
            self.nft.commit(&write::anew(self.family, &known))?;
        }
        self.known = Some(known);
        Ok(Done::Full)
    }
}

impl Backend for NftBackend {
    fn family(&self) -> Family {
        self.family
    }

    fn wants_everything(&self, fixed: &Fixed) -> bool {
        self.known.as_ref().is_none_or(|known| known.fixed != *fixed)
    }

    fn sync(&mut self, fixed: &Fixed, plans: &mut dyn Iterator<Item = (Name, ServicePlan)>) -> Result<Done> {
        match self.known.take() {
            Some(known) if known.fixed == *fixed => Ok(self.change(known, plans)?),
            _ => Ok(self.replace(fixed, plans)?),
        }
    }

    /// Looks whether the chains have as many rules as they were left with.
    fn check(&mut self) -> Result<bool> {
        let Some(known) = &self.known else { return Ok(false) };
        let there = self.nft.chains(self.family, TABLE)?.unwrap_or_default();
        let there: BTreeMap<&str, usize> = there.iter().map(|chain| (chain.name.as_str(), chain.rules)).collect();
        let intact = known.rules(self.family).iter().all(|(chain, rules)| there.get(&**chain) == Some(&rules.len()));
        if !intact {
            self.known = None;
        }
        Ok(intact)
    }

    /// Removes chains that nothing leads to any more.
    fn tidy(&mut self) -> Result<()> {
        let Some(known) = &mut self.known else { return Ok(()) };
        if known.stale.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::new(self.family, TABLE);
        for chain in std::mem::take(&mut known.stale) {
            transaction.push(Operation::DeleteChain { chain });
        }
        let done = self.nft.commit(&transaction);
        if done.is_err() {
            self.known = None;
        }
        Ok(done?)
    }

    fn forget(&mut self) {
        self.known = None;
    }
}

/// Removes the tables of both families; says which were there.
pub fn remove(nft: &dyn Nft) -> Result<Vec<Family>, NftError> {
    let mut removed = Vec::new();
    for family in Family::BOTH {
        if nft.chains(family, TABLE)?.is_some() {
            let operations = vec![Operation::DeleteTable];
            nft.commit(&Transaction { family, table: TABLE, operations })?;
            removed.push(family);
        }
    }
    Ok(removed)
}

impl std::fmt::Debug for NftBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NftBackend").field("family", &self.family).field("known", &self.known.is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
