//! What the router itself counts, under upstream's names.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};
use runtime::metrics::Metrics;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// The router's own.
#[derive(Clone, Debug)]
pub(super) struct RouterMetrics {
    reload: Histogram,
    write: Histogram,
    failure: Gauge,
    reloads: Family<Reason, Counter>,
    changes: Counter,
    spares: Gauge,
}

impl RouterMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        Self {
            reload: metrics.register(
                "template_router_reload_seconds",
                "Time to check and start a new HAProxy",
                seconds(),
            ),
            write: metrics.register(
                "template_router_write_config_seconds",
                "Time to write the files of HAProxy",
                seconds(),
            ),
            failure: metrics.register(
                "template_router_reload_failure",
                "Whether the last replacement of HAProxy failed",
                Gauge::default(),
            ),
            reloads: metrics.register(
                "router_reloads",
                "Replacements of HAProxy, by what needed them",
                Family::default(),
            ),
            changes: metrics.register(
                "router_live_changes",
                "Changes brought to the running HAProxy",
                Counter::default(),
            ),
            spares: metrics.register("router_spare_backends", "Spare backends left", Gauge::default()),
        }
    }

    pub(super) fn replaced(&self, reason: &'static str, write: Duration, reload: Duration) {
        self.write.observe(write.as_secs_f64());
        self.reload.observe(reload.as_secs_f64());
        self.reloads.get_or_create(&Reason { reason }).inc();
        self.failure.set(0);
    }

    pub(super) fn failed(&self) {
        self.failure.set(1);
    }

    pub(super) fn changed(&self, spares: usize) {
        self.changes.inc();
        self.spares(spares);
    }

    pub(super) fn spares(&self, spares: usize) {
        self.spares.set(i64::try_from(spares).unwrap_or(i64::MAX));
    }
}
