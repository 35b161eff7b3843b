//! The HTTP server on real sockets of both families: who asks, limits, draining.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use net::Families;
use runtime::{
    admin::Admin,
    health::Health,
    http::{Body, Drained, Limits, Peer, Server, text},
    listen,
    metrics::Metrics,
    shutdown::{Ending, Signal, wait},
    task::Tasks,
};
use std::{convert::Infallible, sync::Arc, time::Duration};
use support::{PATIENCE, answer, ask, closed, get, serve, soon, tasks};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Semaphore};

type Answer = Result<Response<Body>, Infallible>;

async fn who(request: Request<Incoming>) -> Answer {
    let peer = request.extensions().get::<Peer>().unwrap();
    Ok(text(StatusCode::OK, format!("{} {} {}", peer.address, peer.local, peer.certificates.len())))
}

#[tokio::test]
async fn every_family_is_served_and_each_request_knows_its_peer() {
    for families in Families::ALL {
        let server = serve(families, None, Limits::default(), tower::service_fn(who));
        for address in &server.addresses {
            let mut client = TcpStream::connect(address).await.unwrap();
            let expected = format!("{} {address} 0", client.local_addr().unwrap());
            for _ in 0..2 {
                assert_eq!(soon(get(&mut client, "/")).await, ("http/1.1 200 ok".to_owned(), expected.clone()));
            }
        }
        server.stop.cancel();
        assert_eq!(soon(server.ended).await.unwrap(), Drained { cut_off: 0 });
        for address in &server.addresses {
            assert!(TcpStream::connect(address).await.is_err(), "{address} still listens");
        }
    }
}

#[tokio::test]
async fn http2_is_told_by_its_preface() {
    let server = serve(Families::both(net::Family::V6), None, Limits::default(), tower::service_fn(who));
    let tasks = tasks();
    for address in &server.addresses {
        let stream = TcpStream::connect(address).await.unwrap();
        let from = stream.local_addr().unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tasks.once("client", |_| connection);
        let request = Request::get(format!("http://{address}/")).body(Empty::<Bytes>::new()).unwrap();
        let response = soon(sender.send_request(request)).await.unwrap();
        assert_eq!(response.version(), http::Version::HTTP_2);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, format!("{from} {address} 0"));
    }
    server.stop.cancel();
    assert_eq!(soon(server.ended).await.unwrap(), Drained { cut_off: 0 });
}

/// Answers `/slow` once the gate lets it through, and says when it has begun.
fn gated(
    begun: Arc<Semaphore>,
    gate: Arc<Semaphore>,
) -> impl Fn(Request<Incoming>) -> futures::future::BoxFuture<'static, Answer> + Clone {
    move |_| {
        let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
        Box::pin(async move {
            begun.add_permits(1);
            gate.acquire().await.unwrap().forget();
            Ok(text(StatusCode::OK, "done"))
        })
    }
}

#[tokio::test]
async fn a_request_in_flight_is_answered_before_the_server_ends() {
    for families in Families::ALL {
        let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let limits = Limits { drain: PATIENCE, ..Limits::default() };
        let server = serve(families, None, limits, tower::service_fn(gated(Arc::clone(&begun), Arc::clone(&gate))));
        let address = server.addresses[0];
        let mut busy = TcpStream::connect(address).await.unwrap();
        ask(&mut busy, "/slow").await;
        soon(begun.acquire()).await.unwrap().forget();
        let mut idle = TcpStream::connect(address).await.unwrap();

        server.stop.cancel();
        assert!(soon(closed(&mut idle)).await, "an idle connection is closed at once");
        assert!(TcpStream::connect(address).await.is_err(), "nobody new is let in");
        gate.add_permits(1);
        assert_eq!(soon(answer(&mut busy)).await, ("http/1.1 200 ok".to_owned(), "done".to_owned()));
        assert_eq!(soon(server.ended).await.unwrap(), Drained { cut_off: 0 });
    }
}

#[tokio::test]
async fn who_is_not_done_by_the_deadline_is_cut_off_and_counted() {
    let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let limits = Limits { drain: Duration::from_millis(20), ..Limits::default() };
    let server =
        serve(Families::one(net::Family::V4), None, limits, tower::service_fn(gated(Arc::clone(&begun), gate)));
    let mut busy = TcpStream::connect(server.addresses[0]).await.unwrap();
    ask(&mut busy, "/slow").await;
    soon(begun.acquire()).await.unwrap().forget();
    server.stop.cancel();
    assert_eq!(soon(server.ended).await.unwrap(), Drained { cut_off: 1 });
    assert!(soon(closed(&mut busy)).await);
}

#[tokio::test]
async fn at_the_limit_who_idles_makes_room_and_who_is_served_stays() {
    let limits = Limits { connections: 1, ..Limits::default() };
    for families in Families::ALL {
        let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let service = tower::service_fn(gated(Arc::clone(&begun), Arc::clone(&gate)));
        let server = serve(families, None, limits, service);
        let mut idle = TcpStream::connect(server.addresses[0]).await.unwrap();
        let mut busy = TcpStream::connect(server.addresses.last().unwrap()).await.unwrap();
        ask(&mut busy, "/").await;
        soon(begun.acquire()).await.unwrap().forget();
        assert!(soon(closed(&mut idle)).await);
        let mut late = TcpStream::connect(server.addresses[0]).await.unwrap();
        assert!(soon(closed(&mut late)).await, "nobody waits in a queue that does not move");
        gate.add_permits(1);
        assert_eq!(soon(answer(&mut busy)).await.0, "http/1.1 200 ok");
    }
}

#[tokio::test]
async fn a_client_that_dawdles_is_dropped_whatever_it_pretends_to_speak() {
    let limits = Limits { header_read: Duration::from_millis(50), ..Limits::default() };
    let server = serve(Families::both(net::Family::V4), None, limits, tower::service_fn(who));
    for address in &server.addresses {
        for beginning in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nHost: te"] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(beginning.as_bytes()).await.unwrap();
            let mut received = Vec::new();
            // HTTP/2 greets with its settings and HTTP/1 may say why; what matters is that it ends.
            let _ends_either_way = soon(tokio::io::AsyncReadExt::read_to_end(&mut client, &mut received)).await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_idles_is_closed() {
    // Longer than a busy machine takes to send the request.
    let limits = Limits { idle: Duration::from_millis(500), ..Limits::default() };
    let server = serve(Families::both(net::Family::V6), None, limits, tower::service_fn(who));
    for address in &server.addresses {
        let mut client = TcpStream::connect(address).await.unwrap();
        soon(get(&mut client, "/")).await;
        assert!(soon(closed(&mut client)).await);
    }
}

#[tokio::test]
async fn a_connection_between_two_requests_may_rest_longer_than_a_head_may_take() {
    let limits = Limits { header_read: Duration::from_millis(300), ..Limits::default() };
    let server = serve(Families::both(net::Family::V4), None, limits, tower::service_fn(who));
    for address in &server.addresses {
        let mut client = TcpStream::connect(address).await.unwrap();
        soon(get(&mut client, "/")).await;
        tokio::time::sleep(limits.header_read * 4).await;
        soon(get(&mut client, "/")).await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: te").await.unwrap();
        assert!(soon(closed(&mut client)).await, "the head of the third request is slow");
    }
}

#[tokio::test]
async fn a_signal_lets_the_request_in_flight_end_while_readyz_already_fails() {
    let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let health = Health::new();
    let tasks = Tasks::new(&Metrics::new(), &health);
    let listeners = listen::tcp("bind-address", &"127.0.0.1,::1".parse().unwrap(), 0).unwrap();
    let address = listeners[1].local_addr().unwrap();
    let server = Server { listeners, tls: None, limits: Limits::default() };
    let service = tower::service_fn(gated(Arc::clone(&begun), Arc::clone(&gate)));
    tasks.serve("server", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    let mut client = TcpStream::connect(address).await.unwrap();
    ask(&mut client, "/slow").await;
    soon(begun.acquire()).await.unwrap().forget();

    let signals = futures::stream::iter([Signal::Terminate]);
    let client_side = async {
        while health.answer("/readyz", "").unwrap().status == 200 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(1);
        answer(&mut client).await
    };
    let (ending, (status, body)) =
        soon(futures::future::join(wait(signals, &health, &tasks, PATIENCE), client_side)).await;
    assert_eq!((ending, status.as_str(), body.as_str()), (Ending::Clean, "http/1.1 200 ok", "done"));
}

#[tokio::test]
async fn a_handler_that_panics_harms_only_its_connection() {
    let service = tower::service_fn(|request: Request<Incoming>| async move {
        assert!(request.uri().path() != "/panic", "as asked");
        Ok::<_, Infallible>(text(StatusCode::OK, "fine"))
    });
    let server = serve(Families::both(net::Family::V4), None, Limits::default(), service);
    for address in &server.addresses {
        let mut bad = TcpStream::connect(address).await.unwrap();
        ask(&mut bad, "/panic").await;
        assert!(soon(closed(&mut bad)).await);
        let mut good = TcpStream::connect(address).await.unwrap();
        assert_eq!(soon(get(&mut good, "/")).await.1, "fine");
    }
}

#[tokio::test]
async fn admin_endpoints_answer_over_the_wire() {
    let admin = Admin { health: Health::new(), metrics: Metrics::new() };
    let server = serve(Families::both(net::Family::V6), None, Limits::default(), admin.clone().service());
    for address in &server.addresses {
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(
            soon(get(&mut client, "/readyz?verbose")).await,
            ("http/1.1 200 ok".to_owned(), "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n".to_owned())
        );
        assert!(soon(get(&mut client, "/metrics")).await.1.contains("process_cpu_seconds_total "));
        assert_eq!(soon(get(&mut client, "/nothing")).await.0, "http/1.1 404 not found");
    }
    admin.health.shut_down();
    let mut client = TcpStream::connect(server.addresses[0]).await.unwrap();
    assert_eq!(soon(get(&mut client, "/readyz")).await.0, "http/1.1 500 internal server error");
}
