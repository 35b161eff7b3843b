//! Random histories on every engine, held against one plain model: a map, and a list of what happened to it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestRunner};
use std::{collections::BTreeMap, time::Duration};
use store::{Committed, Compare, Entry, Event, Key, Op, ReadError, Retention, Store, Txn, TxnError, Watch, WatchError};
use support::{Loopback, Server};

/// What the model knows of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    value: Bytes,
    create: u64,
    modified: u64,
    version: u64,
}

impl From<&Entry> for Held {
    fn from(entry: &Entry) -> Self {
        Self {
            value: entry.value().clone(),
            create: entry.create_revision(),
            modified: entry.mod_revision(),
            version: entry.version(),
        }
    }
}

type State = BTreeMap<String, Held>;

/// What happened: revision, key, before, after.
type Change = (u64, String, Option<Held>, Option<Held>);

#[derive(Clone, Debug)]
enum Step {
    /// Comparisons by key and kind (0 absent, 1 exists, 2 the right revision, 3 a wrong one), writes by key and value.
    Txn(Vec<(usize, u8)>, Vec<(usize, Option<u8>)>),
    /// Reads and lists at the revision that is this many steps back, in pages.
    Read {
        back: usize,
        page: usize,
        prefix: usize,
    },
    /// Starts a watch from that revision.
    Watch {
        back: usize,
        prefix: usize,
    },
    Compact {
        back: usize,
    },
    Reopen,
}

const KEYS: [&str; 8] = ["a/1", "a/2", "a/20", "a/3", "ab", "b/1", "b/1/x", "c"];
const PREFIXES: [&str; 5] = ["", "a/", "a/2", "b/1", "zz"];

fn step() -> impl Strategy<Value = Step> {
    let compare = prop::collection::vec((0..KEYS.len(), 0..4_u8), 0..3);
    let write = prop::collection::btree_map(0..KEYS.len(), prop::option::weighted(0.7, any::<u8>()), 0..4);
    prop_oneof![
        12 => (compare, write).prop_map(|(compare, write)| Step::Txn(compare, write.into_iter().collect())),
        4 => (0..12_usize, 1..4_usize, 0..PREFIXES.len()).prop_map(|(back, page, prefix)| Step::Read { back, page, prefix }),
        2 => (0..12_usize, 0..PREFIXES.len()).prop_map(|(back, prefix)| Step::Watch { back, prefix }),
        1 => (0..12_usize).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Reopen),
    ]
}

struct Watching {
    watch: Watch,
    from: u64,
    prefix: &'static str,
}

struct Model {
    /// The state after each step that changed it, by revision.
    states: Vec<(u64, State)>,
    changes: Vec<Change>,
    oldest: u64,
    watches: Vec<Watching>,
}

impl Model {
    fn now(&self) -> &State {
        &self.states.last().unwrap().1
    }

    fn at(&self, revision: u64) -> &State {
        &self.states.iter().rev().find(|(at, _)| *at <= revision).unwrap().1
    }

    fn back(&self, steps: usize) -> u64 {
        self.states[self.states.len().saturating_sub(steps + 1)].0
    }

    async fn txn(&mut self, store: &Store, compare: &[(usize, u8)], write: &[(usize, Option<u8>)]) {
        let mut txn = Txn::default();
        let mut holds = true;
        for &(key, kind) in compare {
            let held = self.now().get(KEYS[key]);
            let (compare, held) = match kind {
                0 => (Compare::Absent, held.is_none()),
                1 => (Compare::Exists, held.is_some()),
                2 => (Compare::ModRevision(held.map_or(0, |held| held.modified)), held.is_some()),
                _ => (Compare::ModRevision(held.map_or(1, |held| held.modified - 1)), false),
            };
            holds &= held;
            txn = txn.when(KEYS[key], compare);
        }
        for &(key, value) in write {
            txn.ops.push(match value {
                Some(value) => Op::Put(KEYS[key].into(), vec![value; usize::from(value)].into()),
                None => Op::Delete(KEYS[key].into()),
            });
        }
        match store.txn(txn.clone()).await {
            Ok(Committed { revision }) => {
                assert!(holds, "{txn:?} should have failed");
                self.apply(&txn, revision);
            }
            Err(TxnError::Conflict(conflict)) => {
                assert!(!holds, "{txn:?} failed: {conflict}");
                let expected: Vec<_> = txn.compare.iter().map(|(key, _)| self.now().get(&**key).cloned()).collect();
                let current: Vec<_> =
                    conflict.current.iter().map(|(_, entry)| entry.as_ref().map(Held::from)).collect();
                assert_eq!(current, expected);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn apply(&mut self, txn: &Txn, revision: u64) {
        let mut state = self.now().clone();
        let mut changes = Vec::new();
        for op in &txn.ops {
            let key = op.key().to_string();
            let before = state.get(&key).cloned();
            match op {
                Op::Put(_, value) | Op::PutTtl(_, value, _) => {
                    let (create, version) =
                        before.as_ref().map_or((revision, 1), |held| (held.create, held.version + 1));
                    let held = Held { value: value.clone(), create, modified: revision, version };
                    state.insert(key.clone(), held.clone());
                    changes.push((revision, key, before, Some(held)));
                }
                Op::Delete(_) if before.is_some() => {
                    state.remove(&key);
                    changes.push((revision, key, before, None));
                }
                Op::Delete(_) => {}
            }
        }
        let newest = self.states.last().unwrap().0;
        if changes.is_empty() {
            assert!(revision >= newest);
        } else {
            assert!(revision > newest, "revision {revision} is not after {newest}");
            self.states.push((revision, state));
            self.changes.extend(changes);
        }
    }

    async fn read(&self, store: &Store, at: u64, page: usize, prefix: &str) {
        let expected: Vec<_> = self.at(at).iter().filter(|(key, _)| key.starts_with(prefix)).collect();
        let mut listed = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let answer = store.list(prefix, after.as_deref(), Some(page), Some(at)).await;
            if at < self.oldest {
                assert_eq!(answer, Err(ReadError::Compacted { requested: at, oldest: self.oldest }));
                return;
            }
            let answer = answer.unwrap();
            listed.extend(answer.entries.iter().map(|entry| (entry.key().to_string(), Held::from(entry))));
            assert_eq!(answer.remaining, expected.len() - listed.len());
            assert_eq!(answer.revision, at);
            after = answer.more;
            if after.is_none() {
                break;
            }
        }
        assert!(listed.iter().map(|(key, held)| (key, held)).eq(expected), "{listed:?}");
        for key in KEYS {
            let held = store.get_at(key, at).await.unwrap();
            assert_eq!(held.as_ref().map(Held::from).as_ref(), self.at(at).get(key));
            assert_eq!(store.get(key).as_ref().map(Held::from).as_ref(), self.now().get(key));
        }
    }

    async fn watch(&mut self, store: &Store, from: u64, prefix: &'static str) {
        match store.watch(prefix, Some(from)).await {
            Ok(watch) => {
                assert!(from >= self.oldest);
                self.watches.push(Watching { watch, from, prefix });
            }
            Err(error) => {
                assert!(from < self.oldest, "{error}");
                assert_eq!(error, ReadError::Compacted { requested: from, oldest: self.oldest });
            }
        }
    }

    /// Every watch has exactly what happened since it began, and then nothing.
    fn check_watches(&mut self) {
        for Watching { mut watch, from, prefix } in self.watches.drain(..) {
            let concerned = |change: &&Change| change.0 > from && change.1.starts_with(prefix);
            for (revision, key, before, after) in self.changes.iter().filter(concerned) {
                assert!(watch.progress() < *revision);
                let event = watch.try_next().unwrap().unwrap_or_else(|| panic!("no event for {key} at {revision}"));
                assert_eq!(matches!(*event, Event::Delete { .. }), after.is_none());
                let got = (event.revision(), event.key().to_string());
                assert_eq!(got, (*revision, key.clone()));
                assert_eq!(event.previous().map(Held::from), *before);
                assert_eq!(event.entry().map(Held::from), *after);
            }
            match watch.try_next() {
                Ok(rest) => assert_eq!(rest, None),
                Err(error) => assert_eq!(error, WatchError::Closed),
            }
        }
    }
}

/// Runs `steps` on the store that `open` gives; opens it again where a step says so, if `reopens`.
async fn run(open: impl AsyncFn() -> Store, reopens: bool, steps: Vec<Step>) {
    let mut store = open().await;
    let start = store.revision().await.unwrap();
    let mut model =
        Model { states: vec![(start, State::new())], changes: Vec::new(), oldest: start, watches: Vec::new() };
    for step in steps {
        match step {
            Step::Txn(compare, write) => model.txn(&store, &compare, &write).await,
            Step::Read { back, page, prefix } => model.read(&store, model.back(back), page, PREFIXES[prefix]).await,
            Step::Watch { back, prefix } => model.watch(&store, model.back(back), PREFIXES[prefix]).await,
            Step::Compact { back } => {
                let to = model.back(back);
                match store.compact(to).await {
                    Ok(()) => model.oldest = to,
                    Err(error) => {
                        assert_eq!(error, ReadError::Compacted { requested: to, oldest: model.oldest });
                        assert!(to < model.oldest);
                    }
                }
            }
            Step::Reopen if reopens => {
                let before = store.revision().await.unwrap();
                drop(store);
                model.check_watches();
                store = open().await;
                assert_eq!(store.revision().await.unwrap(), before);
            }
            Step::Reopen => {}
        }
    }
    let future = store.known_revision() + 1;
    let refused = ReadError::FutureRevision { requested: future, current: future - 1 };
    assert_eq!(store.get_at("a", future).await, Err(refused.clone()));
    assert_eq!(store.watch("a", Some(future)).await.map(drop), Err(refused));
    model.check_watches();
}

fn check(cases: u32, test: impl Fn(Vec<Step>)) {
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 500, ..ProptestConfig::default() };
    let steps = prop::collection::vec(step(), 1..60);
    TestRunner::new(config)
        .run(&steps, |steps| {
            test(steps);
            Ok(())
        })
        .unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn the_memory_store_agrees_with_the_model() {
    let runtime = runtime();
    check(200, |steps| runtime.block_on(run(async || Store::memory(Retention::default()), false, steps)));
}

#[test]
fn the_redb_store_agrees_with_the_model_across_restarts() {
    let runtime = runtime();
    check(40, |steps| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.redb");
        runtime.block_on(run(async || Store::open(&path, Retention::default()).unwrap(), true, steps));
    });
}

#[test]
fn the_etcd_store_agrees_with_the_model() {
    let runtime = runtime();
    for (loopback, cases) in [(Loopback::V4, 12), (Loopback::V6, 12)] {
        let Some(server) = Server::start(loopback) else { return };
        let number = std::sync::atomic::AtomicUsize::new(0);
        check(cases, |steps| {
            let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let prefix = format!("/case{number}");
            runtime.block_on(run(async || server.store(&prefix).await, false, steps));
        });
    }
}

#[test]
fn history_beyond_the_retention_is_gone_as_a_whole_revision() {
    runtime().block_on(async {
        let by_count = Retention { events: 4, ..Retention::default() };
        let by_bytes = Retention { bytes: 4 * 300, ..Retention::default() };
        let by_age = Retention { age: Duration::ZERO, ..Retention::default() };
        for (retention, kept) in [(by_count, 4), (by_bytes, 4), (by_age, 0)] {
            let store = Store::memory(retention);
            let mut slow = store.watch("", None).await.unwrap();
            for _ in 0..5 {
                let put = |key: &str| Op::Put(key.into(), Bytes::from_static(b"0123456789"));
                store.txn(Txn::of([put("a"), put("b")])).await.unwrap();
            }
            let newest = store.known_revision();
            let oldest = newest - kept / 2;
            if kept > 0 {
                assert_eq!(slow.try_next(), Err(WatchError::Lagged { oldest }));
                assert_eq!(slow.next().await, Err(WatchError::Lagged { oldest }), "an ended watch stays ended");
                assert_eq!(
                    store.get_at("a", oldest - 1).await,
                    Err(ReadError::Compacted { requested: oldest - 1, oldest })
                );
            } else {
                // Whether the very last change is already too old depends on the clock's steps.
                assert!(store.get_at("a", newest - 2).await.is_err());
            }
            for at in oldest..=newest {
                let page = store.list("", None, None, Some(at)).await.unwrap();
                assert_eq!(page.entries.iter().map(Entry::mod_revision).collect::<Vec<_>>(), [at, at]);
            }
        }
    });
}
