//! Nobody can block the others, on real sockets: slow bodies, answers that nobody reads and a flood of one account, each
//! beside a node that goes on being served.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "connections of a test end with its runtime")]

mod support;

use access::{Access, Mode, authn::User};
use apiserver::{
    ApiServer,
    fairness::Fairness,
    handle::{self, Insider},
    testing::Lab,
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use net::{DualStack, Families};
use runtime::{
    http::{Limits, Pace, Server},
    listen::{self, Hosts},
};
use serde_json::json;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

const SHORT: Duration = Duration::from_millis(500);
/// Longer than anything takes; only a test that would hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with few seats and little patience; who asks is said by a header.
struct Served {
    server: Arc<ApiServer>,
    addresses: Vec<SocketAddr>,
    _stop: tokio_util::sync::DropGuard,
}

async fn serve(families: Families, seats: usize) -> Served {
    let mut lab = Lab::new();
    lab.server.access = Access::new(&[Mode::AlwaysAllow]);
    lab.server.fairness = Some(Fairness::new(seats, Duration::from_secs(2), &lab.server.admin.metrics));
    lab.server.config.body_pace = Pace { grace: SHORT, bytes_per_second: 1 << 20 };
    let server = lab.start_still().await;
    let hosts = Hosts::Each(DualStack::build(families, net::Family::loopback));
    let listeners = listen::tcp("bind-address", &hosts, 0).unwrap();
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let limits = Limits { answer: Pace { grace: SHORT, bytes_per_second: 1 << 20 }, ..Limits::default() };
    let (stop, handled) = (CancellationToken::new(), Arc::clone(&server));
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        let name = request.headers()["x-user"].to_str().unwrap().to_owned();
        let group = if name.starts_with("system:node:") { "system:nodes" } else { "system:serviceaccounts" };
        request.extensions_mut().insert(Insider(User::new(name, [group, "system:authenticated"])));
        handle::handle(Arc::clone(&handled), request)
    });
    tokio::spawn(Server { listeners, tls: None, limits }.run(service, stop.clone()));
    Served { server, addresses, _stop: stop.drop_guard() }
}

/// One request on a connection of its own.
async fn get(address: SocketAddr, user: &str, path: &str) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "test").header("x-user", user);
    let request = request.body(Full::new(Bytes::new())).unwrap();
    tokio::time::timeout(PATIENCE, sender.send_request(request)).await.expect("no answer").unwrap()
}

/// A node is served, now and at once.
async fn node_goes_on(address: SocketAddr) {
    for path in ["/api/v1/nodes", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"] {
        assert_eq!(get(address, "system:node:n1", path).await.status(), StatusCode::OK, "{path}");
    }
}

async fn eventually_served(address: SocketAddr, user: &str) {
    for _ in 0..100 {
        if get(address, user, "/api/v1/namespaces").await.status() == StatusCode::OK {
            return;
        }
        tokio::time::sleep(SHORT / 5).await;
    }
    panic!("{user} is never served");
}

#[tokio::test]
async fn a_slow_body_takes_no_seat_and_is_ended() {
    for families in Families::ALL {
        let served = serve(families, 30).await;
        for address in &served.addresses {
            let mut slow = Vec::new();
            for _ in 0..100 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: test\r\nX-User: noisy\r\n\
                            Content-Type: application/json\r\nContent-Length: 9000\r\n\r\n{";
                stream.write_all(head.as_bytes()).await.unwrap();
                slow.push(stream);
            }
            node_goes_on(*address).await;
            // Another account of the same level, whose seats would be gone if a body that has not come took one.
            assert_eq!(get(*address, "quiet", "/api/v1/namespaces").await.status(), StatusCode::OK);
            for mut stream in slow {
                let mut response = String::new();
                tokio::time::timeout(PATIENCE, stream.read_to_string(&mut response)).await.expect("not ended").unwrap();
                assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
                assert!(response.contains(r#""code":408"#), "{response}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_nobody_reads_keeps_its_seat_until_it_is_cut_off() {
    for families in [Families::both(net::Family::V4), Families::both(net::Family::V6)] {
        let served = serve(families, 30).await;
        for index in 0..40 {
            let map = json!({"metadata": {"name": format!("m{index}")}, "data": {"x": "x".repeat(700_000)}});
            let json = [("content-type", "application/json")];
            let path = "/api/v1/namespaces/default/configmaps";
            assert_eq!(support::ask(&served.server, "POST", path, &json, map.to_string()).await.status, 201);
        }
        for address in &served.addresses {
            let mut stalled = Vec::new();
            for _ in 0..40 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = "GET /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: test\r\nX-User: noisy\r\n\r\n";
                stream.write_all(head.as_bytes()).await.unwrap();
                stalled.push(stream);
            }
            node_goes_on(*address).await;
            eventually_served(*address, "quiet").await;
            node_goes_on(*address).await;
            drop(stalled);
        }
    }
}

#[tokio::test]
async fn one_noisy_account_cannot_starve_a_kubelet() {
    let served = serve(Families::both(net::Family::V6), 40).await;
    let address = served.addresses[0];
    let (mut flood, ended) = (tokio::task::JoinSet::new(), CancellationToken::new());
    for _ in 0..64 {
        let ended = ended.clone();
        flood.spawn(async move {
            let (mut served, mut refused) = (0, 0);
            while !ended.is_cancelled() {
                let response = get(address, "noisy", "/api/v1/namespaces/default/configmaps").await;
                let status = response.status();
                match status {
                    StatusCode::OK => served += 1,
                    StatusCode::TOO_MANY_REQUESTS => refused += 1,
                    other => panic!("{other}"),
                }
                // Read slowly, so that seats are really taken.
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(response.into_body().collect().await);
            }
            (served, refused)
        });
    }
    for _ in 0..30 {
        node_goes_on(address).await;
    }
    ended.cancel();
    let counts = flood.join_all().await;
    assert!(counts.iter().all(|(served, _)| *served > 0), "{counts:?}");
}
