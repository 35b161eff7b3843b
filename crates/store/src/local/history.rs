//! The recent past in the log: what each change replaced, so that it can be undone from the newest state backwards.
//!
//! Written with every group, in the same commit, and read once at the start. Kept this way round because a creation, the
//! most frequent change of a cluster that grows, replaces nothing and so costs a few bytes, and because the new value is
//! already in `entries`.

use super::redb::{decode, encode};
use crate::{
    entry::{Deadline, Entry, Key},
    event::Event,
    transform::Transform,
};
use redb::{ReadOnlyTable, ReadableTable, StorageError, TableDefinition};
use std::{
    collections::HashMap,
    io,
    time::{Duration, Instant},
};

/// By revision and place within it: when (u64), length of the key (u32, both little endian), key, and the record that the
/// key had before as in `entries`; nothing for a creation.
pub(super) const HISTORY: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("history");

/// The time and the length before a key.
const HEAD: usize = 12;

/// A change and when it was made.
pub(super) type Past = (Instant, Event);

/// What can be known at the start.
#[derive(Debug)]
pub(super) struct Recalled {
    /// The oldest revision that can be read at or watched from.
    pub(super) oldest: u64,
    /// What was there at that revision.
    pub(super) entries: Vec<Entry>,
    /// What has happened since, oldest first.
    pub(super) past: Vec<Past>,
}

/// Writes the row of an event.
pub(super) fn write(event: &Event, at: Deadline, transform: &dyn Transform, row: &mut Vec<u8>) -> io::Result<()> {
    let key = event.key();
    row.clear();
    row.extend_from_slice(&at.0.to_le_bytes());
    row.extend_from_slice(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
    row.extend_from_slice(key.as_bytes());
    match event.previous() {
        // Its value is not known, so nothing can be undone past here: no record is a byte long.
        Some(previous) if previous.unreadable().is_some() => row.push(0),
        Some(previous) => encode(previous, transform, row)?,
        None => {}
    }
    Ok(())
}

/// Undoes what `table` knows from `entries` at `revision` on. A history that does not lead to this state without a gap (a
/// version without this table has written in between) is none: its changes would be skipped silently.
pub(super) fn recall(
    table: Option<&ReadOnlyTable<(u64, u32), &'static [u8]>>,
    entries: Vec<Entry>,
    revision: u64,
    transform: &dyn Transform,
) -> Result<Recalled, StorageError> {
    let mut state: HashMap<Key, Entry> = entries.iter().map(|entry| (entry.key().clone(), entry.clone())).collect();
    let mut past = Vec::new();
    let mut oldest = revision;
    let clock = (Instant::now(), Deadline::now());
    for row in table.map(|table| table.iter()).transpose()?.into_iter().flatten().rev() {
        let (position, row) = row?;
        let (since, _) = position.value();
        // The same revision as the row after it, or the one before.
        let follows = since == oldest || (!past.is_empty() && since == oldest + 1);
        let undone = if follows { undo(since, row.value(), &mut state, clock, transform) } else { None };
        let Some(undone) = undone else {
            tracing::warn!(
                revision,
                "the history in the file has a gap or cannot be read; watches begin at the current revision"
            );
            return Ok(Recalled { oldest: revision, entries, past: Vec::new() });
        };
        oldest = since - 1;
        past.push(undone);
    }
    past.reverse();
    Ok(Recalled { oldest, entries: state.into_values().collect(), past })
}

/// The event of a row; `state` goes back to before it.
fn undo(
    since: u64,
    row: &[u8],
    state: &mut HashMap<Key, Entry>,
    clock: (Instant, Deadline),
    transform: &dyn Transform,
) -> Option<Past> {
    let (head, rest) = row.split_at_checked(HEAD)?;
    let (at, length) = head.split_at(8);
    let at = Deadline(u64::from_le_bytes(at.try_into().ok()?));
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    let (key, record) = rest.split_at_checked(length)?;
    let key = Key::from(std::str::from_utf8(key).ok()?);
    let previous = match record {
        [] => None,
        record => Some(decode(&key, record, since.checked_sub(1)?, transform)?),
    };
    // Sealed with a key that is not there any more.
    if previous.as_ref().is_some_and(|previous| previous.unreadable().is_some()) {
        return None;
    }
    let now = match &previous {
        Some(previous) => state.insert(key, previous.clone()),
        None => state.remove(&key),
    };
    let event = match (now, previous) {
        (Some(entry), previous) if entry.mod_revision() == since => Event::Put { entry, previous },
        (None, Some(previous)) => Event::Delete { revision: since, previous },
        _ => return None,
    };
    let (instant, wall) = clock;
    // A clock that was set back makes a change look young, never gone; a machine that has just booted has no instant so old.
    let age = Duration::from_millis(wall.0.saturating_sub(at.0));
    Some((instant.checked_sub(age).unwrap_or(instant), event))
}
