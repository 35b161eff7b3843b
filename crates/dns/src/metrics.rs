//! Everything that is counted, under the names of CoreDNS. Counters are looked up once and then only added to: nothing
//! on the way of a query takes a lock.

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric, counter::Counter, family::Family, gauge::Gauge},
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Names and values.
pub type Labels = Vec<(&'static str, String)>;

/// All metrics of the server; they outlive a reload.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Queries that entered a block.
    pub requests: Family<Labels, Counter>,
    /// Answers, by code and plugin.
    pub responses: Family<Labels, Counter>,
    /// Packets that are no query and get no answer.
    pub ignored: Family<Labels, Counter>,
    /// TCP connections that made room for others.
    pub closed_connections: Counter,
    /// Queries that want DNSSEC.
    pub dnssec: Family<Labels, Counter>,
    /// Time from packet to packet.
    pub durations: Family<Labels, Histogram, fn() -> Histogram>,
    /// Length of queries.
    pub request_sizes: Family<Labels, Histogram, fn() -> Histogram>,
    /// Length of answers.
    pub response_sizes: Family<Labels, Histogram, fn() -> Histogram>,
    /// Plugins that blocks have.
    pub enabled: Family<Labels, Gauge>,
    /// Panics that were turned into SERVFAIL.
    pub panics: Counter,
    /// New files that could not be used.
    pub reload_failures: Counter,
    /// What is running.
    pub version: Family<Labels, Gauge>,
    pub cache_hits: Family<Labels, Counter>,
    pub cache_misses: Family<Labels, Counter>,
    /// Lookups.
    pub cache_requests: Family<Labels, Counter>,
    /// Entries that made room for others.
    pub cache_evictions: Family<Labels, Counter>,
    /// Old answers given because no new one was to be had.
    pub cache_stale: Family<Labels, Counter>,
    /// Answers fetched before they ran out.
    pub cache_prefetch: Family<Labels, Counter>,
    /// Entries at this time.
    pub cache_entries: Family<Labels, Gauge>,
    /// Answers of upstream servers.
    pub upstream: Family<Labels, Histogram, fn() -> Histogram>,
    /// Queries sent upstream.
    pub forwarded: Family<Labels, Counter>,
    /// Health checks that failed.
    pub upstream_failures: Family<Labels, Counter>,
    /// Queries for which no upstream was thought healthy.
    pub upstream_broken: Counter,
    /// Queries beyond `max_concurrent`.
    pub upstream_rejects: Counter,
    /// Templates that matched.
    pub template_matches: Family<Labels, Counter>,
    /// Templates that could not be filled in.
    pub template_failures: Family<Labels, Counter>,
    /// Templates whose text was no record.
    pub template_records: Family<Labels, Counter>,
    /// How long `/health` takes, as this server sees itself.
    pub health: Histogram,
    /// Times that it did not answer.
    pub health_failures: Counter,
    /// From the change of an endpoint to its record, by kind of Service.
    pub programming: Family<Labels, Histogram, fn() -> Histogram>,
    /// Answers that `dns64` made, by server.
    pub dns64: Family<Labels, Counter>,
    /// Queries by what `acl` did with them.
    pub acl: [Family<Labels, Counter>; 4],
}

const DURATIONS: [f64; 16] =
    [0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192];
/// Powers of ten, as CoreDNS has them for what is rarely slow.
const SLIM: [f64; 5] = [0.00025, 0.0025, 0.025, 0.25, 2.5];
const PROGRAMMING: [f64; 20] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384, 32.768,
    65.536, 131.072, 262.144, 524.288,
];
const SIZES: [f64; 14] =
    [0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1023.0, 2047.0, 4095.0, 8291.0, 16e3, 32e3, 48e3, 64e3];
/// What `acl` can do, as its metrics name it.
pub const ACL: [&str; 4] = ["allowed", "blocked", "filtered", "dropped"];

fn programming() -> Histogram {
    Histogram::new(&PROGRAMMING, 1e-9)
}

fn durations() -> Histogram {
    Histogram::new(&DURATIONS, 1e-9)
}

fn sizes() -> Histogram {
    Histogram::new(&SIZES, 1.0)
}

impl Default for Counters {
    fn default() -> Self {
        let times = || Family::new_with_constructor(durations as fn() -> Histogram);
        let lengths = || Family::new_with_constructor(sizes as fn() -> Histogram);
        Self {
            requests: Family::default(),
            responses: Family::default(),
            ignored: Family::default(),
            closed_connections: Counter::default(),
            dnssec: Family::default(),
            durations: times(),
            request_sizes: lengths(),
            response_sizes: lengths(),
            enabled: Family::default(),
            panics: Counter::default(),
            reload_failures: Counter::default(),
            version: Family::default(),
            cache_hits: Family::default(),
            cache_misses: Family::default(),
            cache_requests: Family::default(),
            cache_evictions: Family::default(),
            cache_stale: Family::default(),
            cache_prefetch: Family::default(),
            cache_entries: Family::default(),
            upstream: times(),
            forwarded: Family::default(),
            upstream_failures: Family::default(),
            upstream_broken: Counter::default(),
            upstream_rejects: Counter::default(),
            template_matches: Family::default(),
            template_failures: Family::default(),
            template_records: Family::default(),
            health: Histogram::new(&SLIM, 1e-9),
            health_failures: Counter::default(),
            programming: Family::new_with_constructor(programming as fn() -> Histogram),
            dns64: Family::default(),
            acl: Default::default(),
        }
    }
}

impl Counters {
    /// Makes them part of `/metrics`.
    pub fn register(&self, metrics: &runtime::metrics::Metrics) {
        let build: Family<Labels, Gauge> = Family::default();
        let version = runtime::version::BUILD.version.to_owned();
        build
            .get_or_create(&vec![("version", version), ("revision", runtime::version::BUILD.git_commit.to_owned())])
            .set(1);
        metrics.register("coredns_build_info", "The build that answers", build);
        metrics.register("coredns_dns_requests", "Queries", self.requests.clone());
        metrics.register("coredns_dns_responses", "Answers by code and plugin", self.responses.clone());
        metrics.register("twinstack_dns_ignored_packets", "Packets that are no query", self.ignored.clone());
        metrics.register(
            "twinstack_dns_closed_connections",
            "Connections that made room for others",
            self.closed_connections.clone(),
        );
        metrics.register("coredns_dns_do_requests", "Queries with the DO bit", self.dnssec.clone());
        metrics.register("coredns_dns_request_duration_seconds", "Time per query", self.durations.clone());
        metrics.register("coredns_dns_request_size_bytes", "Length of queries", self.request_sizes.clone());
        metrics.register("coredns_dns_response_size_bytes", "Length of answers", self.response_sizes.clone());
        metrics.register("coredns_plugin_enabled", "Plugins per server and zone", self.enabled.clone());
        metrics.register("coredns_panics", "Panics", self.panics.clone());
        metrics.register("coredns_reload_failed", "Corefiles that could not be used", self.reload_failures.clone());
        metrics.register("coredns_reload_version_info", "Hash of the running Corefile", self.version.clone());
        metrics.register("coredns_cache_hits", "Cache hits", self.cache_hits.clone());
        metrics.register("coredns_cache_misses", "Cache misses", self.cache_misses.clone());
        metrics.register("coredns_cache_requests", "Cache lookups", self.cache_requests.clone());
        metrics.register("coredns_cache_evictions", "Entries that made room", self.cache_evictions.clone());
        metrics.register("coredns_cache_served_stale", "Old answers given", self.cache_stale.clone());
        metrics.register("coredns_cache_prefetch", "Answers fetched early", self.cache_prefetch.clone());
        metrics.register("coredns_cache_entries", "Entries in the cache", self.cache_entries.clone());
        metrics.register("coredns_proxy_request_duration_seconds", "Time per upstream query", self.upstream.clone());
        metrics.register("coredns_forward_requests", "Queries sent upstream", self.forwarded.clone());
        metrics.register("coredns_proxy_healthcheck_failures", "Failed health checks", self.upstream_failures.clone());
        metrics.register(
            "coredns_forward_healthcheck_broken",
            "Queries without a healthy upstream",
            self.upstream_broken.clone(),
        );
        metrics.register(
            "coredns_forward_max_concurrent_rejects",
            "Queries beyond max_concurrent",
            self.upstream_rejects.clone(),
        );
        metrics.register("coredns_template_matches", "Templates that matched", self.template_matches.clone());
        metrics.register("coredns_template_template_failures", "Templates that failed", self.template_failures.clone());
        metrics.register("coredns_template_rr_failures", "Templates without a record", self.template_records.clone());
        metrics.register("coredns_health_request_duration_seconds", "Time of /health", self.health.clone());
        metrics.register(
            "coredns_health_request_failures",
            "Times that /health did not answer",
            self.health_failures.clone(),
        );
        metrics.register(
            "coredns_kubernetes_dns_programming_duration_seconds",
            "From the change of an endpoint to its record",
            self.programming.clone(),
        );
        metrics.register("coredns_dns64_requests_translated", "Answers made from IPv4", self.dns64.clone());
        for (family, what) in self.acl.iter().zip(ACL) {
            metrics.register(&format!("coredns_acl_{what}_requests"), "Queries that acl decided on", family.clone());
        }
    }
}

/// A histogram without locks: as many atomic numbers as it has buckets.
#[derive(Clone, Debug)]
pub struct Histogram {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bounds: &'static [f64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// What one unit of an observation is.
    unit: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64], unit: f64) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { inner: Arc::new(Inner { bounds, counts, sum: AtomicU64::new(0), unit }) }
    }

    /// Adds one observation: nanoseconds, or bytes.
    pub fn observe(&self, value: u64) {
        let Inner { bounds, counts, sum, unit } = &*self.inner;
        let scaled = value as f64 * unit;
        let bucket = bounds.iter().position(|bound| scaled <= *bound).unwrap_or(bounds.len());
        counts[bucket].fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(value, Ordering::Relaxed);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Inner { bounds, counts, sum, unit } = &*self.inner;
        let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
        let sum = sum.load(Ordering::Relaxed) as f64 * unit;
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bucket_is_for_everything() {
        let counters = Counters::default();
        let metrics = runtime::metrics::Metrics::new();
        counters.register(&metrics);
        let labels = vec![("zone", ".".to_owned())];
        counters.durations.get_or_create(&labels).observe(20_000_000_000);
        let text = metrics.render(runtime::metrics::TextFormat::Classic).body;
        let last = r#"coredns_dns_request_duration_seconds_bucket{le="+Inf",zone="."} 1"#;
        assert!(text.contains(last), "{text}");
    }
}
