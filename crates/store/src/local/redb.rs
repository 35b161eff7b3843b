//! The log as a redb file: one record per live key, and a few numbers.
//!
//! | table      | key                 | value                                                             |
//! |------------|---------------------|-------------------------------------------------------------------|
//! | `entries`  | key                 | create, mod, version, deadline (u64, little endian each), value    |
//! | `meta`     | `format`, `revision`| u64                                                               |
//! | `identity` | `cluster`           | text                                                              |
//! | `history`  | revision, place     | what the change replaced; see `history`                           |
//!
//! `history` goes as far back as the history in memory, so that watches go on after a restart. A file without it (older
//! versions wrote none) opens with the current revision as the oldest. A new file is made under another name and moved
//! into place once it is whole, so a file that redb cannot read was damaged and is never taken for a new one.

use super::{
    Opened,
    history::{self, HISTORY, Recalled},
    log::{Log, LogError},
};
use crate::{
    entry::{Deadline, Entry, Stamp, StoredForm},
    error::OpenError,
    event::Event,
    transform::{EMBEDDED_PREFIX, Plain, StorageKey, Transform},
};
use bytes::Bytes;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::{
    fs::{DirBuilder, File, Permissions, TryLockError},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// The version of the layout above.
const FORMAT: u64 = 1;

const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const IDENTITY: TableDefinition<'_, &str, &str> = TableDefinition::new("identity");

/// The four numbers before a value.
const STAMP: usize = 32;

/// Values are read once and then live in memory, so redb's cache only serves the inner pages.
const CACHE: usize = 16 << 20;

/// Values may be secrets: nobody but the owner reads the file or enters a folder made for it, whatever the umask is.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// History that is over goes in strokes, with the first write after either of these: revisions, or time.
const TRIM: (u64, Duration) = (1_000, Duration::from_secs(10));

#[derive(Debug)]
pub(super) struct Redb {
    database: Database,
    record: Vec<u8>,
    transform: Arc<dyn Transform>,
    /// Rows up to this revision are gone from `history`, and when that was looked at.
    trimmed: (u64, Instant),
    /// Held for as long as the file is open; released by the kernel however the process ends.
    _lock: File,
}

impl Redb {
    /// Opens or creates the file and reads it all.
    pub(super) fn open(path: &Path, transform: Arc<dyn Transform>) -> Result<(Self, Opened), OpenError> {
        let lock = lock(path)?;
        if !path.try_exists().map_err(|source| OpenError::Io { path: path.into(), source })? {
            create(path).map_err(|error| explain(path, error))?;
        }
        restrict(path).map_err(|source| OpenError::Io { path: path.into(), source })?;
        // redb checks what it reads, yet a damaged page may still trip an assertion of its own.
        let read = catch_unwind(AssertUnwindSafe(|| read(path, &*transform)));
        let panicked = |_| OpenError::Corrupt { path: path.into(), reason: "redb could not make sense of it".into() };
        let (database, opened) = read.map_err(panicked)??;
        let trimmed = (0, Instant::now());
        Ok((Self { database, record: Vec::new(), transform, trimmed, _lock: lock }, opened))
    }

    fn write(&mut self, events: &[Event], revision: u64, oldest: u64) -> Result<(), redb::Error> {
        let at = Deadline::now();
        let (trimmed, looked) = self.trimmed;
        let trims = oldest > trimmed
            && (trimmed == 0 || events.is_empty() || oldest - trimmed >= TRIM.0 || looked.elapsed() >= TRIM.1);
        if events.is_empty() && !trims {
            return Ok(());
        }
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut entries = transaction.open_table(ENTRIES)?;
            let mut history = transaction.open_table(HISTORY)?;
            if trims {
                history.retain_in(..=(oldest, u32::MAX), |_, _| false)?;
            }
            let mut position = (0, 0);
            for event in events {
                position =
                    if position.0 == event.revision() { (position.0, position.1 + 1) } else { (event.revision(), 0) };
                history::write(event, at, &*self.transform, &mut self.record)?;
                history.insert(position, &*self.record)?;
                match event.entry() {
                    Some(entry) => {
                        self.record.clear();
                        encode(entry, &*self.transform, &mut self.record)?;
                        entries.insert(&**entry.key(), &*self.record)?;
                    }
                    None => _ = entries.remove(&**event.key())?,
                }
            }
            transaction.open_table(META)?.insert("revision", revision)?;
        }
        transaction.commit()?;
        if trims {
            self.trimmed = (oldest, Instant::now());
        }
        Ok(())
    }
}

impl Log for Redb {
    fn append(&mut self, events: &[Event], revision: u64, oldest: u64) -> Result<(), LogError> {
        self.write(events, revision, oldest).map_err(|error| LogError(error.to_string()))
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(directory);
    made.map_err(|source| OpenError::Io { path: directory.into(), source })?;
    let name = beside(path, ".lock");
    let file = File::options().create(true).truncate(false).write(true).mode(FILE_MODE).open(&name);
    let file = file.map_err(|source| OpenError::Io { path: name.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.into() }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { path: name, source }),
    }
}

/// Takes from everyone but the owner what an earlier version or a copy by hand gave them.
fn restrict(path: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & !FILE_MODE == 0 {
        Ok(())
    } else {
        std::fs::set_permissions(path, Permissions::from_mode(mode & FILE_MODE))
    }
}

/// Makes an empty store under another name, then moves it into place.
fn create(path: &Path) -> Result<(), redb::Error> {
    let unfinished = beside(path, ".new");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = File::options().read(true).write(true).create_new(true).mode(FILE_MODE).open(&unfinished)?;
    let database = Database::builder().set_cache_size(CACHE).create_file(file)?;
    let transaction = database.begin_write()?;
    transaction.open_table(ENTRIES)?;
    transaction.open_table(HISTORY)?;
    transaction.open_table(META)?.insert("format", FORMAT)?;
    transaction.open_table(META)?.insert("revision", 1)?;
    transaction.open_table(IDENTITY)?.insert("cluster", uuid::Uuid::new_v4().to_string().as_str())?;
    transaction.commit()?;
    drop(database);
    File::open(&unfinished)?.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    Ok(File::open(directory)?.sync_all()?)
}

fn read(path: &Path, transform: &dyn Transform) -> Result<(Database, Opened), OpenError> {
    let corrupt = |reason: String| OpenError::Corrupt { path: path.into(), reason };
    let failed = |source| OpenError::Io { path: path.into(), source };
    let mark = beside(path, ".damaged");
    let lost = || {
        let mark = mark.display();
        corrupt(format!(
            "its checksums did not match, and redb went back to an older commit; {mark} notes it, and removing that accepts the loss"
        ))
    };
    if mark.try_exists().map_err(failed)? {
        return Err(lost());
    }
    match beginning(path).map_err(failed)?.as_slice() {
        b"redb" => {}
        [] => return Err(corrupt("the file is empty".into())),
        _ => return Err(OpenError::Foreign { path: path.into(), reason: "it does not begin like a redb file".into() }),
    }
    let opened = Database::builder().set_cache_size(CACHE).open(path);
    let mut database = opened.map_err(|error| explain(path, error.into()))?;
    // The file was closed properly or repaired by the open; whatever is wrong now was done to it from outside.
    match database.check_integrity() {
        Ok(true) => {}
        Ok(false) => {
            // redb has already written its repair, so the next start would find nothing wrong.
            File::create(&mark).and_then(|file| file.sync_all()).map_err(failed)?;
            return Err(lost());
        }
        Err(error) => return Err(explain(path, error.into())),
    }
    let transaction = database.begin_read().map_err(|error| explain(path, error.into()))?;
    let foreign = |error: TableError| match error {
        TableError::Storage(error) => explain(path, error.into()),
        other => OpenError::Foreign { path: path.into(), reason: other.to_string() },
    };
    let meta = transaction.open_table(META).map_err(foreign)?;
    let number = |name: &str| {
        let found = meta.get(name).map_err(|error| explain(path, error.into()))?;
        let found = found.ok_or_else(|| OpenError::Foreign { path: path.into(), reason: format!("it has no {name}") });
        found.map(|number| number.value())
    };
    match number("format")? {
        FORMAT => {}
        found if found > FORMAT => return Err(OpenError::NewerFormat { path: path.into(), found, supported: FORMAT }),
        found => return Err(corrupt(format!("format {found} never existed; this version reads {FORMAT}"))),
    }
    let revision = number("revision")?;
    let identity = transaction.open_table(IDENTITY).map_err(foreign)?;
    let cluster = identity.get("cluster").map_err(|error| explain(path, error.into()))?;
    let cluster_id = cluster.ok_or_else(|| corrupt("the cluster id is missing".into()))?.value().to_owned();
    let mut entries = Vec::new();
    let table = transaction.open_table(ENTRIES).map_err(foreign)?;
    for record in table.iter().map_err(|error| explain(path, error.into()))? {
        let (key, record) = record.map_err(|error| explain(path, error.into()))?;
        let entry = decode(key.value(), record.value(), revision, transform);
        entries.push(entry.ok_or_else(|| corrupt(format!("the record of key {:?} makes no sense", key.value())))?);
    }
    if let Some(error) = OpenError::of_unreadable(&path.display().to_string(), &entries) {
        return Err(error);
    }
    let history = match transaction.open_table(HISTORY) {
        Ok(history) => Some(history),
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(foreign(error)),
    };
    let recalled = history::recall(history.as_ref(), entries, revision, transform);
    let Recalled { oldest, entries, past } = recalled.map_err(|error| explain(path, error.into()))?;
    drop((meta, identity, table, history, transaction));
    Ok((database, Opened { cluster_id, revision, oldest, entries, past }))
}

/// The first four bytes; redb would take an empty file for a new one.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut beginning = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut beginning)?;
    Ok(beginning)
}

/// The only way of a value into the file: appends the record.
pub(super) fn encode(entry: &Entry, transform: &dyn Transform, record: &mut Vec<u8>) -> io::Result<()> {
    let Stamp { create_revision, mod_revision, version, deadline } = entry.stamp();
    for number in [create_revision, mod_revision, version, deadline.map_or(0, |deadline| deadline.0)] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    let storage_key = StorageKey { prefix: EMBEDDED_PREFIX, key: entry.key() };
    let sealed = transform.seal(storage_key, entry.value());
    record.extend_from_slice(&sealed.map_err(|why| io::Error::other(format!("{}: {why}", entry.key())))?);
    Ok(())
}

/// `None` if no store at `newest` could have written this. The only way of a value out of the file.
pub(super) fn decode(key: &str, record: &[u8], newest: u64, transform: &dyn Transform) -> Option<Entry> {
    let (stamp, value) = record.split_at_checked(STAMP)?;
    let (numbers, _) = stamp.as_chunks::<8>();
    let &[create_revision, mod_revision, version, deadline] = numbers else { return None };
    let [create_revision, mod_revision, version, deadline] =
        [create_revision, mod_revision, version, deadline].map(u64::from_le_bytes);
    if key.is_empty() || create_revision > mod_revision || mod_revision > newest || version == 0 {
        return None;
    }
    let deadline = (deadline != 0).then_some(Deadline(deadline));
    let stamp = Stamp { create_revision, mod_revision, version, deadline };
    Some(match transform.open(StorageKey { prefix: EMBEDDED_PREFIX, key }, value) {
        Ok(Plain { value, stale }) => {
            let form = if stale { StoredForm::Stale } else { StoredForm::Current };
            Entry::stored(key.into(), Bytes::copy_from_slice(&value), stamp, form)
        }
        Err(why) => Entry::stored(key.into(), Bytes::new(), stamp, StoredForm::Unreadable(why)),
    })
}

fn explain(path: &Path, error: redb::Error) -> OpenError {
    let path = path.to_path_buf();
    match error {
        redb::Error::DatabaseAlreadyOpen => OpenError::Locked { path },
        redb::Error::UpgradeRequired(version) => OpenError::Foreign {
            path,
            reason: format!("it is a redb file of version {version}, which this redb cannot read"),
        },
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::Corrupt { path, reason: "it ends too early".into() }
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            OpenError::Corrupt { path, reason: error.to_string() }
        }
        redb::Error::Io(source) => OpenError::Io { path, source },
        other => OpenError::Corrupt { path, reason: other.to_string() },
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::AsItIs;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_reads_back_as_it_was_written(
            create in 0..100_u64, more in 0..100_u64, version in 1..100_u64, deadline in prop::option::of(1..u64::MAX),
            value in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let stamp = Stamp { create_revision: create, mod_revision: create + more, version, deadline: deadline.map(Deadline) };
            let entry = Entry::new("key".into(), value.into(), stamp);
            let mut record = Vec::new();
            encode(&entry, &AsItIs, &mut record).unwrap();
            let back = decode("key", &record, create + more, &AsItIs);
            prop_assert_eq!(back.as_ref().map(Entry::stamp), Some(stamp));
            prop_assert_eq!(back, Some(entry));
        }

        #[test]
        fn any_bytes_are_a_record_or_refused(record in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(entry) = decode("key", &record, 1 << 60, &AsItIs) {
                prop_assert_eq!(entry.value(), &record[STAMP..]);
            }
        }
    }
}
