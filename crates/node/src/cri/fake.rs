//! A runtime that keeps sandboxes and containers in memory, for tests of what talks to one.

use super::{
    Cri,
    proto::{
        Container, ContainerState, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
        CreateContainerRequest, CreateContainerResponse, Image, ImageStatusRequest, ImageStatusResponse,
        ListContainersRequest, ListContainersResponse, ListPodSandboxRequest, ListPodSandboxResponse, PodIp,
        PodSandbox, PodSandboxNetworkStatus, PodSandboxState, PodSandboxStatus, PodSandboxStatusRequest,
        PodSandboxStatusResponse, RemoveContainerRequest, RemovePodSandboxRequest, Rpc, RunPodSandboxRequest,
        RunPodSandboxResponse, StartContainerRequest, StopContainerRequest, StopPodSandboxRequest,
    },
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use prost::Message;
use std::{collections::BTreeMap, time::Duration};
use tonic::Status;

/// Sandboxes and containers by id. Time is a counter, a second for each call.
#[derive(Debug, Default)]
pub struct Fake {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sandboxes: BTreeMap<String, PodSandboxStatus>,
    containers: BTreeMap<String, FakeContainer>,
    /// Paths of the calls that changed something, in their order.
    calls: Vec<String>,
    clock: i64,
}

/// A container, and the sandbox it is in.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeContainer {
    pub sandbox: String,
    pub status: ContainerStatus,
}

impl Fake {
    /// The names of the calls that changed something, since it was last asked.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().calls)
    }

    /// Every container, oldest first.
    pub fn containers(&self) -> Vec<FakeContainer> {
        self.state.lock().containers.values().cloned().collect()
    }

    /// A container ends by itself.
    pub fn exit(&self, id: &str, code: i32) {
        let mut state = self.state.lock();
        let now = state.tick();
        if let Some(container) = state.containers.get_mut(id) {
            container.status.state = ContainerState::Exited.into();
            container.status.exit_code = code;
            container.status.finished_at = now;
        }
    }

    /// A sandbox ends by itself, with all that is in it.
    pub fn lose_sandbox(&self, id: &str) {
        if let Some(sandbox) = self.state.lock().sandboxes.get_mut(id) {
            sandbox.state = PodSandboxState::Notready.into();
        }
    }
}

impl State {
    fn tick(&mut self) -> i64 {
        self.clock += 1_000_000_000;
        self.clock
    }

    fn answer(&mut self, path: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
        let method = path.rsplit('/').next().unwrap_or_default();
        let now = self.tick();
        match path {
            RunPodSandboxRequest::PATH => {
                let config = read::<RunPodSandboxRequest>(request)?.config.unwrap_or_default();
                let id = format!("sandbox-{}", self.sandboxes.len());
                self.calls.push(method.to_owned());
                let network = PodSandboxNetworkStatus {
                    ip: "10.0.0.2".to_owned(),
                    additional_ips: vec![PodIp { ip: "fd00::2".to_owned() }],
                };
                let status = PodSandboxStatus {
                    id: id.clone(),
                    metadata: config.metadata,
                    state: PodSandboxState::Ready.into(),
                    created_at: now,
                    network: Some(network),
                    labels: config.labels,
                    annotations: config.annotations,
                    ..PodSandboxStatus::default()
                };
                self.sandboxes.insert(id.clone(), status);
                Ok(RunPodSandboxResponse { pod_sandbox_id: id }.encode_to_vec())
            }
            StopPodSandboxRequest::PATH => {
                let id = read::<StopPodSandboxRequest>(request)?.pod_sandbox_id;
                self.calls.push(method.to_owned());
                let sandbox = self.sandboxes.get_mut(&id).ok_or_else(|| Status::not_found(id))?;
                sandbox.state = PodSandboxState::Notready.into();
                Ok(Vec::new())
            }
            RemovePodSandboxRequest::PATH => {
                let id = read::<RemovePodSandboxRequest>(request)?.pod_sandbox_id;
                self.calls.push(method.to_owned());
                self.containers.retain(|_, container| container.sandbox != id);
                self.sandboxes.remove(&id).map(|_| Vec::new()).ok_or_else(|| Status::not_found(id))
            }
            PodSandboxStatusRequest::PATH => {
                let id = read::<PodSandboxStatusRequest>(request)?.pod_sandbox_id;
                let status = self.sandboxes.get(&id).cloned().ok_or_else(|| Status::not_found(id))?;
                Ok(PodSandboxStatusResponse { status: Some(status), ..PodSandboxStatusResponse::default() }
                    .encode_to_vec())
            }
            ListPodSandboxRequest::PATH => {
                let wanted = read::<ListPodSandboxRequest>(request)?.filter.unwrap_or_default().label_selector;
                let items = self.sandboxes.values().filter(|one| has(&one.labels, &wanted)).map(sandbox).collect();
                Ok(ListPodSandboxResponse { items }.encode_to_vec())
            }
            CreateContainerRequest::PATH => self.create(read(request)?, now),
            StartContainerRequest::PATH => {
                let id = read::<StartContainerRequest>(request)?.container_id;
                self.calls.push(method.to_owned());
                let container = self.containers.get_mut(&id).ok_or_else(|| Status::not_found(id))?;
                container.status.state = ContainerState::Running.into();
                container.status.started_at = now;
                Ok(Vec::new())
            }
            StopContainerRequest::PATH => {
                let id = read::<StopContainerRequest>(request)?.container_id;
                self.calls.push(method.to_owned());
                let container = self.containers.get_mut(&id).ok_or_else(|| Status::not_found(id))?;
                container.status.state = ContainerState::Exited.into();
                container.status.exit_code = 143;
                container.status.finished_at = now;
                Ok(Vec::new())
            }
            RemoveContainerRequest::PATH => {
                let id = read::<RemoveContainerRequest>(request)?.container_id;
                self.calls.push(method.to_owned());
                self.containers.remove(&id).map(|_| Vec::new()).ok_or_else(|| Status::not_found(id))
            }
            ListContainersRequest::PATH => {
                let wanted = read::<ListContainersRequest>(request)?.filter.unwrap_or_default().label_selector;
                let all = self.containers.values().filter(|one| has(&one.status.labels, &wanted));
                Ok(ListContainersResponse { containers: all.map(container).collect() }.encode_to_vec())
            }
            ContainerStatusRequest::PATH => {
                let id = read::<ContainerStatusRequest>(request)?.container_id;
                let container = self.containers.get(&id).ok_or_else(|| Status::not_found(id))?;
                let status = Some(container.status.clone());
                Ok(ContainerStatusResponse { status, ..ContainerStatusResponse::default() }.encode_to_vec())
            }
            ImageStatusRequest::PATH => {
                let name = read::<ImageStatusRequest>(request)?.image.unwrap_or_default().image;
                let image = Image { id: format!("sha256:{name}"), repo_tags: vec![name], ..Image::default() };
                let answer = ImageStatusResponse { image: Some(image), ..ImageStatusResponse::default() };
                Ok(answer.encode_to_vec())
            }
            other => Err(Status::unimplemented(other.to_owned())),
        }
    }

    fn create(&mut self, request: CreateContainerRequest, now: i64) -> Result<Vec<u8>, Status> {
        let config = request.config.unwrap_or_default();
        let id = format!("container-{:03}", self.clock / 1_000_000_000);
        self.calls.push("CreateContainer".to_owned());
        let status = ContainerStatus {
            id: id.clone(),
            metadata: config.metadata,
            state: ContainerState::Created.into(),
            created_at: now,
            image: config.image.clone(),
            image_ref: config.image.map(|image| image.image).unwrap_or_default(),
            labels: config.labels,
            annotations: config.annotations,
            mounts: config.mounts,
            log_path: config.log_path,
            ..ContainerStatus::default()
        };
        self.containers.insert(id.clone(), FakeContainer { sandbox: request.pod_sandbox_id, status });
        Ok(CreateContainerResponse { container_id: id }.encode_to_vec())
    }
}

fn read<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn has(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

fn sandbox(status: &PodSandboxStatus) -> PodSandbox {
    PodSandbox {
        id: status.id.clone(),
        metadata: status.metadata.clone(),
        state: status.state,
        created_at: status.created_at,
        labels: status.labels.clone(),
        annotations: status.annotations.clone(),
        ..PodSandbox::default()
    }
}

fn container(one: &FakeContainer) -> Container {
    Container {
        id: one.status.id.clone(),
        pod_sandbox_id: one.sandbox.clone(),
        metadata: one.status.metadata.clone(),
        image: one.status.image.clone(),
        state: one.status.state,
        created_at: one.status.created_at,
        labels: one.status.labels.clone(),
        annotations: one.status.annotations.clone(),
        ..Container::default()
    }
}

impl Cri for Fake {
    fn call(&self, path: &'static str, request: Vec<u8>, _: Duration) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        Box::pin(async move { self.state.lock().answer(path, &request) })
    }
}
