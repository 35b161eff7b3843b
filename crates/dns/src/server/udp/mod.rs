//! UDP: a thread per core, each with sockets of its own. Packets are taken and answered in batches. A query that need not
//! wait is answered where it arrives, without a task, a lock or an allocation; one that must wait goes on beside, on the
//! same thread.

use super::answer::{self, Begun};
use crate::{
    chain::Chain,
    query::{Query, Transport},
    routes::Routes,
    wire::{Reply, Request, code::rcode},
};
use arc_swap::ArcSwap;
use kernel::udp::{self, BATCH, Inbox, Outbox, Peer};
use std::{
    io,
    net::UdpSocket,
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::Interest,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// Longest query: what an Ethernet frame can hold. Nobody asks for more; who does is told that it is malformed.
const QUERY: usize = 1472;
/// Room for the answers of a batch; when it is full, they are sent before there are more.
const ANSWERS: usize = 64 << 10;
/// Queries of one socket that may wait at a time; more are refused, so that a slow upstream does not fill the memory.
const WAITING: usize = 4096;
/// How long a socket that cannot be read from is left alone.
const PAUSE: Duration = Duration::from_millis(10);
/// How long queries may go on after a stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Batches that are still answered after a stop.
const DRAINED: usize = 1024;

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
    let mut server = Server::new(socket, routes);
    let mut inbox = Inbox::new(QUERY);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            ready = server.socket.readable() => if ready.is_err() { break },
        }
        match server.take(&mut inbox) {
            Taken::All => {}
            // There may be more; but others on this thread come first.
            Taken::Some => tokio::task::yield_now().await,
            Taken::Failed => tokio::time::sleep(PAUSE).await,
        }
        while server.waiting.try_join_next().is_some() {}
    }
    // What has arrived already is still answered, as much as there is room for in the kernel's buffer.
    for _ in 0..DRAINED {
        if server.take(&mut inbox) != Taken::Some {
            break;
        }
    }
    let finished = async { while server.waiting.join_next().await.is_some() {} };
    let _the_rest_is_too_late = tokio::time::timeout(DRAIN, finished).await;
}

/// What was taken of the packets that wait.
#[derive(PartialEq, Eq)]
enum Taken {
    All,
    Some,
    Failed,
}

struct Server {
    socket: Arc<tokio::net::UdpSocket>,
    routes: Arc<ArcSwap<Routes>>,
    reply: Reply,
    outbox: Outbox,
    waiting: JoinSet<()>,
}

impl Server {
    fn new(socket: Arc<tokio::net::UdpSocket>, routes: Arc<ArcSwap<Routes>>) -> Self {
        Self { socket, routes, reply: Reply::new(), outbox: Outbox::new(ANSWERS), waiting: JoinSet::new() }
    }

    /// Answers a batch.
    fn take(&mut self, inbox: &mut Inbox) -> Taken {
        let mut count = 0;
        let received = self.socket.try_io(Interest::READABLE, || {
            count = inbox.receive(self.socket.as_fd())?;
            // Less than a batch was all there is. Saying so spares the call that would find nothing: what comes later
            // is told by the kernel.
            if count == BATCH { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        let routes = self.routes.load_full();
        let now = Instant::now();
        for (packet, peer) in inbox.packets().take(count) {
            self.handle(now, &routes, packet, &peer);
        }
        self.outbox.send(self.socket.as_fd());
        match received {
            Ok(()) => Taken::Some,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Taken::All,
            Err(error) => {
                tracing::debug!(%error, "receiving failed");
                Taken::Failed
            }
        }
    }

    fn handle(&mut self, now: Instant, routes: &Arc<Routes>, packet: &[u8], peer: &Peer) {
        let request = match Request::parse(packet) {
            Ok(request) => request,
            Err(reject) => {
                let from = (Transport::Udp, peer.source);
                if let Some(header) = answer::rejected(routes, from, packet, reject) {
                    put(&mut self.outbox, &self.socket, &header, peer);
                }
                return;
            }
        };
        let mut query = Query::at(now, request, peer.source, Transport::Udp, packet.len());
        self.reply.reset(&query.request.name, query.request.rtype, query.request.class);
        let chain = match answer::begin(routes, packet, &mut query, &mut self.reply) {
            Begun::Done(chain) => chain,
            Begun::Waits(chain, at) if self.waiting.len() < WAITING => {
                return self.go_on(Arc::clone(routes), Arc::clone(chain), at, query, *peer);
            }
            Begun::Waits(chain, _) => {
                self.reply.fail(rcode::SERVFAIL, Some("too many queries wait for upstream servers".to_owned()));
                Some(chain)
            }
        };
        if let Some(packet) = answer::finish(routes, chain.map(AsRef::as_ref), &query, &mut self.reply) {
            put(&mut self.outbox, &self.socket, packet, peer);
        }
        if answer::wants_refresh(&query)
            && let Some(chain) = chain
        {
            let (routes, chain) = (Arc::clone(routes), Arc::clone(chain));
            self.waiting.spawn(async move { chain.refresh(&routes, query).await });
        }
    }

    /// Lets a query wait, and answers it when it has what it waited for.
    fn go_on(&mut self, routes: Arc<Routes>, chain: Arc<Chain>, at: usize, mut query: Query, peer: Peer) {
        let (socket, mut reply) = (Arc::clone(&self.socket), self.reply.clone());
        self.waiting.spawn(async move {
            answer::go_on(&routes, &chain, at, &mut query, &mut reply).await;
            if let Some(packet) = answer::finish(&routes, Some(&chain), &query, &mut reply) {
                // Who has gone meanwhile gets nothing.
                let sent = socket.async_io(Interest::WRITABLE, || udp::send(socket.as_fd(), packet, &peer)).await;
                if let Err(error) = sent {
                    tracing::debug!(%error, source = %peer.source, "an answer was not sent");
                }
            }
            if answer::wants_refresh(&query) {
                chain.refresh(&routes, query).await;
            }
        });
    }
}

/// Puts an answer to those that are sent together.
fn put(outbox: &mut Outbox, socket: &tokio::net::UdpSocket, packet: &[u8], peer: &Peer) {
    if !outbox.push(packet, peer) {
        outbox.send(socket.as_fd());
        let _an_empty_one_has_room = outbox.push(packet, peer);
    }
}

#[cfg(test)]
mod tests;
