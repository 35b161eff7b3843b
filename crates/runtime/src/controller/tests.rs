//! Stores that read their own writes, queues that neither lose nor double a key, selection of controllers.

use super::*;
use crate::{backoff::Backoff, watch::Event};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

fn map(name: &str, uid: &str, version: u64) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("ns".to_owned());
    map.metadata.name = Some(name.to_owned());
    map.metadata.uid = Some(uid.to_owned());
    map.metadata.resource_version = Some(version.to_string());
    map
}

fn version(store: &Store<ConfigMap>, name: &str) -> Option<String> {
    store.get(&Key::new("ns", name)).and_then(|map| map.metadata.resource_version.clone())
}

#[test]
fn a_store_reads_its_own_writes_and_ignores_what_lags() {
    let store = Store::<ConfigMap>::default();
    for event in [Event::Init, Event::InitApply(map("a", "1", 5)), Event::InitDone] {
        store.apply(event);
    }
    store.remember(map("a", "1", 9));
    store.apply(Event::Apply(map("a", "1", 7)));
    assert_eq!(version(&store, "a").as_deref(), Some("9"));
    store.apply(Event::Apply(map("a", "1", 11)));
    store.remember(map("a", "1", 10));
    assert_eq!(version(&store, "a").as_deref(), Some("11"));

    // Deleted by us: an older event does not bring it back, its own successor does.
    let known = store.get(&Key::new("ns", "a")).unwrap();
    store.forget(&known);
    store.apply(Event::Apply(map("a", "1", 12)));
    assert_eq!(version(&store, "a"), None);
    store.remember(map("a", "2", 14));
    store.apply(Event::Delete(map("a", "1", 13)));
    assert_eq!(version(&store, "a").as_deref(), Some("14"));

    // Created by us and deleted by another before the answer came.
    store.apply(Event::Apply(map("b", "3", 20)));
    store.apply(Event::Delete(map("b", "3", 21)));
    store.remember(map("b", "3", 20));
    assert_eq!(version(&store, "b"), None);
}

#[test]
fn a_new_list_takes_out_what_it_does_not_have() {
    let store = Store::<ConfigMap>::default();
    let notified = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&notified);
    let by_first = store.index("first", |map| map.metadata.name.iter().map(|name| name[..1].to_owned()).collect());
    store.apply(Event::Apply(map("a1", "1", 1)));
    let subscription = store.on_change(move |change| {
        log.lock().push((change.key().name, change.old.is_some(), change.new.is_some()));
    });
    for event in [Event::Init, Event::InitApply(map("a2", "2", 3)), Event::InitApply(map("b", "3", 2)), Event::InitDone]
    {
        store.apply(event);
    }
    let expected = [("a1", false, true), ("a2", false, true), ("b", false, true), ("a1", true, false)];
    assert_eq!(*notified.lock(), expected.map(|(name, old, new)| (name.to_owned(), old, new)));
    assert_eq!(store.count_by(by_first, "a"), 1);
    assert_eq!(store.by(by_first, "b").len(), 1);
    drop(subscription);
    store.apply(Event::Delete(map("b", "3", 9)));
    assert_eq!(notified.lock().len(), 4);
    assert!(store.by(by_first, "b").is_empty());
}

#[test]
fn a_list_counts_for_what_was_not_written_meanwhile_even_if_it_is_older() {
    let store = Store::<ConfigMap>::default();
    for event in
        [Event::Init, Event::InitApply(map("a", "1", 50)), Event::InitApply(map("b", "2", 60)), Event::InitDone]
    {
        store.apply(event);
    }
    let gone = store.get(&Key::new("ns", "b")).unwrap();
    store.forget(&gone);
    // The API comes back with an older history: `b` is there again, `a` as it was before.
    store.apply(Event::Init);
    store.remember(map("new", "9", 90));
    store.apply(Event::InitApply(map("a", "1", 20)));
    store.apply(Event::InitApply(map("b", "2", 30)));
    store.apply(Event::InitDone);
    assert_eq!(version(&store, "a").as_deref(), Some("20"));
    assert_eq!(version(&store, "b").as_deref(), Some("30"));
    // Written after the list was asked for, so that its absence there means nothing.
    assert_eq!(version(&store, "new").as_deref(), Some("90"));
    store.apply(Event::Apply(map("a", "1", 31)));
    assert_eq!(version(&store, "a").as_deref(), Some("31"));
}

#[tokio::test]
async fn versions_that_went_back_do_not_hide_what_is_written_then() {
    let store = Store::<ConfigMap>::default();
    let back = crate::watch::Error::WentBack { known: 100, found: 10 };
    let events = [
        Ok(Event::Init),
        Ok(Event::InitApply(map("a", "1", 100))),
        Ok(Event::InitDone),
        Ok(Event::Init),
        Err(back),
        Ok(Event::InitApply(map("a", "1", 10))),
        Ok(Event::InitDone),
    ];
    store.follow(futures::stream::iter(events)).await;
    store.remember(map("b", "2", 11));
    assert_eq!(version(&store, "b").as_deref(), Some("11"));
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_known_to_have_no_objects() {
    let not_served = || {
        let status = kube::core::Status::failure("no such resource", "NotFound").with_code(404).boxed();
        Err(crate::watch::Error::List(kube::Error::Api(status)))
    };
    let store = Store::<ConfigMap>::default();
    store.follow(futures::stream::iter([Ok(Event::Init), not_served()])).await;
    assert!(!store.known().await);
    let events = [Ok(Event::Init), Ok(Event::InitApply(map("a", "1", 5))), Ok(Event::InitDone), Ok(Event::Init)];
    store.follow(futures::stream::iter(events.into_iter().chain([not_served()]))).await;
    assert!(store.known().await);
    assert_eq!(version(&store, "a").as_deref(), Some("5"), "what is known stays");
}

const QUICK: Backoff = Backoff { first: Duration::from_millis(1), cap: Duration::from_millis(2) };

#[tokio::test]
async fn a_key_waits_once_and_is_worked_on_by_one() {
    let queue = Queue::new(QUICK);
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    assert_eq!(queue.next().await, "b");
    assert!(tokio::time::timeout(Duration::from_millis(20), queue.next()).await.is_err(), "a is being worked on");
    queue.done(&"a");
    assert_eq!(queue.next().await, "a");
    queue.done(&"a");
    queue.done(&"b");
    assert!(queue.is_idle());
}

#[tokio::test]
async fn the_shortest_delay_counts() {
    let queue = Queue::new(QUICK);
    queue.add_after("a", Duration::from_secs(3600));
    queue.add_after("b", Duration::from_millis(5));
    queue.add_after("a", Duration::from_millis(10));
    queue.add_after("a", Duration::from_secs(3600));
    assert_eq!(queue.next().await, "b");
    assert_eq!(queue.next().await, "a");
}

/// Fails in every way before it succeeds.
struct Shaky {
    attempts: AtomicU32,
    done: Notify,
}

impl Reconcile for Shaky {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        if key.name == "steady" {
            return Ok(Next::Done);
        }
        match self.attempts.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("first"),
            1 => Err("second".into()),
            2 => Ok(Next::After(Duration::from_millis(1))),
            _ => {
                self.done.notify_one();
                Ok(Next::Done)
            }
        }
    }
}

#[tokio::test]
async fn errors_and_panics_are_tried_again_and_concern_their_key_alone() {
    let queue = Queue::new(QUICK);
    let shaky = Shaky { attempts: AtomicU32::new(0), done: Notify::new() };
    queue.add(Key::cluster("shaky"));
    queue.add(Key::cluster("steady"));
    tokio::select! {
        _ = work(&queue, 2, &shaky) => unreachable!("it ends by being dropped"),
        done = tokio::time::timeout(Duration::from_secs(20), shaky.done.notified()) => done.unwrap(),
    }
    assert_eq!(shaky.attempts.load(Ordering::Relaxed), 4);
}

#[test]
fn the_first_word_for_a_controller_counts() {
    static ALL: &[Controller<()>] = &[
        Controller { name: "a-controller", alias: "a", default_on: true, run: |_| Box::pin(async { Ok(()) }) },
        Controller { name: "b-controller", alias: "", default_on: false, run: |_| Box::pin(async { Ok(()) }) },
    ];
    let known: Vec<&Controller<()>> = ALL.iter().collect();
    for (list, picked) in [
        ("*", [true, false]),
        ("*,b-controller", [true, true]),
        ("*,-a", [false, false]),
        ("-a-controller,*,a", [false, false]),
        ("b-controller", [false, true]),
        ("", [false, false]),
    ] {
        let selection = Selection::parse(list, &known).unwrap();
        assert_eq!([selection.picks(&ALL[0]), selection.picks(&ALL[1])], picked, "{list}");
    }
    let error = Selection::parse("*,-a-controler", &known).unwrap_err().to_string();
    assert_eq!(
        error,
        "\"-a-controler\" is not a controller (did you mean a-controller?); accepted are *, a name or -name, of: \
         a-controller, b-controller"
    );
}
