//! Files that are not what they should be: each gives a clear error, or exactly what was written; never an empty store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use std::{
    borrow::Cow,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{Op, OpenError, Plain, Retention, StorageKey, Store, Transform, Txn};
use tempfile::TempDir;

fn open(path: &Path) -> Result<Store, OpenError> {
    Store::open(path, Retention::default())
}

fn refusal(path: &Path) -> String {
    open(path).expect_err("must be refused").to_string()
}

/// A store with 200 entries, closed.
fn filled() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/directory/store.redb");
    let store = open(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for number in 0..200 {
        let put = Op::Put(format!("key/{number}").into(), value(number));
        runtime.block_on(store.txn(Txn::of([put]))).unwrap();
    }
    (directory, path)
}

fn value(number: usize) -> Bytes {
    Bytes::from(vec![u8::try_from(number % 251).unwrap(); 700])
}

fn is_whole(store: &Store) -> bool {
    store.known_revision() == 201
        && (0..200)
            .all(|number| store.get(&format!("key/{number}")).is_some_and(|entry| entry.value() == &value(number)))
}

#[test]
fn a_closed_store_opens_again_with_its_identity() {
    let (_directory, path) = filled();
    let first = open(&path).unwrap();
    let id = first.cluster_id().to_owned();
    assert!(is_whole(&first));
    drop(first);
    assert_eq!(open(&path).unwrap().cluster_id(), id);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn only_the_owner_reads_the_file_whoever_made_it() {
    let (_directory, path) = filled();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(is_whole(&open(&path).unwrap()));
    assert_eq!(mode(&path), 0o600, "a file that an earlier version made is mended");
}

/// Turns the bits of values over, and marks them with a letter.
#[derive(Debug)]
struct Turned(u8);

impl Transform for Turned {
    fn seal<'a>(&self, _: StorageKey<'_>, value: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        Ok(std::iter::once(self.0).chain(value.iter().map(|byte| !byte)).collect())
    }

    fn open<'a>(&self, storage_key: StorageKey<'_>, stored: &'a [u8]) -> Result<Plain<'a>, String> {
        assert!(storage_key.to_string().starts_with("/registry/"), "{storage_key}");
        match stored.split_first() {
            Some((b'a'..=b'c', rest)) if stored[0] <= self.0 => {
                Ok(Plain { value: rest.iter().map(|byte| !byte).collect(), stale: stored[0] != self.0 })
            }
            _ => Err(format!("{:?} is not at hand", stored.first().map(|byte| char::from(*byte)))),
        }
    }
}

#[test]
fn values_go_to_the_file_and_back_through_the_transform_and_nowhere_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let open = |letter: u8| Store::open_with(&path, Retention::default(), Arc::new(Turned(letter)));
    let plain = Bytes::from_static(b"a very long and very secret value");
    let put = |store: &Store, key: &str, value: &Bytes| {
        runtime.block_on(store.txn(Txn::of([Op::Put(key.into(), value.clone())]))).unwrap();
    };
    let store = open(b'b').unwrap();
    for key in ["a", "b", "gone"] {
        put(&store, key, &plain);
        put(&store, key, &Bytes::from([&plain[..], b" again"].concat()));
        put(&store, key, &plain);
    }
    runtime.block_on(store.txn(Txn::of([Op::Delete("gone".into())]))).unwrap();
    assert_eq!(store.get("a").unwrap().value(), &plain, "in memory it is plain");
    drop(store);
    let file = std::fs::read(&path).unwrap();
    assert!(!file.windows(plain.len()).any(|window| window == &plain[..]), "history included");

    let newer = open(b'c').unwrap();
    let entry = newer.get("a").unwrap();
    assert_eq!((entry.value(), entry.is_stale(), entry.unreadable()), (&plain, true, None));
    put(&newer, "a", &plain);
    assert!(!newer.get("a").unwrap().is_stale());
    drop(newer);
    let expected = format!("{}: the value of a cannot be read: Some('c') is not at hand", path.display());
    assert_eq!(open(b'b').expect_err("one value is too new").to_string(), expected);
    let text = open(b'a').expect_err("none can be read").to_string();
    assert!(text.ends_with("(and one other)"), "{text}");
    assert_eq!(open(b'c').unwrap().get("b").unwrap().value(), &plain, "and nothing was harmed");
}

#[test]
fn a_file_in_use_is_refused() {
    let (_directory, path) = filled();
    let _first = open(&path).unwrap();
    let expected = format!("{}: in use by another process; stop it, or choose another directory", path.display());
    assert_eq!(refusal(&path), expected);
}

#[test]
fn an_empty_file_is_not_taken_for_a_new_store() {
    let (_directory, path) = filled();
    std::fs::write(&path, b"").unwrap();
    assert_eq!(
        refusal(&path),
        format!(
            "{}: damaged: the file is empty; restore the file from a copy, or move it away to start empty",
            path.display()
        )
    );
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "and it is left as it was");
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let (_directory, path) = filled();
    for text in [&b"SQLite format 3\0"[..], &[0; 8192], &[b'x'; 100_000]] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(
            refusal(&path),
            format!(
                "{}: not a store file: it does not begin like a redb file; choose another path, or move the file away",
                path.display()
            )
        );
        assert_eq!(std::fs::read(&path).unwrap(), text);
    }
}

#[test]
fn a_redb_file_of_another_program_is_left_alone() {
    let (_directory, path) = filled();
    std::fs::remove_file(&path).unwrap();
    let database = redb::Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(redb::TableDefinition::<u64, u64>::new("theirs")).unwrap().insert(1, 1).unwrap();
    write.commit().unwrap();
    drop(database);
    assert_eq!(
        refusal(&path),
        format!(
            "{}: not a store file: Table 'meta' does not exist; choose another path, or move the file away",
            path.display()
        )
    );
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let (_directory, path) = filled();
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(redb::TableDefinition::<&str, u64>::new("meta")).unwrap().insert("format", 7).unwrap();
    write.commit().unwrap();
    drop(database);
    let expected = format!(
        "{}: written by a newer version (format 7, this one reads up to 1); use that version again",
        path.display()
    );
    assert_eq!(refusal(&path), expected);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let (directory, path) = filled();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let inside = file.join("store.redb");
    assert!(refusal(&inside).starts_with(&format!("{}: ", file.display())), "{}", refusal(&inside));
    let parent = path.parent().unwrap();
    std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write anywhere, so this half only means something for other users.
    if !rustix::process::geteuid().is_root() {
        let text = refusal(&parent.join("other.redb"));
        assert!(text.contains("other.redb.lock: Permission denied"), "{text}");
    }
    std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_truncated_file_is_refused_or_whole() {
    let (_directory, path) = filled();
    let good = std::fs::read(&path).unwrap();
    for part in 1..64 {
        std::fs::write(&path, &good[..good.len() * part / 64]).unwrap();
        match open(&path) {
            Ok(store) => assert!(is_whole(&store), "{part}/64 of the file lost data silently"),
            Err(error) => assert!(error.to_string().starts_with(&path.display().to_string()), "{error}"),
        }
    }
}

#[test]
fn a_flipped_byte_is_noticed_or_harmless() {
    let (_directory, path) = filled();
    let good = std::fs::read(&path).unwrap();
    let mut noticed = 0;
    for part in 0..150 {
        let mut bad = good.clone();
        let offset = (part * 7919 * 13) % bad.len();
        bad[offset] ^= 0x55;
        std::fs::write(&path, &bad).unwrap();
        match open(&path) {
            Ok(store) => assert!(is_whole(&store), "byte {offset} was changed and data silently lost"),
            Err(error) => {
                noticed += 1;
                assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
                // What noticed it may have mended it, with a loss; starting again is not a way around the error.
                match open(&path) {
                    Ok(store) => assert!(is_whole(&store), "byte {offset}: the second start lost data silently"),
                    Err(again) => assert!(again.to_string().starts_with(&path.display().to_string()), "{again}"),
                }
                _ = std::fs::remove_file(path.with_extension("redb.damaged"));
            }
        }
    }
    assert!(noticed > 5, "only {noticed} of the changed bytes were noticed");
}

#[test]
fn damage_to_the_newest_value_is_told_at_every_start() {
    let (_directory, path) = filled();
    let mut file = std::fs::read(&path).unwrap();
    // It is only in the newest commit, so going back to the one before would look whole.
    let newest = value(199);
    let offset = file.windows(newest.len()).position(|bytes| bytes == newest).expect("the newest value");
    file[offset] ^= 0x55;
    std::fs::write(&path, &file).unwrap();
    for _ in 0..3 {
        let text = refusal(&path);
        assert!(text.starts_with(&format!("{}: damaged: ", path.display())), "{text}");
        assert!(text.ends_with("restore the file from a copy, or move it away to start empty"), "{text}");
    }
}
