//! Priority and fairness in a whole server: who is served while somebody floods it. A request keeps its seat until its answer
//! is gone, so an answer that is not read is a request that lasts.

mod queues;

use super::{Fairness, keep};
use crate::{
    ApiServer, Body,
    client::{InProcess, ask},
    testing::Lab,
};
use access::{Access, Mode, authn::User};
use bytes::Bytes;
use futures::future::join_all;
use http::{Method, Request, Response};
use http_body_util::Full;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tower::ServiceExt;

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";

fn lab(seats: usize, request_timeout: Duration) -> Lab {
    let mut lab = Lab::new();
    lab.server.access = Access::new(&[Mode::AlwaysAllow]);
    lab.server.fairness = Some(Fairness::new(seats, request_timeout, &lab.server.admin.metrics));
    lab
}

async fn send(server: &Arc<ApiServer>, user: &User, method: Method, path: &str, body: &str) -> Response<Body> {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content);
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    match InProcess::new(Arc::clone(server), user.clone()).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

async fn get(server: &Arc<ApiServer>, user: &User, path: &str) -> Response<Body> {
    send(server, user, Method::GET, path, "").await
}

fn node() -> User {
    User::new("system:node:n1", ["system:nodes", "system:authenticated"])
}

#[tokio::test]
async fn a_noisy_account_is_held_up_and_nodes_leaders_and_administrators_are_not() {
    let server = lab(60, Duration::from_millis(400)).start_still().await;
    let noisy = User::service_account("dev", "noisy", "1");
    // Nobody reads what comes back: each answer keeps its seat.
    let flood = join_all((0..1000).map(|_| get(&server, &noisy, "/api/v1/namespaces/default/configmaps"))).await;
    let served = flood.iter().filter(|response| response.status() == 200).count();
    assert!((1..=60).contains(&served), "{served} of 1000");
    let refused = flood.iter().find(|response| response.status() == 429).expect("the rest is turned away");
    assert_eq!(refused.headers()["retry-after"], "1");
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"}, "spec": {}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    for round in 0..20 {
        let method = if round == 0 { Method::PUT } else { Method::PATCH };
        let made = send(&server, &node(), method, &format!("{leases}/n1"), &lease.to_string()).await;
        assert!(made.status().is_success(), "{round}: {}", made.status());
        let manager = User::new("system:kube-controller-manager", ["system:authenticated"]);
        let admin = User::new("admin", ["system:masters"]);
        for (user, path) in [
            (node(), "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"),
            (node(), "/api/v1/nodes"),
            (manager, leases),
            (admin, "/api/v1/namespaces/default/configmaps"),
            (User::anonymous(), "/readyz"),
            (User::new("eve", ["system:authenticated"]), "/api/v1/namespaces"),
        ] {
            assert_eq!(get(&server, &user, path).await.status(), 200, "{round}: {} {path}", user.name);
        }
    }
    // Somebody else of the same level waits for a seat, and is the first to get one.
    let quiet = User::service_account("dev", "quiet", "2");
    assert_eq!(get(&server, &quiet, "/api/v1/namespaces").await.status(), 429, "not one is free");
    drop(flood);
    assert_eq!(get(&server, &quiet, "/api/v1/namespaces").await.status(), 200);
}

#[tokio::test]
async fn a_request_that_waits_is_served_when_an_answer_has_gone() {
    let server = lab(30, Duration::from_secs(60)).start_still().await;
    let (noisy, quiet) = (User::service_account("dev", "noisy", "1"), User::service_account("dev", "quiet", "2"));
    let mut held = Vec::new();
    while let Ok(response) =
        tokio::time::timeout(Duration::from_millis(100), get(&server, &noisy, "/api/v1/namespaces")).await
    {
        assert_eq!(response.status(), 200);
        held.push(response);
        assert!(held.len() <= 30);
    }
    let mut waits = std::pin::pin!(get(&server, &quiet, "/api/v1/namespaces"));
    let early = tokio::time::timeout(Duration::from_millis(50), waits.as_mut()).await;
    assert!(early.is_err(), "there was a seat");
    drop(held.pop());
    assert_eq!(waits.await.status(), 200);
}

#[tokio::test]
async fn a_watch_has_a_seat_only_while_it_begins_and_connections_have_none() {
    let server = lab(30, Duration::from_millis(200)).start_still().await;
    let user = User::service_account("dev", "app", "1");
    let watches = join_all((0..200).map(|_| get(&server, &user, "/api/v1/namespaces?watch=1"))).await;
    assert!(watches.iter().all(|watch| watch.status() == 200));
    assert_eq!(get(&server, &user, "/api/v1/namespaces").await.status(), 200, "all seats are free");
}

#[tokio::test]
async fn an_answer_names_the_objects_that_decided() {
    let server = lab(600, Duration::from_secs(60)).start_still().await;
    let uid = |path: String| {
        let server = Arc::clone(&server);
        async move { ask(&server, Method::GET, &path, None).await.unwrap()["metadata"]["uid"].clone() }
    };
    for (user, schema, level) in [
        (node(), "system-nodes", "system"),
        (User::new("eve", ["system:authenticated"]), "global-default", "global-default"),
        (User::new("nobody", [] as [&str; 0]), "catch-all", "catch-all"),
        (User::new("admin", ["system:masters"]), "exempt", "exempt"),
    ] {
        let response = get(&server, &user, "/api/v1/pods").await;
        let header = |name: &str| Value::from(response.headers()[name].to_str().unwrap());
        assert_eq!(header("x-kubernetes-pf-flowschema-uid"), uid(format!("{SCHEMAS}/{schema}")).await, "{schema}");
        assert_eq!(header("x-kubernetes-pf-prioritylevel-uid"), uid(format!("{LEVELS}/{level}")).await, "{level}");
    }
}

#[tokio::test]
async fn own_objects_are_obeyed_and_default_ones_come_back() {
    let server = lab(600, Duration::from_millis(400)).start().await;
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "tiny"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
        }},
    });
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "eve"},
        "spec": {
            "priorityLevelConfiguration": {"name": "tiny"}, "matchingPrecedence": 50,
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "eve"}}],
                "resourceRules": [{
                    "verbs": ["list"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
                }],
            }],
        },
    });
    ask(&server, Method::POST, SCHEMAS, Some(&schema)).await.unwrap();
    eventually(&server, "its level does not exist", async |server| {
        let stored = ask(server, Method::GET, &format!("{SCHEMAS}/eve"), None).await.unwrap();
        stored["status"]["conditions"][0]["status"] == "True"
    })
    .await;
    ask(&server, Method::POST, LEVELS, Some(&level)).await.unwrap();
    eventually(&server, "its level exists", async |server| {
        let stored = ask(server, Method::GET, &format!("{SCHEMAS}/eve"), None).await.unwrap();
        stored["status"]["conditions"][0]["status"] == "False"
    })
    .await;
    let eve = User::new("eve", ["system:authenticated"]);
    eventually(&server, "three seats and no queue", async |server| {
        let held = join_all((0..10).map(|_| get(server, &eve, "/api/v1/pods"))).await;
        held.iter().filter(|response| response.status() == 200).count() == 3
    })
    .await;
    for path in [format!("{LEVELS}/catch-all"), format!("{SCHEMAS}/exempt"), format!("{SCHEMAS}/service-accounts")] {
        ask(&server, Method::DELETE, &path, None).await.unwrap();
        eventually(&server, &path, async |server| ask(server, Method::GET, &path, None).await.is_ok()).await;
    }
    let taken = json!({
        "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
        "spec": {"limited": {"nominalConcurrencyShares": 7}},
    });
    let path = format!("{LEVELS}/workload-low");
    ask(&server, Method::PATCH, &path, Some(&taken)).await.unwrap();
    keep::prime(&server).await.unwrap();
    let stored = ask(&server, Method::GET, &path, None).await.unwrap();
    assert_eq!(stored["spec"]["limited"]["nominalConcurrencyShares"], 7, "an administrator has taken it over");
}

async fn eventually(server: &Arc<ApiServer>, what: &str, holds: impl AsyncFn(&Arc<ApiServer>) -> bool) {
    for _ in 0..300 {
        if holds(server).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn seats_that_nobody_uses_are_lent() {
    let lab = lab(100, Duration::from_secs(60));
    let fairness = lab.server.fairness.as_ref().unwrap();
    let app = User::service_account("dev", "app", "1");
    let asked = access::authz::Attributes::resource(&app, "list", "", "pods");
    let mut seats = Vec::new();
    let mut most = 0;
    for _ in 0..10 {
        while let Ok(seat) =
            tokio::time::timeout(Duration::from_millis(20), fairness.enter(fairness.classify(&asked).unwrap(), 1)).await
        {
            seats.push(seat.unwrap());
        }
        assert!(seats.len() >= most, "{} {most}", seats.len());
        most = seats.len();
        // Somebody waits, so there is a demand for more than there is.
        fairness.adjust();
    }
    assert!(most > 41, "more than its own forty-one seats: {most}");
}

#[tokio::test]
async fn metrics_tell_who_waits_and_who_was_turned_away() {
    let server = lab(30, Duration::from_millis(100)).start_still().await;
    let noisy = User::service_account("dev", "noisy", "1");
    let flood = join_all((0..500).map(|_| get(&server, &noisy, "/api/v1/namespaces"))).await;
    let text = server.admin.metrics.render(runtime::metrics::TextFormat::Classic).body;
    let labels = "{priority_level=\"workload-low\",flow_schema=\"service-accounts\"";
    for line in [
        format!("apiserver_flowcontrol_dispatched_requests_total{labels}}}"),
        format!("apiserver_flowcontrol_current_executing_requests{labels}}}"),
        format!("apiserver_flowcontrol_rejected_requests_total{labels},reason=\"queue-full\"}}"),
        format!("apiserver_flowcontrol_rejected_requests_total{labels},reason=\"time-out\"}}"),
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"workload-low\"} 13".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    assert!(text.contains(&format!("apiserver_flowcontrol_current_inqueue_requests{labels}}} 0")));
    drop(flood);
}
