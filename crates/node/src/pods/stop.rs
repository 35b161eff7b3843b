//! Ends a container: its hook, then a signal, then, when its time is over, another that it cannot refuse.

use super::{Pods, containers::member, now, plan::Why};
use crate::{
    cri::{PATIENCE, proto::StopContainerRequest},
    probes,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use runtime::task::beside;
use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Left to a container after its hook, however long that took; upstream's.
const AFTER_HOOK: i64 = 2;

/// A container to end.
pub(super) struct Stop {
    pub(super) uid: String,
    /// Nothing for a container whose Pod nobody knows.
    pub(super) pod: Option<Arc<Pod>>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) grace: i64,
    pub(super) why: Why,
    pub(super) ips: Vec<IpAddr>,
}

impl Pods {
    pub(super) fn spawn_stop(self: &Arc<Self>, stop: Stop) {
        let memory = self.memory(&stop.uid);
        let deadline = now() + SignedDuration::from_secs(stop.grace);
        memory.lock().busy.insert(stop.name.clone(), Some(deadline));
        let pods = Arc::clone(self);
        beside("stop-container", async move {
            pods.stop(&stop).await;
            memory.lock().busy.remove(&stop.name);
            pods.queue.add(stop.uid);
        });
    }

    /// A stop that is under way has less time than it was given.
    pub(super) fn hurry(self: &Arc<Self>, id: String, grace: i64) {
        let pods = Arc::clone(self);
        beside("stop-container", async move {
            let request = StopContainerRequest { container_id: id, timeout: grace };
            // The first one tells how it went.
            let _ = pods.runtime.end(request, PATIENCE).await;
        });
    }

    async fn stop(&self, stop: &Stop) {
        let mut grace = stop.grace;
        if let Some(pod) = &stop.pod {
            self.normal(pod, Some(&stop.name), "Killing", note(&stop.name, &stop.why)).await;
            let begun = Instant::now();
            if grace > 0 && self.before_stop(pod, stop).await {
                let used = i64::try_from(begun.elapsed().as_secs()).unwrap_or(i64::MAX);
                grace = (grace - used).max(AFTER_HOOK);
            }
        }
        let patience = Duration::from_secs(grace.unsigned_abs()) + PATIENCE;
        let request = StopContainerRequest { container_id: stop.id.clone(), timeout: grace.max(0) };
        if let Err(error) = self.runtime.end(request, patience).await {
            tracing::warn!(container = stop.id, %error, "container did not end; tried again");
            if let Some(pod) = &stop.pod {
                self.warn(pod, None, "FailedKillPod", format!("error killing pod: {error}")).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Whether there was a hook.
    async fn before_stop(&self, pod: &Arc<Pod>, stop: &Stop) -> bool {
        let Some(member) = member(pod, &stop.name) else { return false };
        let handler = member.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let Some(handler) = handler else { return false };
        let target = probes::Target { pod, container: &member.container, container_id: &stop.id, pod_ips: &stop.ips };
        let patience = Duration::from_secs(stop.grace.unsigned_abs());
        if let Err(error) = probes::handle(handler, &target, &self.runtime, patience).await {
            tracing::info!(container = stop.id, error, "the hook before the end failed");
            self.warn(pod, Some(&stop.name), "FailedPreStopHook", "PreStopHook failed").await;
        }
        true
    }
}

fn note(name: &str, why: &Why) -> String {
    match why {
        Why::PodEnds | Why::PodDone => format!("Stopping container {name}"),
        Why::SandboxChanged => format!("Stopping container {name}: its sandbox changed"),
        Why::ImageChanged => format!("Container {name} definition changed, will be restarted"),
        Why::Unhealthy(probe) => format!("Container {name} failed {probe} probe, will be restarted"),
        Why::Unknown => format!("Container {name} is in an unknown state, try killing it before restart"),
    }
}
