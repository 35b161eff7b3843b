//! Watches and reads at old revisions across restarts of a file: they go on where they were, or are told that they cannot.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use redb::{ReadableDatabase, ReadableTableMetadata};
use std::{path::Path, time::Duration};
use store::{Event, Op, ReadError, Retention, Store, Txn};

const HISTORY: redb::TableDefinition<'_, (u64, u32), &[u8]> = redb::TableDefinition::new("history");

fn open(path: &Path, retention: Retention) -> Store {
    Store::open(path, retention).unwrap()
}

fn put(key: &str, value: &'static str) -> Op {
    Op::Put(key.into(), Bytes::from_static(value.as_bytes()))
}

async fn write(store: &Store, ops: impl IntoIterator<Item = Op>) -> u64 {
    store.txn(Txn::of(ops)).await.unwrap().revision
}

/// What happened after a revision, one word per event: revision, key, before and after.
async fn since(store: &Store, revision: u64) -> Result<Vec<String>, ReadError> {
    let text = |entry: Option<&store::Entry>| {
        entry.map_or_else(|| "-".into(), |entry| String::from_utf8_lossy(entry.value()).into_owned())
    };
    let line = |event: &Event| {
        format!("{} {} {} {}", event.revision(), event.key(), text(event.previous()), text(event.entry()))
    };
    let mut watch = store.watch("", Some(revision)).await?;
    let mut lines = Vec::new();
    while let Some(event) = watch.try_next().unwrap() {
        lines.push(line(&event));
    }
    Ok(lines)
}

#[tokio::test]
async fn a_watch_from_before_a_restart_goes_on_deletions_included() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = open(&path, Retention::default());
    assert_eq!(write(&store, [put("a", "1"), put("b", "1")]).await, 2);
    assert_eq!(write(&store, [put("a", "2")]).await, 3);
    assert_eq!(write(&store, [Op::Delete("b".into()), put("c", "1")]).await, 4);
    assert_eq!(write(&store, [Op::Delete("c".into())]).await, 5);
    assert_eq!(write(&store, [put("b", "2")]).await, 6);
    let all = ["2 a - 1", "2 b - 1", "3 a 1 2", "4 b 1 -", "4 c - 1", "5 c 1 -", "6 b - 2"];
    assert_eq!(since(&store, 1).await.unwrap(), all);
    let mut store = Some(store);
    for restart in 0..3 {
        drop(store.take());
        let again = open(&path, Retention::default());
        assert_eq!(again.known_revision(), 6, "restart {restart}");
        assert_eq!(since(&again, 1).await.unwrap(), all, "restart {restart}");
        assert_eq!(since(&again, 4).await.unwrap(), all[5..], "restart {restart}");
        assert_eq!(again.get_at("b", 3).await.unwrap().unwrap().create_revision(), 2);
        assert_eq!(again.get_at("b", 5).await.unwrap(), None);
        store = Some(again);
    }
    let store = store.unwrap();
    assert_eq!(write(&store, [put("a", "3")]).await, 7);
    assert_eq!(since(&store, 5).await.unwrap(), ["6 b - 2", "7 a 2 3"]);
}

#[tokio::test]
async fn what_is_over_stays_over_and_the_file_does_not_keep_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let few = Retention { events: 5, ..Retention::default() };
    let store = open(&path, few);
    for _ in 0..3_000 {
        write(&store, [put("a", "1")]).await;
    }
    drop(store);
    let store = open(&path, few);
    let gone = ReadError::Compacted { requested: 2_995, oldest: 2_996 };
    assert_eq!(since(&store, 2_995).await, Err(gone));
    assert_eq!(since(&store, 2_996).await.unwrap().len(), 5);
    drop(store);
    let database = redb::Database::open(&path).unwrap();
    let rows = database.begin_read().unwrap().open_table(HISTORY).unwrap().len().unwrap();
    assert!(rows < 1_200, "{rows} rows of history are kept for 5");
    drop(database);

    // Time that passes while nobody has the file open counts too.
    let brief = Retention { age: Duration::from_millis(1), ..Retention::default() };
    tokio::time::sleep(Duration::from_millis(5)).await;
    let store = open(&path, brief);
    assert_eq!(since(&store, 3_000).await, Err(ReadError::Compacted { requested: 3_000, oldest: 3_001 }));
    assert_eq!(since(&store, 3_001).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_file_without_history_opens_and_its_history_begins_now() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = open(&path, Retention::default());
    write(&store, [put("a", "1")]).await;
    drop(store);
    let database = redb::Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.delete_table(HISTORY).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let store = open(&path, Retention::default());
    assert_eq!(since(&store, 1).await, Err(ReadError::Compacted { requested: 1, oldest: 2 }));
    write(&store, [put("a", "2")]).await;
    drop(store);
    let store = open(&path, Retention::default());
    assert_eq!(since(&store, 2).await.unwrap(), ["3 a 1 2"]);
    assert_eq!(since(&store, 1).await, Err(ReadError::Compacted { requested: 1, oldest: 2 }));
}

#[tokio::test]
async fn changes_that_another_version_made_without_history_are_not_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = open(&path, Retention::default());
    write(&store, [put("a", "1")]).await;
    drop(store);
    let database = redb::Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(redb::TableDefinition::<&str, u64>::new("meta")).unwrap().insert("revision", 3).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let store = open(&path, Retention::default());
    assert_eq!(since(&store, 1).await, Err(ReadError::Compacted { requested: 1, oldest: 3 }));
    write(&store, [put("a", "2")]).await;
    drop(store);
    let store = open(&path, Retention::default());
    assert_eq!(since(&store, 2).await, Err(ReadError::Compacted { requested: 2, oldest: 3 }));
    assert_eq!(since(&store, 3).await.unwrap(), ["4 a 1 2"]);
}
