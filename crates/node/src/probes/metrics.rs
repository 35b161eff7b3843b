//! How often probes were answered and how: behind `/metrics/probes`, with upstream's names.

use super::{state::Kind, target::Target};
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write};

/// Answers by labels.
#[derive(Default)]
pub(super) struct Counters {
    total: Mutex<BTreeMap<Series, u64>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    probe: Kind,
    result: &'static str,
    container: String,
    pod: String,
    namespace: String,
    uid: String,
}

impl Counters {
    pub(super) fn add(&self, kind: Kind, result: &'static str, target: &Target<'_>) {
        let metadata = &target.pod.metadata;
        let series = Series {
            probe: kind,
            result,
            container: target.container.name.clone(),
            pod: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        };
        *self.total.lock().entry(series).or_default() += 1;
    }

    /// Forgets a Pod that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.total.lock().retain(|series, _| series.uid != uid);
    }

    pub(super) fn exposition(&self) -> String {
        let mut text = String::from(
            "# HELP prober_probe_total Cumulative number of a liveness, readiness or startup probe for a container by result.\n# TYPE prober_probe_total counter\n",
        );
        for (series, count) in self.total.lock().iter() {
            let Series { probe, result, container, pod, namespace, uid } = series;
            let probe = probe.title();
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "prober_probe_total{{container={container:?},namespace={namespace:?},pod={pod:?},pod_uid={uid:?},probe_type={probe:?},result={result:?}}} {count}"
            );
        }
        text
    }
}
