//! How old this process's view of the API is, kind by kind: behind `/readyz`, a metric, and the Lease that `doctor` reads.
//!
//! One register for the process, because watches are made in rooms that know neither health nor metrics, and because a
//! process has one view of its cluster.

use crate::{admin::Admin, health::Scope};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use std::{
    fmt,
    sync::{Arc, LazyLock, Weak},
    time::{Duration, Instant},
};

/// A connection may be gone this long before the view counts as old: a restart of the API server is nothing to report.
pub const GRACE: Duration = Duration::from_secs(10);
/// Longer than the longest watch: one that heard nothing for this long has no proof, whatever it believes.
const SILENCE: Duration = Duration::from_secs(300);

static VIEWS: LazyLock<Mutex<Vec<Weak<Shown>>>> = LazyLock::new(Mutex::default);

/// The view of one watch; it counts until it is dropped.
#[derive(Debug)]
pub struct View(Arc<Shown>);

#[derive(Debug)]
struct Shown {
    resource: String,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    /// The last moment at which what is known was what the API held.
    proven: Instant,
    listed: bool,
    /// Since when it is known to be out of touch, and why.
    lost: Option<(Instant, String)>,
    /// Refused for want of rights, before anything was ever seen: an optional kind, nothing that grows old.
    forbidden: bool,
}

impl State {
    fn is_old(&self, now: Instant) -> bool {
        let lost = self.lost.as_ref().is_some_and(|(since, _)| now.duration_since(*since) > GRACE);
        !self.forbidden && (lost || now.duration_since(self.proven) > SILENCE)
    }
}

impl View {
    /// Registers a watch of this resource, such as `routes.route.openshift.io`.
    pub(super) fn new(resource: String) -> Self {
        let now = Instant::now();
        let lost = Some((now, "not listed yet".to_owned()));
        let state = State { proven: now, listed: false, lost, forbidden: false };
        let shown = Arc::new(Shown { resource, state: Mutex::new(state) });
        let mut views = VIEWS.lock();
        views.retain(|view| view.strong_count() > 0);
        views.push(Arc::downgrade(&shown));
        Self(shown)
    }

    /// The server has just shown that nothing was missed.
    pub(super) fn proven(&self) {
        *self.0.state.lock() = State { proven: Instant::now(), listed: true, lost: None, forbidden: false };
    }

    /// From now on changes may be missed.
    pub(super) fn lost(&self, why: &super::Error) {
        let mut state = self.0.state.lock();
        if why.is_not_served() {
            // The API says that there is nothing to see, which is as good as an empty list.
            (state.proven, state.lost) = (Instant::now(), None);
            return;
        }
        state.forbidden = !state.listed && why.code() == Some(403);
        let since = state.lost.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        state.lost = Some((since, crate::client::error_line(why)));
    }
}

/// Shows the views of this process in its health and metrics.
pub fn show(admin: &Admin) {
    admin.health.add("watches", Scope::Ready, || oldest().map_or(Ok(()), |old| Err(old.to_string())));
    admin.metrics.register_collector(Box::new(Ages));
}

/// A view that is old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old {
    pub resource: String,
    /// Since its last proof.
    pub age: Duration,
    /// What is in the way.
    pub why: String,
}

impl fmt::Display for Old {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, age, why } = self;
        write!(f, "the view of {resource} is {} s old", age.as_secs())?;
        if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
    }
}

/// The oldest of those that are old.
#[must_use]
pub fn oldest() -> Option<Old> {
    let now = Instant::now();
    let old = states().into_iter().filter(|(_, state)| state.is_old(now));
    let (resource, state) = old.min_by_key(|(_, state)| state.proven)?;
    let why = state.lost.map(|(_, why)| why).unwrap_or_default();
    Some(Old { resource, age: now.duration_since(state.proven), why })
}

/// Whether anything is watched.
#[must_use]
pub fn any() -> bool {
    !states().is_empty()
}

fn states() -> Vec<(String, State)> {
    let views = VIEWS.lock();
    let shown = views.iter().filter_map(Weak::upgrade);
    shown.map(|shown| (shown.resource.clone(), shown.state.lock().clone())).collect()
}

/// The ages at the time of a scrape; the oldest counts where a resource is watched more than once.
#[derive(Debug)]
struct Ages;

impl Collector for Ages {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let mut ages = std::collections::BTreeMap::<String, Duration>::new();
        for (resource, state) in states() {
            let age = now.duration_since(state.proven);
            let known = ages.entry(resource).or_default();
            *known = age.max(*known);
        }
        if ages.is_empty() {
            return Ok(());
        }
        let help = "Seconds since it was last proven that what is known of a resource is what the API holds";
        let mut family =
            encoder.encode_descriptor("twinstack_watch_view_age_seconds", help, None, MetricType::Gauge)?;
        for (resource, age) in ages {
            let label = [("resource", resource)];
            ConstGauge::new(age.as_secs_f64()).encode(family.encode_family(&label)?)?;
        }
        Ok(())
    }
}
