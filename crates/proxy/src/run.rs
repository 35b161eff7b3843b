//! The loop: events in, and when something changed, both families' tables at once.
//!
//! A change is applied as soon as it is seen; what arrives while the kernel is busy goes together into the next one. A
//! failure in one family does not hold up the other, and is tried again with everything.

use crate::{
    backend::{self, Backend, Done, Fixed},
    health::ProxyHealth,
    health_ports::HealthPorts,
    metrics::ProxyMetrics,
    plan, report,
    schedule::Schedule,
    settings::Settings,
    stale::UdpFrontends,
    track::{Changed, Name, Tracker},
    watch::{self, Complete, Trouble, WatchEvent},
};
use futures::{FutureExt, StreamExt};
use kernel::conntrack::Conntrack;
use kube::Client;
use net::Family;
use runtime::{client::error_line, task::Tasks};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Everything is written anew this often, whatever the checks say.
const ANEW: Duration = Duration::from_secs(3600);

/// A proxy that keeps the kernel as the API wants it.
#[derive(Debug)]
pub struct Proxy {
    settings: Settings,
    tracker: Tracker,
    backends: Vec<(Box<dyn Backend>, UdpFrontends)>,
    kernel: Kernel,
    health: ProxyHealth,
    health_ports: HealthPorts,
    metrics: ProxyMetrics,
    tasks: Tasks,
}

/// What the proxy works on.
#[derive(Clone)]
pub struct Kernel {
    /// Makes the rules of a family.
    pub rules: Arc<dyn Fn(Family) -> Box<dyn Backend> + Send + Sync>,
    /// Flows.
    pub conntrack: Arc<dyn Conntrack>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kernel")
    }
}

impl Proxy {
    /// Nothing known and nothing done yet.
    #[must_use]
    pub fn new(settings: Settings, kernel: Kernel, health: ProxyHealth, metrics: ProxyMetrics, tasks: &Tasks) -> Self {
        Self {
            tracker: Tracker::new(&settings.node_name, &settings.own_addresses),
            backends: settings
                .families
                .iter()
                .map(|family| ((kernel.rules)(*family), UdpFrontends::default()))
                .collect(),
            settings,
            kernel,
            health_ports: HealthPorts::new(tasks.clone(), health.clone()),
            health,
            metrics,
            tasks: tasks.clone(),
        }
    }

    /// Runs until told to stop. The rules stay.
    pub async fn run(mut self, client: Client, stop: CancellationToken) {
        let mut events = watch::events(&client, &self.settings.node_name);
        let refusals = report::start(&self.tasks, client.clone(), &self.settings.node_name);
        let mut complete = Complete::default();
        let mut schedule = Schedule::new(self.settings.min_sync_period, self.settings.sync_period);
        let mut look = tokio::time::interval(self.settings.sync_period);
        let mut anew = tokio::time::interval(ANEW);
        anew.reset();
        loop {
            let due = schedule.due;
            tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => match event {
                    Some(event) => {
                        self.take(event, &mut complete);
                        // What is there already goes into the same change.
                        while let Some(Some(event)) = events.next().now_or_never() {
                            self.take(event, &mut complete);
                        }
                        watch::follow_peers(&mut events, &client, &self.tracker, &mut complete);
                        for refusal in self.tracker.take_refusals() {
                            // Nobody listens any more only when the process ends.
                            let _ = refusals.send(refusal);
                        }
                        if complete.all() && (self.tracker.has_changed() || schedule.last.is_none()) {
                            self.queue(&mut schedule);
                        }
                    }
                    None => return,
                },
                () = until(due) => self.sync(&mut schedule),
                _ = look.tick() => if schedule.last.is_some() && !self.look_after() {
                    self.queue(&mut schedule);
                },
                _ = anew.tick() => if schedule.last.is_some() {
                    self.backends.iter_mut().for_each(|(backend, _)| backend.forget());
                    self.queue(&mut schedule);
                },
            }
        }
    }

    fn take(&mut self, event: Result<WatchEvent, Trouble>, complete: &mut Complete) {
        match event {
            Ok(seen) => {
                match &seen {
                    WatchEvent::Service(_) => self.metrics.service_event(),
                    WatchEvent::Slice(_) => self.metrics.endpoint_event(),
                    WatchEvent::Node(_) | WatchEvent::Range(_) | WatchEvent::Peer(_) => {}
                }
                watch::take(&mut self.tracker, &seen, complete);
                self.health.set_eligible(self.tracker.node().eligible);
            }
            Err(Trouble::Ranges(error)) if !complete.ranges => {
                tracing::info!(
                    error = error_line(&error),
                    "ServiceCIDRs cannot be read; traffic to unused cluster IPs is let through"
                );
                complete.ranges = true;
            }
            Err(Trouble::Ranges(error)) => tracing::debug!(error = error_line(&error), "ServiceCIDRs cannot be read"),
            // The watch has told why and tries again; rules stay as they are.
            Err(Trouble::Rest(_)) => {}
        }
    }

    fn queue(&self, schedule: &mut Schedule) {
        let now = Instant::now();
        schedule.queue(now);
        self.health.queued(now);
        self.settings.families.iter().for_each(|family| self.metrics.queued(*family));
    }

    /// One change of the kernel, both families side by side.
    fn sync(&mut self, schedule: &mut Schedule) {
        let (first, start) = (schedule.last.is_none(), Instant::now());
        let changed = self.tracker.take_changed();
        self.metrics.taken();
        let Self { settings, tracker, backends, kernel, health, health_ports, metrics, tasks: _ } = self;
        let (tracker, settings, changed) = (&*tracker, &*settings, &changed);
        let sync = |(backend, udp): &mut (Box<dyn Backend>, UdpFrontends)| {
            let start = Instant::now();
            let family = backend.family();
            let fixed = settings.fixed(family, tracker);
            let whole = backend.wants_everything(&fixed);
            let done = sync_family(&mut **backend, tracker, &fixed, changed, Some((metrics, &mut *udp)));
            let outcome = match &done {
                Ok(done) => Ok(*done),
                Err(_) if whole => Err(Done::Full),
                Err(_) => Err(Done::Partial),
            };
            metrics.synced(family, outcome, start.elapsed());
            match done {
                Ok(done) => {
                    health.updated(family);
                    metrics.rules(family, backend.rules());
                    forget_flows(family, metrics, || udp.look(&*kernel.conntrack, family));
                    if !first {
                        changed.triggers.iter().for_each(|since| metrics.programmed(family, *since));
                    }
                    tracing::debug!(%family, ?done, took = ?start.elapsed(), "rules are up to date");
                    true
                }
                Err(error) => {
                    tracing::error!(%family, %error, "cannot change the rules; trying again");
                    false
                }
            }
        };
        let good = tokio::task::block_in_place(|| {
            thread::scope(|scope| {
                let running: Vec<_> = backends.iter_mut().map(|backend| scope.spawn(|| sync(backend))).collect();
                let good: Vec<bool> = running.into_iter().map(|thread| thread.join().unwrap_or(false)).collect();
                good.into_iter().all(|good| good)
            })
        });
        let mut ask = |name: &Name| {
            health_ports.set(name, tracker.get(name), tracker.node(), &settings.node_port_addresses);
        };
        changed.services.iter().for_each(&mut ask);
        if changed.node {
            tracker.iter().for_each(|(name, _)| ask(name));
        }
        if good && !schedule.in_place {
            tracing::info!(services = self.tracker.iter().count(), "rules are in place");
        }
        schedule.done(start, Instant::now(), good);
    }

    /// Whether the tables are as they were left; tidies up on the way.
    fn look_after(&mut self) -> bool {
        let Self { backends, kernel, metrics, .. } = self;
        let look = |(backend, udp): &mut (Box<dyn Backend>, UdpFrontends)| {
            let family = backend.family();
            forget_flows(family, metrics, || udp.look_again(&*kernel.conntrack, family));
            let intact = backend.tidy().and_then(|()| backend.check());
            match intact {
                Ok(true) => true,
                Ok(false) => {
                    tracing::warn!(%family, "somebody changed the rules; writing them anew");
                    false
                }
                Err(error) => {
                    tracing::warn!(%family, %error, "cannot look at the rules; writing them anew");
                    backend.forget();
                    false
                }
            }
        };
        let intact: Vec<bool> = tokio::task::block_in_place(|| backends.iter_mut().map(look).collect());
        intact.into_iter().all(|intact| intact)
    }
}

/// Makes the kernel forget UDP flows that lead where they should not. Without it they end by themselves, but late.
fn forget_flows(family: Family, metrics: &ProxyMetrics, look: impl FnOnce() -> Option<std::io::Result<u64>>) {
    let start = Instant::now();
    let Some(forgotten) = look() else { return };
    metrics.flows_forgotten(family, forgotten.as_ref().copied().unwrap_or(0), start.elapsed());
    match forgotten {
        Ok(0) => {}
        Ok(flows) => tracing::debug!(%family, flows, "UDP flows forgotten"),
        Err(error) => tracing::warn!(%family, %error, "cannot make the kernel forget UDP flows to former endpoints"),
    }
}

/// What the API says now, once.
///
/// # Errors
/// When it cannot be read.
pub async fn snapshot(client: &Client, settings: &Settings) -> Result<Tracker, runtime::watch::Error> {
    let mut tracker = Tracker::new(&settings.node_name, &settings.own_addresses);
    let mut events = watch::events(client, &settings.node_name);
    let mut complete = Complete::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(seen) => watch::take(&mut tracker, &seen, &mut complete),
            Err(Trouble::Ranges(_)) => complete.ranges = true,
            Err(Trouble::Rest(error)) => return Err(error),
        }
        watch::follow_peers(&mut events, client, &tracker, &mut complete);
        if complete.all() {
            break;
        }
    }
    Ok(tracker)
}

/// Makes a backend that knows nothing do all that a proxy would do first.
pub fn everything(backend: &mut dyn Backend, tracker: &Tracker, settings: &Settings) -> backend::Result<Done> {
    let fixed = settings.fixed(backend.family(), tracker);
    sync_family(backend, tracker, &fixed, &Changed::default(), None)
}

fn sync_family(
    backend: &mut dyn Backend,
    tracker: &Tracker,
    fixed: &Fixed,
    changed: &Changed,
    mut also: Option<(&ProxyMetrics, &mut UdpFrontends)>,
) -> backend::Result<Done> {
    let family = backend.family();
    let whole = backend.wants_everything(fixed);
    if let Some((metrics, udp)) = also.as_mut().filter(|_| whole) {
        metrics.plan_all(family);
        udp.all_due(|name| tracker.get(name).is_some());
    }
    let planned = |name: &Name| {
        let plan = plan::plan(family, name, tracker);
        if let Some((metrics, udp)) = &mut also {
            metrics.planned(family, name, &plan);
            udp.set(name, &plan);
        }
        (name.clone(), plan)
    };
    if whole {
        return backend.sync(fixed, &mut tracker.iter().map(|(name, _)| name).map(planned));
    }
    match changed.node {
        true => {
            let gone = changed.services.iter().filter(|name| tracker.get(name).is_none());
            backend.sync(fixed, &mut tracker.iter().map(|(name, _)| name).chain(gone).map(planned))
        }
        false => backend.sync(fixed, &mut changed.services.iter().map(planned)),
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
