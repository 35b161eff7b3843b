//! A writer killed with SIGKILL at random moments, hundreds of times: what it acknowledged is there, whole, and nothing is half.
//!
//! The test runs its own binary as the writer. The child says on its standard output what it is about to write and what was
//! acknowledged; the pipe outlives it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};
use store::{Op, Retention, Store, Txn};

const KILLS: u64 = 220;
const WRITERS: u64 = 6;
const KEYS: u64 = 9;
/// What each writer does at most before it is killed; the kills come long before.
const STEPS: u64 = 45;
/// Enough for all that happens between two kills. A file that was not closed is checked page by page when it is opened, so a long
/// history would only make each round slower than the last; this one is also trimmed again and again under the kills.
const RETENTION: Retention = Retention { age: Duration::from_secs(300), events: 600, bytes: 128 << 20 };
const CHILD: &str = "STORE_CRASH_TEST_FILE";

/// What writer `writer` does in step `step`: a put of two keys that belong together, or the deletion of both.
fn ops(writer: u64, step: u64) -> Vec<Op> {
    let keys = keys(writer, step);
    match value(writer, step) {
        Some(value) => keys.into_iter().map(|key| Op::Put(key.into(), value.clone())).collect(),
        None => keys.into_iter().map(|key| Op::Delete(key.into())).collect(),
    }
}

fn keys(writer: u64, step: u64) -> [String; 2] {
    ["one", "two"].map(|half| format!("{half}/{writer}/{}", step % KEYS))
}

/// The step in clear, then bytes that only this step would have.
fn value(writer: u64, step: u64) -> Option<Bytes> {
    let fill = u8::try_from((step * 31 + writer) % 256).expect("below 256");
    let mut value = step.to_le_bytes().to_vec();
    value.resize(8 + usize::try_from(step % 3).expect("small") * 2_000 + 100, fill);
    (step % 4 != 3).then(|| value.into())
}

#[test]
fn what_was_acknowledged_survives_two_hundred_kills() {
    if let Some(path) = std::env::var_os(CHILD) {
        return write_until_killed(Path::new(&path));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let mut steps = BTreeMap::from_iter((0..WRITERS).map(|writer| (writer, 0)));
    let mut newest = 0;
    let mut acknowledged = 0;
    assert!(WRITERS * STEPS * 2 <= RETENTION.events as u64, "no watch misses anything between two kills");
    for kill in 0..KILLS {
        let progress = run_and_kill(&path, &steps, Moment::of(kill));
        acknowledged += progress.values().map(|progress| progress.acknowledged.len()).sum::<usize>();
        let store = Store::open(&path, RETENTION).unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        assert!(store.known_revision() >= newest, "kill {kill}: the revision went back");
        assert!(goes_on(&store, newest), "kill {kill}: a watch from revision {newest} missed something");
        newest = store.known_revision();
        for (writer, progress) in progress {
            let started = progress.started.max(steps[&writer]);
            let done = *progress.acknowledged.keys().last().unwrap_or_else(|| &steps[&writer]);
            assert!(
                progress.acknowledged.values().all(|revision| *revision <= newest),
                "kill {kill}: an acknowledged revision is gone"
            );
            assert!(started <= done + 1, "a writer has one step under way");
            let reached = (done..=started).rev().find(|reached| is_state_after(&store, writer, *reached));
            let reached =
                reached.unwrap_or_else(|| panic!("kill {kill}: writer {writer} is neither after {done} nor {started}"));
            steps.insert(writer, reached);
        }
    }
    assert!(acknowledged > 1_000, "only {acknowledged} writes in all; the kills came too early to mean anything");
}

/// Whether a watcher that knew `from` before the kill hears of every change since.
fn goes_on(store: &Store, from: u64) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Nothing is known of a time before the first file.
    let from = from.max(1);
    let list = |at| runtime.block_on(store.list("", None, None, at)).unwrap().entries;
    let mut state: BTreeMap<_, _> = list(Some(from)).into_iter().map(|entry| (entry.key().clone(), entry)).collect();
    let mut watch = runtime.block_on(store.watch("", Some(from))).unwrap();
    let mut revision = from;
    while let Some(event) = watch.try_next().unwrap() {
        if event.revision() > revision + 1 || state.get(event.key()) != event.previous() {
            return false;
        }
        revision = event.revision();
        match event.entry() {
            Some(entry) => _ = state.insert(entry.key().clone(), entry.clone()),
            None => _ = state.remove(event.key()),
        }
    }
    revision == store.known_revision() && state.into_values().eq(list(None))
}

/// Whether the store shows what `writer` leaves after steps 1 to `last`.
fn is_state_after(store: &Store, writer: u64, last: u64) -> bool {
    (0..KEYS).all(|slot| {
        let step = (last.saturating_sub(KEYS - 1).max(1)..=last).find(|step| step % KEYS == slot);
        let expected = step.and_then(|step| value(writer, step));
        keys(writer, slot).iter().all(|key| store.get(key).map(|entry| entry.value().clone()) == expected)
    })
}

#[derive(Default)]
struct Progress {
    /// The last step that was begun.
    started: u64,
    /// Revision by step.
    acknowledged: BTreeMap<u64, u64>,
}

/// When a writer is killed.
struct Moment {
    /// After it has begun to open the store and this many writes were acknowledged; 0 hits the opening itself.
    acknowledged: u64,
    /// And this much later, so that the kill falls anywhere between two acknowledgements.
    then: Duration,
}

impl Moment {
    fn of(kill: u64) -> Self {
        Self {
            acknowledged: if kill.is_multiple_of(5) { 0 } else { kill * 7 % 43 },
            then: Duration::from_micros(kill * 7_919 % 4_000),
        }
    }
}

fn run_and_kill(path: &Path, steps: &BTreeMap<u64, u64>, moment: Moment) -> BTreeMap<u64, Progress> {
    let steps: Vec<_> = steps.values().map(ToString::to_string).collect();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_was_acknowledged_survives_two_hundred_kills", "--nocapture"])
        .env(CHILD, path)
        .env("STORE_CRASH_TEST_STEPS", steps.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (progress, has_progressed) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut writers: BTreeMap<u64, Progress> = (0..WRITERS).map(|writer| (writer, Progress::default())).collect();
        for line in output.lines().map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            let number = |index: usize| words[index].parse::<u64>().expect("a number");
            match words[..] {
                ["opening"] => _ = progress.send(()),
                ["begin", ..] => writers.get_mut(&number(1)).expect("a writer").started = number(2),
                ["done", ..] => {
                    writers.get_mut(&number(1)).expect("a writer").acknowledged.insert(number(2), number(3));
                    // After the kill nobody counts any more.
                    _ = progress.send(());
                }
                _ => {}
            }
        }
        writers
    });
    for _ in 0..=moment.acknowledged {
        has_progressed.recv_timeout(Duration::from_secs(60)).expect("the child starts and writes");
    }
    // The moment of the kill is the point of the test; nothing tells when it would be a good one.
    let (_keep, never) = mpsc::channel::<()>();
    _ = never.recv_timeout(moment.then);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn write_until_killed(path: &Path) {
    // One write per line, past the test harness, so that a line is in the pipe whole or not at all.
    let print = |line: String| {
        std::io::stdout().lock().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush()).unwrap()
    };
    print("\nopening\n".into());
    let store = Store::open(path, RETENTION).unwrap();
    let steps = std::env::var("STORE_CRASH_TEST_STEPS").unwrap();
    let write = |(writer, mut step): (u64, u64)| {
        let store = store.clone();
        async move {
            for _ in 0..STEPS {
                step += 1;
                print(format!("begin {writer} {step}\n"));
                let done = store.txn(Txn::of(ops(writer, step))).await.unwrap();
                print(format!("done {writer} {step} {}\n", done.revision));
            }
            std::future::pending().await
        }
    };
    let writers = (0..).zip(steps.split(',').map(|step| step.parse().unwrap())).map(write);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _: Vec<()> = runtime.block_on(futures::future::join_all(writers));
}
