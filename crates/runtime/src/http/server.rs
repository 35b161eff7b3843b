//! Accepting connections up to a limit, and stopping without cutting anyone off. Run by a task of `runtime::task`.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::Instrument;

use super::body::Body;
use super::connection::Shared;

/// How much a server allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; more wait in the kernel's queue.
    pub connections: usize,
    /// How long a client may take for the TLS handshake and for a request's headers. Also closes HTTP/1 connections
    /// that idle for as long.
    pub header_read: Duration,
    /// How often a quiet HTTP/2 connection is tested, and how long the answer may take.
    pub ping: Duration,
    /// After a stop, how long requests in flight may go on.
    pub drain: Duration,
}

impl Default for Limits {
    /// As patient as the Kubernetes API server (32 s for headers), and done within half of the 10 s a shutdown may
    /// take.
    fn default() -> Self {
        Self {
            connections: 10_000,
            header_read: Duration::from_secs(32),
            ping: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// Sockets to serve on, from [`crate::listen::tcp`], and how.
#[derive(Debug)]
pub struct Server {
    /// All of them serve the same.
    pub listeners: Vec<std::net::TcpListener>,
    /// TLS, or `None` for plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    /// See [`Limits`].
    pub limits: Limits,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy when the time to drain was over.
    pub cut_off: usize,
}

impl Server {
    /// Serves until `stop`, then closes the sockets, lets requests in flight end, and returns.
    pub async fn run<S>(self, service: S, stop: CancellationToken) -> io::Result<Drained>
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
    {
        let Self { listeners, tls, limits } = self;
        let listeners: Vec<TcpListener> =
            listeners.into_iter().map(TcpListener::from_std).collect::<io::Result<_>>()?;
        let permits = Arc::new(Semaphore::new(limits.connections));
        let shared = Shared { service, tls: tls.map(TlsAcceptor::from), limits, stop: stop.clone() };
        let mut connections = JoinSet::new();
        let mut turn = 0;
        loop {
            let permit = tokio::select! {
                () = stop.cancelled() => break,
                permit = Arc::clone(&permits).acquire_owned() => permit.expect("the semaphore is never closed"),
            };
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = connections.join_next() => {
                    log_panic(ended);
                    continue;
                }
                accepted = accept(&listeners, &mut turn) => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let serve = shared.clone().serve(stream, address);
                    let span = tracing::debug_span!("connection", peer = %address);
                    connections.spawn(
                        async move {
                            serve.await;
                            drop(permit);
                        }
                        .instrument(span),
                    );
                }
                Err(error) => pause_after(&error).await,
            }
        }
        drop(listeners);
        Ok(drain(connections, limits.drain).await)
    }
}

/// The next connection on any of the listeners, which take turns.
async fn accept(listeners: &[TcpListener], turn: &mut usize) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        for _ in 0..listeners.len() {
            let listener = &listeners[*turn % listeners.len()];
            *turn = turn.wrapping_add(1);
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

/// A client that went away before it was accepted is nothing; being out of descriptors or memory passes only with time.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        return;
    }
    tracing::warn!(%error, "cannot accept connections");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn drain(mut connections: JoinSet<()>, patience: Duration) -> Drained {
    let all_ended = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(patience, all_ended).await.is_ok() {
        return Drained { cut_off: 0 };
    }
    let cut_off = connections.len();
    tracing::warn!(connections = cut_off, "connections cut off at shutdown");
    connections.shutdown().await;
    Drained { cut_off }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a request handler panicked");
    }
}
