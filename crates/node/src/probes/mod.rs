//! Probes: whether containers have started, live and are ready, asked as their Pods say.
//!
//! `target` says where a question goes, `http`, `tcp`, `grpc` and `exec` ask it, `state` counts the answers, a worker for each
//! probe of a running container does it again and again. What is known is kept per container id: a new container starts afresh.

mod exec;
mod grpc;
mod hook;
mod http;
mod metrics;
mod state;
mod target;
mod tcp;
#[cfg(test)]
mod tests;
mod worker;

pub use hook::handle;
pub use target::Target;

use crate::cri::Runtime;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use metrics::Counters;
use parking_lot::Mutex;
use runtime::{controller::Events, task::Tasks};
use state::{Kind, Known};
use std::{collections::HashMap, convert::Infallible, net::IpAddr, sync::Arc};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What probes say of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub started: bool,
    pub ready: bool,
    /// It is to be ended, and started again if its Pod says so.
    pub failed: Option<ProbeFailure>,
}

/// A probe that failed often enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// `liveness` or `startup`.
    pub probe: &'static str,
    pub message: String,
    /// How long the container has to end, if the probe says so.
    pub grace: Option<i64>,
}

/// The probes of this node; clones share them.
#[derive(Clone)]
pub struct Probes {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Runtime,
    events: Events,
    changed: Arc<dyn Fn(&str) + Send + Sync>,
    followed: Mutex<HashMap<String, Followed>>,
    counters: Counters,
    /// When this kubelet started: containers that are older keep what was known of them.
    begun: Timestamp,
    tracker: TaskTracker,
    stop: CancellationToken,
}

/// A container that is probed.
struct Followed {
    pod_uid: String,
    known: Known,
    /// Wakes workers that wait for the container to start.
    started: Arc<Notify>,
    /// What they ask about; addresses come with the sandbox.
    asks: Arc<Mutex<Asks>>,
    stop: CancellationToken,
}

/// What a worker needs to know of its Pod as it is now.
#[derive(Clone)]
struct Asks {
    pod: Arc<Pod>,
    pod_ips: Vec<IpAddr>,
}

impl Probes {
    pub fn new(runtime: Runtime, events: Events, changed: Arc<dyn Fn(&str) + Send + Sync>, tasks: &Tasks) -> Self {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.once("probes", {
            let (tracker, stop) = (tracker.clone(), stop.clone());
            move |ending| async move {
                ending.cancelled().await;
                stop.cancel();
                tracker.close();
                tracker.wait().await;
                Ok::<(), Infallible>(())
            }
        });
        let (followed, counters) = (Mutex::default(), Counters::default());
        let inner = Inner { runtime, events, changed, followed, counters, begun: Timestamp::now(), tracker, stop };
        Self { inner: Arc::new(inner) }
    }

    /// Probes a running container as it says, from now on.
    pub fn follow(
        &self,
        pod: &Arc<Pod>,
        container: &Container,
        container_id: &str,
        started: Timestamp,
        pod_ips: &[IpAddr],
    ) {
        let mut followed = self.inner.followed.lock();
        if let Some(known) = followed.get(container_id) {
            let mut asks = known.asks.lock();
            if asks.pod_ips != pod_ips || !Arc::ptr_eq(&asks.pod, pod) {
                *asks = Asks { pod: Arc::clone(pod), pod_ips: pod_ips.to_vec() };
            }
            return;
        }
        let known = Known::new(pod, container, container_id, started < self.inner.begun);
        let asks = Arc::new(Mutex::new(Asks { pod: Arc::clone(pod), pod_ips: pod_ips.to_vec() }));
        let (wake, stop) = (Arc::new(Notify::new()), self.inner.stop.child_token());
        for kind in Kind::ALL {
            let Some(probe) = kind.of(container) else { continue };
            let worker = worker::Worker {
                kind,
                probe: probe.clone(),
                container: container.clone(),
                container_id: container_id.to_owned(),
                container_started: started,
                asks: Arc::clone(&asks),
                wake: Arc::clone(&wake),
                inner: Arc::clone(&self.inner),
            };
            let stop = stop.clone();
            self.inner.tracker.spawn(async move {
                Box::pin(stop.run_until_cancelled(worker.run())).await;
            });
        }
        let pod_uid = pod.metadata.uid.clone().unwrap_or_default();
        followed.insert(container_id.to_owned(), Followed { pod_uid, known, started: wake, asks, stop });
    }

    /// Ends the probes of all containers of a Pod but these.
    pub fn keep(&self, pod_uid: &str, running: &[String]) {
        if running.is_empty() {
            self.inner.counters.forget(pod_uid);
        }
        self.inner.followed.lock().retain(|id, followed| {
            let keep = followed.pod_uid != pod_uid || running.contains(id);
            if !keep {
                followed.stop.cancel();
            }
            keep
        });
    }

    /// What is known of a container. One that is not probed has started and is ready.
    #[must_use]
    pub fn verdict(&self, container_id: &str, container: &Container) -> Verdict {
        let followed = self.inner.followed.lock();
        match followed.get(container_id) {
            Some(followed) => followed.known.verdict(),
            None => Verdict {
                started: container.startup_probe.is_none(),
                ready: container.startup_probe.is_none() && container.readiness_probe.is_none(),
                failed: None,
            },
        }
    }

    /// What `/metrics/probes` shows.
    #[must_use]
    pub fn exposition(&self) -> String {
        self.inner.counters.exposition()
    }
}
