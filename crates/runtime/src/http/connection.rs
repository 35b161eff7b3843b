//! One connection from its first byte to its last. Called by `server` in a task of its own.

use super::{
    body::Body,
    limits::Limits,
    outgoing::{Outgoing, Stall, Streams, Unhurried},
    slots::{InRequest, Slot, SlottedIo},
};
use http::{Request, Response, StatusCode, Version};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use rustls::pki_types::CertificateDer;
use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

/// Who is at the other end. Every request carries it in its extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The client's address; of an IPv4 client always in IPv4 form, also when it came in on an IPv6 socket.
    pub address: SocketAddr,
    /// The address the client connected to, in the same form.
    pub local: SocketAddr,
    /// The client's verified certificate and what it sent along, as DER; empty if it showed none.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// What all connections of a server share.
#[derive(Clone)]
pub(super) struct ConnectionService<S> {
    pub(super) service: S,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Limits,
    pub(super) stop: CancellationToken,
}

impl<S> ConnectionService<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    /// Serves one connection. Its troubles concern its client alone, so they are logged for debugging and go no
    /// further.
    pub(super) async fn serve(self, stream: TcpStream, address: SocketAddr, slot: Slot) {
        // Small answers must not wait for more to come.
        let _refused_on_a_dead_socket = stream.set_nodelay(true);
        let local = stream.local_addr().unwrap_or(address);
        let mut peer = Peer { address: canonical(address), local: canonical(local), certificates: Arc::new([]) };
        let Some(acceptor) = self.tls.clone() else { return self.drive(stream, peer, slot).await };
        let handshake = tokio::select! {
            () = self.stop.cancelled() => return,
            () = slot.activity.evicted.cancelled() => return,
            handshake = tokio::time::timeout(self.limits.handshake, acceptor.accept(stream)) => handshake,
        };
        match handshake {
            Ok(Ok(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
                peer.certificates = certificates.iter().map(|certificate| certificate.clone().into_owned()).collect();
                self.drive(stream, peer, slot).await;
            }
            Ok(Err(error)) => tracing::debug!(peer = %peer.address, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(peer = %peer.address, "TLS handshake took too long"),
        }
    }

    async fn drive<I>(self, io: I, peer: Peer, slot: Slot)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self { service, tls: _, limits, stop } = self;
        let address = peer.address;
        let activity = Arc::clone(&slot.activity);
        // No request yet, or the last one's version.
        let (began, in_turn) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let handler = service_fn({
            let (began, in_turn, activity) = (Arc::clone(&began), Arc::clone(&in_turn), Arc::clone(&activity));
            move |mut request: Request<Incoming>| {
                began.store(true, Ordering::Relaxed);
                in_turn.store(request.version() < Version::HTTP_2, Ordering::Relaxed);
                let busy = InRequest::begin(&activity);
                request.extensions_mut().insert(peer.clone());
                let (answer, activity) = (service.clone().oneshot(request), Arc::clone(&activity));
                async move {
                    let response = answer.await?;
                    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                        activity.hand_over();
                    }
                    let pace = response.extensions().get::<Unhurried>().is_none().then_some(limits.answer);
                    Ok::<_, Infallible>(response.map(|body| Outgoing::new(body, pace, busy)))
                }
            }
        });
        let builder = builder(&limits);
        let mut connection =
            pin!(builder.serve_connection_with_upgrades(TokioIo::new(SlottedIo::new(io, slot)), handler));
        // An answer of HTTP/1 that is not read holds up its connection, which then has to go.
        let (stall, mut stalled) = (Arc::new(Stall::default()), None);
        // hyper's own timeout covers neither the bytes by which the version is told nor HTTP/2, and takes idling for a slow head.
        let mut head = pin!(tokio::time::sleep(limits.header_read));
        let mut idle = pin!(tokio::time::sleep(limits.idle));
        let (mut stopping, mut closing) = (false, false);
        loop {
            let step = poll_fn(|context| {
                if let Poll::Ready(ended) = stall.scope(|| connection.as_mut().poll(context)) {
                    return Poll::Ready(Some(ended));
                }
                stall.poll_passed(&mut stalled, context).map(|()| None)
            });
            tokio::select! {
                ended = step => {
                    match ended {
                        Some(Ok(())) => {}
                        Some(Err(error)) => tracing::debug!(peer = %address, %error, "connection ended badly"),
                        None => tracing::debug!(peer = %address, "an answer was not read in time"),
                    }
                    return;
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = activity.evicted.cancelled() => {
                    tracing::debug!(peer = %address, "an idle connection made room for another");
                    return;
                }
                () = head.as_mut() => {
                    let in_head = activity.in_head().filter(|_| in_turn.load(Ordering::Relaxed)).unwrap_or_default();
                    let left = limits.header_read.saturating_sub(in_head);
                    if left.is_zero() || !began.load(Ordering::Relaxed) {
                        tracing::debug!(peer = %address, "no request in time");
                        return;
                    }
                    // Looked at often enough that nobody gets much more.
                    head.as_mut().reset(tokio::time::Instant::now() + left.min(limits.header_read / 4));
                }
                () = idle.as_mut() => {
                    let quiet = activity.idle().unwrap_or_default();
                    let next = match limits.idle.checked_sub(quiet).filter(|rest| !rest.is_zero()) {
                        Some(rest) => rest,
                        // It had its time to say goodbye.
                        None if closing => return,
                        None => {
                            closing = true;
                            connection.as_mut().graceful_shutdown();
                            limits.ping
                        }
                    };
                    idle.as_mut().reset(tokio::time::Instant::now() + next);
                }
            }
        }
    }
}

fn builder(limits: &Limits) -> Builder<Streams> {
    let mut builder = Builder::new(Streams);
    // Ours comes first; its default would be shorter.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.idle + limits.header_read);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        // Streams that are opened only to be reset: by the client before we look, or by us because it breaks the rules.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(256)
        // Also what endless CONTINUATION frames run into.
        .max_header_list_size(limits.headers)
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping);
    builder
}

fn canonical(address: SocketAddr) -> SocketAddr {
    // Only a mapped address is rewritten: a link-local one would lose its zone.
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => SocketAddr::new(v6.ip().to_canonical(), v6.port()),
        other => other,
    }
}
