//! The status of each container.

use super::Facts;
use crate::pods::{
    containers::{Member, Role, starts_again},
    observe::{ObservedContainer, State},
};
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, PodStatus, VolumeMountStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Statuses in the order of the spec.
#[derive(Clone, Debug, Default)]
pub(super) struct Statuses {
    pub(super) init: Vec<ContainerStatus>,
    pub(super) app: Vec<ContainerStatus>,
    pub(super) ephemeral: Vec<ContainerStatus>,
}

impl Statuses {
    pub(super) fn of(&self, name: &str) -> Option<&ContainerStatus> {
        self.init.iter().chain(&self.app).find(|one| one.name == name)
    }

    /// Whether any container that the Pod is for has ever run.
    pub(super) fn has_started(&self) -> bool {
        self.app.iter().any(|one| {
            let ran = |state: &Option<ContainerState>| {
                state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
            };
            one.started == Some(true) || ran(&one.state) || ran(&one.last_state)
        })
    }
}

pub(super) fn statuses(facts: &Facts<'_>, members: &[Member<'_>], old: &PodStatus) -> Statuses {
    let mut all = Statuses::default();
    for member in members {
        let (list, before) = match member.role {
            Role::Init | Role::Sidecar => (&mut all.init, &old.init_container_statuses),
            Role::App => (&mut all.app, &old.container_statuses),
            Role::Ephemeral => (&mut all.ephemeral, &old.ephemeral_container_statuses),
        };
        let before = before.iter().flatten().find(|one| one.name == member.container.name);
        list.push(status(facts, member, before));
    }
    all
}

fn status(facts: &Facts<'_>, member: &Member<'_>, before: Option<&ContainerStatus>) -> ContainerStatus {
    let container = &*member.container;
    let latest = facts.observed.latest(&container.name);
    let mut status = match latest {
        Some(one) => seen(facts, one, member.role, before),
        None => unseen(facts, member, before),
    };
    if let Some(one) = latest.filter(|one| one.state == State::Exited) {
        wait_for_restart(facts, member, one, &mut status);
    }
    let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
    let verdict = latest.filter(|_| running).and_then(|one| facts.verdicts.get(&one.id));
    let started = running && verdict.is_none_or(|verdict| verdict.started);
    status.started = Some(started);
    status.ready = match member.role {
        Role::Init => terminated(&status).is_some_and(|end| end.exit_code == 0),
        Role::Ephemeral => false,
        Role::App | Role::Sidecar => started && verdict.is_none_or(|verdict| verdict.ready),
    };
    status.volume_mounts = mounts(container);
    status.resources = container.resources.clone().or_else(|| Some(Default::default()));
    status.allocated_resources = container.resources.as_ref().and_then(|all| all.requests.clone());
    status
}

fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref().and_then(|state| state.terminated.as_ref())
}

fn seen(facts: &Facts<'_>, one: &ObservedContainer, role: Role, before: Option<&ContainerStatus>) -> ContainerStatus {
    let previous = facts.observed.containers.iter().filter(|other| other.name == one.name).nth(1);
    let last = previous.filter(|previous| previous.state == State::Exited).map(|one| ended(facts, one));
    let told = before.and_then(|before| before.last_state.clone()).unwrap_or_default();
    ContainerStatus {
        name: one.name.clone(),
        restart_count: i32::try_from(one.restarts).unwrap_or(i32::MAX),
        image: one.image.clone(),
        image_id: one.image_ref.clone(),
        container_id: Some(container_id(facts, one)),
        state: Some(match one.state {
            State::Running => ContainerState {
                running: Some(ContainerStateRunning { started_at: one.started.map(Time) }),
                ..ContainerState::default()
            },
            State::Exited => ended(facts, one),
            State::Created | State::Unknown => waiting(not_yet(facts, role), None),
        }),
        last_state: Some(last.unwrap_or(told)),
        ..ContainerStatus::default()
    }
}

/// Why a container does not run yet, where nothing is wrong.
fn not_yet(facts: &Facts<'_>, role: Role) -> &'static str {
    let first = facts.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    match role {
        Role::App if first.is_some_and(|init| !init.is_empty()) => "PodInitializing",
        Role::Init | Role::Sidecar => "PodInitializing",
        _ => "ContainerCreating",
    }
}

fn unseen(facts: &Facts<'_>, member: &Member<'_>, before: Option<&ContainerStatus>) -> ContainerStatus {
    let container = &*member.container;
    let state = match facts.failures.of(&container.name) {
        Some(failed) => waiting(&failed.reason, Some(failed.message.clone())),
        None => waiting(not_yet(facts, member.role), None),
    };
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(state),
        last_state: Some(ContainerState::default()),
        ..ContainerStatus::default()
    };
    let Some(before) = before else { return status };
    status.restart_count = before.restart_count;
    status.last_state = before.last_state.clone().or_else(|| Some(ContainerState::default()));
    let known = before.state.clone().unwrap_or_default();
    if known.terminated.is_some() {
        // It has been removed from the runtime since; what is known of it stays.
        return before.clone();
    }
    if known.running.is_some() {
        // It ran when the API was told last, and is gone: nobody can say how it ended.
        let lost = ContainerState {
            terminated: Some(ContainerStateTerminated {
                reason: Some("ContainerStatusUnknown".to_owned()),
                message: Some("The container could not be located when the pod was terminated".to_owned()),
                exit_code: 137,
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        };
        let spec = facts.pod.spec.clone().unwrap_or_default();
        let again = starts_again(&spec, member.role, container, 137) && !facts.ending;
        if again {
            status.last_state = Some(lost);
            status.restart_count += 1;
        } else {
            status.state = Some(lost);
        }
    }
    status
}

/// A container that ended and will be started again is waiting for that.
fn wait_for_restart(facts: &Facts<'_>, member: &Member<'_>, one: &ObservedContainer, status: &mut ContainerStatus) {
    let spec = facts.pod.spec.clone().unwrap_or_default();
    if facts.ending || facts.ended || !starts_again(&spec, member.role, &member.container, one.exit_code) {
        return;
    }
    let failed = facts.failures.of(&one.name).map(|failed| (failed.reason.clone(), failed.message.clone()));
    let finished = one.finished.unwrap_or(facts.now);
    let back_off = || {
        let (_, length) = facts.failures.crash_wait(&one.name, finished, facts.now)?;
        let pod = facts.pod;
        let (namespace, name) =
            (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref().unwrap_or_default());
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let text = format!(
            "back-off {} restarting failed container={} pod={name}_{namespace}({uid})",
            go_duration(length.as_secs()),
            one.name
        );
        Some(("CrashLoopBackOff".to_owned(), text))
    };
    if let Some((reason, message)) = failed.or_else(back_off) {
        status.last_state = status.state.replace(waiting(&reason, Some(message)));
    }
}

/// `1m20s`, as Go prints it.
pub(crate) fn go_duration(seconds: i64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn ended(facts: &Facts<'_>, one: &ObservedContainer) -> ContainerState {
    let reason = match (one.reason.as_str(), one.exit_code) {
        ("", 0) => "Completed",
        ("", _) => "Error",
        (told, _) => told,
    };
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: one.exit_code,
            reason: Some(reason.to_owned()),
            message: Some(one.message.clone()).filter(|text| !text.is_empty()),
            started_at: one.started.map(Time),
            finished_at: one.finished.map(Time),
            container_id: Some(container_id(facts, one)),
            signal: None,
        }),
        ..ContainerState::default()
    }
}

/// With the runtime's name before it.
fn container_id(facts: &Facts<'_>, one: &ObservedContainer) -> String {
    format!("{}://{}", facts.runtime, one.id)
}

fn mounts(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref()?;
    let status = |mount: &k8s_openapi::api::core::v1::VolumeMount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only,
        recursive_read_only: (mount.read_only == Some(true)).then(|| "Disabled".to_owned()),
        ..VolumeMountStatus::default()
    };
    Some(mounts.iter().map(status).collect())
}
