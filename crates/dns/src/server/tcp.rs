//! TCP (RFC 7766): many queries on a connection, with limits in number, size and time.

use super::answer;
use crate::chain::Chain;
use crate::query::{Query, Transport};
use crate::routes::Routes;
use crate::wire::{Reject, Reply, Request};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Connections at a time, and of one client.
const CONNECTIONS: usize = 4096;
const PER_CLIENT: usize = 256;
/// How long a connection may be silent, and how long a query or an answer may take on its way.
const IDLE: Duration = Duration::from_secs(10);
const TRANSFER: Duration = Duration::from_secs(5);
const DRAIN: Duration = Duration::from_secs(5);

/// Connections by client, over all listeners.
#[derive(Clone)]
pub(super) struct Clients {
    room: Arc<Semaphore>,
    count: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Clients {
    pub(super) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(CONNECTIONS)), count: Arc::default() }
    }

    /// A place for one more connection of a client, if it has not too many.
    fn enter(&self, client: IpAddr) -> Option<Guest> {
        let mut count = self.count.lock();
        let own = count.entry(client).or_default();
        if *own >= PER_CLIENT {
            return None;
        }
        *own += 1;
        Some(Guest { clients: self.clone(), client })
    }
}

struct Guest {
    clients: Clients,
    client: IpAddr,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut count = self.clients.count.lock();
        if let Some(own) = count.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                count.remove(&self.client);
            }
        }
    }
}

/// Accepts connections until told to stop, then lets queries that were read be answered.
pub(super) async fn serve(
    listener: TcpListener,
    routes: Arc<ArcSwap<Routes>>,
    clients: Clients,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &clients) => accepted,
        };
        match accepted {
            Ok((stream, source, permit)) => {
                let Some(guest) = clients.enter(source.ip()) else { continue };
                let (routes, stop) = (Arc::clone(&routes), stop.clone());
                connections.spawn(async move {
                    let _room = (permit, guest);
                    if let Err(error) = connection(stream, source, &routes, &stop).await {
                        tracing::debug!(%error, %source, "connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    let _the_rest_is_too_late = timeout(DRAIN, finished).await;
}

async fn accept(
    listener: &TcpListener,
    clients: &Clients,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(&clients.room).acquire_owned().await.map_err(|_| io::ErrorKind::Other)?;
    let (stream, source) = listener.accept().await?;
    Ok((stream, source, permit))
}

async fn connection(
    mut stream: TcpStream,
    source: SocketAddr,
    routes: &ArcSwap<Routes>,
    stop: &CancellationToken,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    let mut reply = Reply::new();
    loop {
        let mut length = [0; 2];
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            read = timeout(IDLE, stream.read_exact(&mut length)) => match read {
                Ok(Ok(_)) => {}
                // Silent for too long, or closed between two queries.
                Err(_) => return Ok(()),
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Ok(Err(error)) => return Err(error),
            },
        }
        buffer.resize(usize::from(u16::from_be_bytes(length)), 0);
        timeout(TRANSFER, stream.read_exact(&mut buffer)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let routes = routes.load_full();
        let Some((packet, refresh)) = answered(&buffer, source, &routes, &mut reply).await else { return Ok(()) };
        let mut framed = Vec::with_capacity(2 + packet.len());
        framed.extend((packet.len() as u16).to_be_bytes());
        framed.extend(packet);
        timeout(TRANSFER, stream.write_all(&framed)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        if let Some((chain, query)) = refresh {
            chain.refresh(&routes, query).await;
        }
    }
}

/// A query whose answer should be fetched anew, and by whom.
type Refresh = Option<(Arc<Chain>, Query)>;

/// The packet to send; `None` ends the connection.
async fn answered(
    packet: &[u8],
    source: SocketAddr,
    routes: &Arc<Routes>,
    reply: &mut Reply,
) -> Option<(Vec<u8>, Refresh)> {
    let request = match Request::parse(packet) {
        Ok(request) => request,
        Err(Reject::Ignore) => return None,
        Err(Reject::Answer(code)) => return Reply::header_only(packet, code).map(|header| (header.into(), None)),
    };
    let mut query = Query::new(request, source, Transport::Tcp, packet.len());
    reply.reset(&query.request.name, query.request.rtype, query.request.class);
    let chain = answer::resolve(routes, &mut query, reply).await;
    let packet = answer::finish(chain.as_deref(), &query, reply)?.to_vec();
    let refresh = chain.filter(|_| answer::wants_refresh(&query)).map(|chain| (chain, query));
    Some((packet, refresh))
}
