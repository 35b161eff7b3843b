//! What the node runs short of, and which Pod is ended for it: as `evictionHard` says.

use super::{garbage::Wanted, machine::meminfo, status::Pressure};
use crate::{
    pods::{
        Pods,
        resources::{Qos, qos},
    },
    server::NodePods,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use parking_lot::RwLock;
use rustix::fs::statvfs;
use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// As upstream's.
const PERIOD: Duration = Duration::from_secs(10);
/// How long a shortage counts after it was last seen: upstream's `evictionPressureTransitionPeriod`.
const TRANSITION: Duration = Duration::from_secs(300);

/// How long images may take to be removed before somebody else goes.
const REMOVAL: Duration = Duration::from_secs(60);

/// How little may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    Bytes(u64),
    Percent(u64),
}

/// Thresholds by signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub memory: Threshold,
    pub disk: Threshold,
    pub inodes: Threshold,
    pub pids: Threshold,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            memory: Threshold::Bytes(100 << 20),
            disk: Threshold::Percent(10),
            inodes: Threshold::Percent(5),
            pids: Threshold::Percent(0),
        }
    }
}

/// What is left, of how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Left {
    memory: (u64, u64),
    disk: (u64, u64),
    inodes: (u64, u64),
    pids: (u64, u64),
}

/// Looks now and then, and ends one Pod at a time. Never ends.
pub(super) async fn watch(pods: Arc<Pods>, told: Arc<RwLock<Pressure>>, thresholds: Thresholds, images: Wanted) {
    let mut last: [Option<Instant>; 3] = [None; 3];
    loop {
        let left = look(&pods.options.folders.root);
        let short = shortage(&left, &thresholds);
        let now = Instant::now();
        for (at, is_short) in [short.memory, short.disk, short.pids].into_iter().enumerate() {
            if is_short {
                last[at] = Some(now);
            }
        }
        let lasts = |at: usize| last[at].is_some_and(|seen| now.duration_since(seen) < TRANSITION);
        *told.write() = Pressure { memory: lasts(0), disk: lasts(1), pids: lasts(2) };
        // Unused images go before anybody.
        let room = short.disk && removed(&images).await > 0;
        if let Some(word) = word(short).filter(|_| !room || short.memory) {
            evict(&pods, word);
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// How many images were removed.
async fn removed(images: &Wanted) -> usize {
    let (done, gone) = oneshot::channel();
    if images.send(done).await.is_err() {
        return 0;
    }
    tokio::time::timeout(REMOVAL, gone).await.ok().and_then(Result::ok).unwrap_or(0)
}

fn evict(pods: &Pods, word: &str) {
    let all = pods.index.pods();
    let Some(pod) = first(&all) else { return };
    let message = format!("The node was low on resource: {word}. ");
    tracing::warn!(pod = %pod.name_any(), namespace = pod.namespace(), resource = word, "pod is evicted: the node runs short");
    pods.end(&pod.uid().unwrap_or_default(), "Evicted", message);
}

const fn word(short: Pressure) -> Option<&'static str> {
    match short {
        Pressure { memory: true, .. } => Some("memory"),
        Pressure { disk: true, .. } => Some("ephemeral-storage"),
        Pressure { pids: true, .. } => Some("pids"),
        _ => None,
    }
}

/// Who goes first: the lowest priority, then those who asked for nothing. What the node itself needs stays.
fn first(pods: &[Arc<Pod>]) -> Option<&Arc<Pod>> {
    let rank = |pod: &Arc<Pod>| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let class = match qos(pod) {
            Qos::BestEffort => 0,
            Qos::Burstable => 1,
            Qos::Guaranteed => 2,
        };
        (priority, class, std::cmp::Reverse(pod.metadata.creation_timestamp.clone().map(|time| time.0)))
    };
    let may_go = |pod: &&Arc<Pod>| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let critical =
            pod.spec.as_ref().and_then(|spec| spec.priority).is_some_and(|priority| priority >= 2_000_000_000);
        let over = matches!(phase, Some("Failed" | "Succeeded"));
        !critical && !over && !crate::pods::index::is_static(pod) && pod.metadata.deletion_timestamp.is_none()
    };
    pods.iter().filter(may_go).min_by_key(|pod| rank(pod))
}

fn look(root: &Path) -> Left {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name| meminfo(&text, name).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX);
    let disk = statvfs(root).ok();
    let number = |file| fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let most = number("/proc/sys/kernel/pid_max").unwrap_or(u64::MAX);
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = loads.split(['/', ' ']).nth(4).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    Left {
        memory: (bytes("MemAvailable"), bytes("MemTotal")),
        disk: disk
            .as_ref()
            .map_or((u64::MAX, u64::MAX), |disk| (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)),
        inodes: disk.as_ref().map_or((u64::MAX, u64::MAX), |disk| (disk.f_favail, disk.f_files)),
        pids: (most.saturating_sub(tasks), most),
    }
}

fn shortage(left: &Left, thresholds: &Thresholds) -> Pressure {
    let short = |(left, all): (u64, u64), threshold: Threshold| match threshold {
        Threshold::Bytes(bytes) => left < bytes,
        // A file system without a number of inodes never runs out of them.
        Threshold::Percent(percent) => all > 0 && left < all / 100 * percent,
    };
    Pressure {
        memory: short(left.memory, thresholds.memory),
        disk: short(left.disk, thresholds.disk) || short(left.inodes, thresholds.inodes),
        pids: short(left.pids, thresholds.pids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn thresholds_are_amounts_or_shares() {
        let plenty = Left { memory: (1 << 30, 2 << 30), disk: (50, 100), inodes: (0, 0), pids: (9, 10) };
        assert_eq!(shortage(&plenty, &Thresholds::default()), Pressure::default());
        let little = Left { memory: (1 << 20, 2 << 30), disk: (900, 10_000), ..plenty };
        let short = shortage(&little, &Thresholds::default());
        assert_eq!((short.memory, short.disk, short.pids), (true, true, false));
    }

    #[test]
    fn those_who_asked_for_nothing_go_first() {
        let pod = |name: &str, priority: i64, resources: serde_json::Value| -> Arc<Pod> {
            Arc::new(
                objects::from_value(&json!({"metadata": {"name": name}, "spec": {"priority": priority, "containers": [{"name": "c", "resources": resources}]}}))
                    .unwrap(),
            )
        };
        let asks = json!({"requests": {"cpu": "1"}});
        let all = [pod("burst", 0, asks.clone()), pod("best", 0, json!({})), pod("critical", 2_000_000_000, json!({}))];
        assert_eq!(first(&all).unwrap().name_any(), "best");
        let all = [pod("high", 5, json!({})), pod("low", 0, asks)];
        assert_eq!(first(&all).unwrap().name_any(), "low");
    }
}
