//! Everything that can go wrong, one type per kind of call.

use crate::entry::{Entry, Key};
use std::path::PathBuf;

/// A read at, or a watch from, a revision that cannot be served.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// Retry with a newer revision: list again.
    #[error("revision {requested} has been compacted; the oldest one kept is {oldest}")]
    Compacted {
        /// What was asked for.
        requested: u64,
        /// The oldest revision that can be asked for.
        oldest: u64,
    },
    /// Not retryable: nobody was told of this revision yet.
    #[error("revision {requested} is in the future; the current one is {current}")]
    FutureRevision {
        /// What was asked for.
        requested: u64,
        /// The newest revision there is.
        current: u64,
    },
    /// Retryable: whether the revision exists could not be found out.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a watch has ended. Each means: list again, then watch from the revision of that list.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WatchError {
    /// The watcher fell behind by more than the history holds.
    #[error("the watcher has fallen behind: its next event is older than revision {oldest}, the oldest one kept")]
    Lagged {
        /// The oldest revision that can be watched from.
        oldest: u64,
    },
    /// The store was filled anew from etcd, which no longer had the changes in between.
    #[error("etcd has compacted changes that were not seen yet; the oldest revision kept is {oldest}")]
    Compacted {
        /// The oldest revision that can be watched from.
        oldest: u64,
    },
    /// The last handle of the store was dropped.
    #[error("the store was closed")]
    Closed,
}

/// The engine cannot answer now, or no longer. Retryable, unless the text says that the store must be opened again.
///
/// For a transaction: it may or may not have happened; read before trying again.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the store is unavailable: {reason}")]
pub struct Unavailable {
    reason: String,
}

impl Unavailable {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// A transaction whose comparisons did not hold; nothing was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the comparison failed for {}", .failed.join(", "))]
pub struct Conflict {
    /// The revision at which the comparisons were made.
    pub revision: u64,
    /// The keys whose comparison failed.
    pub failed: Vec<String>,
    /// What every compared key held, in the order of the comparisons.
    pub current: Vec<(Key, Option<Entry>)>,
}

/// A transaction that was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TxnError {
    /// Read `current`, decide again, retry.
    #[error(transparent)]
    Conflict(Box<Conflict>),
    /// Not retryable: the transaction itself is wrong. All faults are listed.
    #[error("invalid transaction: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<KeyFault>),
    /// Not retryable: etcd refuses the request, for instance because it is too large.
    #[error("etcd refused the transaction: {0}")]
    Refused(String),
    /// Retryable, but the transaction may have happened.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// One thing wrong with a key in a transaction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFault {
    /// A key has no text.
    #[error("a key is empty; it must have at least one character")]
    Empty,
    /// A key with a NUL; those are the store's own.
    #[error("key {0:?} contains a NUL character; any other is accepted")]
    Nul(Key),
    /// Which of two writes would win is not defined.
    #[error("key {0:?} is written more than once; a transaction writes a key at most once")]
    Repeated(Key),
    /// A time to live that ends before it begins.
    #[error("key {0:?} has a time to live of zero; at least one millisecond is accepted")]
    NoTime(Key),
}

/// A store that could not be opened. Nothing was changed on disk unless the text says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Retryable once the other process is gone.
    #[error("{}: in use by another process; stop it, or choose another directory", .path.display())]
    Locked {
        /// The data file.
        path: PathBuf,
    },
    /// Not retryable: the operator must mend permissions or space.
    #[error("{}: {source}; the directory must exist or be creatable, and be writable for this user", .path.display())]
    Io {
        /// The file or directory in question.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not retryable.
    #[error("{}: damaged: {reason}; restore the file from a copy, or move it away to start empty", .path.display())]
    Corrupt {
        /// The data file.
        path: PathBuf,
        reason: String,
    },
    /// Not retryable: the file belongs to some other program.
    #[error("{}: not a store file: {reason}; choose another path, or move the file away", .path.display())]
    Foreign {
        /// The data file.
        path: PathBuf,
        reason: String,
    },
    /// Not retryable with this program.
    #[error("{}: written by a newer version (format {found}, this one reads up to {supported}); use that version again", .path.display())]
    NewerFormat {
        /// The data file.
        path: PathBuf,
        /// The format version in the file.
        found: u64,
        /// The newest one this program reads.
        supported: u64,
    },
    /// Not retryable: the operator must give what is needed to read the value.
    #[error("{location}: the value of {key} cannot be read: {reason}{}", others(.more))]
    Unreadable {
        /// The data file, or the endpoints of etcd.
        location: String,
        /// The first key in question.
        key: String,
        reason: String,
        /// How many other keys have the same trouble.
        more: usize,
    },
    /// Not retryable: all mistakes in the etcd settings.
    #[error("etcd settings: {}", .0.join("; "))]
    Settings(Vec<String>),
    /// Retryable: no endpoint answered.
    #[error("etcd at {endpoints}: {reason}")]
    Etcd {
        /// The endpoints, joined by commas.
        endpoints: String,
        /// What the last one said.
        reason: String,
    },
}

fn others(count: &usize) -> String {
    match count {
        0 => String::new(),
        1 => " (and one other)".to_owned(),
        count => format!(" (and {count} others)"),
    }
}

impl OpenError {
    /// The error of entries that could not be read, if there are any.
    pub(crate) fn of_unreadable(location: &str, entries: &[Entry]) -> Option<Self> {
        let mut found = entries.iter().filter_map(|entry| Some((entry.key(), entry.unreadable()?)));
        let (key, reason) = found.next()?;
        let (key, reason) = (key.to_string(), reason.to_owned());
        Some(Self::Unreadable { location: location.to_owned(), key, reason, more: found.count() })
    }
}
