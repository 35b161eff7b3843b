//! Nobody can block the others: slow, stalled, idle and numerous clients on real sockets, each beside one that goes on being
//! served.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use net::Families;
use runtime::http::{Body, CollectError, Limits, Pace, collect, full, text};
use std::{convert::Infallible, net::SocketAddr, time::Duration};
use support::{ask, closed, get, serve, soon, tasks};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// More than kernel and hyper keep of an answer that nobody reads.
const LARGE: usize = 32 * 1024 * 1024;
const SHORT: Duration = Duration::from_millis(300);

fn impatient() -> Limits {
    Limits { answer: Pace { grace: SHORT, bytes_per_second: 1 << 30 }, ..Limits::default() }
}

/// `/large` answers with a lot; a POST is answered with its length, or with what was wrong with it.
async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.uri().path() == "/large" {
        return Ok(Response::new(full(vec![b'x'; LARGE])));
    }
    let pace = Pace { grace: SHORT, bytes_per_second: 1000 };
    Ok(match collect(request.into_body(), 100_000, pace, |_| Ok::<_, CollectError>(())).await {
        Ok(bytes) => text(StatusCode::OK, bytes.len().to_string()),
        Err(CollectError::TooSlow { .. }) => text(StatusCode::REQUEST_TIMEOUT, "slow"),
        Err(error) => text(StatusCode::BAD_REQUEST, error.to_string()),
    })
}

async fn served(address: &SocketAddr) {
    let mut other = TcpStream::connect(address).await.unwrap();
    assert_eq!(soon(get(&mut other, "/")).await, ("http/1.1 200 ok".to_owned(), "0".to_owned()), "{address}");
}

async fn http2(address: &SocketAddr) -> (SendRequest<Empty<Bytes>>, runtime::task::Tasks) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let tasks = tasks();
    tasks.once("client", |_| connection);
    (sender, tasks)
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://test{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn a_body_that_makes_no_progress_is_answered_and_ended() {
    for families in Families::ALL {
        let server = serve(families, None, Limits::default(), tower::service_fn(answer));
        for address in &server.addresses {
            let mut slow = TcpStream::connect(address).await.unwrap();
            slow.write_all(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 9000\r\n\r\nabc").await.unwrap();
            served(address).await;
            let mut response = String::new();
            soon(slow.read_to_string(&mut response)).await.unwrap();
            assert!(response.to_lowercase().starts_with("http/1.1 408 "), "{response}");
        }
    }
}

#[tokio::test]
async fn a_byte_at_a_time_does_not_buy_time() {
    let server = serve(Families::both(net::Family::V6), None, Limits::default(), tower::service_fn(answer));
    for address in &server.addresses {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 9000\r\n\r\n").await.unwrap();
        let (mut reader, mut writer) = slow.split();
        let mut response = [0; 12];
        let dribble = async {
            while writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(SHORT / 10).await;
            }
        };
        tokio::select! {
            read = soon(reader.read_exact(&mut response)) => drop(read.unwrap()),
            () = dribble => panic!("closed without a word"),
        }
        assert_eq!(std::str::from_utf8(&response).unwrap(), "HTTP/1.1 408");
        served(address).await;
    }
}

#[tokio::test]
async fn a_body_in_pieces_arrives_and_a_large_one_is_refused() {
    let server = serve(Families::both(net::Family::V4), None, Limits::default(), tower::service_fn(answer));
    for (length, want) in [(0, "http/1.1 200 ok"), (90_000, "http/1.1 200 ok"), (100_001, "http/1.1 400 bad request")] {
        let mut client = TcpStream::connect(server.addresses[0]).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let _may_be_refused_before_the_end = client.write_all(&vec![b'x'; length]).await;
        let (status, body) = soon(support::answer(&mut client)).await;
        assert_eq!(status, want, "{body}");
        if want.ends_with("ok") {
            assert_eq!(body, length.to_string());
        }
    }
}

#[tokio::test]
async fn slow_headers_keep_nobody_waiting() {
    let limits = Limits { header_read: SHORT, ..Limits::default() };
    for families in Families::ALL {
        let server = serve(families, None, limits, tower::service_fn(answer));
        for address in &server.addresses {
            let mut slow = TcpStream::connect(address).await.unwrap();
            slow.write_all(b"GET / HTTP/1.1\r\nHos").await.unwrap();
            served(address).await;
            let _may_say_why = soon(slow.read_to_end(&mut Vec::new())).await;
        }
    }
}

#[tokio::test]
async fn who_does_not_read_its_answer_is_cut_off() {
    for families in Families::ALL {
        let server = serve(families, None, impatient(), tower::service_fn(answer));
        for address in &server.addresses {
            let mut stalled = TcpStream::connect(address).await.unwrap();
            ask(&mut stalled, "/large").await;
            served(address).await;
            // Whatever the kernel kept can still be read, long after; the rest never comes.
            tokio::time::sleep(SHORT * 3).await;
            let mut received = Vec::new();
            let _reset_or_closed = soon(stalled.read_to_end(&mut received)).await;
            assert!(received.len() < LARGE, "{} bytes", received.len());
        }
    }
}

#[tokio::test]
async fn who_reads_gets_all_of_a_large_answer() {
    let server = serve(Families::both(net::Family::V4), None, Limits::default(), tower::service_fn(answer));
    for address in &server.addresses {
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(soon(get(&mut client, "/large")).await.1.len(), LARGE);
        let (mut sender, _tasks) = http2(address).await;
        let response = soon(sender.send_request(request("/large"))).await.unwrap();
        assert_eq!(response.body().size_hint().exact(), Some(LARGE as u64));
        assert_eq!(soon(response.into_body().collect()).await.unwrap().to_bytes().len(), LARGE);
    }
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_reset_and_its_connection_goes_on() {
    for families in Families::ALL {
        let server = serve(families, None, impatient(), tower::service_fn(answer));
        for address in &server.addresses {
            let (mut sender, _tasks) = http2(address).await;
            let stalled = soon(sender.send_request(request("/large"))).await.unwrap();
            tokio::time::sleep(SHORT * 3).await;
            let beside = soon(sender.send_request(request("/"))).await.unwrap();
            assert_eq!(soon(beside.into_body().collect()).await.unwrap().to_bytes(), "0");
            assert!(soon(stalled.into_body().collect()).await.is_err(), "the rest never comes");
        }
    }
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed_though_it_answers_pings() {
    let limits = Limits { idle: SHORT, ping: SHORT / 3, ..Limits::default() };
    for families in Families::ALL {
        let server = serve(families, None, limits, tower::service_fn(answer));
        for address in &server.addresses {
            let (mut sender, _tasks) = http2(address).await;
            drop(soon(sender.send_request(request("/"))).await.unwrap());
            served(address).await;
            soon(async {
                while sender.ready().await.is_ok() {
                    tokio::time::sleep(SHORT / 10).await;
                }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn many_idle_connections_of_one_source_do_not_keep_a_newcomer_out() {
    let limits = Limits { connections: 20, connections_per_source: 10, ..Limits::default() };
    for families in Families::ALL {
        let server = serve(families, None, limits, tower::service_fn(answer));
        for address in &server.addresses {
            let mut many = Vec::new();
            for _ in 0..50 {
                many.push(TcpStream::connect(address).await.unwrap());
            }
            served(address).await;
            let mut oldest = many.swap_remove(0);
            assert!(soon(closed(&mut oldest)).await, "the one that idled for longest made room");
        }
    }
}

#[tokio::test]
async fn streams_that_are_opened_only_to_be_reset_end_their_connection() {
    let server = serve(Families::both(net::Family::V4), None, Limits::default(), tower::service_fn(answer));
    for address in &server.addresses {
        let mut flood = TcpStream::connect(address).await.unwrap();
        flood.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
        // HEADERS (GET, http, /, authority "t") and RST_STREAM of the same stream, all in one go.
        let mut frames = Vec::new();
        for stream in (1_u32..4000).step_by(2) {
            frames.extend_from_slice(&[0, 0, 6, 1, 5]);
            frames.extend_from_slice(&stream.to_be_bytes());
            frames.extend_from_slice(&[0x82, 0x86, 0x84, 0x01, 0x01, b't']);
            frames.extend_from_slice(&[0, 0, 4, 3, 0]);
            frames.extend_from_slice(&stream.to_be_bytes());
            frames.extend_from_slice(&8_u32.to_be_bytes());
        }
        let _cut_off_meanwhile = flood.write_all(&frames).await;
        let mut response = Vec::new();
        let _reset_after_it = soon(flood.read_to_end(&mut response)).await;
        // GOAWAY with ENHANCE_YOUR_CALM.
        assert!(response.windows(4).any(|code| code == 11_u32.to_be_bytes()), "{response:?}");
        served(address).await;
    }
}

#[tokio::test]
async fn endless_continuation_frames_end_their_connection() {
    let server = serve(Families::both(net::Family::V6), None, Limits::default(), tower::service_fn(answer));
    for address in &server.addresses {
        let mut flood = TcpStream::connect(address).await.unwrap();
        flood.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
        flood.write_all(&[0, 0, 3, 1, 0, 0, 0, 0, 1, 0x82, 0x86, 0x84]).await.unwrap();
        // A literal header without indexing, "a: 1...": 4,000 bytes in each frame.
        let mut frame = vec![0, 0x0f, 0xa0, 9, 0, 0, 0, 0, 1, 0, 1, b'a', 0x7f, 0x9c, 0x1e];
        frame.resize(9 + 4000, b'1');
        let sending = async {
            for _ in 0..10_000 {
                if flood.write_all(&frame).await.is_err() {
                    return true;
                }
            }
            false
        };
        assert!(soon(sending).await, "40 MB of headers were taken");
        served(address).await;
    }
}
