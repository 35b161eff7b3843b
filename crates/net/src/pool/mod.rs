//! Pools: who has which address, port or block. One generic pool over three spaces.
//!
//! Called where objects are written (Service addresses and node ports) and by node IPAM (node CIDRs). A pool lives in
//! memory only: it is filled from the objects at start and compared with them from time to time ([`Pool::repair`]).

mod audit;
mod node_cidrs;
mod node_ports;
mod order;
mod reservation;
mod runs;
mod service_ips;
mod snapshot;
mod space;
mod state;

use crate::{dual_stack::HasFamily, family::Family};
use order::Order;
use state::{Busy, State};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use audit::Audit;
pub use node_cidrs::NodeCidrPool;
pub use node_ports::NodePortPool;
pub use reservation::Reservation;
pub use service_ips::ServiceIpPool;
pub use snapshot::{RestoreError, Snapshot};
pub use space::{ReserveError, Space, Span};

/// The state behind every handle and guard of one pool.
#[derive(Clone, Debug)]
struct PoolState(Arc<Mutex<State>>);

impl PoolState {
    /// A thread that panicked while it held the lock left whole runs behind: no step between two of them can panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands out the items of a space, each to one holder at a time. Clones are handles to the same pool.
///
/// At any moment `used() + free() + withheld()` is the size of the space; what is reserved counts as used.
#[derive(Clone, Debug)]
pub struct Pool<S> {
    space: S,
    shared: PoolState,
}

impl<S: Space> Pool<S> {
    fn with_order(space: S, order: Order) -> Self {
        Self { space, shared: PoolState(Arc::new(Mutex::new(State::new(order)))) }
    }

    /// What is handed out.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// Reserves any free item.
    pub fn reserve_any(&self) -> Result<Reservation<S::Item>, ReserveError<S::Item>> {
        let taken = self.shared.lock().take_any(self.space.last_index(), self.space.static_band());
        let (index, ticket) = taken.ok_or_else(|| ReserveError::Full { kind: S::KIND, range: self.range() })?;
        Ok(Reservation::new(self.space.item(index), ticket, self.shared.clone()))
    }

    /// Reserves this item.
    pub fn reserve(&self, item: S::Item) -> Result<Reservation<S::Item>, ReserveError<S::Item>> {
        let span = self.span(item)?;
        let taken = self.shared.lock().take(span);
        let ticket = taken.map_err(|busy| match busy {
            Busy::Taken => ReserveError::Taken { kind: S::KIND, item },
            Busy::Withheld => ReserveError::Withheld { kind: S::KIND, item, range: self.range() },
        })?;
        Ok(Reservation::new(item, ticket, self.shared.clone()))
    }

    /// Keeps what someone has already, whether or not all of it was free. Says how many places were.
    pub fn occupy(&self, item: S::Item) -> Result<u64, ReserveError<S::Item>> {
        let span = self.span(item)?;
        Ok(self.shared.lock().occupy(span))
    }

    /// Takes an item out of the pool for good: it is neither given nor counted as used or free, and releasing it has no
    /// effect.
    pub fn withhold(&self, item: S::Item) -> Result<(), ReserveError<S::Item>> {
        let span = self.span(item)?;
        self.shared.lock().withhold(span);
        Ok(())
    }

    /// Frees an item; says whether anything was. What a living guard reserved stays reserved.
    pub fn release(&self, item: S::Item) -> bool {
        self.space.span(item).is_some_and(|span| self.shared.lock().release(span) > 0)
    }

    /// Whether someone has the item, all of it.
    pub fn contains(&self, item: S::Item) -> bool {
        self.space.span(item).is_some_and(|span| self.shared.lock().holds(span))
    }

    /// How many places someone has.
    pub fn used(&self) -> u64 {
        let state = self.shared.lock();
        state.busy_count() - state.withheld_count()
    }

    /// How many places are free.
    pub fn free(&self) -> u64 {
        self.space.last_index() + 1 - self.shared.lock().busy_count()
    }

    /// How many places are out of the pool for good.
    pub fn withheld(&self) -> u64 {
        self.shared.lock().withheld_count()
    }

    /// The first and the last item.
    pub fn range(&self) -> Span<S::Item> {
        Span { first: 0, last: self.space.last_index() }.map(|index| self.space.item(index))
    }

    fn span(&self, item: S::Item) -> Result<Span<u64>, ReserveError<S::Item>> {
        let outside = || ReserveError::Outside { kind: S::KIND, item, range: self.range() };
        self.space.span(item).ok_or_else(outside)
    }
}

impl<S: HasFamily> HasFamily for Pool<S> {
    fn family(&self) -> Family {
        self.space.family()
    }
}

/// Prints what the pool hands out.
impl<S: Space> fmt::Display for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.space.fmt(f)
    }
}

#[cfg(test)]
mod tests;
