//! One probe of one container: waits for its turn, asks, counts, tells.

use super::{
    Asks, Inner, exec, grpc, http,
    state::{Answer, Count, Kind},
    target::Target,
    tcp,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Probe};
use parking_lot::Mutex;
use runtime::{backoff, controller::reference};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

/// How often a question is put again when it could not be asked at all.
const ATTEMPTS: usize = 3;

pub(super) struct Worker {
    pub(super) kind: Kind,
    pub(super) probe: Probe,
    pub(super) container: Container,
    pub(super) container_id: String,
    pub(super) container_started: Timestamp,
    pub(super) asks: Arc<Mutex<Asks>>,
    pub(super) wake: Arc<Notify>,
    pub(super) inner: Arc<Inner>,
}

impl Worker {
    /// Never ends by itself; its container's end stops it.
    pub(super) async fn run(self) {
        let period = seconds(self.probe.period_seconds, 10);
        let age = Timestamp::now().as_second() - self.inner.begun.as_second();
        // After a restart of the kubelet not all Pods of the node are asked at once.
        if self.container_started < self.inner.begun && u64::try_from(age).unwrap_or_default() < period.as_secs() {
            sleep(period.mul_f64(backoff::random())).await;
        }
        self.initial_delay().await;
        let mut count = Count::new(&self.probe);
        let mut ticks = interval_at(Instant::now(), period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.wake.notified() => ticks.reset(),
            }
            if self.is_asked() {
                self.ask(&mut count).await;
            }
        }
    }

    async fn initial_delay(&self) {
        let delay = i64::from(self.probe.initial_delay_seconds.unwrap_or_default());
        let age = Timestamp::now().as_second() - self.container_started.as_second();
        if let Ok(left) = u64::try_from(delay - age) {
            sleep(Duration::from_secs(left)).await;
        }
    }

    fn is_asked(&self) -> bool {
        self.inner.followed.lock().get(&self.container_id).is_some_and(|followed| followed.known.asks(self.kind))
    }

    async fn ask(&self, count: &mut Count) {
        let Asks { pod, pod_ips } = self.asks.lock().clone();
        let target =
            Target { pod: &pod, container: &self.container, container_id: &self.container_id, pod_ips: &pod_ips };
        let mut answer = Answer::Unknown(String::new());
        for _ in 0..ATTEMPTS {
            answer = self.answer(&target).await;
            if !matches!(answer, Answer::Unknown(_)) {
                break;
            }
        }
        let title = self.kind.title();
        let (healthy, event, result) = match &answer {
            Answer::Healthy => (Some(true), None, "successful"),
            Answer::Warning(text) => {
                (Some(true), Some(("ProbeWarning", format!("{title} probe warning: {text}"))), "successful")
            }
            Answer::Unhealthy(text) => {
                (Some(false), Some(("Unhealthy", format!("{title} probe failed: {text}"))), "failed")
            }
            Answer::Unknown(text) => (
                None,
                Some(("Unhealthy", format!("{title} probe errored and resulted in unknown state: {text}"))),
                "unknown",
            ),
        };
        self.inner.counters.add(self.kind, result, &target);
        if let Some((reason, text)) = event {
            self.inner.events.warning(&of_container(&pod, &self.container), reason, text).await;
        }
        let Some(decided) = healthy.and_then(|healthy| count.add(healthy)) else { return };
        let message = match answer {
            Answer::Unhealthy(text) => text,
            _ => String::new(),
        };
        self.decide(decided, &message, &pod);
    }

    fn decide(&self, healthy: bool, message: &str, pod: &Pod) {
        let grace = self.probe.termination_grace_period_seconds;
        let changed = {
            let mut followed = self.inner.followed.lock();
            let Some(followed) = followed.get_mut(&self.container_id) else { return };
            let was_started = followed.known.started();
            let changed = followed.known.decide(self.kind, healthy, message, grace);
            if !was_started && followed.known.started() {
                // Whoever waited for the start asks now, not a period later.
                followed.started.notify_waiters();
            }
            changed
        };
        if changed {
            (self.inner.changed)(pod.metadata.uid.as_deref().unwrap_or_default());
        }
    }

    async fn answer(&self, target: &Target<'_>) -> Answer {
        let patience = seconds(self.probe.timeout_seconds, 1);
        if let Some(action) = &self.probe.exec {
            exec::probe(action, target, &self.inner.runtime, patience).await
        } else if let Some(action) = &self.probe.http_get {
            http::probe(action, target, patience).await
        } else if let Some(action) = &self.probe.tcp_socket {
            tcp::probe(action, target, patience).await
        } else if let Some(action) = &self.probe.grpc {
            grpc::probe(action, target, patience).await
        } else {
            Answer::Unknown(format!("missing probe handler for {}", self.container.name))
        }
    }
}

fn seconds(given: Option<i32>, usual: u64) -> Duration {
    Duration::from_secs(given.and_then(|given| u64::try_from(given).ok()).filter(|given| *given > 0).unwrap_or(usual))
}

/// An event about a container names it in its field path, as upstream does.
fn of_container(pod: &Pod, container: &Container) -> ObjectReference {
    let spec = pod.spec.as_ref();
    let is_init = spec.is_some_and(|spec| spec.init_containers.iter().flatten().any(|one| one.name == container.name));
    let field = if is_init { "initContainers" } else { "containers" };
    ObjectReference { field_path: Some(format!("spec.{field}{{{}}}", container.name)), ..reference(pod) }
}
