//! Several stores on one real etcd: they see each other, survive its death, and say so when it is gone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bytes::Bytes;
use std::time::Duration;
use store::{
    Compare, EtcdConfig, EtcdTls, Health, Op, OpenError, ReadError, Retention, Store, Txn, TxnError, Watch, WatchError,
};
use support::{Loopback, PATIENCE, Server, connect, eventually};

const BOTH: [Loopback; 2] = [Loopback::V4, Loopback::V6];

fn put(key: &str, value: &str) -> Txn {
    Txn::of([Op::Put(key.into(), Bytes::copy_from_slice(value.as_bytes()))])
}

async fn next(watch: &mut Watch) -> (String, u64, Option<Bytes>, Option<Bytes>) {
    let event = tokio::time::timeout(PATIENCE, watch.next()).await.expect("an event in time").unwrap();
    let value = |entry: Option<&store::Entry>| entry.map(|entry| entry.value().clone());
    (event.key().to_string(), event.revision(), value(event.previous()), value(event.entry()))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_share_one_history() {
    for loopback in BOTH {
        let Some(server) = Server::start(loopback) else { return };
        let one = server.store("/registry").await;
        let two = server.store("/registry").await;
        assert_eq!(one.cluster_id(), two.cluster_id());
        let mut watch = two.watch("pods/", None).await.unwrap();

        let created = one.txn(put("pods/a", "1").when("pods/a", Compare::Absent)).await.unwrap().revision;
        assert_eq!(one.get("pods/a").unwrap().mod_revision(), created, "visible where it was written");
        assert!(two.revision().await.unwrap() >= created);
        assert_eq!(two.get("pods/a").unwrap().value(), "1", "visible elsewhere after a consistent read");

        let changed = two.txn(put("pods/a", "2").when("pods/a", Compare::ModRevision(created))).await.unwrap().revision;
        let lost = one.txn(put("pods/a", "3").when("pods/a", Compare::ModRevision(created))).await;
        let Err(TxnError::Conflict(conflict)) = lost else { panic!("{lost:?}") };
        let [(_, Some(current))] = &conflict.current[..] else { panic!("{conflict:?}") };
        assert_eq!((current.value().as_ref(), current.mod_revision()), (&b"2"[..], changed));

        let deleted = one.txn(Txn::of([Op::Delete("pods/a".into())])).await.unwrap().revision;
        let [v1, v2] = ["1", "2"].map(|text| Some(Bytes::from(text)));
        assert_eq!(next(&mut watch).await, ("pods/a".into(), created, None, v1.clone()));
        assert_eq!(next(&mut watch).await, ("pods/a".into(), changed, v1, v2.clone()));
        assert_eq!(next(&mut watch).await, ("pods/a".into(), deleted, v2, None));

        // A revision that only the other store has told of: this one finds out before it answers.
        let revision = one.txn(put("pods/b", "1")).await.unwrap().revision;
        assert!(two.get_at("pods/b", revision).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_outside_the_prefix_are_not_seen_but_do_not_hold_up_reads() {
    let Some(server) = Server::start(Loopback::V6) else { return };
    let ours = server.store("/registry").await;
    let theirs = server.store("/registry2").await;
    let mut watch = ours.watch("", None).await.unwrap();
    for _ in 0..3 {
        let theirs = theirs.txn(put("x", "y")).await.unwrap().revision;
        assert!(ours.revision().await.unwrap() >= theirs);
        assert!(ours.txn(Txn::of([Op::Delete("absent".into())])).await.unwrap().revision >= theirs);
    }
    assert_eq!(ours.list("", None, None, None).await.unwrap().entries, []);
    assert_eq!(watch.try_next(), Ok(None));
    assert_eq!(watch.progress(), ours.known_revision());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_consistent_reads_at_once_all_see_what_was_acknowledged() {
    let Some(server) = Server::start(Loopback::V4) else { return };
    let one = server.store("/registry").await;
    let two = server.store("/registry").await;
    let read = |number: usize| {
        let (one, two) = (&one, &two);
        async move {
            let key = format!("k{number}");
            for round in 0..10 {
                let written = one.txn(put(&key, &round.to_string())).await.unwrap().revision;
                assert!(two.revision().await.unwrap() >= written);
                assert_eq!(two.get(&key).unwrap().mod_revision(), written);
            }
        }
    };
    futures::future::join_all((0..32).map(read)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_may_die_and_come_back() {
    for loopback in BOTH {
        let Some(mut server) = Server::start(loopback) else { return };
        let one = server.store("/registry").await;
        let two = server.store("/registry").await;
        one.txn(put("a", "1")).await.unwrap();
        two.revision().await.unwrap();
        let mut watch = two.watch("", None).await.unwrap();

        server.kill();
        let error = one.revision().await.expect_err("etcd is dead").to_string();
        assert!(error.starts_with("the store is unavailable: etcd: "), "{error}");
        assert!(matches!(one.txn(put("a", "lost")).await, Err(TxnError::Unavailable(_))));
        eventually("the store says it is failing", async || matches!(two.health(), Health::Failing(_))).await;
        assert_eq!(two.get("a").unwrap().value(), "1", "reads from memory go on");
        assert_eq!(watch.try_next(), Ok(None), "and watches stay");

        server.run();
        eventually("writes work again", async || one.txn(put("a", "2")).await.is_ok()).await;
        assert_eq!(next(&mut watch).await.3, Some("2".into()), "the watch goes on where it was");
        eventually("the store is well again", async || two.health() == Health::Ready).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_etcd_compacted_meanwhile_ends_the_watches() {
    let Some(server) = Server::start(Loopback::V4) else { return };
    let relay = Relay::start(&server.client_url).await;
    let far = connect(EtcdConfig { endpoints: vec![relay.url.clone()], ..server.config("/registry") }).await;
    let near = server.store("/registry").await;
    near.txn(put("a", "1")).await.unwrap();
    let known = far.revision().await.unwrap();
    let mut watch = far.watch("", None).await.unwrap();

    relay.cut();
    near.txn(put("a", "2")).await.unwrap();
    near.txn(Txn::of([Op::Delete("a".into())])).await.unwrap();
    let newest = near.txn(put("b", "3")).await.unwrap().revision;
    near.compact(newest).await.unwrap();
    relay.mend();

    let error = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the end of the watch").expect_err("an end");
    assert_eq!(error, WatchError::Compacted { oldest: newest });
    let page = far.list("", None, None, None).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| &**entry.key()).collect::<Vec<_>>(), ["b"]);
    let again = far.watch("", Some(known)).await.map(drop);
    assert_eq!(again, Err(ReadError::Compacted { requested: known, oldest: newest }));
    let mut watch = far.watch("", Some(page.revision)).await.unwrap();
    near.txn(put("c", "4")).await.unwrap();
    assert_eq!(next(&mut watch).await.0, "c");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_lost_its_data_is_noticed() {
    let Some(mut server) = Server::start(Loopback::V4) else { return };
    let store = server.store("/registry").await;
    for _ in 0..5 {
        store.txn(put("a", "1")).await.unwrap();
    }
    let mut watch = store.watch("", None).await.unwrap();
    server.kill();
    server.wipe();
    server.run();
    let end = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the end of the watch");
    assert_eq!(end, Err(WatchError::Compacted { oldest: 1 }));
    assert_eq!(store.get("a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_was_put_back_is_noticed_even_when_it_has_come_further_since() {
    let Some(mut server) = Server::start(Loopback::V6) else { return };
    let relay = Relay::start(&server.client_url).await;
    let far = connect(EtcdConfig { endpoints: vec![relay.url.clone()], ..server.config("/registry") }).await;
    let near = server.store("/registry").await;
    near.txn(put("kept", "1")).await.unwrap();
    server.kill();
    server.keep();
    server.run();
    eventually("writes work again", async || near.txn(put("lost", "2")).await.is_ok()).await;
    eventually("the other store follows", async || far.get("lost").is_some()).await;
    let known = far.known_revision();
    let mut watch = far.watch("", Some(known)).await.unwrap();

    relay.cut();
    server.kill();
    server.restore();
    server.run();
    eventually("the near store sees the backup", async || near.revision().await.is_ok() && near.get("lost").is_none())
        .await;
    let mut newest = 0;
    while newest <= known + 1 {
        newest = near.txn(put("new", "3")).await.unwrap().revision;
    }
    relay.mend();
    eventually("the far store sees it too", async || far.get("new").is_some() && far.get("lost").is_none()).await;
    let end = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the end of the watch");
    assert!(matches!(end, Err(WatchError::Compacted { .. })), "{end:?}");
    assert_eq!(far.get("kept").unwrap().value(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_down_is_passed_over() {
    let Some(server) = Server::start(Loopback::V6) else { return };
    server.store("/registry").await;
    let dead = ["http://127.0.0.1:9".to_owned(), "http://[::1]:9".to_owned()];
    let endpoints = dead.into_iter().chain([server.client_url.clone()]).collect();
    let store = Store::etcd(EtcdConfig { endpoints, ..server.config("/registry") }).await.unwrap();
    store.txn(put("a", "1")).await.unwrap();
    let nowhere = EtcdConfig { endpoints: vec!["http://[::1]:9".into()], ..server.config("/registry") };
    let error = Store::etcd(nowhere).await.expect_err("nobody listens there");
    assert!(matches!(&error, OpenError::Etcd { .. }), "{error:?}");
    assert!(error.to_string().starts_with("etcd at http://[::1]:9: "), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_with_a_time_to_live_go_away() {
    let Some(server) = Server::start(Loopback::V4) else { return };
    let store = server.store("/registry").await;
    let ttl = |key: &str, seconds| Op::PutTtl(key.into(), Bytes::new(), Duration::from_secs(seconds));
    store.txn(Txn::of([ttl("kept", 4), ttl("long", 3_600)])).await.unwrap();
    let mut watch = store.watch("", None).await.unwrap();
    store.txn(put("kept", "for good")).await.unwrap();
    assert_eq!(next(&mut watch).await.0, "kept");
    // Made later with more time, it goes when what is kept would have gone already.
    store.txn(Txn::of([ttl("short", 5)])).await.unwrap();
    assert_eq!(next(&mut watch).await.0, "short");
    let (key, _, before, after) = next(&mut watch).await;
    assert_eq!((key.as_str(), before, after), ("short", Some(Bytes::new()), None));
    let page = store.list("", None, None, None).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| &**entry.key()).collect::<Vec<_>>(), ["kept", "long"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_etcd_refuses_is_told_apart_from_trouble() {
    let Some(server) = Server::start(Loopback::V4) else { return };
    let store = server.store("/registry").await;
    for (size, reason) in [
        (1_800_000, "etcdserver: request is too large"),
        (2 << 20, "grpc: received message larger than max (2097180 vs. 2097152)"),
    ] {
        let large = Txn::of([Op::Put("a".into(), Bytes::from(vec![0; size]))]);
        let error = store.txn(large).await.expect_err("more than etcd takes");
        assert_eq!(error, TxnError::Refused(reason.into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_are_read_in_pages_at_the_start() {
    let Some(server) = Server::start(Loopback::V4) else { return };
    let store = server.store("/registry").await;
    for start in (0..1_300).step_by(100) {
        let puts = (start..start + 100)
            .map(|number| Op::Put(format!("k/{number:05}").into(), Bytes::from(number.to_string())));
        store.txn(Txn::of(puts)).await.unwrap();
    }
    let other = server.store("/registry").await;
    let (ours, theirs) =
        (store.list("", None, None, None).await.unwrap(), other.list("", None, None, None).await.unwrap());
    assert_eq!(theirs.entries.len(), 1_300);
    assert_eq!(ours.entries, theirs.entries);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_client_certificates_works_and_without_them_is_refused() {
    for (loopback, address) in [(Loopback::V4, "127.0.0.1"), (Loopback::V6, "::1")] {
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = params.self_signed(&authority_key).unwrap();
        let issuer = rcgen::Issuer::new(params, authority_key);
        let issue = |usage| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(vec![address.to_owned()]).unwrap();
            params.extended_key_usages = vec![usage];
            (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
        };
        let (server_certificate, server_key) = issue(rcgen::ExtendedKeyUsagePurpose::ServerAuth);
        let (certificate, key) = issue(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let files = [("ca.crt", &*authority.pem()), ("server.crt", &*server_certificate), ("server.key", &*server_key)]
            .map(|(name, text)| (name, text.to_owned()));
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, &**text)).collect();
        let tls = EtcdTls { ca: authority.pem().into(), identity: Some((certificate.into(), key.into())) };
        let Some(server) = Server::start_with(loopback, Some((&files, tls.clone()))) else { return };
        let store = server.store("/registry").await;
        store.txn(put("a", "1")).await.unwrap();
        let anonymous = EtcdConfig { tls: Some(EtcdTls { identity: None, ..tls }), ..server.config("/registry") };
        let error = Store::etcd(anonymous).await.expect_err("no certificate");
        assert!(matches!(error, OpenError::Etcd { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_compacted_as_time_goes_by() {
    let Some(server) = Server::start(Loopback::V4) else { return };
    let retention = Retention { age: Duration::from_millis(100), ..Retention::default() };
    let store = connect(EtcdConfig { retention, ..server.config("/registry") }).await;
    let first = store.txn(put("a", "1")).await.unwrap().revision;
    let fresh = server.store("/registry").await;
    fresh.revision().await.unwrap();
    eventually("reads at the first revision are refused", async || {
        store.txn(put("a", "2")).await.unwrap();
        matches!(store.get_at("a", first).await, Err(ReadError::Compacted { .. }))
    })
    .await;
}

/// A wire to etcd that can be cut and mended.
struct Relay {
    url: String,
    open: tokio::sync::watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    #[expect(clippy::disallowed_methods, reason = "tests have no runtime::task; this one ends with the relay")]
    async fn start(target: &str) -> Self {
        let target = target.trim_start_matches("http://").to_owned();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let open = tokio::sync::watch::Sender::new(true);
        let is_open = open.subscribe();
        let task = tokio::spawn(async move {
            let mut wires = tokio::task::JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, mut is_open) = (target.clone(), is_open.clone());
                wires.spawn(async move {
                    if !*is_open.borrow() {
                        return;
                    }
                    let mut far = tokio::net::TcpStream::connect(&target).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = is_open.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Self { url, open, task }
    }

    fn cut(&self) {
        self.open.send_replace(false);
    }

    fn mend(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
