//! How fast the store is on this machine: durable transactions, reads, lists, watch fan-out, opening. Prints one line each.
//!
//! `cargo bench -p store`
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first surprise")]

use bytes::Bytes;
use futures::future::join_all;
use std::time::{Duration, Instant};
use store::{Compare, Op, Retention, Store, Txn};

const VALUE: usize = 1_536;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir_in(std::env::var("STORE_BENCH_DIR").unwrap_or_else(|_| ".".into())).unwrap();
    let path = directory.path().join("store.redb");
    runtime.block_on(async {
        let store = Store::open(&path, Retention::default()).unwrap();
        for writers in [1, 16, 64] {
            writes("durable", &store, writers).await;
        }
        drop(store);
        writes("in memory only", &Store::memory(Retention::default()), 16).await;

        let path = directory.path().join("large.redb");
        let store = Store::open(&path, Retention::default()).unwrap();
        fill(&store, 100_000).await;
        reads(&store).await;
        fan_out(&store, 1_000).await;
        writes("durable, beside 100,000 keys", &store, 16).await;
        drop(store);
        let size = std::fs::metadata(&path).unwrap().len() >> 20;
        let start = Instant::now();
        drop(Store::open(&path, Retention::default()).unwrap());
        println!("open and close 100,000 keys: {:?}, file {size} MiB", start.elapsed());
    });
}

fn value(number: usize) -> Bytes {
    let mut value = number.to_string().into_bytes();
    value.resize(VALUE, b'x');
    value.into()
}

/// Creates and updates by compare-and-set, as an API server does.
async fn writes(name: &str, store: &Store, writers: usize) {
    let end = Instant::now() + Duration::from_secs(3);
    let write = |writer: usize| async move {
        let mut slowest = Duration::ZERO;
        let mut count = 0_usize;
        while Instant::now() < end {
            let key = format!("pods/{writer}/{}", count % 1_000);
            let compare = store.get(&key).map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision()));
            let start = Instant::now();
            store.txn(Txn::of([Op::Put(key.clone().into(), value(count))]).when(key, compare)).await.unwrap();
            slowest = slowest.max(start.elapsed());
            count += 1;
        }
        (count, slowest)
    };
    let start = Instant::now();
    let done = join_all((0..writers).map(write)).await;
    let count: usize = done.iter().map(|(count, _)| count).sum();
    let slowest = done.iter().map(|(_, slowest)| *slowest).max().unwrap_or_default();
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("{name}: {rate:.0} txns/s with {writers} writers, {VALUE} bytes each, slowest {slowest:?}");
}

async fn fill(store: &Store, keys: usize) {
    let start = Instant::now();
    for first in (0..keys).step_by(1_000) {
        let puts = (first..first + 1_000).map(|number| Op::Put(format!("pods/fill/{number:06}").into(), value(number)));
        store.txn(Txn::of(puts)).await.unwrap();
    }
    println!("fill {keys} keys, 1,000 per txn: {:?}", start.elapsed());
}

async fn reads(store: &Store) {
    let start = Instant::now();
    for number in 0..100_000 {
        assert!(store.get(&format!("pods/fill/{number:06}")).is_some());
    }
    println!("get: {:?} each", start.elapsed() / 100_000);
    for limit in [500, 10_000, 100_000] {
        let start = Instant::now();
        let page = store.list("pods/fill/", None, Some(limit), None).await.unwrap();
        let took = start.elapsed();
        println!("list {} of {} keys: {took:?}", page.entries.len(), page.entries.len() + page.remaining);
    }
}

async fn fan_out(store: &Store, watchers: usize) {
    const EVENTS: usize = 2_000;
    let mut watches = Vec::new();
    for _ in 0..watchers {
        watches.push(store.watch("pods/fan/", None).await.unwrap());
    }
    let start = Instant::now();
    let observe = watches.into_iter().map(|mut watch| async move {
        for _ in 0..EVENTS {
            watch.next().await.unwrap();
        }
    });
    let write = async {
        join_all((0..16).map(|writer| async move {
            for number in 0..EVENTS / 16 {
                let key = format!("pods/fan/{writer}/{number}");
                store.txn(Txn::of([Op::Put(key.into(), value(number))])).await.unwrap();
            }
        }))
        .await;
    };
    tokio::join!(write, join_all(observe));
    let total = watchers * EVENTS;
    println!(
        "watch: {total} deliveries to {watchers} watchers in {:?}, {:?} each",
        start.elapsed(),
        start.elapsed() / total as u32
    );
}
