//! The guard around something reserved: kept by `commit`, given back by dropping.

use super::{PoolState, state::Ticket};
use crate::{dual_stack::HasFamily, family::Family};
use std::{fmt, ops::Deref};

/// Something taken from a pool, for as long as this lives. Nobody else gets it meanwhile.
///
/// Reserve, do what may fail, then [`commit`](Self::commit): an early return gives everything back by itself.
#[must_use = "dropping a reservation gives it back at once"]
pub struct Reservation<T> {
    item: T,
    /// None once committed.
    ticket: Option<Ticket>,
    pool: PoolState,
}

impl<T: Copy> Reservation<T> {
    pub(super) fn new(item: T, ticket: Ticket, pool: PoolState) -> Self {
        Self { item, ticket: Some(ticket), pool }
    }

    /// Keeps it until it is released from the pool.
    pub fn commit(mut self) -> T {
        if let Some(ticket) = self.ticket.take() {
            self.pool.lock().keep(&ticket);
        }
        self.item
    }
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.pool.lock().give_up(&ticket);
        }
    }
}

impl<T> Deref for Reservation<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: HasFamily> HasFamily for Reservation<T> {
    fn family(&self) -> Family {
        self.item.family()
    }
}

impl<T: fmt::Debug> fmt::Debug for Reservation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.item).finish()
    }
}
