//! Logs of containers: which part is wanted, and how it is read from the file that the runtime writes.

mod line;
mod options;
mod read;

pub(super) use options::LogOptions;
pub(super) use read::stream;

use super::NodePods;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Why the log of a container cannot be had, in upstream's words; nothing if it can.
pub(super) fn unavailable(pod: &Pod, container: &str, previous: bool) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref();
    let all = status.into_iter().flat_map(|status| {
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses]
            .into_iter()
            .flatten()
            .flatten()
    });
    let Some(status) = all.into_iter().find(|status| status.name == container) else {
        return Some(format!("container {container:?} in pod {name:?} is not available"));
    };
    let ran_before = status
        .last_state
        .as_ref()
        .is_some_and(|state| state.terminated.as_ref().is_some_and(|ended| ended.container_id.is_some()));
    if previous {
        return (!ran_before).then(|| format!("previous terminated container {container:?} in pod {name:?} not found"));
    }
    let state = status.state.as_ref();
    let has_run = state.is_some_and(|state| state.running.is_some() || state.terminated.is_some()) || ran_before;
    (!has_run).then(|| waiting(status, container, name))
}

fn waiting(status: &ContainerStatus, container: &str, pod: &str) -> String {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
    let why = match reason {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        "" => return format!("container {container:?} in pod {pod:?} is not available"),
        other => other,
    };
    format!("container {container:?} in pod {pod:?} is waiting to start: {why}")
}

/// Whether more may be written to a log.
pub(super) fn is_running(
    pods: &dyn NodePods,
    namespace: &str,
    pod: &str,
    container: &str,
    log: &std::path::Path,
) -> bool {
    pods.container(namespace, pod, None, container).is_some_and(|found| found.running && found.log == log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(state: Value, last: Value) -> Pod {
        let status = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state, "lastState": last});
        objects::from_value(&json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}})).unwrap()
    }

    #[test]
    fn what_has_not_run_has_no_log() {
        let running = json!({"running": {}});
        let ended = json!({"terminated": {"exitCode": 1, "containerID": "x"}});
        for (pod, container, previous, want) in [
            (pod(running.clone(), json!({})), "c", false, None),
            (pod(ended.clone(), json!({})), "c", false, None),
            (pod(json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended.clone()), "c", false, None),
            (
                pod(json!({"waiting": {"reason": "ContainerCreating"}}), json!({})),
                "c",
                false,
                Some("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                pod(json!({"waiting": {"reason": "ImagePullBackOff"}}), json!({})),
                "c",
                false,
                Some("container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"),
            ),
            (
                pod(running.clone(), json!({})),
                "c",
                true,
                Some("previous terminated container \"c\" in pod \"p\" not found"),
            ),
            (pod(running.clone(), ended), "c", true, None),
            (pod(running, json!({})), "d", false, Some("container \"d\" in pod \"p\" is not available")),
        ] {
            assert_eq!(unavailable(&pod, container, previous).as_deref(), want);
        }
    }
}
