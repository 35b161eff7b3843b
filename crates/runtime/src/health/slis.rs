//! What came of health checks, as numbers: `/metrics/slis`. Counted when somebody asks for the checks, as upstream does.

use crate::metrics::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Check {
    name: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    name: String,
    status: &'static str,
    r#type: &'static str,
}

/// The last outcome of each check at each endpoint, and how often it had which.
#[derive(Clone, Debug)]
pub(super) struct Slis {
    pub(super) metrics: Metrics,
    last: Family<Check, Gauge>,
    total: Family<Outcome, Counter>,
}

impl Slis {
    pub(super) fn new() -> Self {
        let metrics = Metrics::empty();
        let last = metrics.register(
            "kubernetes_healthcheck",
            "Whether the check passed when it was last asked for",
            Family::default(),
        );
        let total =
            metrics.register("kubernetes_healthchecks", "Outcomes of the check, by its status", Family::default());
        Self { metrics, last, total }
    }

    pub(super) fn note(&self, check: &str, endpoint: &'static str, passed: bool) {
        let (name, status) = (check.to_owned(), if passed { "success" } else { "error" });
        self.last.get_or_create(&Check { name: name.clone(), r#type: endpoint }).set(passed.into());
        self.total.get_or_create(&Outcome { name, status, r#type: endpoint }).inc();
    }

    /// A check that is no more has no last outcome.
    pub(super) fn forget(&self, check: &str) {
        for endpoint in super::Endpoint::ALL {
            self.last.remove(&Check { name: check.to_owned(), r#type: endpoint.name() });
        }
    }
}
