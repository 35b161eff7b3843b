//! Accepting connections, and stopping without cutting anyone off. Run by a task of `runtime::task`.

use super::{
    body::Body,
    connection::ConnectionService,
    limits::Limits,
    slots::{Full, Slots},
};
use http::{Request, Response};
use hyper::body::Incoming;
use rustls::ServerConfig;
use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinSet},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::Instrument;

/// How often a log line says that connections are turned away.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

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
        let slots = Slots::new(limits.connections, limits.connections_per_source);
        let server = ConnectionService { service, tls: tls.map(TlsAcceptor::from), limits, stop: stop.clone() };
        let mut connections = JoinSet::new();
        let (mut turn, mut complained) = (0, None);
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = connections.join_next() => {
                    log_panic(ended);
                    continue;
                }
                accepted = accept(&listeners, &mut turn) => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause_after(&error, &slots).await;
                    continue;
                }
            };
            match slots.enter(address) {
                Ok(slot) => {
                    let span = tracing::debug_span!("connection", peer = %address);
                    connections.spawn(server.clone().serve(stream, address, slot).instrument(span));
                }
                Err(full) => complain(full, address, &mut complained),
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

/// A client that went away before it was accepted is nothing. Being out of descriptors or memory passes when somebody goes,
/// and who does nothing goes first.
async fn pause_after(error: &io::Error, slots: &Slots) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        return;
    }
    tracing::warn!(%error, "cannot accept connections");
    slots.make_room();
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Says that somebody was turned away, now and then: whoever floods must not fill the log as well.
fn complain(full: Full, address: SocketAddr, last: &mut Option<Instant>) {
    if last.is_some_and(|last| last.elapsed() < COMPLAIN_EVERY) {
        return;
    }
    *last = Some(Instant::now());
    match full {
        Full::Server => tracing::warn!(peer = %address, "connections are turned away: as many as allowed are busy"),
        Full::Source => tracing::warn!(peer = %address, "connections are turned away: this source has too many"),
    }
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
