//! What is noted about every query of a block: metrics, and log lines where the block asks for them.

use crate::build::Lasting;
use crate::metrics::{Counters, Histogram, Labels};
use crate::plugin::errors::Errors;
use crate::plugin::log::Log;
use crate::query::{Query, Transport};
use crate::wire::code::{rcode, rtype};
use crate::wire::{Name, Reply};
use prometheus_client::metrics::counter::Counter;
use std::sync::{Arc, OnceLock};

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

/// The observers of a block.
pub struct Observers {
    /// From `log`.
    pub log: Option<Log>,
    /// From `errors`.
    pub errors: Option<Errors>,
    counters: Arc<Counters>,
    labels: Labels,
    requests: [[[OnceLock<Counter>; TYPES.len() + 1]; 2]; 2],
    responses: [[OnceLock<(&'static str, Counter)>; PLUGINS]; CODES],
    dnssec: OnceLock<Counter>,
    durations: OnceLock<Histogram>,
    sizes: [OnceLock<(Histogram, Histogram)>; 2],
}

impl Observers {
    /// Of a block with these zones.
    #[must_use]
    pub fn new(lasting: &Lasting, zones: &[Name], ports: &[u16]) -> Self {
        let port = ports.first().copied().unwrap_or(53);
        let zone = zones.first().map_or_else(|| ".".to_owned(), Name::to_string);
        Self {
            log: None,
            errors: None,
            counters: Arc::clone(&lasting.counters),
            labels: vec![("server", format!("dns://:{port}")), ("zone", zone), ("view", String::new())],
            requests: Default::default(),
            responses: Default::default(),
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

    /// Counts a panic that was caught.
    pub fn panicked(&self) {
        self.counters.panics.inc();
    }

    fn count(&self, query: &Query, reply: &Reply, size: usize, nanoseconds: u64) {
        let proto = usize::from(query.transport == Transport::Tcp);
        let family = usize::from(query.source.is_ipv6());
        let sort = TYPES.iter().position(|known| *known == query.request.rtype).unwrap_or(TYPES.len());
        let name = |index: usize| ["udp", "tcp"][index].to_owned();
        let requests = self.requests[proto][family][sort].get_or_init(|| {
            let sort = TYPES.get(sort).map_or_else(|| "other".to_owned(), |sort| rtype::text(*sort));
            let more = [("proto", name(proto)), ("family", ["1", "2"][family].to_owned()), ("type", sort)];
            self.counters.requests.get_or_create(&self.with(more)).clone()
        });
        requests.inc();
        self.count_response(reply);
        if query.request.edns.is_some_and(|edns| edns.dnssec_ok) {
            self.dnssec.get_or_init(|| self.counters.dnssec.get_or_create(&self.with([])).clone()).inc();
        }
        let durations = self.durations.get_or_init(|| self.counters.durations.get_or_create(&self.with([])).clone());
        durations.observe(nanoseconds);
        let (asked, answered) = self.sizes[proto].get_or_init(|| {
            let labels = self.with([("proto", name(proto))]);
            let asked = self.counters.request_sizes.get_or_create(&labels).clone();
            let answered = self.counters.response_sizes.get_or_create(&labels).clone();
            (asked, answered)
        });
        asked.observe(query.size as u64);
        answered.observe(size as u64);
    }

    /// The first plugins that give an answer of a code get places of their own; the others are looked up.
    fn count_response(&self, reply: &Reply) {
        let family = |by: &str| {
            let more = [("rcode", rcode::text(reply.rcode)), ("plugin", by.to_owned())];
            self.counters.responses.get_or_create(&self.with(more)).clone()
        };
        let places = self.responses.get(usize::from(reply.rcode)).into_iter().flatten();
        let mut known = places.map(|place| place.get_or_init(|| (reply.by, family(reply.by))));
        match known.find(|(by, _)| *by == reply.by) {
            Some((_, counter)) => counter.inc(),
            None => family(reply.by).inc(),
        };
    }
}
