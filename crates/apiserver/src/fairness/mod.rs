//! Priority and fairness: so that one noisy client cannot starve the others, least of all nodes and leaders.
//!
//! A request is matched by FlowSchemas (`schema`) and thereby belongs to a flow of a priority level. Levels share the server's
//! seats (`shares`, `demand`); within a level flows wait in queues that take turns (`queues`, `hand`). Those are pure; `level`
//! puts a lock and wakers around them, `keep` follows the objects. Mirrors the flow control of kube-apiserver; what differs
//! stands in docs/compat.md.

pub mod defaults;
pub mod demand;
pub mod hand;
pub mod keep;
pub mod level;
pub mod metrics;
pub mod queues;
pub mod schema;
pub mod shares;
#[cfg(test)]
mod tests;
pub mod width;

pub use width::Widths;

use access::authz::Attributes;
use api::{error::ApiError, kinds::flowcontrol::defaults as objects, object::Fields};
use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use level::{Level, Offer};
use metrics::{FlowCounts, FlowMetrics};
use parking_lot::Mutex;
use queues::Ticket;
use runtime::metrics::Metrics;
use schema::FlowSchema;
use serde_json::Value;
use shares::{Range, Want};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

/// Header that names the FlowSchema of a request.
static SCHEMA_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
/// Header that names its PriorityLevelConfiguration.
static LEVEL_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// All seats of the server.
pub struct Fairness {
    total: u32,
    patience: Duration,
    origin: Instant,
    hasher: RandomState,
    /// In the order in which they are asked.
    schemas: ArcSwap<Vec<Arc<Flows>>>,
    levels: Mutex<BTreeMap<String, (Arc<Level>, Range)>>,
    metrics: FlowMetrics,
    /// How much a list costs.
    pub widths: Widths,
}

/// A FlowSchema and where its requests go.
pub struct Flows {
    schema: FlowSchema,
    level: Arc<Level>,
    counts: FlowCounts,
    headers: [HeaderValue; 2],
}

/// A request that was matched: the flow it belongs to.
#[derive(Clone)]
pub struct Flow {
    flows: Arc<Flows>,
    hash: u64,
}

impl Fairness {
    /// With so many seats, and the objects that every cluster has until others are read. A request waits at most a quarter of
    /// the time that it may take.
    pub fn new(total: usize, request_timeout: Duration, metrics: &Metrics) -> Self {
        let new = Self {
            total: u32::try_from(total).unwrap_or(u32::MAX),
            patience: request_timeout / 4,
            origin: Instant::now(),
            hasher: RandomState::new(),
            schemas: ArcSwap::default(),
            levels: Mutex::default(),
            metrics: FlowMetrics::new(metrics),
            widths: Widths::default(),
        };
        let all =
            |objects: Vec<(objects::Need, Value)>| objects.into_iter().map(|(_, object)| object).collect::<Vec<_>>();
        new.configure(&all(objects::schemas()), &all(objects::levels()));
        new
    }

    /// Takes over what is stored. Levels that stay keep who waits and runs in them; of those that go, all are still served.
    pub fn configure(&self, schemas: &[Value], levels: &[Value]) {
        let named = |objects: &[Value], name: &str| objects.iter().any(|object| object.str_at("metadata.name") == name);
        let missing = |given: &[Value], defaults: Vec<(objects::Need, Value)>| {
            let mandatory = defaults.into_iter().filter(|(need, _)| *need == objects::Need::Mandatory);
            mandatory.map(|(_, object)| object).filter(|object| !named(given, object.str_at("metadata.name"))).collect()
        };
        let no_levels: Vec<Value> = missing(levels, objects::levels());
        let no_schemas: Vec<Value> = missing(schemas, objects::schemas());
        let levels: Vec<&Value> = levels.iter().chain(&no_levels).collect();
        let offers: Vec<Offer> = levels.iter().map(|level| Offer::read(level)).collect();
        let claims: Vec<shares::Claim> = offers.iter().map(|offer| offer.claim).collect();
        let ranges = shares::ranges(self.total, &claims);
        let mut table = self.levels.lock();
        let mut known = std::mem::take(&mut *table);
        for ((object, offer), range) in levels.iter().zip(&offers).zip(ranges) {
            let name = object.str_at("metadata.name");
            let level = match known.remove(name) {
                Some((level, _)) => {
                    level.configure(*offer, range);
                    level
                }
                None => Arc::new(Level::new(name, *offer, range, self.origin)),
            };
            table.insert(name.to_owned(), (level, range));
        }
        let uid = |object: &Value| HeaderValue::from_str(object.str_at("metadata.uid")).ok();
        let mut matched: Vec<Arc<Flows>> = Vec::new();
        for object in schemas.iter().chain(&no_schemas) {
            let schema = FlowSchema::read(object);
            // A schema whose level does not exist matches nothing.
            let Some((level, _)) = table.get(&schema.level) else { continue };
            let of_level = levels.iter().find(|object| object.str_at("metadata.name") == schema.level);
            matched.push(Arc::new(Flows {
                headers: [uid(object), of_level.and_then(|object| uid(object))]
                    .map(|uid| uid.unwrap_or(HeaderValue::from_static(""))),
                counts: self.metrics.of(&schema.level, &schema.name),
                level: Arc::clone(level),
                schema,
            }));
        }
        matched.sort_by(|one, other| one.schema.order().cmp(&other.schema.order()));
        self.schemas.store(Arc::new(matched));
        self.share(&table);
    }

    /// Lends seats of levels that do not need them to those that do. Called every ten seconds.
    pub fn adjust(&self) {
        self.share(&self.levels.lock());
    }

    fn share(&self, levels: &BTreeMap<String, (Arc<Level>, Range)>) {
        let limited: Vec<_> = levels.values().filter(|(level, _)| !level.is_exempt()).collect();
        let demands: Vec<_> = limited.iter().map(|(level, _)| level.demand()).collect();
        let wants: Vec<Want> = limited
            .iter()
            .zip(&demands)
            .map(|((_, range), demand)| {
                let least = f64::from(range.least).max(demand.high.min(f64::from(range.nominal)));
                Want { least, most: f64::from(range.most), target: demand.smoothed.max(least) }
            })
            .collect();
        let total: f64 = limited.iter().map(|(_, range)| f64::from(range.nominal)).sum();
        for (((level, range), demand), seats) in limited.iter().zip(&demands).zip(shares::divide(total, &wants)) {
            level.resize(seats);
            self.metrics.seats(&level.name, *range, seats, *demand);
        }
    }

    /// The flow of a request.
    pub fn classify(&self, asked: &Attributes<'_>) -> Option<Flow> {
        let schemas = self.schemas.load();
        // One that the mandatory schemas do not know either has no groups at all.
        let rest = || schemas.iter().find(|flows| flows.schema.name == "catch-all");
        let flows = schemas.iter().find(|flows| flows.schema.matches(asked)).or_else(rest)?;
        let hash = match flows.level.is_exempt() {
            true => 0,
            false => self.hasher.hash_one((&flows.schema.name, flows.schema.distinguisher.flow(asked))),
        };
        Some(Flow { flows: Arc::clone(flows), hash })
    }

    /// A seat for a request of this flow, or 429. `width` is how many seats it would need; a level has its own opinion of
    /// how many one request may have.
    pub async fn enter(&self, flow: Flow, width: u32) -> Result<Seat, ApiError> {
        let Flow { flows, hash } = flow;
        let level = &flows.level;
        let width = if level.is_exempt() { width } else { width.clamp(1, level.widest()) };
        let queued = Queued::default();
        let ticket = level
            .seat(hash, width, self.patience, || queued.begin(&flows.counts))
            .await
            .inspect_err(|refusal| self.metrics.refused(&flows.counts, *refusal))
            .map_err(|_| ApiError::too_many_requests("Too many requests, please try again later.", 1))?;
        if let Some(since) = queued.since() {
            flows.counts.waited.observe(since.elapsed().as_secs_f64());
        }
        flows.counts.dispatched.inc();
        flows.counts.executing.inc();
        flows.counts.executing_seats.inc_by(i64::from(width));
        drop(queued);
        Ok(Seat { flows, ticket, width, began: Instant::now() })
    }
}

impl Flow {
    /// Says in the answer which objects decided about the request.
    pub fn mark(&self, headers: &mut HeaderMap) {
        let [schema, level] = &self.flows.headers;
        headers.insert(&SCHEMA_HEADER, schema.clone());
        headers.insert(&LEVEL_HEADER, level.clone());
    }

    /// Names of schema and level.
    pub fn names(&self) -> (&str, &str) {
        (&self.flows.schema.name, &self.flows.level.name)
    }
}

/// Counts a request as waiting for as long as it lives.
#[derive(Default)]
struct Queued(std::sync::OnceLock<(prometheus_client::metrics::gauge::Gauge, Instant)>);

impl Queued {
    fn begin(&self, counts: &FlowCounts) {
        counts.queued.inc();
        let _begins_once = self.0.set((counts.queued.clone(), Instant::now()));
    }

    fn since(&self) -> Option<Instant> {
        self.0.get().map(|(_, since)| *since)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some((gauge, _)) = self.0.get() {
            gauge.dec();
        }
    }
}

/// A place in service; given back when dropped.
pub struct Seat {
    flows: Arc<Flows>,
    ticket: Option<Ticket>,
    width: u32,
    began: Instant,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let counts = &self.flows.counts;
        counts.executing.dec();
        counts.executing_seats.dec_by(i64::from(self.width));
        counts.executed.observe(self.began.elapsed().as_secs_f64());
        if let Some(ticket) = self.ticket.take() {
            self.flows.level.finish(ticket);
        }
    }
}
