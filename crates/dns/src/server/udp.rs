//! UDP: a thread per core, each with sockets of its own. A query that need not wait is answered where it arrives,
//! without a task, a lock or an allocation; one that must wait goes on beside, on the same thread.

use super::answer::{self, Begun};
use crate::query::{Query, Transport};
use crate::routes::Routes;
use crate::wire::code::rcode;
use crate::wire::{Reject, Reply, Request};
use arc_swap::ArcSwap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longest query.
const QUERY: usize = 4096;
/// Packets taken from a socket before others get their turn.
const BATCH: usize = 64;
/// Queries of one socket that may wait at a time; more are refused, so that a slow upstream does not fill the memory.
const WAITING: usize = 4096;
/// How long queries may go on after a stop.
const DRAIN: Duration = Duration::from_secs(5);

/// A socket to serve, what it serves, and until when.
pub(super) struct Job {
    pub(super) socket: UdpSocket,
    pub(super) routes: Arc<ArcSwap<Routes>>,
    pub(super) stop: CancellationToken,
}

/// A thread. It ends when it was told to stop and its sockets are done.
pub(super) struct Thread {
    jobs: UnboundedSender<Job>,
    handle: std::thread::JoinHandle<()>,
}

impl Thread {
    pub(super) fn start(index: usize) -> io::Result<Self> {
        let (jobs, received) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name(format!("dns-{index}"));
        let handle = thread.spawn(move || runtime.block_on(run(received)))?;
        Ok(Self { jobs, handle })
    }

    /// Serves a socket.
    pub(super) fn serve(&self, job: Job) {
        // A thread ends only after its handle.
        let _ = self.jobs.send(job);
    }

    /// Waits until its sockets were told to stop and are done.
    pub(super) fn join(self) {
        drop(self.jobs);
        let _ = self.handle.join();
    }
}

async fn run(mut jobs: UnboundedReceiver<Job>) {
    let mut sockets = JoinSet::new();
    while let Some(Job { socket, routes, stop }) = jobs.recv().await {
        match tokio::net::UdpSocket::from_std(socket) {
            Ok(socket) => drop(sockets.spawn(serve(Arc::new(socket), routes, stop))),
            Err(error) => tracing::error!(%error, "a socket cannot be used"),
        }
    }
    while sockets.join_next().await.is_some() {}
}

async fn serve(socket: Arc<tokio::net::UdpSocket>, routes: Arc<ArcSwap<Routes>>, stop: CancellationToken) {
    let mut server = Server { socket, routes, reply: Reply::new(), waiting: JoinSet::new() };
    let mut buffer = vec![0; QUERY];
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            ready = server.socket.readable() => if ready.is_err() { break },
        }
        if server.take(&mut buffer) == Taken::Some {
            // There may be more; but others on this thread come first.
            tokio::task::yield_now().await;
        }
        while server.waiting.try_join_next().is_some() {}
    }
    // What has arrived already is still answered.
    server.take(&mut buffer);
    let finished = async { while server.waiting.join_next().await.is_some() {} };
    let _the_rest_is_too_late = tokio::time::timeout(DRAIN, finished).await;
}

/// What was taken of the packets that wait.
#[derive(PartialEq, Eq)]
enum Taken {
    All,
    Some,
}

struct Server {
    socket: Arc<tokio::net::UdpSocket>,
    routes: Arc<ArcSwap<Routes>>,
    reply: Reply,
    waiting: JoinSet<()>,
}

impl Server {
    fn take(&mut self, buffer: &mut [u8]) -> Taken {
        for _ in 0..BATCH {
            match self.socket.try_recv_from(buffer) {
                Ok((length, source)) => self.handle(&buffer[..length], source),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Taken::All,
                // Such as a client's closed port, told by ICMP: nothing to do with the next packet.
                Err(error) => tracing::debug!(%error, "receiving failed"),
            }
        }
        Taken::Some
    }

    fn handle(&mut self, packet: &[u8], source: SocketAddr) {
        let request = match Request::parse(packet) {
            Ok(request) => request,
            Err(Reject::Ignore) => return,
            Err(Reject::Answer(code)) => {
                if let Some(header) = Reply::header_only(packet, code) {
                    self.send(&header, source);
                }
                return;
            }
        };
        let mut query = Query::new(request, source, Transport::Udp, packet.len());
        self.reply.reset(&query.request.name, query.request.rtype, query.request.class);
        let routes = self.routes.load();
        let chain = match answer::begin(&routes, &mut query, &mut self.reply) {
            Begun::Done(chain) => chain,
            Begun::Waits(chain, at) if self.waiting.len() < WAITING => {
                let (routes, socket, mut reply) = (Arc::clone(&routes), Arc::clone(&self.socket), self.reply.clone());
                self.waiting.spawn(async move {
                    answer::go_on(&routes, &chain, at, &mut query, &mut reply).await;
                    if let Some(packet) = answer::finish(Some(&chain), &query, &mut reply) {
                        // Who has gone meanwhile gets nothing.
                        let _ = socket.send_to(packet, source).await;
                    }
                    if answer::wants_refresh(&query) {
                        chain.refresh(&routes, query).await;
                    }
                });
                return;
            }
            Begun::Waits(chain, _) => {
                self.reply.fail(rcode::SERVFAIL, Some("too many queries wait for upstream servers".to_owned()));
                Some(chain)
            }
        };
        if let Some(packet) = answer::finish(chain.as_deref(), &query, &mut self.reply) {
            // A full buffer loses the packet, as the network may; the client asks again.
            let _ = self.socket.try_send_to(packet, source);
        }
        if answer::wants_refresh(&query)
            && let Some(chain) = chain
        {
            let routes = Arc::clone(&routes);
            self.waiting.spawn(async move { chain.refresh(&routes, query).await });
        }
    }

    fn send(&self, packet: &[u8], source: SocketAddr) {
        let _ = self.socket.try_send_to(packet, source);
    }
}
