//! `apiserver_flowcontrol_*`, under upstream's names. What a request counts is looked up once per schema, not per request.

use super::{demand::Observed, level::Refusal, shares::Range};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use runtime::metrics::Metrics;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfLevel {
    priority_level: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfSchema {
    priority_level: String,
    flow_schema: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refused {
    priority_level: String,
    flow_schema: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Waited {
    priority_level: String,
    flow_schema: String,
    execute: &'static str,
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug)]
pub struct FlowMetrics {
    dispatched: Family<OfSchema, Counter>,
    rejected: Family<Refused, Counter>,
    executing: Family<OfSchema, Gauge>,
    executing_seats: Family<OfSchema, Gauge>,
    queued: Family<OfSchema, Gauge>,
    waited: Seconds<Waited>,
    executed: Seconds<OfSchema>,
    nominal: Family<OfLevel, Gauge>,
    least: Family<OfLevel, Gauge>,
    most: Family<OfLevel, Gauge>,
    current: Family<OfLevel, Gauge>,
    high: Family<OfLevel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    smoothed: Family<OfLevel, Gauge<f64, std::sync::atomic::AtomicU64>>,
}

/// What the requests of one schema count.
#[derive(Clone, Debug)]
pub struct FlowCounts {
    /// Requests that got a seat.
    pub dispatched: Counter,
    /// Requests that have one.
    pub executing: Gauge,
    /// Seats that they have.
    pub executing_seats: Gauge,
    /// Requests that wait.
    pub queued: Gauge,
    /// How long those waited that got one.
    pub waited: Histogram,
    /// How long they had it.
    pub executed: Histogram,
    labels: OfSchema,
}

fn seconds() -> Histogram {
    Histogram::new([0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0])
}

impl FlowMetrics {
    /// Registers them.
    pub fn new(metrics: &Metrics) -> Self {
        fn gauge<L: std::hash::Hash + Eq + Clone, M: Default>() -> Family<L, M> {
            Family::default()
        }
        let named = |name: &str| format!("apiserver_flowcontrol_{name}");
        let timed = || Family::new_with_constructor(seconds as fn() -> Histogram);
        Self {
            dispatched: metrics.register(&named("dispatched_requests"), "requests that got a seat", gauge()),
            rejected: metrics.register(&named("rejected_requests"), "requests turned away", gauge()),
            executing: metrics.register(&named("current_executing_requests"), "requests that have a seat", gauge()),
            executing_seats: metrics.register(&named("current_executing_seats"), "seats taken", gauge()),
            queued: metrics.register(&named("current_inqueue_requests"), "requests that wait for a seat", gauge()),
            waited: metrics.register(
                &named("request_wait_duration_seconds"),
                "how long requests waited in a queue",
                Family::new_with_constructor(seconds as fn() -> Histogram),
            ),
            executed: metrics.register(&named("request_execution_seconds"), "how long requests had a seat", timed()),
            nominal: metrics.register(&named("nominal_limit_seats"), "seats of a level by its shares", gauge()),
            least: metrics.register(&named("lower_limit_seats"), "seats that nobody can borrow", gauge()),
            most: metrics.register(&named("upper_limit_seats"), "seats with all that can be borrowed", gauge()),
            current: metrics.register(&named("current_limit_seats"), "seats at present", gauge()),
            high: metrics.register(&named("demand_seats_high_watermark"), "most seats wanted of late", gauge()),
            smoothed: metrics.register(&named("demand_seats_smoothed"), "seats wanted as a rule", gauge()),
        }
    }

    /// What the requests of a schema count.
    pub fn of(&self, level: &str, schema: &str) -> FlowCounts {
        let labels = OfSchema { priority_level: level.to_owned(), flow_schema: schema.to_owned() };
        let waited = Waited { priority_level: level.to_owned(), flow_schema: schema.to_owned(), execute: "true" };
        FlowCounts {
            dispatched: self.dispatched.get_or_create(&labels).clone(),
            executing: self.executing.get_or_create(&labels).clone(),
            executing_seats: self.executing_seats.get_or_create(&labels).clone(),
            queued: self.queued.get_or_create(&labels).clone(),
            waited: self.waited.get_or_create(&waited).clone(),
            executed: self.executed.get_or_create(&labels).clone(),
            labels,
        }
    }

    /// A request was turned away.
    pub fn refused(&self, counts: &FlowCounts, refusal: Refusal) {
        let OfSchema { priority_level, flow_schema } = counts.labels.clone();
        let reason = match refusal {
            Refusal::ConcurrencyLimit => "concurrency-limit",
            Refusal::QueueFull => "queue-full",
            Refusal::TimeOut => "time-out",
        };
        self.rejected.get_or_create(&Refused { priority_level, flow_schema, reason }).inc();
    }

    pub fn seats(&self, level: &str, range: Range, current: u32, demand: Observed) {
        let labels = OfLevel { priority_level: level.to_owned() };
        for (family, value) in [
            (&self.nominal, range.nominal),
            (&self.least, range.least),
            (&self.most, range.most),
            (&self.current, current),
        ] {
            family.get_or_create(&labels).set(i64::from(value));
        }
        self.high.get_or_create(&labels).set(demand.high);
        self.smoothed.get_or_create(&labels).set(demand.smoothed);
    }
}
