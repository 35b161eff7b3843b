//! Figures under kube-proxy's names, so that its dashboards and alerts go on working.

use crate::{
    backend::{Done, RuleCount},
    plan::{ServicePlan, To},
    track::Name,
};
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use net::Family;
use parking_lot::Mutex;
use prometheus_client::metrics::{
    counter::Counter,
    family::Family as PerLabel,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};
use runtime::{
    admin::Admin,
    http::{Body, text},
    metrics::Metrics,
};
use std::{
    collections::HashSet,
    convert::Infallible,
    future::{Ready, ready},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

type Label = [(&'static str, &'static str); 1];
type PolicyLabel = [(&'static str, &'static str); 2];
type TableLabel = [(&'static str, &'static str); 2];
type Timed = PerLabel<Label, Histogram, fn() -> Histogram>;

/// The figures; clones share them.
#[derive(Clone, Debug)]
pub struct ProxyMetrics {
    sync: Timed,
    full: Timed,
    partial: Timed,
    programming: Timed,
    last: PerLabel<Label, Gauge<f64, AtomicU64>>,
    queued: PerLabel<Label, Gauge<f64, AtomicU64>>,
    failures: PerLabel<Label, Counter>,
    iptables: Option<IptablesMetrics>,
    service_changes: Counter,
    endpoint_changes: Counter,
    services_pending: Gauge,
    endpoints_pending: Gauge,
    no_local: PerLabel<PolicyLabel, Gauge>,
    without_local: Arc<Mutex<HashSet<(PolicyLabel, Name)>>>,
    conntrack: Timed,
    forgotten: PerLabel<Label, Counter>,
    healthz: PerLabel<Label, Counter>,
    livez: PerLabel<Label, Counter>,
}

/// What only a proxy in mode iptables has.
#[derive(Clone, Debug)]
struct IptablesMetrics {
    partial_failures: PerLabel<Label, Counter>,
    held: PerLabel<TableLabel, Gauge>,
    written: PerLabel<TableLabel, Gauge>,
}

impl IptablesMetrics {
    fn new(metrics: &Metrics) -> Self {
        let name = |name: &str| format!("kubeproxy_sync_proxy_rules_iptables_{name}");
        let gauge = |of: &str, help: &str| metrics.register(&name(of), help, PerLabel::default());
        let failed = "Syncs of what changed that failed; everything is written after that";
        Self {
            partial_failures: metrics.register(&name("partial_restore_failures"), failed, PerLabel::default()),
            held: gauge("total", "Rules in the proxy's chains"),
            written: gauge("last", "Rules that the last sync wrote"),
        }
    }
}

/// Half a millisecond to half a minute; upstream starts at one.
fn sync_time() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 16))
}

/// As upstream: quarters of a second up to one, seconds to a minute, minutes to five.
fn programming_time() -> Histogram {
    let parts = (1..4).map(|quarter| f64::from(quarter) * 0.25);
    let seconds = (1..=60).map(f64::from);
    let minutes = (2..=5).map(|minute| f64::from(minute) * 60.0);
    Histogram::new(parts.chain(seconds).chain(minutes))
}

impl ProxyMetrics {
    /// Registers them, for a proxy in this mode.
    #[must_use]
    pub fn new(metrics: &Metrics, mode: &str) -> Self {
        let timed = |name: &str, help: &str, make: fn() -> Histogram| {
            metrics.register(&format!("kubeproxy_{name}_seconds"), help, Timed::new_with_constructor(make))
        };
        let gauge = |name: &str, help: &str| metrics.register(&format!("kubeproxy_{name}"), help, PerLabel::default());
        let failures = if mode == "nftables" { "nftables_sync_failures" } else { "iptables_restore_failures" };
        let plain = |name: &str, help: &str| metrics.register(&format!("kubeproxy_{name}"), help, Gauge::default());
        let counter = |name: &str, help: &str| metrics.register(name, help, Counter::default());
        let counters = |name: &str, help: &str| metrics.register(name, help, PerLabel::default());
        Self {
            sync: timed("sync_proxy_rules_duration", "Time of a sync", sync_time),
            full: timed("sync_full_proxy_rules_duration", "Time of a sync of everything", sync_time),
            partial: timed("sync_partial_proxy_rules_duration", "Time of a sync of what changed", sync_time),
            programming: timed(
                "network_programming_duration",
                "Time from a change of a pod or Service until the kernel has it",
                programming_time,
            ),
            last: gauge("sync_proxy_rules_last_timestamp_seconds", "When the last sync ended well"),
            queued: gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When a sync was last asked for"),
            failures: counters(&format!("kubeproxy_sync_proxy_rules_{failures}"), "Syncs that failed"),
            iptables: (mode == "iptables").then(|| IptablesMetrics::new(metrics)),
            service_changes: counter("kubeproxy_sync_proxy_rules_service_changes", "Events of Services"),
            endpoint_changes: counter("kubeproxy_sync_proxy_rules_endpoint_changes", "Events of EndpointSlices"),
            services_pending: plain(
                "sync_proxy_rules_service_changes_pending",
                "Events of Services since the last sync",
            ),
            endpoints_pending: plain(
                "sync_proxy_rules_endpoint_changes_pending",
                "Events of EndpointSlices since the last sync",
            ),
            no_local: metrics.register(
                "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
                "Services with a policy Local that have endpoints, but none on this node",
                PerLabel::default(),
            ),
            without_local: Arc::default(),
            conntrack: timed("conntrack_reconciler_sync_duration", "Time to forget stale UDP flows", sync_time),
            forgotten: counters("kubeproxy_conntrack_reconciler_deleted_entries", "UDP flows forgotten"),
            healthz: counters("kubeproxy_proxy_healthz", "Answers of /healthz"),
            livez: counters("kubeproxy_proxy_livez", "Answers of /livez"),
        }
    }

    /// A sync of a family ended: what it did, or what it failed to do.
    pub(crate) fn synced(&self, family: Family, done: Result<Done, Done>, took: Duration) {
        let label = label(family);
        let seconds = took.as_secs_f64();
        self.sync.get_or_create(&label).observe(seconds);
        match done {
            Ok(Done::Full) => self.full.get_or_create(&label).observe(seconds),
            Ok(Done::Partial | Done::Nothing) => self.partial.get_or_create(&label).observe(seconds),
            Err(failed) => {
                self.failures.get_or_create(&label).inc();
                if let (Some(iptables), Done::Partial) = (&self.iptables, failed) {
                    iptables.partial_failures.get_or_create(&label).inc();
                }
            }
        }
        for policy in ["internal", "external"] {
            let policy = [("traffic_policy", policy), label[0]];
            let count = self.without_local.lock().iter().filter(|(of, _)| *of == policy).count();
            self.no_local.get_or_create(&policy).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        if done.is_ok() {
            self.last.get_or_create(&label).set(now());
        }
    }

    /// A family has so many rules now.
    pub(crate) fn rules(&self, family: Family, tables: &[RuleCount]) {
        let Some(iptables) = &self.iptables else { return };
        for RuleCount { table, held, written } in tables {
            let label = [("table", *table), label(family)[0]];
            for (gauge, count) in [(&iptables.held, held), (&iptables.written, written)] {
                gauge.get_or_create(&label).set(i64::try_from(*count).unwrap_or(i64::MAX));
            }
        }
    }

    /// The kernel has a change that began at `since`.
    pub(crate) fn programmed(&self, family: Family, since: Timestamp) {
        let took = Timestamp::now().duration_since(since).as_secs_f64();
        self.programming.get_or_create(&label(family)).observe(took.max(0.0));
    }

    /// A sync of a family is wanted.
    pub(crate) fn queued(&self, family: Family) {
        self.queued.get_or_create(&label(family)).set(now());
    }

    pub(crate) fn service_event(&self) {
        self.service_changes.inc();
        self.services_pending.inc();
    }

    /// An event of a slice.
    pub(crate) fn endpoint_event(&self) {
        self.endpoint_changes.inc();
        self.endpoints_pending.inc();
    }

    /// All events so far go into the sync that begins.
    pub(crate) fn taken(&self) {
        self.services_pending.set(0);
        self.endpoints_pending.set(0);
    }

    /// All Services of a family are about to be planned.
    pub(crate) fn plan_all(&self, family: Family) {
        self.without_local.lock().retain(|(policy, _)| policy[1] != label(family)[0]);
    }

    pub(crate) fn planned(&self, family: Family, name: &Name, plan: &ServicePlan) {
        let inside = plan.routes.iter().any(|route| route.to == To::Drop);
        let outside = plan
            .routes
            .iter()
            .any(|route| matches!(&route.to, To::OutsideLocal { others, .. } if others.endpoints.is_empty()));
        let mut without = self.without_local.lock();
        for (policy, is) in [("internal", inside), ("external", outside)] {
            let key = ([("traffic_policy", policy), label(family)[0]], name.clone());
            if is {
                without.insert(key);
            } else {
                without.remove(&key);
            }
        }
    }

    /// Flows of a family were looked through.
    pub(crate) fn flows_forgotten(&self, family: Family, count: u64, took: Duration) {
        self.conntrack.get_or_create(&label(family)).observe(took.as_secs_f64());
        self.forgotten.get_or_create(&label(family)).inc_by(count);
    }

    /// A health endpoint answered.
    pub fn health_answered(&self, path: &str, status: u16) {
        let counters = if path == "/livez" { &self.livez } else { &self.healthz };
        counters.get_or_create(&[("code", if status == 200 { "200" } else { "503" })]).inc();
    }
}

const fn label(family: Family) -> Label {
    match family {
        Family::V4 => [("ip_family", "IPv4")],
        Family::V6 => [("ip_family", "IPv6")],
    }
}

fn now() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// The admin endpoints, and `/proxyMode` as kube-proxy has it.
pub fn with_mode<B>(
    admin: Admin,
    mode: &'static str,
) -> impl tower::Service<
    Request<B>,
    Response = Response<Body>,
    Error = Infallible,
    Future = Ready<Result<Response<Body>, Infallible>>,
> + Clone {
    tower::service_fn(move |request: Request<B>| {
        let answer = match request.uri().path() {
            "/proxyMode" => Some(text(StatusCode::OK, mode)),
            _ => admin.answer(&request),
        };
        ready(Ok(answer.unwrap_or_else(|| text(StatusCode::NOT_FOUND, "404 page not found\n"))))
    })
}

#[cfg(test)]
mod tests;
