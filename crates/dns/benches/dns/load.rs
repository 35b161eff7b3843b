//! The generator: queries on a few sockets, as fast as they are answered or so many per second.

use crate::{Result, server::Process};
use dns::wire::{Message, Name, Request};
use kernel::udp::{Inbox, Outbox, Peer};
use std::{
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// Clients, and queries of each that may be under way.
const CLIENTS: usize = 4;
const WINDOW: usize = 64;
/// When an answer is not expected any more.
const LOST: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadResult {
    pub(crate) answered: u64,
    pub(crate) sent: u64,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    pub(crate) p99: Duration,
}

impl LoadResult {
    pub(crate) fn per_second(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn cpu_per_query(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.answered.max(1) as f64
    }

    pub(crate) fn loss(&self) -> f64 {
        1.0 - self.answered as f64 / self.sent.max(1) as f64
    }
}

/// How fast to ask.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// A window of queries is always under way.
    Full,
    /// So many per second.
    Rate(u32),
}

/// The packet that asks for a name.
pub(crate) fn question(name: &str, rtype: u16) -> Result<Vec<u8>> {
    let name = Name::parse(name)?;
    let request = Request { id: 0, rd: true, ad: false, cd: false, name, rtype, class: 1, edns: None };
    Ok(request.to_wire(0))
}

/// Asks until there is an answer with this many records, within a time.
pub(crate) fn wait_for(process: &mut Process, packet: &[u8], records: usize, within: Duration) -> Result<Duration> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(process.address)?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < within {
        process.check()?;
        let mut buffer = [0; 4096];
        if socket.send(packet).is_ok()
            && let Ok(length) = socket.recv(&mut buffer)
            && let Ok(message) = Message::parse(&buffer[..length])
        {
            if message.rcode == 0 && message.answer().len() == records {
                return Ok(begun.elapsed());
            }
            last = format!("{message:?}");
        }
    }
    Err(format!("no answer with {records} records in {within:?}; the last one was {last}").into())
}

struct Client {
    socket: UdpSocket,
    peer: Peer,
    inbox: Inbox,
    outbox: Outbox,
    /// When each id was sent, until it is answered.
    sent: Vec<Option<Instant>>,
    next: u16,
    waiting: usize,
    last: Instant,
}

impl Client {
    fn new(server: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            peer: Peer { source: server, asked: None },
            inbox: Inbox::new(1472),
            outbox: Outbox::new(64 << 10),
            sent: vec![None; 1 << 16],
            next: 0,
            waiting: 0,
            last: Instant::now(),
        })
    }

    fn ask<'a>(&mut self, packets: impl Iterator<Item = &'a Vec<u8>>) {
        let now = Instant::now();
        for packet in packets {
            let mut packet = packet.clone();
            packet[..2].copy_from_slice(&self.next.to_be_bytes());
            if self.outbox.push(&packet, &self.peer) {
                self.sent[usize::from(self.next)] = Some(now);
                self.next = self.next.wrapping_add(1);
                self.waiting += 1;
            }
        }
        self.outbox.send(self.socket.as_fd());
    }

    /// Takes answers; each tells how long it took.
    fn take(&mut self, mut answered: impl FnMut(Duration)) {
        if self.inbox.receive(self.socket.as_fd()).is_err() {
            return;
        }
        let now = Instant::now();
        for (packet, _) in self.inbox.packets() {
            let Some(id) = packet.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)) else { continue };
            if let Some(sent) = self.sent[usize::from(id)].take() {
                self.waiting = self.waiting.saturating_sub(1);
                answered(now - sent);
            }
        }
        self.last = now;
    }

    /// Gives up what is not answered any more.
    fn give_up(&mut self, now: Instant) {
        if self.waiting > 0 && now.duration_since(self.last) > LOST {
            self.sent.fill(None);
            self.waiting = 0;
            self.last = now;
        }
    }
}

/// Asks a server for these, again and again, for a time.
pub(crate) fn run(process: &Process, packets: &[Vec<u8>], pace: Pace, length: Duration) -> Result<LoadResult> {
    let mut clients = (0..CLIENTS).map(|_| Client::new(process.address)).collect::<Result<Vec<_>>>()?;
    let mut all = packets.iter().cycle();
    let mut times: Vec<u32> = Vec::with_capacity(1 << 20);
    let (cpu, begun) = (process.cpu()?, Instant::now());
    let mut sent = 0u64;
    let mut turn = 0;
    while begun.elapsed() < length {
        let now = Instant::now();
        turn = (turn + 1) % CLIENTS;
        let client = &mut clients[turn];
        let wanted = match pace {
            Pace::Full => WINDOW - client.waiting.min(WINDOW),
            Pace::Rate(rate) => {
                let due = (now.duration_since(begun).as_secs_f64() * f64::from(rate)) as u64;
                due.saturating_sub(sent).min(WINDOW as u64) as usize
            }
        };
        if wanted > 0 {
            client.ask(all.by_ref().take(wanted));
            sent += wanted as u64;
        }
        client.take(|time| times.push(time.as_nanos() as u32));
        client.give_up(now);
        if wanted == 0 {
            std::thread::yield_now();
        }
    }
    let elapsed = begun.elapsed();
    let end = Instant::now();
    while clients.iter().any(|client| client.waiting > 0) && end.elapsed() < LOST {
        clients.iter_mut().for_each(|client| client.take(|time| times.push(time.as_nanos() as u32)));
    }
    let cpu = process.cpu()? - cpu;
    times.sort_unstable();
    let p99 = times.get(times.len() * 99 / 100).map_or(Duration::ZERO, |time| Duration::from_nanos(u64::from(*time)));
    Ok(LoadResult { answered: times.len() as u64, sent, elapsed, cpu, p99 })
}

/// Queries per second that dnsperf reaches, and the share it loses, if it is installed.
pub(crate) fn dnsperf(server: SocketAddr, names: &str, seconds: u32) -> Option<(f64, f64)> {
    let file = tempfile::NamedTempFile::new().ok()?;
    std::fs::write(file.path(), names).ok()?;
    let output = std::process::Command::new("dnsperf")
        .args(["-s", &server.ip().to_string(), "-p", &server.port().to_string(), "-c", "8", "-q", "200"])
        .args(["-l", &seconds.to_string(), "-d"])
        .arg(file.path())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |label: &str| -> Option<f64> {
        let rest = text.lines().find_map(|line| line.trim().strip_prefix(label))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let (sent, lost) = (number("Queries sent:")?, number("Queries lost:")?);
    Some((number("Queries per second:")?, lost / sent.max(1.0)))
}
