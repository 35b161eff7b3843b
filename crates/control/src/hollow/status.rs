//! What a pod's status says at each moment of its hollow life. Pure; called by `pod`.

use super::behaviour::{Behaviour, Failure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use runtime::backoff::Backoff;
use std::{net::IpAddr, time::Duration};

/// What containers end with that are told to stop and do not.
const KILLED: i32 = 137;

/// What to do about a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing before it changes.
    Nothing,
    /// Nothing yet.
    Wait(Duration),
    /// A new status; then wait, if it says so.
    Write(Box<PodStatus>, Option<Duration>),
    /// It has ended; take it away.
    Remove,
}

/// What is known about a pod.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub(super) pod: &'a Pod,
    /// The node's own addresses.
    pub(super) host: &'a [IpAddr],
    /// The pod's; empty as long as there are none to give.
    pub(super) addresses: &'a [IpAddr],
    pub(super) behaviour: Behaviour,
    /// How long it has been bound, or deleted if it is.
    pub(super) waited: Duration,
    pub(super) now: Timestamp,
}

/// A kubelet starts a container that ended again after so long, longer each time.
const BACK_OFF: Backoff = Backoff { first: Duration::from_secs(10), cap: Duration::from_secs(300) };

/// How often a container that crashes at once has been started again after `age`, how long it waits now, and how long that still takes.
/// The first time nothing is waited for.
fn crashes(age: Duration) -> (i32, Duration, Duration) {
    let pause = |restarts: u32| BACK_OFF.delay(restarts, 0.0);
    let mut restarts = 1;
    let mut due = pause(restarts);
    while due <= age {
        restarts += 1;
        due += pause(restarts);
    }
    (i32::try_from(restarts).unwrap_or(i32::MAX), pause(restarts), due - age)
}

/// How far a container is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting(&'static str),
    /// Started again so often, the last time so long after the first, and waiting for the next time.
    Crashing {
        restarts: i32,
        pause: Duration,
        last: Duration,
    },
    Running {
        ready: bool,
    },
    Ended {
        code: i32,
    },
}

impl View<'_> {
    pub(super) fn step(&self) -> Step {
        let behaviour = self.behaviour;
        if self.pod.metadata.deletion_timestamp.is_some() {
            return match behaviour.stop_delay.checked_sub(self.waited).filter(|left| !left.is_zero()) {
                Some(left) => Step::Wait(left),
                // Somebody waits to see how it ended: its containers were killed.
                None if self.is_awaited() => {
                    Step::Write(Box::new(self.status(Stage::Ended { code: KILLED })), Some(Duration::ZERO))
                }
                None => Step::Remove,
            };
        }
        let phase = crate::workloads::pods::phase(self.pod);
        if matches!(phase, "Succeeded" | "Failed") {
            return Step::Nothing;
        }
        if phase == "Pending" {
            if let Some(left) = behaviour.start_delay.checked_sub(self.waited).filter(|left| !left.is_zero()) {
                return Step::Wait(left);
            }
            // Node IPAM has not come by yet; the node's change brings us back.
            if self.addresses.is_empty() {
                return Step::Nothing;
            }
        }
        let end = behaviour.run_for.map(|run_for| behaviour.start_delay + run_for);
        let mut left = end.and_then(|end| end.checked_sub(self.waited)).filter(|left| !left.is_zero());
        let stage = match behaviour.failure {
            Some(Failure::Pull) => Stage::Waiting("ImagePullBackOff"),
            Some(Failure::Crash) if self.restarts() => {
                let (restarts, pause, next) = crashes(self.age());
                left = Some(next);
                Stage::Crashing { restarts, pause, last: (self.age() + next).saturating_sub(pause) }
            }
            Some(Failure::Crash) => Stage::Ended { code: 1 },
            _ if end.is_some() && left.is_none() => self.ended(behaviour.exit_code),
            failure => Stage::Running { ready: failure != Some(Failure::Ready) },
        };
        let status = self.status(stage);
        if self.pod.status.as_ref() == Some(&status) {
            return left.map_or(Step::Nothing, Step::Wait);
        }
        Step::Write(Box::new(status), left)
    }

    /// Since it started, which a restart of this program does not change.
    fn age(&self) -> Duration {
        let started = self.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        started.and_then(|time| self.now.duration_since(time.0).try_into().ok()).unwrap_or_default()
    }

    /// Where errors are tried again, a container that ends with one waits for its next start.
    fn ended(&self, code: i32) -> Stage {
        if code != 0 && self.restarts() { Stage::Waiting("CrashLoopBackOff") } else { Stage::Ended { code } }
    }

    /// Whether it outlives its own end, and has not come to it.
    fn is_awaited(&self) -> bool {
        let held = self.pod.metadata.finalizers.as_ref().is_some_and(|names| !names.is_empty());
        held && !crate::workloads::pods::is_finished(self.pod)
    }

    fn restarts(&self) -> bool {
        let policy = self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        policy.is_none_or(|policy| policy != "Never")
    }

    fn status(&self, stage: Stage) -> PodStatus {
        let spec = self.pod.spec.clone().unwrap_or_default();
        let old = self.pod.status.clone().unwrap_or_default();
        let phase = match stage {
            Stage::Waiting("ImagePullBackOff") => "Pending",
            Stage::Waiting(_) | Stage::Crashing { .. } | Stage::Running { .. } => "Running",
            Stage::Ended { code: 0 } => "Succeeded",
            Stage::Ended { .. } => "Failed",
        };
        let text = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (host, own) = (text(self.host), text(self.addresses));
        let started = old.start_time.clone().unwrap_or(Time(self.now));
        let containers_ready = stage == Stage::Running { ready: true };
        let gates = spec.readiness_gates.iter().flatten();
        let open = |kind: &str| old.conditions.iter().flatten().any(|one| one.type_ == kind && one.status == "True");
        let ready = containers_ready && gates.into_iter().all(|gate| open(&gate.condition_type));
        let mut conditions = old.conditions.clone().unwrap_or_default();
        let initialized = !matches!(stage, Stage::Waiting("ImagePullBackOff"));
        for (kind, holds) in [
            ("PodReadyToStartContainers", true),
            ("Initialized", initialized || spec.init_containers.is_none()),
            ("Ready", ready),
            ("ContainersReady", containers_ready),
            ("PodScheduled", true),
        ] {
            self.set(&mut conditions, kind, holds, stage);
        }
        let status = |container: &Container, stage: Stage| self.container(container, stage, &started);
        let init = if initialized { Stage::Ended { code: 0 } } else { stage };
        PodStatus {
            phase: Some(phase.to_owned()),
            host_ip: host.first().cloned(),
            host_ips: Some(host.into_iter().map(|ip| HostIP { ip }).collect()),
            pod_ip: own.first().cloned(),
            pod_ips: Some(own.into_iter().map(|ip| PodIP { ip }).collect()),
            conditions: Some(conditions),
            container_statuses: Some(spec.containers.iter().map(|one| status(one, stage)).collect()),
            init_container_statuses: spec
                .init_containers
                .as_ref()
                .map(|all| all.iter().map(|one| status(one, init)).collect()),
            start_time: Some(started.clone()),
            observed_generation: self.pod.metadata.generation,
            ..old.clone()
        }
    }

    fn set(&self, conditions: &mut Vec<PodCondition>, kind: &str, holds: bool, stage: Stage) {
        let status = if holds { "True" } else { "False" };
        let reason = match stage {
            _ if holds => None,
            Stage::Ended { code: 0 } => Some("PodCompleted"),
            Stage::Ended { .. } => Some("PodFailed"),
            _ if kind == "Ready" && matches!(stage, Stage::Running { ready: true }) => Some("ReadinessGatesNotReady"),
            _ => Some("ContainersNotReady"),
        };
        let known = conditions.iter_mut().find(|one| one.type_ == kind);
        let condition = match known {
            Some(known) => known,
            None => {
                conditions.push(PodCondition { type_: kind.to_owned(), ..PodCondition::default() });
                conditions.last_mut().expect("it was just put there")
            }
        };
        if condition.status != status {
            condition.status = status.to_owned();
            condition.last_transition_time = Some(Time(self.now));
        }
        condition.reason = reason.map(str::to_owned);
        condition.message = None;
        condition.observed_generation = self.pod.metadata.generation;
    }

    fn container(&self, container: &Container, stage: Stage, started: &Time) -> ContainerStatus {
        let old = self.pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let restarts =
            old.filter(|old| old.name == container.name).map(|old| old.restart_count).next().unwrap_or_default();
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let id = format!("hollow://{uid}/{}", container.name);
        let waiting = matches!(stage, Stage::Waiting(_));
        let error = |at: Timestamp| ContainerStateTerminated {
            exit_code: 1,
            reason: Some("Error".to_owned()),
            started_at: Some(Time(at)),
            finished_at: Some(Time(at)),
            container_id: Some(id.clone()),
            ..ContainerStateTerminated::default()
        };
        let (restarts, last_state) = match stage {
            Stage::Crashing { restarts: now, last, .. } => {
                let at = SignedDuration::try_from(last).ok().and_then(|last| started.0.checked_add(last).ok());
                let terminated = Some(error(at.unwrap_or(started.0)));
                (restarts.max(now), ContainerState { terminated, ..ContainerState::default() })
            }
            _ => (restarts, ContainerState::default()),
        };
        let state = match stage {
            Stage::Waiting(reason) => ContainerState {
                waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message: None }),
                ..ContainerState::default()
            },
            Stage::Crashing { pause, .. } => ContainerState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some("CrashLoopBackOff".to_owned()),
                    message: Some(format!(
                        "back-off {} restarting failed container={} pod={}_{}({uid})",
                        api::go_duration::print(i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX)),
                        container.name,
                        self.pod.metadata.name.as_deref().unwrap_or_default(),
                        self.pod.metadata.namespace.as_deref().unwrap_or_default(),
                    )),
                }),
                ..ContainerState::default()
            },
            Stage::Running { .. } => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(started.clone()) }),
                ..ContainerState::default()
            },
            Stage::Ended { code } => ContainerState {
                terminated: Some(ContainerStateTerminated {
                    exit_code: code,
                    reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
                    started_at: Some(started.clone()),
                    finished_at: Some(if self.is_init(container) { started.clone() } else { Time(self.now) }),
                    container_id: Some(id.clone()),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            },
        };
        let image = container.image.clone().unwrap_or_default();
        ContainerStatus {
            name: container.name.clone(),
            image_id: if waiting { String::new() } else { format!("hollow://{image}") },
            image,
            container_id: (!waiting).then_some(id),
            ready: stage == Stage::Running { ready: true }
                || stage == Stage::Ended { code: 0 } && self.is_init(container),
            started: Some(matches!(stage, Stage::Running { .. })),
            restart_count: restarts,
            state: Some(state),
            // The API fills this in; what is written should be what comes back.
            last_state: Some(last_state),
            ..ContainerStatus::default()
        }
    }

    fn is_init(&self, container: &Container) -> bool {
        let init = self.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
        init.into_iter().flatten().any(|one| one.name == container.name)
    }
}
