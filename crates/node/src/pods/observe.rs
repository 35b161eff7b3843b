//! What the runtime has of a Pod: its sandboxes and containers, newest first.

use super::{
    containers::text,
    labels::{IMAGE, NAME, RESTARTS, TERMINATION_PATH, TERMINATION_POLICY, UID},
    termination,
};
use crate::cri::{
    CriError, Runtime,
    proto::{
        ContainerFilter, ContainerState, ContainerStatus, ContainerStatusRequest, ListContainersRequest,
        ListPodSandboxRequest, PodSandboxFilter, PodSandboxState, PodSandboxStatus, PodSandboxStatusRequest,
    },
};
use jiff::Timestamp;
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

/// The sandboxes and containers of one Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Newest first.
    pub sandboxes: Vec<Sandbox>,
    /// Newest first.
    pub containers: Vec<ObservedContainer>,
}

/// What the containers of a Pod share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sandbox {
    pub id: String,
    pub attempt: u32,
    pub ready: bool,
    /// In the runtime's order.
    pub ips: Vec<IpAddr>,
    /// Who it says it is, for one whose Pod nobody knows.
    pub namespace: String,
    pub name: String,
    pub created: i64,
}

/// Where a container is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Created,
    Running,
    Exited,
    /// The runtime cannot tell.
    Unknown,
}

/// A container as the runtime tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedContainer {
    pub id: String,
    pub sandbox: String,
    pub name: String,
    pub state: State,
    /// How often the container of this name had been restarted before it.
    pub restarts: u32,
    pub created: i64,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    /// The name that the Pod has for its image.
    pub image: String,
    /// The image as the runtime names it.
    pub image_ref: String,
    pub log: PathBuf,
}

impl Observed {
    /// Everything about the Pod of this uid.
    pub async fn of(runtime: &Runtime, uid: &str) -> Result<Self, CriError> {
        let label_selector = BTreeMap::from([(UID.to_owned(), uid.to_owned())]);
        let filter = PodSandboxFilter { label_selector: label_selector.clone(), ..PodSandboxFilter::default() };
        let listed = runtime.call(ListPodSandboxRequest { filter: Some(filter) }).await?.items;
        let mut sandboxes = Vec::new();
        for one in listed {
            let request = PodSandboxStatusRequest { pod_sandbox_id: one.id, verbose: false };
            match runtime.call(request).await {
                Ok(answer) => sandboxes.extend(answer.status.map(sandbox)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let filter = ContainerFilter { label_selector, ..ContainerFilter::default() };
        let listed = runtime.call(ListContainersRequest { filter: Some(filter) }).await?.containers;
        let mut containers = Vec::new();
        for one in listed {
            let request = ContainerStatusRequest { container_id: one.id, verbose: false };
            match runtime.call(request).await {
                Ok(answer) => containers.extend(answer.status.map(|status| container(status, one.pod_sandbox_id))),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        sandboxes.sort_by_key(|one| std::cmp::Reverse((one.attempt, one.created)));
        containers.sort_by_key(|one| std::cmp::Reverse((one.restarts, one.created)));
        Ok(Self { sandboxes, containers })
    }

    /// The sandbox that counts, if it works.
    #[must_use]
    pub fn ready_sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first().filter(|sandbox| sandbox.ready)
    }

    /// The container of this name that was made last.
    #[must_use]
    pub fn latest(&self, name: &str) -> Option<&ObservedContainer> {
        self.containers.iter().find(|one| one.name == name)
    }

    /// The same in one sandbox alone.
    #[must_use]
    pub fn latest_in(&self, name: &str, sandbox: &str) -> Option<&ObservedContainer> {
        self.containers.iter().find(|one| one.name == name && one.sandbox == sandbox)
    }

    /// Those that may have processes.
    pub fn alive(&self) -> impl Iterator<Item = &ObservedContainer> {
        self.containers.iter().filter(|one| matches!(one.state, State::Running | State::Unknown))
    }
}

fn sandbox(status: PodSandboxStatus) -> Sandbox {
    let ready = status.state == i32::from(PodSandboxState::Ready);
    let network = status.network.unwrap_or_default();
    let more = network.additional_ips.into_iter().map(|one| one.ip);
    let ips = std::iter::once(network.ip).chain(more).filter_map(|text| text.parse().ok()).collect();
    let metadata = status.metadata.unwrap_or_default();
    Sandbox {
        id: status.id,
        attempt: metadata.attempt,
        ready,
        ips,
        namespace: metadata.namespace,
        name: metadata.name,
        created: status.created_at,
    }
}

fn container(status: ContainerStatus, sandbox: String) -> ObservedContainer {
    let state = match ContainerState::try_from(status.state) {
        Ok(ContainerState::Created) => State::Created,
        Ok(ContainerState::Running) => State::Running,
        Ok(ContainerState::Exited) => State::Exited,
        Ok(ContainerState::Unknown) | Err(_) => State::Unknown,
    };
    let metadata = status.metadata.unwrap_or_default();
    let log = PathBuf::from(status.log_path);
    let mut message = status.message;
    if state == State::Exited {
        let path = text(&status.annotations, TERMINATION_PATH);
        let file = status.mounts.iter().find(|mount| !path.is_empty() && mount.container_path == path);
        let told = termination::message(
            file.map(|mount| mount.host_path.as_ref()),
            text(&status.annotations, TERMINATION_POLICY),
            status.exit_code,
            &log,
        );
        if let Some(told) = told {
            message = told;
        }
    }
    let image = status.image.map(|image| image.image).unwrap_or_default();
    let named = text(&status.annotations, IMAGE);
    ObservedContainer {
        id: status.id,
        sandbox,
        name: status.labels.get(NAME).cloned().unwrap_or(metadata.name),
        state,
        restarts: text(&status.annotations, RESTARTS).parse().unwrap_or(metadata.attempt),
        created: status.created_at,
        started: time(status.started_at),
        finished: time(status.finished_at),
        exit_code: status.exit_code,
        reason: status.reason,
        message,
        image: if named.is_empty() { image } else { named.to_owned() },
        image_ref: status.image_ref,
        log,
    }
}

/// Nanoseconds of the runtime; zero is never.
fn time(nanoseconds: i64) -> Option<Timestamp> {
    // The API has whole seconds.
    (nanoseconds > 0).then(|| Timestamp::from_second(nanoseconds / 1_000_000_000).ok()).flatten()
}
