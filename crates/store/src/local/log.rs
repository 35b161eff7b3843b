//! What the writer asks of a disk. `redb` implements it; a log of another kind would be a second file beside it.

use crate::event::Event;
use std::fmt;

/// Why a group could not be made durable. The writer then refuses all further ones.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct LogError(pub(super) String);

/// Makes groups of changes last.
pub(super) trait Log: Send + fmt::Debug {
    /// Makes `events` durable, all or none, with `revision` as the newest one, and the history after `oldest` with them.
    /// Returns when they would survive a power cut. Without events it is only a time to drop history that is over.
    fn append(&mut self, events: &[Event], revision: u64, oldest: u64) -> Result<(), LogError>;
}
