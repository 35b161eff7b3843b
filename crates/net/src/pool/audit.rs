//! Comparing a pool with the objects that are said to have its items.

use super::{
    Pool, State,
    runs::Runs,
    space::{Space, Span},
};
use std::fmt;

/// How a pool and a list of holders differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit<T> {
    /// Kept in the pool, but nobody on the list has them.
    pub leaked: Vec<Span<T>>,
    /// On the list, but free in the pool, wholly or in part.
    pub missing: Vec<T>,
    /// On the list more than once: the second and later ones, also if they overlap an earlier one in part.
    pub duplicate: Vec<T>,
    /// On the list, but not in the pool's range.
    pub out_of_range: Vec<T>,
    /// On the list, but withheld from everyone, wholly or in part.
    pub withheld: Vec<T>,
}

impl<T> Audit<T> {
    /// Whether pool and list agree.
    pub fn is_clean(&self) -> bool {
        self.leaked.is_empty()
            && self.missing.is_empty()
            && self.duplicate.is_empty()
            && self.out_of_range.is_empty()
            && self.withheld.is_empty()
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Audit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leaked, missing, duplicate, out_of_range, withheld } = self;
        write!(
            f,
            "{} leaked, {} missing, {} duplicate, {} out of range, {} withheld",
            leaked.len(),
            missing.len(),
            duplicate.len(),
            out_of_range.len(),
            withheld.len()
        )
    }
}

impl<S: Space> Pool<S> {
    /// Compares the pool with what the objects have, and changes nothing. What a living guard reserved is neither
    /// leaked nor missing: its object may be on the way.
    pub fn audit(&self, held: impl IntoIterator<Item = S::Item>) -> Audit<S::Item> {
        let held: Vec<_> = held.into_iter().collect();
        self.compare(&self.shared.lock(), &held).0
    }

    /// As [`audit`](Self::audit), then makes the pool agree: keeps what is missing and frees what leaked.
    ///
    /// Objects that were read before the pool's newest commit make that one look leaked. So either no one commits
    /// between reading the objects and this call, or the caller audits several times and releases what stays leaked.
    pub fn repair(&self, held: impl IntoIterator<Item = S::Item>) -> Audit<S::Item> {
        let held: Vec<_> = held.into_iter().collect();
        let mut state = self.shared.lock();
        let (audit, listed) = self.compare(&state, &held);
        state.replace(&listed);
        audit
    }

    /// The differences, and the places that the list names. Takes a slice, since the caller's iterator may use the pool
    /// and must not run under its lock.
    fn compare(&self, state: &State, held: &[S::Item]) -> (Audit<S::Item>, Runs) {
        let (mut missing, mut duplicate, mut out_of_range, mut withheld) = (vec![], vec![], vec![], vec![]);
        let mut listed = Runs::default();
        for &item in held {
            let Some(span) = self.space.span(item) else {
                out_of_range.push(item);
                continue;
            };
            if listed.overlaps(span) {
                duplicate.push(item);
            } else if state.withholds(span) {
                withheld.push(item);
            } else if !state.is_busy(span) {
                missing.push(item);
            }
            listed.insert(span);
        }
        let mut leaked = state.kept();
        for span in listed.iter() {
            leaked.remove(span);
        }
        let leaked = leaked.iter().map(|span| span.map(|index| self.space.item(index))).collect();
        (Audit { leaked, missing, duplicate, out_of_range, withheld }, listed)
    }
}
