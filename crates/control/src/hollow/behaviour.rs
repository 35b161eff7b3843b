//! What a pod or node on hollow ground is asked to do: annotations, for tests of what happens when things go wrong.
//!
//! | annotation | on | meaning |
//! |---|---|---|
//! | `hollow.twinstack.dev/start-delay` | Pod | starts after so long: `500ms`, `3s`, `2m` |
//! | `hollow.twinstack.dev/stop-delay` | Pod | ends so long after it is deleted |
//! | `hollow.twinstack.dev/run-for` | Pod | ends by itself, successfully, after so long |
//! | `hollow.twinstack.dev/exit-code` | Pod | and then with this code: an error, unless it is 0 |
//! | `hollow.twinstack.dev/fail` | Pod | `pull`: never starts; `ready`: runs and is never ready; `crash`: its containers end with an error |
//! | `hollow.twinstack.dev/silent` | Node | `true`: it no longer says that it is alive |

use super::HollowOptions;
use api::go_duration;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use std::time::Duration;

/// How a pod fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The image cannot be had.
    Pull,
    /// It runs and is never ready.
    Ready,
    /// It ends with an error.
    Crash,
}

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// From binding to running.
    pub start_delay: Duration,
    /// From deletion to the end.
    pub stop_delay: Duration,
    /// From running to the end.
    pub run_for: Option<Duration>,
    /// What its containers end with by themselves.
    pub exit_code: i32,
    /// What goes wrong.
    pub failure: Option<Failure>,
}

/// What a pod is asked to do. What cannot be read is as if it were not there.
pub fn of(pod: &Pod, options: &HollowOptions) -> Behaviour {
    let given = |name: &str| annotation(&pod.metadata, name);
    let duration = |name: &str| given(name).and_then(go_duration::parse);
    let grace = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let stop_delay = duration("stop-delay").unwrap_or_else(|| options.stop_delay.max(pre_stop(pod)));
    Behaviour {
        start_delay: duration("start-delay").unwrap_or(options.start_delay),
        stop_delay: grace.map_or(stop_delay, |grace| stop_delay.min(Duration::from_secs(grace))),
        run_for: duration("run-for"),
        exit_code: given("exit-code").and_then(|code| code.parse().ok()).unwrap_or_default(),
        failure: match given("fail") {
            Some("pull") => Some(Failure::Pull),
            Some("ready") => Some(Failure::Ready),
            Some("crash") => Some(Failure::Crash),
            _ => None,
        },
    }
}

/// How long its `preStop` hooks sleep: those are the kubelet's own, and need no container.
fn pre_stop(pod: &Pod) -> Duration {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let hooks = containers.filter_map(|container| container.lifecycle.as_ref()?.pre_stop.as_ref()?.sleep.as_ref());
    let longest = hooks.filter_map(|sleep| u64::try_from(sleep.seconds).ok()).max();
    Duration::from_secs(longest.unwrap_or_default())
}

/// Whether a node is to stop saying that it is alive.
pub fn is_silent(meta: &ObjectMeta) -> bool {
    annotation(meta, "silent") == Some("true")
}

fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(&format!("hollow.twinstack.dev/{name}")).map(String::as_str)
}
