//! The pod row of `kubectl get pods`: readiness, the one word for its state, restarts.
//!
//! Called by `pod`. Mirrors upstream's `printPod`.

use crate::{kinds::columns, object::Fields};
use serde_json::Value;

/// What the columns say, gathered from init containers first, then from containers.
struct Summary {
    ready: usize,
    reason: String,
    restarts: i64,
    last_restart: String,
}

/// Cells in the order of the columns.
pub(super) fn cells(pod: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let spec = pod.at("spec");
    let sidecars = spec.list_at("initContainers").iter().filter(|c| is_sidecar(c)).count();
    let total = spec.list_at("containers").len() + sidecars;
    let summary = summarise(pod);
    let restarts = match summary.restarts {
        n if n != 0 && !summary.last_restart.is_empty() => {
            format!("{n} ({} ago)", columns::since(&summary.last_restart, now))
        }
        n => n.to_string(),
    };
    let ip = pod.list_at("status.podIPs").first().map_or("", |entry| entry.str_at("ip"));
    vec![
        columns::name(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts.into(),
        columns::age(pod, now),
        columns::or(ip, "<none>").into(),
        columns::or(spec.str_at("nodeName"), "<none>").into(),
        columns::or(pod.str_at("status.nominatedNodeName"), "<none>").into(),
        gates(pod).into(),
    ]
}

fn is_sidecar(container: &Value) -> bool {
    container.str_at("restartPolicy") == "Always"
}

fn summarise(pod: &Value) -> Summary {
    let status = pod.at("status");
    let phase = status.str_at("phase");
    let mut reason = columns::or(status.str_at("reason"), phase);
    if status
        .list_at("conditions")
        .iter()
        .any(|c| c.str_at("type") == "PodScheduled" && c.str_at("reason") == "SchedulingGated")
    {
        reason = "SchedulingGated".to_owned();
    }
    let mut summary = Summary { ready: 0, reason, restarts: 0, last_restart: String::new() };
    let (initializing, sidecars) = init_containers(pod, &mut summary);
    if !initializing || condition_is_true(status, "Initialized") {
        summary.restarts = sidecars.restarts;
        summary.last_restart = sidecars.last_restart;
        containers(status, &mut summary);
    }
    if !pod.at("metadata.deletionTimestamp").is_null() {
        if status.str_at("reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// Restarts of the init containers that keep running beside the others.
#[derive(Default)]
struct Sidecars {
    restarts: i64,
    last_restart: String,
}

/// Walks to the first init container that is not done; says whether there is one.
fn init_containers(pod: &Value, summary: &mut Summary) -> (bool, Sidecars) {
    let declared = pod.list_at("spec.initContainers");
    let mut sidecars = Sidecars::default();
    for (i, status) in pod.list_at("status.initContainerStatuses").iter().enumerate() {
        let sidecar = declared.iter().any(|c| c.at("name") == status.at("name") && is_sidecar(c));
        let restarts = status.int_at("restartCount").unwrap_or_default();
        summary.restarts += restarts;
        later(&mut summary.last_restart, status);
        if sidecar {
            sidecars.restarts += restarts;
            later(&mut sidecars.last_restart, status);
        }
        let terminated = status.at("state.terminated");
        let waiting = status.str_at("state.waiting.reason");
        if terminated.is_object() && terminated.int_at("exitCode").unwrap_or_default() == 0 {
            continue;
        }
        if sidecar && status.is_true("started") {
            summary.ready += usize::from(status.is_true("ready"));
            continue;
        }
        summary.reason = if terminated.is_object() {
            format!("Init:{}", exit_reason(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{}", declared.len())
        };
        return (true, sidecars);
    }
    (false, sidecars)
}

/// The last container that waits or has ended names the state.
fn containers(status: &Value, summary: &mut Summary) {
    let mut running = false;
    let mut error = String::new();
    for container in status.list_at("containerStatuses").iter().rev() {
        summary.restarts += container.int_at("restartCount").unwrap_or_default();
        later(&mut summary.last_restart, container);
        let waiting = container.str_at("state.waiting.reason");
        let terminated = container.at("state.terminated");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if terminated.is_object() {
            summary.reason = exit_reason(terminated);
            if terminated.int_at("exitCode").unwrap_or_default() != 0 {
                error.clone_from(&summary.reason);
            }
        } else if container.is_true("ready") && container.at("state.running").is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if running && condition_is_true(status, "Ready") {
            summary.reason = "Running".to_owned();
        } else if !error.is_empty() {
            summary.reason = error;
        } else if running {
            summary.reason = "NotReady".to_owned();
        }
    }
}

fn exit_reason(terminated: &Value) -> String {
    match (terminated.str_at("reason"), terminated.int_at("signal").unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", terminated.int_at("exitCode").unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Timestamps of one format compare as text.
fn later(last: &mut String, status: &Value) {
    let finished = status.str_at("lastState.terminated.finishedAt");
    if finished > last.as_str() {
        finished.clone_into(last);
    }
}

fn condition_is_true(status: &Value, kind: &str) -> bool {
    status.list_at("conditions").iter().any(|c| c.str_at("type") == kind && c.str_at("status") == "True")
}

fn gates(pod: &Value) -> String {
    let gates = pod.list_at("spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition_is_true(pod.at("status"), gate.str_at("conditionType"))).count();
    format!("{open}/{}", gates.len())
}
