//! TCP (RFC 7766): many queries on a connection, with limits in number, size and time.

use super::answer;
use crate::{
    chain::{Chain, refresh_beside},
    query::{Query, Transport},
    routes::Routes,
    wire::{Reply, Request},
};
use arc_swap::ArcSwap;
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Connections at a time.
const CONNECTIONS: usize = 8192;
/// Queries of one connection that are being answered at a time.
const PIPELINED: usize = 32;
const DRAIN: Duration = Duration::from_secs(5);

/// Connections by client, over all listeners. There is no limit for one client, since a node's cache or an address that many
/// share may be a whole cluster; when there are too many, one makes room that was silent for longest, of who has most.
#[derive(Clone)]
pub(super) struct Clients {
    open: Arc<Mutex<Open>>,
    most: usize,
    closed: Counter,
}

#[derive(Default)]
struct Open {
    next: u64,
    count: usize,
    clients: HashMap<IpAddr, BTreeMap<u64, Arc<Link>>>,
}

/// One connection.
struct Link {
    /// Milliseconds of the last word, since the server began.
    heard: AtomicU64,
    close: CancellationToken,
}

impl Clients {
    pub(super) fn new(closed: Counter) -> Self {
        Self { open: Arc::default(), most: CONNECTIONS, closed }
    }

    #[cfg(test)]
    fn with(most: usize) -> Self {
        Self { most, ..Self::new(Counter::default()) }
    }

    /// A place for one more connection of a client.
    fn enter(&self, client: IpAddr) -> Guest {
        let mut open = self.open.lock();
        if open.count >= self.most {
            self.make_room(&mut open);
        }
        let number = open.next;
        let link = Arc::new(Link { heard: AtomicU64::new(moment()), close: CancellationToken::new() });
        open.next += 1;
        open.count += 1;
        open.clients.entry(client).or_default().insert(number, Arc::clone(&link));
        Guest { clients: self.clone(), client, number, link }
    }

    fn make_room(&self, open: &mut Open) {
        let Some((client, links)) = open.clients.iter().max_by_key(|(_, links)| links.len()) else { return };
        let Some((number, link)) = links.iter().min_by_key(|(_, link)| link.heard.load(Ordering::Relaxed)) else {
            return;
        };
        link.close.cancel();
        let (client, number) = (*client, *number);
        tracing::debug!(%client, most = self.most, "too many connections: one that was silent is closed");
        self.closed.inc();
        open.remove(client, number);
    }
}

impl Open {
    fn remove(&mut self, client: IpAddr, number: u64) {
        let Some(links) = self.clients.get_mut(&client) else { return };
        if links.remove(&number).is_some() {
            self.count -= 1;
        }
        if links.is_empty() {
            self.clients.remove(&client);
        }
    }
}

/// Milliseconds since the first of these.
fn moment() -> u64 {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    BEGINNING.get_or_init(Instant::now).elapsed().as_millis() as u64
}

struct Guest {
    clients: Clients,
    client: IpAddr,
    number: u64,
    link: Arc<Link>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.clients.open.lock().remove(self.client, self.number);
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
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, source)) => {
                let guest = clients.enter(source.ip());
                let (routes, stop) = (Arc::clone(&routes), stop.clone());
                connections.spawn(async move {
                    if let Err(error) = begin(stream, source, &routes, &guest.link, &stop).await {
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

/// Serves a connection, after a handshake where the endpoint has TLS.
async fn begin(
    stream: TcpStream,
    source: SocketAddr,
    routes: &ArcSwap<Routes>,
    link: &Link,
    stop: &CancellationToken,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let tls = routes.load().tls.clone();
    match tls {
        None => {
            let (reader, writer) = stream.into_split();
            connection((reader, writer), source, routes, link, stop).await
        }
        Some(tls) => {
            let patience = routes.load().timeouts.read;
            let shaken = timeout(patience, tls.accept(stream)).await.map_err(|_| io::ErrorKind::TimedOut)??;
            connection(tokio::io::split(shaken), source, routes, link, stop).await
        }
    }
}

/// Reads queries and writes answers as they are ready, in whatever order (RFC 7766, section 7).
async fn connection(
    (mut reader, mut writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    source: SocketAddr,
    routes: &ArcSwap<Routes>,
    link: &Link,
    stop: &CancellationToken,
) -> io::Result<()> {
    let mut received: Vec<u8> = Vec::new();
    let mut running = FuturesUnordered::new();
    let (mut open, mut taken) = (true, 0);
    loop {
        let times = routes.load().timeouts;
        while running.len() < PIPELINED
            && times.queries.is_none_or(|most| taken < most)
            && let Some(packet) = message(&mut received)
        {
            running.push(answered(packet, source, routes.load_full()));
            taken += 1;
            open &= times.queries.is_none_or(|most| taken < most);
        }
        if !open && running.is_empty() {
            return Ok(());
        }
        // A message that has begun must end soon; between messages there is more time.
        let patience = if received.is_empty() { times.idle } else { times.read };
        tokio::select! {
            () = stop.cancelled(), if open => open = false,
            () = link.close.cancelled(), if open => open = false,
            Some(answer) = running.next(), if !running.is_empty() => {
                let Some((framed, refresh)) = answer else { return Ok(()) };
                let sent = async {
                    writer.write_all(&framed).await?;
                    writer.flush().await
                };
                timeout(times.write, sent).await.map_err(|_| io::ErrorKind::TimedOut)??;
                if let Some((chain, query)) = refresh {
                    refresh_beside(&routes.load_full(), chain, query);
                }
            }
            read = timeout(patience, reader.read_buf(&mut received)), if open && running.len() < PIPELINED => match read {
                Ok(Ok(0)) => open = false,
                Ok(Ok(_)) => link.heard.store(moment(), Ordering::Relaxed),
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
    let chain = answer::resolve(&routes, &packet, &mut query, &mut reply).await;
    let answer = framed(answer::finish(&routes, chain.as_deref(), &query, &mut reply)?);
    let refresh = chain.filter(|_| answer::wants_refresh(&query)).map(|chain| (chain, query));
    Some((answer, refresh))
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
            let serving = serve(listener, routes, Clients::with(CONNECTIONS), stop.clone());
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

    #[tokio::test]
    async fn a_crowd_behind_one_address_is_served_and_the_idlest_makes_room() {
        let instance = testing::build(". {\n hosts {\n 192.0.2.1 a.test\n }\n}").unwrap();
        let routes = Arc::new(ArcSwap::new(Arc::clone(instance.routes.values().next().unwrap())));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = serve(listener, routes, Clients::with(300), stop.clone());
        let asking = async {
            let query = framed(&testing::query("a.test.", 1).request.to_wire(7));
            let mut streams = Vec::new();
            for _ in 0..320 {
                let mut stream = TcpStream::connect(server).await.unwrap();
                stream.write_all(&query).await.unwrap();
                let mut answer = [0; 2];
                stream.read_exact(&mut answer).await.unwrap();
                let mut answer = vec![0; usize::from(u16::from_be_bytes(answer))];
                stream.read_exact(&mut answer).await.unwrap();
                streams.push(stream);
            }
            // The first are closed in order, the last is still there.
            let mut rest = Vec::new();
            assert_eq!(streams[0].read_to_end(&mut rest).await.unwrap(), 0);
            let last = streams.last_mut().unwrap();
            last.write_all(&query).await.unwrap();
            last.read_exact(&mut [0; 2]).await.unwrap();
            stop.cancel();
            drop(streams);
        };
        tokio::join!(serving, asking);
    }
}
