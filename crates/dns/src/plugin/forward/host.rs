//! Upstreams that have a name instead of an address. The name is looked up when they are asked, of both families, and again
//! when the answer has run out; what was found last stays for as long as nobody says otherwise.

use super::{exchange, servers, upstream::Expected};
use crate::wire::{
    Message, Name, Request,
    code::{class, rtype},
};
use parking_lot::Mutex;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};

/// How long an answer is kept at least and at most, whatever its records say.
const KEPT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// For one question to one resolver.
const PATIENCE: Duration = Duration::from_secs(2);
const SYSTEM: &str = "/etc/resolv.conf";

pub(super) struct Host {
    name: Name,
    port: u16,
    /// Those of the machine if there are none.
    resolvers: Vec<SocketAddr>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    addresses: Vec<IpAddr>,
    until: Option<Instant>,
    turn: usize,
}

impl Host {
    pub(super) fn new(name: Name, port: u16, resolvers: Vec<SocketAddr>) -> Self {
        Self { name, port, resolvers, known: Mutex::default() }
    }

    /// Without the dot at its end.
    pub(super) fn name(&self) -> String {
        self.name.to_string().trim_end_matches('.').to_owned()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// One of its addresses after another.
    pub(super) async fn address(&self) -> io::Result<SocketAddr> {
        let is_current = |known: &Known| known.until.is_some_and(|until| Instant::now() < until);
        if !is_current(&self.known.lock()) {
            let looked_up = self.look_up().await;
            let mut known = self.known.lock();
            match looked_up {
                Ok((addresses, lasts)) => {
                    known.addresses = addresses;
                    known.until = Some(Instant::now() + lasts);
                }
                Err(error) if known.addresses.is_empty() => return Err(error),
                // Who cannot be asked now is asked again a little later.
                Err(_) => known.until = Some(Instant::now() + KEPT.0),
            }
        }
        let mut known = self.known.lock();
        known.turn = known.turn.wrapping_add(1);
        let address = known.addresses.get(known.turn % known.addresses.len().max(1)).copied();
        let address = address.ok_or_else(|| self.fails("has no address"))?;
        Ok(SocketAddr::new(address, self.port))
    }

    fn fails(&self, why: impl std::fmt::Display) -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, format!("{}: {why}", self.name()))
    }

    /// Addresses of both families from the first resolver that has any.
    async fn look_up(&self) -> io::Result<(Vec<IpAddr>, Duration)> {
        let resolvers = match self.resolvers.is_empty() {
            false => self.resolvers.clone(),
            true => servers::name_servers(&std::fs::read_to_string(Path::new(SYSTEM))?),
        };
        let mut last = self.fails("there is no resolver to ask");
        for resolver in resolvers {
            let answers = futures::join!(self.ask(resolver, rtype::A), self.ask(resolver, rtype::AAAA));
            let mut found = Vec::new();
            let mut lasts = KEPT.1;
            for answer in [answers.0, answers.1] {
                match answer {
                    Ok(message) => {
                        for record in message.answer() {
                            lasts = lasts.min(Duration::from_secs(record.ttl.into()));
                            found.extend(record.ip().filter(|address| !found.contains(address)));
                        }
                    }
                    Err(error) => last = self.fails(format!("{resolver}: {error}")),
                }
            }
            if !found.is_empty() {
                return Ok((found, lasts.max(KEPT.0)));
            }
        }
        Err(last)
    }

    async fn ask(&self, resolver: SocketAddr, sort: u16) -> io::Result<Message> {
        let id = getrandom::u32().map_err(|_| io::ErrorKind::Other)? as u16;
        let (name, class) = (self.name, class::IN);
        let request = Request { id, rd: true, ad: false, cd: false, name, rtype: sort, class, edns: None };
        let expected = Expected { id, name, rtype: sort, class, size: 4096 };
        let packet = request.to_wire(id);
        let asked = exchange::udp(resolver, None, &packet, &expected);
        tokio::time::timeout(PATIENCE, asked).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name(), self.port)
    }
}
