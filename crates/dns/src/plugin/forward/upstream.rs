//! One upstream server: whether it is thought healthy, and its idle connections.

use super::{
    exchange,
    parse::ForwardOptions,
    servers::{Place, Server, Speaks},
};
use crate::{
    metrics::Counters,
    plugin::rewrite::edns0,
    wire::{
        Message, Name, Request,
        code::{class, rcode, rtype},
    },
};
use parking_lot::Mutex;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

pub(super) struct Upstream {
    server: Server,
    expire: Duration,
    max_age: Duration,
    max_idle: usize,
    max_fails: u32,
    check: (Duration, Request),
    /// Checks that failed in a row.
    fails: AtomicU32,
    /// A query got no answer, and no check has been answered since.
    suspect: AtomicBool,
    suspected: Notify,
    idle: Mutex<Vec<Idle>>,
    counters: Arc<Counters>,
}

/// A connection that waits for the next query.
struct Idle {
    made: Instant,
    since: Instant,
    stream: exchange::Stream,
}

impl Upstream {
    pub(super) fn new(server: Server, options: &ForwardOptions, counters: &Arc<Counters>) -> Self {
        let check = Request {
            id: 0,
            rd: options.check_recursion,
            ad: false,
            cd: false,
            name: options.check_name,
            rtype: rtype::NS,
            class: class::IN,
            edns: None,
        };
        Self {
            server,
            expire: options.expire,
            max_age: options.max_age,
            max_idle: options.max_idle,
            max_fails: options.max_fails,
            check: (options.check_every, check),
            fails: AtomicU32::new(0),
            suspect: AtomicBool::new(false),
            suspected: Notify::new(),
            idle: Mutex::new(Vec::new()),
            counters: Arc::clone(counters),
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.server.place
    }

    pub(super) fn is_down(&self) -> bool {
        self.max_fails > 0 && self.fails.load(Ordering::Relaxed) > self.max_fails
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// A query got no answer: the next thing is a check.
    pub(super) fn failed(&self) {
        // Without checks nobody would find it innocent.
        self.suspect.store(self.max_fails > 0, Ordering::Relaxed);
        self.suspected.notify_one();
    }

    pub(super) fn note(&self, code: u16, elapsed: Duration) {
        let to = self.server.place.to_string();
        let labels = vec![("proxy_name", "forward".to_owned()), ("to", to.clone()), ("rcode", rcode::text(code))];
        self.counters.upstream.get_or_create(&labels).observe(elapsed.as_nanos() as u64);
        self.counters.forwarded.get_or_create(&vec![("to", to)]).inc();
    }

    /// Waits for suspicion, then checks until there is an answer, whatever it says.
    pub(super) async fn watch(&self) {
        loop {
            self.suspected.notified().await;
            let (every, request) = &self.check;
            while self.exchange(request, &[], false, Duration::from_secs(1)).await.is_err() {
                self.fails.fetch_add(1, Ordering::Relaxed);
                let labels = vec![("proxy_name", "forward".to_owned()), ("to", self.server.place.to_string())];
                self.counters.upstream_failures.get_or_create(&labels).inc();
                tokio::time::sleep(*every).await;
            }
            self.fails.store(0, Ordering::Relaxed);
            self.suspect.store(false, Ordering::Relaxed);
        }
    }

    /// Asks and waits for the answer to exactly this question. Who does not know EDNS is asked again without (RFC 6891,
    /// section 7).
    pub(super) async fn exchange(
        &self,
        request: &Request,
        options: &[(u16, Vec<u8>)],
        over_tcp: bool,
        patience: Duration,
    ) -> io::Result<Message> {
        let begun = Instant::now();
        let answer = self.exchange_once(request, options, over_tcp, patience).await?;
        let sent = request.edns.is_some() || !options.is_empty();
        let unknown = matches!(answer.rcode, rcode::FORMERR | rcode::NOTIMP) && !answer.edns;
        match patience.checked_sub(begun.elapsed()).filter(|_| sent && unknown) {
            Some(left) => self.exchange_once(&Request { edns: None, ..*request }, &[], over_tcp, left).await,
            None => Ok(answer),
        }
    }

    async fn exchange_once(
        &self,
        request: &Request,
        options: &[(u16, Vec<u8>)],
        over_tcp: bool,
        patience: Duration,
    ) -> io::Result<Message> {
        // Caches of the web are to see that the same question is the same (RFC 8484, section 4.1).
        let id = match self.server.speaks {
            Speaks::Https(..) => 0,
            _ => getrandom::u32().map_err(|_| io::ErrorKind::Other)? as u16,
        };
        let mut packet = request.to_wire(id);
        edns0::write(&mut packet, request.edns.is_some(), options);
        let size = request.edns.map_or(512, |edns| usize::from(edns.size)).max(4096);
        let expected = Expected { id, name: request.name, rtype: request.rtype, class: request.class, size };
        let work = async {
            match &self.server.speaks {
                Speaks::Dns if !over_tcp => {
                    let address = self.server.place.address().await?;
                    return exchange::udp(address, self.server.source(address), &packet, &expected).await;
                }
                Speaks::Https(_, _, https) => {
                    let is_good = |made: Instant, used: Instant| used.elapsed() < self.expire && self.is_young(made);
                    return https.exchange(&packet, &expected, is_good, exchange::connect(&self.server)).await;
                }
                Speaks::Dns | Speaks::Tls(..) => {}
            }
            // A kept connection may have been closed meanwhile: then a new one is tried.
            if let Some((made, mut stream)) = self.idle_stream()
                && let Ok(message) = exchange::stream(&mut stream, &packet, &expected).await
            {
                self.keep(made, stream);
                return Ok(message);
            }
            let made = Instant::now();
            let mut stream = exchange::connect(&self.server).await?;
            let message = exchange::stream(&mut stream, &packet, &expected).await?;
            self.keep(made, stream);
            Ok(message)
        };
        let answered = tokio::time::timeout(patience, work).await;
        if let (Err(_), Speaks::Https(_, _, https)) = (&answered, &self.server.speaks) {
            https.forget();
        }
        answered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    fn idle_stream(&self) -> Option<(Instant, exchange::Stream)> {
        let mut idle = self.idle.lock();
        idle.retain(|idle| idle.since.elapsed() < self.expire && self.is_young(idle.made));
        idle.pop().map(|idle| (idle.made, idle.stream))
    }

    fn is_young(&self, made: Instant) -> bool {
        self.max_age.is_zero() || made.elapsed() < self.max_age
    }

    fn keep(&self, made: Instant, stream: exchange::Stream) {
        let mut idle = self.idle.lock();
        if idle.len() < self.max_idle && !self.expire.is_zero() && self.is_young(made) {
            idle.push(Idle { made, since: Instant::now(), stream });
        }
    }
}

/// What an answer must be an answer to.
pub(super) struct Expected {
    pub(super) id: u16,
    pub(super) name: Name,
    pub(super) rtype: u16,
    pub(super) class: u16,
    /// Longest datagram that may come.
    pub(super) size: usize,
}

impl Expected {
    /// The message, if it is the one; anything else may be forged.
    pub(super) fn read(&self, packet: &[u8]) -> Option<Message> {
        // Some answer what they do not like with a header alone.
        if let [a, b, flags, code, 0, 0, ..] = packet
            && packet.len() >= 12
            && u16::from_be_bytes([*a, *b]) == self.id
            && flags & 0x80 != 0
            && code & 15 != rcode::NOERROR as u8
        {
            return Some(Message::failure(self.id, u16::from(code & 15), (self.name, self.rtype, self.class)));
        }
        let message = Message::parse(packet).ok()?;
        let same = message.response && message.id == self.id && message.question == (self.name, self.rtype, self.class);
        same.then_some(message)
    }
}
