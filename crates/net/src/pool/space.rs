//! What a pool hands out, and its order: items as numbered places.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The things a pool can hand out, numbered from 0. Implemented by what names a range; a pool is generic over it.
pub trait Space: fmt::Display {
    /// One of them.
    type Item: Copy + PartialEq + fmt::Display + fmt::Debug;

    /// What one is called in messages.
    const KIND: &'static str;

    /// The number of the last one. Never `u64::MAX`.
    fn last_index(&self) -> u64;

    /// How many of the first places are left for those who ask for one by name, as long as others are free.
    fn static_band(&self) -> u64;

    /// Where the item is: one place, or several if it overlaps several. None if it is outside.
    fn span(&self, item: Self::Item) -> Option<Span<u64>>;

    /// The item at a place. Only asked for places up to [`last_index`](Self::last_place).
    fn item(&self, index: u64) -> Self::Item;
}

/// From `first` to `last`, both included. Prints as `first-last`, or as one when they are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Span<T> {
    pub first: T,
    pub last: T,
}

impl<T: Copy> Span<T> {
    pub(crate) fn one(value: T) -> Self {
        Self { first: value, last: value }
    }

    pub(crate) fn map<U>(self, mut f: impl FnMut(T) -> U) -> Span<U> {
        Span { first: f(self.first), last: f(self.last) }
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Span<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// Why nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError<T: fmt::Display + PartialEq> {
    /// Retryable once something is released.
    #[error("no {kind} is free in range {range}")]
    Full { kind: &'static str, range: Span<T> },
    /// Retryable once it is released.
    #[error("{kind} {item} is taken")]
    Taken { kind: &'static str, item: T },
    /// Not retryable: the item cannot be in this pool.
    #[error("{kind} {item} is outside range {range}")]
    Outside { kind: &'static str, item: T, range: Span<T> },
    /// Not retryable: the item was taken out of the pool for good.
    #[error("{kind} {item} is withheld from range {range}")]
    Withheld { kind: &'static str, item: T, range: Span<T> },
}
