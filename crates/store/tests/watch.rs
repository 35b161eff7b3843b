//! Watches while others write: nothing missing, nothing twice, nobody woken for nothing, nobody held up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use futures::{Stream, StreamExt};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use store::{Compare, Event, Op, Retention, Store, Txn, WatchError};

const PATIENCE: Duration = Duration::from_secs(30);

fn put(key: impl Into<String>, value: &'static str) -> Txn {
    Txn::of([Op::Put(key.into().into(), Bytes::from_static(value.as_bytes()))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_list_and_a_watch_from_it_show_every_change_once_while_many_write() {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 200;
    let directory = tempfile::tempdir().unwrap();
    for store in [
        Store::memory(Retention::default()),
        Store::open(&directory.path().join("store.redb"), Retention::default()).unwrap(),
    ] {
        let write = |writer: usize| {
            let store = store.clone();
            async move {
                for round in 0..ROUNDS {
                    let key = format!("p{}/{}", writer % 2, round % 7);
                    match round % 5 {
                        4 => store.txn(Txn::of([Op::Delete(key.into())])).await.unwrap(),
                        _ => store.txn(put(key, "x")).await.unwrap(),
                    };
                }
            }
        };
        let observe = |delay: usize| {
            let store = store.clone();
            async move {
                while store.known_revision() < 1 + delay as u64 {
                    tokio::task::yield_now().await;
                }
                let page = store.list("p0/", None, None, None).await.unwrap();
                let mut state: std::collections::BTreeMap<_, _> =
                    page.entries.into_iter().map(|entry| (entry.key().clone(), entry)).collect();
                let mut watch = store.watch("p0/", Some(page.revision)).await.unwrap();
                let mut last = page.revision;
                loop {
                    match tokio::time::timeout(PATIENCE, watch.next()).await.expect("an event or the end") {
                        Ok(event) => {
                            assert!(event.revision() > last);
                            last = event.revision();
                            assert_eq!(event.previous(), state.get(event.key()), "what was there before");
                            match &*event {
                                Event::Put { entry, .. } if &**entry.key() == "p0/end" => return state,
                                Event::Put { entry, .. } => _ = state.insert(entry.key().clone(), entry.clone()),
                                Event::Delete { previous, .. } => _ = state.remove(previous.key()),
                            }
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        let writers = futures::future::join_all((0..WRITERS).map(write));
        let observers = futures::future::join_all((0..20).map(|number| observe(number * 10)));
        let end = async {
            writers.await;
            let last = store.list("p0/", None, None, None).await.unwrap();
            store.txn(put("p0/end", "")).await.unwrap();
            last
        };
        let (last, observed) = tokio::join!(end, observers);
        for state in observed {
            assert!(state.into_values().eq(last.entries.iter().cloned()));
        }
    }
}

#[tokio::test]
async fn counters_raised_by_compare_and_set_lose_no_step() {
    let store = Store::memory(Retention::default());
    let raise = || async {
        for _ in 0..50 {
            loop {
                let current = store.get("counter");
                let number: u64 =
                    current.as_ref().map_or(0, |entry| String::from_utf8_lossy(entry.value()).parse().unwrap());
                let compare = current.map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision()));
                let next = Op::Put("counter".into(), (number + 1).to_string().into());
                if store.txn(Txn::of([next]).when("counter", compare)).await.is_ok() {
                    break;
                }
            }
        }
    };
    tokio::join!(raise(), raise(), raise(), raise());
    assert_eq!(store.get("counter").unwrap().value(), "200");
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_write_wakes_only_the_watchers_of_its_prefix() {
    let store = Store::memory(Retention::default());
    let mut watches = Vec::new();
    for prefix in ["pods/", "pods/default/", "pods/other/", "services/", ""] {
        let watch = store.watch(prefix, None).await.unwrap();
        watches.push((prefix, watch, Arc::new(Count::default())));
    }
    for (_, watch, count) in &mut watches {
        let waker = Waker::from(Arc::clone(count));
        assert!(std::pin::Pin::new(watch).poll_next(&mut Context::from_waker(&waker)).is_pending());
    }
    store.txn(put("pods/default/web", "x")).await.unwrap();
    let woken: Vec<_> = watches.iter().map(|(prefix, _, count)| (*prefix, count.0.load(Ordering::SeqCst))).collect();
    assert_eq!(woken, [("pods/", 1), ("pods/default/", 1), ("pods/other/", 0), ("services/", 0), ("", 1)]);
}

/// The value up to a space is the tag.
fn tag_by_first_word(store: &Store) {
    store.tag_by(|entry| std::str::from_utf8(entry.value()).unwrap().split_once(' ').map(|(tag, _)| tag.into()));
}

#[tokio::test]
async fn a_write_wakes_only_the_watchers_of_the_tags_it_had_and_has() {
    let store = Store::memory(Retention::default());
    tag_by_first_word(&store);
    let mut watches = Vec::new();
    for (prefix, tag) in [("pods/", "n1"), ("pods/", "n2"), ("pods/a/", "n2"), ("pods/", "n3"), ("nodes/", "n1")] {
        watches.push((store.watch_tagged(prefix, tag, None).await.unwrap(), Arc::new(Count::default())));
    }
    let listen = |watches: &mut Vec<(store::Watch, Arc<Count>)>| {
        for (watch, count) in watches {
            let waker = Waker::from(Arc::clone(count));
            while std::pin::Pin::new(&mut *watch).poll_next(&mut Context::from_waker(&waker)).is_ready() {}
        }
    };
    listen(&mut watches);
    for (value, woken) in [
        ("n1 x", [1, 0, 0, 0, 0]),
        ("untagged", [1, 0, 0, 0, 0]),
        ("untagged", [0, 0, 0, 0, 0]),
        ("n2 x", [0, 1, 0, 0, 0]),
        ("n1 y", [1, 1, 0, 0, 0]),
        ("n1 z", [1, 0, 0, 0, 0]),
    ] {
        store.txn(put("pods/b/web", value)).await.unwrap();
        let tag = value.split_once(' ').map(|(tag, _)| tag);
        for (one, prefix) in [("n1", "pods/"), ("n2", "pods/b/"), ("n1", "pods/a/")] {
            let listed = store.list_tagged(prefix, one);
            assert_eq!(listed.entries.len(), usize::from(tag == Some(one) && prefix != "pods/a/"), "{value} {one}");
            assert_eq!(listed.revision, store.known_revision());
        }
        let counted: Vec<_> = watches.iter().map(|(_, count)| count.0.swap(0, Ordering::SeqCst)).collect();
        assert_eq!(counted, woken, "{value}");
        listen(&mut watches);
    }
}

#[tokio::test]
async fn a_watch_by_tag_from_an_old_revision_has_what_happened_since_also_before_there_were_tags() {
    let store = Store::memory(Retention { events: 4, ..Retention::default() });
    let from = store.txn(put("pods/0", "n1 x")).await.unwrap().revision;
    for (key, value) in [("pods/1", "n1 x"), ("pods/2", "n2 x")] {
        store.txn(put(key, value)).await.unwrap();
    }
    tag_by_first_word(&store);
    store.txn(put("pods/2", "n1 y")).await.unwrap();
    let keys = |watch: &mut store::Watch| {
        std::iter::from_fn(|| watch.try_next().unwrap()).map(|event| event.key().to_string()).collect::<Vec<_>>()
    };
    let mut first = store.watch_tagged("pods/", "n1", Some(from)).await.unwrap();
    let mut second = store.watch_tagged("pods/", "n2", Some(from)).await.unwrap();
    assert_eq!(keys(&mut first), ["pods/1", "pods/2"]);
    assert_eq!(keys(&mut second), ["pods/2", "pods/2"]);
    assert_eq!(first.progress(), store.known_revision());
    let listed = |tag| store.list_tagged("pods/", tag).entries.iter().map(|e| e.key().to_string()).collect::<Vec<_>>();
    assert_eq!((listed("n1"), listed("n2")), (vec!["pods/0".into(), "pods/1".into(), "pods/2".into()], vec![]));
    store.txn(Txn::of([Op::Delete("pods/1".into())])).await.unwrap();
    assert_eq!(listed("n1"), ["pods/0", "pods/2"]);
    keys(&mut first);
    // Trimmed from the ring, and from the hubs of both tags with it.
    for number in 0..8 {
        store.txn(put(format!("pods/{number}"), "n1 z")).await.unwrap();
    }
    assert_eq!(keys(&mut second), Vec::<String>::new().as_slice());
    assert!(first.try_next().is_err(), "it slept too long");
}

#[tokio::test]
async fn a_thousand_watchers_get_the_same_event_not_copies() {
    let store = Store::memory(Retention::default());
    let mut watches = Vec::new();
    for _ in 0..1_000 {
        watches.push(store.watch("pods/", None).await.unwrap());
    }
    store.txn(put("pods/a", "x")).await.unwrap();
    let first = watches[0].try_next().unwrap().unwrap();
    for watch in &mut watches[1..] {
        assert!(Arc::ptr_eq(&first, &watch.try_next().unwrap().unwrap()));
    }
    let Event::Put { entry, .. } = &*first else { panic!("a put") };
    let parsed = store.get("pods/a").unwrap().view(|bytes| bytes.len());
    assert!(Arc::ptr_eq(&parsed, &entry.view(|_| -> usize { unreachable!() })));
}

#[tokio::test]
async fn watches_from_old_revisions_share_what_newer_ones_already_have() {
    let store = Store::memory(Retention::default());
    for number in 0..6 {
        store.txn(put(format!("{}/{number}", ["a", "b"][number % 2]), "x")).await.unwrap();
    }
    let revisions = |watch: &mut store::Watch| {
        std::iter::from_fn(|| watch.try_next().unwrap()).map(|event| event.revision()).collect::<Vec<_>>()
    };
    let mut late = store.watch("a/", Some(5)).await.unwrap();
    let mut early = store.watch("a/", Some(2)).await.unwrap();
    let mut all = store.watch("a/", Some(1)).await.unwrap();
    store.txn(put("a/6", "x")).await.unwrap();
    assert_eq!(revisions(&mut late), [6, 8]);
    assert_eq!(revisions(&mut early), [4, 6, 8]);
    assert_eq!(revisions(&mut all), [2, 4, 6, 8]);
}

#[tokio::test]
async fn progress_tells_what_was_handed_out() {
    let store = Store::memory(Retention::default());
    let mut watch = store.watch("a/", None).await.unwrap();
    assert_eq!(watch.progress(), 1);
    store.txn(put("b/1", "x")).await.unwrap();
    assert_eq!(watch.progress(), 2, "a change elsewhere needs no delivery");
    let both = [Op::Put("a/1".into(), Bytes::new()), Op::Put("a/2".into(), Bytes::new())];
    store.txn(Txn::of(both)).await.unwrap();
    assert_eq!(watch.progress(), 2);
    watch.next().await.unwrap();
    assert_eq!(watch.progress(), 2, "half of revision 3 is still to come");
    watch.next().await.unwrap();
    assert_eq!(watch.progress(), 3);
}

#[tokio::test]
async fn compaction_does_not_take_events_from_watches_under_way() {
    let store = Store::memory(Retention::default());
    let mut watch = store.watch("", None).await.unwrap();
    for value in ["1", "2", "3"] {
        store.txn(put("a", value)).await.unwrap();
    }
    store.compact(4).await.unwrap();
    let values: Vec<_> =
        std::iter::from_fn(|| watch.try_next().unwrap()).map(|event| event.entry().unwrap().value().clone()).collect();
    assert_eq!(values, ["1", "2", "3"]);
}

#[tokio::test]
async fn a_watcher_that_sleeps_holds_up_nobody_and_is_told() {
    let store = Store::memory(Retention { events: 100, ..Retention::default() });
    let mut asleep = store.watch("a", None).await.unwrap();
    let mut awake = store.watch("a", None).await.unwrap();
    for _ in 0..300 {
        store.txn(put("a", "x")).await.unwrap();
        awake.next().await.unwrap();
    }
    assert_eq!(asleep.next().await, Err(WatchError::Lagged { oldest: 201 }));
}

#[tokio::test]
async fn the_last_handle_ends_the_watches() {
    let store = Store::memory(Retention::default());
    let mut watch = store.watch("", None).await.unwrap();
    store.txn(put("a", "x")).await.unwrap();
    drop(store);
    assert!(StreamExt::next(&mut watch).await.unwrap().is_ok(), "what was there is still handed out");
    assert_eq!(StreamExt::next(&mut watch).await.unwrap(), Err(WatchError::Closed));
    assert!(matches!(futures::poll!(StreamExt::next(&mut watch)), Poll::Ready(None)));
}

#[tokio::test]
async fn keys_with_a_time_to_live_go_away_as_ordinary_deletions_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let ttl = |key: &str, millis| Op::PutTtl(key.into(), Bytes::from_static(b"x"), Duration::from_millis(millis));
    let store = Store::open(&path, Retention::default()).unwrap();
    let mut watch = store.watch("", None).await.unwrap();
    store
        .txn(Txn::of([ttl("short", 30), ttl("kept", 4_000), ttl("restart", 4_100), ttl("long", 3_600_000)]))
        .await
        .unwrap();
    store.txn(put("kept", "for good")).await.unwrap();
    let deleted = loop {
        let event = tokio::time::timeout(PATIENCE, watch.next()).await.expect("a deletion").unwrap();
        if event.entry().is_none() {
            break event;
        }
    };
    assert_eq!(&**deleted.key(), "short");
    drop(store);
    let store = Store::open(&path, Retention::default()).unwrap();
    let mut watch = store.watch("", None).await.unwrap();
    if store.get("restart").is_some() {
        let event = tokio::time::timeout(PATIENCE, watch.next()).await.expect("a deletion").unwrap();
        assert_eq!((&**event.key(), event.entry()), ("restart", None));
    }
    let left = store.list("", None, None, None).await.unwrap();
    assert_eq!(left.entries.iter().map(|entry| &**entry.key()).collect::<Vec<_>>(), ["kept", "long"]);
    assert_eq!(store.known_revision(), 5);
}
