//! TCP (RFC 7766): many queries on a connection, with limits in number, size and time.

use super::answer;
use crate::{
    chain::Chain,
    query::{Query, Transport},
    routes::Routes,
    wire::{Reply, Request},
};
use arc_swap::ArcSwap;
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Connections at a time, and of one client.
const CONNECTIONS: usize = 4096;
const PER_CLIENT: usize = 256;
/// Queries of one connection that are being answered at a time.
const PIPELINED: usize = 32;
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

/// Reads queries and writes answers as they are ready, in whatever order (RFC 7766, section 7).
async fn connection(
    stream: TcpStream,
    source: SocketAddr,
    routes: &ArcSwap<Routes>,
    stop: &CancellationToken,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let mut received: Vec<u8> = Vec::new();
    let mut running = FuturesUnordered::new();
    let mut open = true;
    loop {
        while running.len() < PIPELINED
            && let Some(packet) = message(&mut received)
        {
            running.push(answered(packet, source, routes.load_full()));
        }
        if !open && running.is_empty() {
            return Ok(());
        }
        // A message that has begun must end soon; between messages there is more time.
        let patience = if received.is_empty() { IDLE } else { TRANSFER };
        tokio::select! {
            () = stop.cancelled(), if open => open = false,
            Some(answer) = running.next(), if !running.is_empty() => {
                let Some((framed, refresh)) = answer else { return Ok(()) };
                timeout(TRANSFER, writer.write_all(&framed)).await.map_err(|_| io::ErrorKind::TimedOut)??;
                if let Some((chain, query)) = refresh {
                    chain.refresh(&routes.load_full(), query).await;
                }
            }
            read = timeout(patience, reader.read_buf(&mut received)), if open && running.len() < PIPELINED => match read {
                Ok(Ok(0)) => open = false,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                // Silence while an answer is being made is no fault of the client.
                Err(_) if !running.is_empty() => {}
                Err(_) => return Ok(()),
            },
        }
    }
}

/// The first whole message of what was received.
fn message(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = usize::from(u16::from_be_bytes(*received.first_chunk()?));
    if received.len() < 2 + length {
        return None;
    }
    let rest = received.split_off(2 + length);
    let mut whole = std::mem::replace(received, rest);
    Some(whole.split_off(2))
}

fn framed(packet: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(2 + packet.len());
    framed.extend((packet.len() as u16).to_be_bytes());
    framed.extend_from_slice(packet);
    framed
}

/// A query whose answer should be fetched anew, and by whom.
type Refresh = Option<(Arc<Chain>, Query)>;

/// The bytes to send; `None` ends the connection.
async fn answered(packet: Vec<u8>, source: SocketAddr, routes: Arc<Routes>) -> Option<(Vec<u8>, Refresh)> {
    let request = match Request::parse(&packet) {
        Ok(request) => request,
        Err(reject) => {
            let header = answer::rejected(&routes, (Transport::Tcp, source), &packet, reject);
            return header.map(|header| (framed(&header), None));
        }
    };
    let mut query = Query::new(request, source, Transport::Tcp, packet.len());
    let mut reply = Reply::new();
    reply.reset(&query.request.name, query.request.rtype, query.request.class);
    let chain = answer::resolve(&routes, &mut query, &mut reply).await;
    let packet = framed(answer::finish(&routes, chain.as_deref(), &query, &mut reply)?);
    let refresh = chain.filter(|_| answer::wants_refresh(&query)).map(|chain| (chain, query));
    Some((packet, refresh))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn messages_are_taken_one_by_one_when_they_are_whole() {
        let mut received = vec![0, 2, 7, 8, 0, 0, 0, 3, 1];
        assert_eq!(message(&mut received), Some(vec![7, 8]));
        assert_eq!(message(&mut received), Some(vec![]));
        assert_eq!(message(&mut received), None);
        received.extend([2, 3]);
        assert_eq!(message(&mut received), Some(vec![1, 2, 3]));
        assert_eq!(message(&mut received), None);
    }

    #[tokio::test]
    async fn many_queries_on_one_connection_are_all_answered_also_after_the_last_word() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let instance = testing::build(". {\n hosts {\n 192.0.2.1 a.test\n }\n}").unwrap();
            let routes = Arc::new(ArcSwap::new(Arc::clone(instance.routes.values().next().unwrap())));
            let listener = TcpListener::bind(address).await.unwrap();
            let server = listener.local_addr().unwrap();
            let stop = CancellationToken::new();
            let serving = serve(listener, routes, Clients::new(), stop.clone());
            let asking = async {
                let mut stream = TcpStream::connect(server).await.unwrap();
                let query = testing::query("a.test.", 1).request;
                for id in 0..100u16 {
                    stream.write_all(&framed(&query.to_wire(id))).await.unwrap();
                }
                stream.shutdown().await.unwrap();
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                let mut ids = Vec::new();
                while let Some(packet) = message(&mut all) {
                    ids.push(u16::from_be_bytes([packet[0], packet[1]]));
                }
                ids.sort_unstable();
                assert_eq!(ids, (0..100).collect::<Vec<u16>>());
                stop.cancel();
            };
            tokio::join!(serving, asking);
        }
    }

    #[test]
    fn one_client_cannot_have_all_connections() {
        let clients = Clients::new();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let mut guests: Vec<Guest> = (0..PER_CLIENT).filter_map(|_| clients.enter(one)).collect();
        assert_eq!(guests.len(), PER_CLIENT);
        assert!(clients.enter(one).is_none() && clients.enter(other).is_some());
        guests.pop();
        assert!(clients.enter(one).is_some());
    }
}
