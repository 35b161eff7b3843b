//! A pool as a value that can be stored, and back.

use super::{
    Pool, State,
    runs::Runs,
    space::{Space, Span},
};
use crate::mistakes::Mistakes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was kept in a pool at one moment; what was only reserved is not in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Snapshot<T> {
    /// The pool's range, as it prints.
    pub range: String,
    /// What was kept, in order.
    pub used: Vec<Span<T>>,
}

/// A snapshot that does not fit the pool. Not retryable; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError<T: fmt::Display + PartialEq> {
    /// The snapshot is of a pool with another range.
    #[error("the snapshot is of {snapshot}, the pool is of {pool}")]
    OtherRange {
        /// The snapshot's range.
        snapshot: String,
        /// The pool's range.
        pool: String,
    },
    /// Part of the snapshot is outside the range.
    #[error("{span} is outside range {range}")]
    Outside {
        /// What is outside.
        span: Span<T>,
        /// The pool's range.
        range: Span<T>,
    },
    /// A span ends before it begins.
    #[error("{0} ends before it begins")]
    Backwards(Span<T>),
    /// A span overlaps one before it.
    #[error("{0} is in the snapshot twice, wholly or in part")]
    Doubled(Span<T>),
}

impl<S: Space> Pool<S> {
    /// What is kept now.
    pub fn snapshot(&self) -> Snapshot<S::Item> {
        let kept = State::kept(&self.shared.lock());
        let used = kept.iter().map(|span| span.map(|index| self.space.item(index))).collect();
        Snapshot { range: self.space.to_string(), used }
    }

    /// Makes the snapshot's items what is kept, all or nothing. Withheld items and living guards stay as they are,
    /// except that a guard frees nothing that the snapshot has.
    pub fn restore(&self, snapshot: &Snapshot<S::Item>) -> Result<(), Mistakes<RestoreError<S::Item>>> {
        let mut mistakes = Vec::new();
        if snapshot.range != self.space.to_string() {
            let (snapshot, pool) = (snapshot.range.clone(), self.space.to_string());
            mistakes.push(RestoreError::OtherRange { snapshot, pool });
        }
        let mut kept = Runs::default();
        for &span in &snapshot.used {
            match span.map(|item| self.space.span(item)) {
                Span { first: Some(first), last: Some(last) } if first.first > last.last => {
                    mistakes.push(RestoreError::Backwards(span));
                }
                Span { first: Some(first), last: Some(last) } => {
                    let indices = Span { first: first.first, last: last.last };
                    if kept.overlaps(indices) {
                        mistakes.push(RestoreError::Doubled(span));
                    }
                    kept.insert(indices);
                }
                _ => mistakes.push(RestoreError::Outside { span, range: self.range() }),
            }
        }
        Mistakes::check(mistakes)?;
        self.shared.lock().replace(&kept);
        Ok(())
    }
}
