//! What is noted about every query of a block: metrics, and log lines where the block asks for them.

use crate::{
    compile::Lasting,
    corefile::Scheme,
    metrics::{Counters, Histogram, Labels},
    plugin::{errors::Errors, log::Log},
    query::{Query, Transport},
    wire::{
        Name, Reply,
        code::{rcode, rtype},
    },
};
use prometheus_client::metrics::counter::Counter;
use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

/// The record types that have a label of their own; the rest are `other`.
const TYPES: [u16; 20] = [
    rtype::A,
    rtype::AAAA,
    rtype::CNAME,
    rtype::DNSKEY,
    rtype::DS,
    rtype::HTTPS,
    rtype::IXFR,
    rtype::AXFR,
    rtype::MX,
    rtype::NS,
    rtype::NSEC,
    rtype::NSEC3,
    rtype::PTR,
    rtype::RRSIG,
    rtype::SOA,
    rtype::SRV,
    rtype::SVCB,
    rtype::TXT,
    rtype::ANY,
    rtype::NAPTR,
];
/// Codes that are counted by themselves, and the plugins that give nearly all answers of one: kubernetes, cache, template,
/// hosts, forward, and one more.
const CODES: usize = 11;
const PLUGINS: usize = 6;
/// The zone of what belongs to no block, as CoreDNS names it.
const DROPPED: &str = "dropped";

/// The observers of a block.
pub struct Observers {
    /// From `log`.
    pub log: Option<Arc<Log>>,
    /// From `errors`.
    pub errors: Option<Arc<Errors>>,
    counters: Arc<Counters>,
    labels: Labels,
    requests: [[[OnceLock<Counter>; TYPES.len() + 1]; 2]; 2],
    responses: [[OnceLock<(&'static str, Counter)>; PLUGINS]; CODES],
    ignored: [[OnceLock<Counter>; 2]; 2],
    dnssec: OnceLock<Counter>,
    durations: OnceLock<Histogram>,
    sizes: [OnceLock<(Histogram, Histogram)>; 2],
}

impl Observers {
    /// Of a block with these zones.
    #[must_use]
    pub fn new(lasting: &Lasting, zones: &[Name], ports: &[u16]) -> Self {
        let port = ports.first().copied().unwrap_or(53);
        Self::of(lasting, (Scheme::Dns, port), zones.first().map_or_else(|| ".".to_owned(), Name::to_string))
    }

    /// Of what comes to a port and is answered before it is for any block: malformed, another version of EDNS, nobody's zone.
    #[must_use]
    pub fn dropped(lasting: &Lasting, scheme: Scheme, port: u16) -> Self {
        Self::of(lasting, (scheme, port), DROPPED.to_owned())
    }

    /// The same for one zone of the block, on this port.
    #[must_use]
    pub fn of_zone(&self, lasting: &Lasting, server: (Scheme, u16), zone: &Name) -> Self {
        let mut own = Self::of(lasting, server, zone.to_string());
        (own.log, own.errors) = (self.log.clone(), self.errors.clone());
        own.set_view(self.labels.iter().find(|(name, _)| *name == "view").map_or("", |(_, view)| view.as_str()));
        own
    }

    /// Labels of a block that is for some questions alone.
    pub fn set_view(&mut self, view: &str) {
        for (_, value) in self.labels.iter_mut().filter(|(name, _)| *name == "view") {
            view.clone_into(value);
        }
    }

    fn of(lasting: &Lasting, (scheme, port): (Scheme, u16), zone: String) -> Self {
        Self {
            log: None,
            errors: None,
            counters: Arc::clone(&lasting.counters),
            labels: vec![("server", format!("{}://:{port}", scheme.text())), ("zone", zone), ("view", String::new())],
            requests: Default::default(),
            responses: Default::default(),
            ignored: Default::default(),
            dnssec: OnceLock::new(),
            durations: OnceLock::new(),
            sizes: Default::default(),
        }
    }

    /// Labels that all metrics of the block have.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    fn with(&self, more: impl IntoIterator<Item = (&'static str, String)>) -> Labels {
        self.labels.iter().cloned().chain(more).collect()
    }

    /// Notes an answered query; `size` is the length of the answer.
    pub fn note(&self, query: &Query, reply: &Reply, size: usize) {
        let elapsed = query.started.elapsed();
        self.count(query, reply, size, elapsed.as_nanos() as u64);
        if let Some(errors) = &self.errors {
            errors.note(query, reply);
        }
        if let Some(log) = &self.log {
            log.note(query, reply, size, elapsed);
        }
    }

    /// Notes a packet that is no question: `size` is its length, `answer` the code and length of what it gets.
    pub fn note_malformed(&self, transport: Transport, source: SocketAddr, size: usize, answer: Option<(u16, usize)>) {
        let (proto, family) = indexes(transport, source);
        let Some((code, length)) = answer else {
            let ignored = self.ignored[proto][family].get_or_init(|| {
                let server = self.labels.iter().filter(|(name, _)| *name == "server").cloned();
                self.counters.ignored.get_or_create(&server.chain(came_by(proto, family)).collect()).clone()
            });
            ignored.inc();
            return;
        };
        self.count_request(proto, family, TYPES.len());
        self.count_response(code, "");
        self.count_sizes(proto, size, length);
    }

    /// Counts a panic that was caught.
    pub fn panicked(&self) {
        self.counters.panics.inc();
    }

    fn count(&self, query: &Query, reply: &Reply, size: usize, nanoseconds: u64) {
        let (proto, family) = indexes(query.transport, query.source);
        let sort = TYPES.iter().position(|known| *known == query.request.rtype).unwrap_or(TYPES.len());
        self.count_request(proto, family, sort);
        self.count_response(reply.rcode, reply.by);
        if query.request.edns.is_some_and(|edns| edns.dnssec_ok) {
            self.dnssec.get_or_init(|| self.counters.dnssec.get_or_create(&self.with([])).clone()).inc();
        }
        let durations = self.durations.get_or_init(|| self.counters.durations.get_or_create(&self.with([])).clone());
        durations.observe(nanoseconds);
        self.count_sizes(proto, query.size, size);
    }

    /// `sort` is the place in `TYPES`, or beyond it.
    fn count_request(&self, proto: usize, family: usize, sort: usize) {
        let requests = self.requests[proto][family][sort].get_or_init(|| {
            let sort = TYPES.get(sort).map_or_else(|| "other".to_owned(), |sort| rtype::text(*sort));
            let more = came_by(proto, family).into_iter().chain([("type", sort)]);
            self.counters.requests.get_or_create(&self.with(more)).clone()
        });
        requests.inc();
    }

    fn count_sizes(&self, proto: usize, question: usize, answer: usize) {
        let (asked, answered) = self.sizes[proto].get_or_init(|| {
            let labels = self.with([("proto", PROTOCOLS[proto].to_owned())]);
            let asked = self.counters.request_sizes.get_or_create(&labels).clone();
            let answered = self.counters.response_sizes.get_or_create(&labels).clone();
            (asked, answered)
        });
        asked.observe(question as u64);
        answered.observe(answer as u64);
    }

    /// The first plugins that give an answer of a code get places of their own; the others are looked up.
    fn count_response(&self, code: u16, by: &'static str) {
        let family = |by: &str| {
            let more = [("rcode", rcode::text(code)), ("plugin", by.to_owned())];
            self.counters.responses.get_or_create(&self.with(more)).clone()
        };
        let places = self.responses.get(usize::from(code)).into_iter().flatten();
        let mut known = places.map(|place| place.get_or_init(|| (by, family(by))));
        match known.find(|(known, _)| *known == by) {
            Some((_, counter)) => counter.inc(),
            None => family(by).inc(),
        };
    }
}

const PROTOCOLS: [&str; 2] = ["udp", "tcp"];

/// Places in the tables above.
fn indexes(transport: Transport, source: SocketAddr) -> (usize, usize) {
    (usize::from(transport == Transport::Tcp), usize::from(source.is_ipv6()))
}

/// The same as labels.
fn came_by(proto: usize, family: usize) -> [(&'static str, String); 2] {
    [("proto", PROTOCOLS[proto].to_owned()), ("family", ["1", "2"][family].to_owned())]
}
