//! Two candidates and one lease: one leads; when it lets go, or falls silent, the other does.

mod support;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use runtime::lease::{Election, Settings};
use std::{sync::atomic::Ordering, time::Duration};
use support::{PATIENCE, breaking, client, server};

fn settings(identity: &str) -> Settings {
    Settings {
        namespace: "default".to_owned(),
        name: "one".to_owned(),
        identity: identity.to_owned(),
        lease: Duration::from_secs(1),
        renew: Duration::from_millis(600),
        retry: Duration::from_millis(20),
    }
}

async fn holder(api: &Api<Lease>) -> (Option<String>, Option<i32>) {
    let spec = api.get("one").await.expect("there").spec.expect("a spec");
    (spec.holder_identity, spec.lease_transitions)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_until_it_lets_go_or_falls_silent() {
    let server = server("v4v6").await;
    let api: Api<Lease> = Api::default_namespaced(client(&server));
    let (wire, left) = breaking(&server, 1_000_000);
    let mut first = Election::new(client(&server), settings("a"));
    let mut second = Election::new(wire, settings("b"));
    let mut third = Election::new(client(&server), settings("c"));

    first.acquire().await;
    assert_eq!(holder(&api).await, (Some("a".to_owned()), Some(0)));
    let waits = tokio::time::timeout(Duration::from_millis(200), async {
        tokio::select! {
            () = second.acquire() => {}
            () = first.hold() => {}
        }
    });
    assert!(waits.await.is_err(), "a holds it and b waits");

    first.release().await;
    tokio::time::timeout(PATIENCE, second.acquire()).await.expect("it is free");
    assert_eq!(holder(&api).await, (Some("b".to_owned()), Some(1)));

    // b cannot reach the API any more: it steps down by itself before c may begin.
    left.store(-1, Ordering::SeqCst);
    tokio::time::timeout(PATIENCE, second.hold()).await.expect("it gives up");
    tokio::time::timeout(PATIENCE, third.acquire()).await.expect("it has run out");
    assert_eq!(holder(&api).await.0.as_deref(), Some("c"));
}
