//! A server on loopback and the simplest clients, for the tests of `http` and `tls`.
#![allow(dead_code, reason = "each test file uses a part of it")]

use net::{DualStack, Families};
use runtime::{
    backoff::Backoff,
    health::Health,
    http::{Body, Drained, Limits, Server},
    listen::{self, Hosts},
    metrics::Metrics,
    task::Tasks,
};
use rustls::ServerConfig;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;

/// Longer than anything takes; only a test that would hang meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never happened")
}

/// A running server. Its `stop` ends it; `ended` then says how.
pub(crate) struct Running {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) stop: CancellationToken,
    pub(crate) ended: oneshot::Receiver<Drained>,
    _tasks: Tasks,
}

pub(crate) fn tasks() -> Tasks {
    let backoff = Backoff { first: Duration::from_millis(1), cap: Duration::from_millis(5) };
    Tasks::with_backoff(&Metrics::new(), &Health::new(), backoff)
}

/// Serves on loopback of `families`, one port.
pub(crate) fn serve<S>(families: Families, tls: Option<Arc<ServerConfig>>, limits: Limits, service: S) -> Running
where
    S: tower::Service<
            http::Request<hyper::body::Incoming>,
            Response = http::Response<Body>,
            Error = std::convert::Infallible,
        > + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let hosts = Hosts::Each(DualStack::build(families, net::Family::loopback));
    let listeners = listen::tcp("bind-address", &hosts, 0).unwrap();
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let stop = CancellationToken::new();
    let (sender, ended) = oneshot::channel();
    let tasks = tasks();
    let server = Server { listeners, tls, limits };
    let stopping = stop.clone();
    tasks.once("server", move |_| async move {
        let drained = server.run(service, stopping).await?;
        let _nobody_may_ask = sender.send(drained);
        Ok::<_, std::io::Error>(())
    });
    Running { addresses, stop, ended, _tasks: tasks }
}

/// Sends a GET and reads one answer with a known length: status line and body. The connection stays open.
pub(crate) async fn get(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> (String, String) {
    ask(stream, path).await;
    answer(stream).await
}

pub(crate) async fn ask(stream: &mut (impl AsyncWrite + Unpin), path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
}

pub(crate) async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head.lines().next().unwrap().to_owned(), String::from_utf8(body).unwrap())
}

/// Whether the other side has closed the connection (waits for it).
pub(crate) async fn closed(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut rest = Vec::new();
    matches!(stream.read_to_end(&mut rest).await, Ok(0) | Err(_))
}
