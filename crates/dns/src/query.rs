//! A request on its way through the plugins, with everything known about where it came from.

use crate::wire::{Name, Request};
use std::{net::SocketAddr, time::Instant};

/// How a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
}

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Query {
    /// The request; plugins may change its question and the size it allows.
    pub request: Request,
    /// The name asked for, in lower case.
    pub lower: Name,
    pub source: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// Length of the packet.
    pub size: usize,
    /// When it came.
    pub started: Instant,
    /// How many lookups are around this one: a CNAME is followed by asking ourselves.
    pub depth: u8,
    /// EDNS options that upstreams get, by code.
    pub options: Vec<(u16, Vec<u8>)>,
    /// What `rewrite` must undo.
    pub rewritten: Option<Box<crate::plugin::rewrite::Undo>>,
    /// What the cache thinks of it.
    pub refresh: Refresh,
}

/// Whether the cache is passed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refresh {
    /// As usual.
    #[default]
    No,
    /// It was answered, and the answer should be fetched anew.
    Wanted,
    /// This is the fetching.
    Now,
}

/// Longest answer over UDP, whatever the client offers: more would only help those who forge its address.
const DATAGRAM: usize = 4096;
/// How deep lookups may be nested.
const DEPTH: u8 = 8;

impl Query {
    /// A request that came from outside.
    #[must_use]
    pub fn new(request: Request, source: SocketAddr, transport: Transport, size: usize) -> Self {
        Self::at(Instant::now(), request, source, transport, size)
    }

    /// One that came at this time.
    #[must_use]
    pub fn at(started: Instant, request: Request, source: SocketAddr, transport: Transport, size: usize) -> Self {
        Self {
            lower: request.name.lower(),
            request,
            source,
            transport,
            size,
            started,
            depth: 0,
            options: Vec::new(),
            rewritten: None,
            refresh: Refresh::No,
        }
    }

    /// The same client asking for another name; `None` when this goes on for too long.
    #[must_use]
    pub fn derived(&self, name: Name, rtype: u16) -> Option<Self> {
        let request = Request { name, rtype, ..self.request };
        let depth = self.depth + 1;
        (depth <= DEPTH).then(|| Self { depth, ..Self::new(request, self.source, self.transport, 0) })
    }

    /// Changes the name that is asked for.
    pub fn rename(&mut self, name: Name) {
        self.request.name = name;
        self.lower = name.lower();
    }

    /// How long an answer may be.
    #[must_use]
    pub fn limit(&self) -> usize {
        match (self.transport, self.request.edns) {
            (Transport::Tcp, _) => 65_535,
            (Transport::Udp, Some(edns)) => usize::from(edns.size).min(DATAGRAM),
            (Transport::Udp, None) => 512,
        }
    }
}
