//! How much a server allows, and how patient it is. Every number can be set, so that tests need not wait for the real ones.

use super::Pace;
use std::time::Duration;

/// How much a server allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. At the limit an idle one makes room; if none is, the newcomer is turned away.
    pub connections: usize,
    /// Connections at a time from one IPv4 address or one IPv6 /64.
    pub connections_per_source: usize,
    /// How long a client may take for the TLS handshake.
    pub handshake: Duration,
    /// How long a client may take for a request's headers, from their first byte on; for the first request from the start.
    pub header_read: Duration,
    /// How long a connection may be open without a request.
    pub idle: Duration,
    /// How often a quiet HTTP/2 connection is tested, and how long the answer may take.
    pub ping: Duration,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes of a request's headers in HTTP/2.
    pub headers: u32,
    /// How slowly a client may read what it asked for.
    pub answer: Pace,
    /// After a stop, how long requests in flight may go on.
    pub drain: Duration,
}

impl Default for Limits {
    /// As patient with headers as the Kubernetes API server (32 s), and done within half of the 10 s a shutdown may take.
    fn default() -> Self {
        Self {
            connections: 10_000,
            // All that runs on one machine, or behind one address translation.
            connections_per_source: 5_000,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(32),
            // Twice upstream's, which is also how long Go's clients keep one: theirs end first, and no request meets a
            // connection that is being closed.
            idle: Duration::from_secs(180),
            ping: Duration::from_secs(30),
            // client-go keeps all its watches on one connection and counts on at least this many.
            streams: 250,
            headers: 64 * 1024,
            // A phone with one bar.
            answer: Pace { grace: Duration::from_secs(30), bytes_per_second: 8 * 1024 },
            drain: Duration::from_secs(5),
        }
    }
}
