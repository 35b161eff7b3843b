//! The phase of a Pod, from the statuses of its containers. Mirrors upstream's `getPhase`.

use super::containers::Statuses;
use crate::pods::containers::{Role, members, starts_again};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};

/// What a container does, for counting.
enum Doing<'a> {
    Unknown,
    Running {
        started: bool,
    },
    /// Ended, or waiting to be started again after it ended.
    Ended(&'a ContainerStateTerminated),
    Waiting,
}

fn doing(status: Option<&ContainerStatus>) -> Doing<'_> {
    let Some(status) = status else { return Doing::Unknown };
    let Some(state) = &status.state else { return Doing::Unknown };
    if state.running.is_some() {
        return Doing::Running { started: status.started == Some(true) };
    }
    let last = || status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    match (&state.terminated, &state.waiting) {
        (Some(end), _) => Doing::Ended(end),
        (None, Some(_)) => last().map_or(Doing::Waiting, Doing::Ended),
        (None, None) => Doing::Unknown,
    }
}

pub(super) fn phase(pod: &Pod, statuses: &Statuses, ended: bool, initialized: bool) -> String {
    let spec = pod.spec.clone().unwrap_or_default();
    let (mut pending, mut failed) = (0, false);
    let (mut unknown, mut running, mut waiting) = (0, 0, 0);
    let (mut stopped, mut final_, mut succeeded) = (0, 0, 0);
    for member in members(pod) {
        let container = &*member.container;
        let doing = doing(statuses.of(&container.name));
        match (member.role, doing) {
            (Role::Ephemeral, _) => {}
            (Role::Init, Doing::Ended(end)) if end.exit_code == 0 => {}
            (Role::Init, Doing::Ended(end)) => {
                failed |= !starts_again(&spec, Role::Init, container, end.exit_code);
                pending += usize::from(!initialized);
            }
            (Role::Init, _) => pending += usize::from(!initialized),
            (Role::Sidecar, Doing::Running { started }) => {
                running += 1;
                pending += usize::from(!started && !initialized);
            }
            // Sidecars that ended say nothing about the Pod.
            (Role::Sidecar, Doing::Ended(_)) => {}
            (Role::Sidecar, Doing::Waiting) => {
                pending += usize::from(!initialized);
                waiting += 1;
            }
            (Role::Sidecar | Role::App, Doing::Unknown) => unknown += 1,
            (Role::App, Doing::Running { .. }) => running += 1,
            (Role::App, Doing::Waiting) => waiting += 1,
            (Role::App, Doing::Ended(end)) => {
                stopped += 1;
                final_ += usize::from(!starts_again(&spec, Role::App, container, end.exit_code));
                succeeded += usize::from(end.exit_code == 0);
            }
        }
    }
    let outcome = if stopped == succeeded { "Succeeded" } else { "Failed" };
    let phase = match () {
        () if failed => "Failed",
        () if pending > 0 || waiting > 0 => "Pending",
        () if running > 0 && unknown == 0 => "Running",
        () if running == 0 && stopped > 0 && unknown == 0 => {
            if ended && pod.metadata.deletion_timestamp.is_some() || stopped == final_ { outcome } else { "Running" }
        }
        () => "Pending",
    };
    phase.to_owned()
}
