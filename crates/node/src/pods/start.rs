//! Brings a sandbox or a container about.

use super::{
    Pods, cgroup,
    config::{self, ContainerParts, SandboxParts, uid},
    containers::{Member, member},
    now, resources,
    security::{self, Defaults},
    sources::WithFiles,
    status::addresses,
};
use crate::{
    cri::{
        CriError,
        proto::{
            CreateContainerRequest, Mount, PodSandboxConfig, RemoveContainerRequest, RunPodSandboxRequest,
            StartContainerRequest, StopContainerRequest,
        },
    },
    environment::{self, Addresses, DnsSettings, Sources},
    probes,
    volumes::{get, resource as objects_of},
};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::ResourceExt;
use net::HasFamily;
use runtime::controller::Key;
use runtime::task::beside;
use std::{
    fs, io,
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long a hook after the start may take; upstream has no limit but the Pod's end.
const POST_START: Duration = Duration::from_secs(600);

/// Why a container did not start, as its status says it.
struct StartError {
    reason: &'static str,
    message: String,
    /// Whether an event has said it already.
    told: bool,
}

impl StartError {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), told: false }
    }
}

impl Pods {
    /// Makes the Pod's cgroup and sandbox. The runtime gives it its network.
    pub(super) async fn run_sandbox(&self, pod: &Pod, attempt: u32) -> Result<(), String> {
        let config = self.sandbox_config(pod, attempt).await;
        let spec = pod.spec.clone().unwrap_or_default();
        let group = cgroup::of_pod(&self.options.folders.cgroup, resources::qos(pod), &uid(pod));
        let limits = resources::of_pod(&spec);
        self.options
            .hierarchy
            .make(&group, limits)
            .map_err(|error| format!("cannot make the cgroup {group}: {error}"))?;
        fs::create_dir_all(&config.log_directory).map_err(|error| format!("{}: {error}", config.log_directory))?;
        let runtime_handler = self.runtime_handler(&spec).await?;
        let request = RunPodSandboxRequest { config: Some(config), runtime_handler };
        // CNI plugins may wait for duplicate address detection.
        let made = self.runtime.call_within(request, Duration::from_secs(240)).await;
        made.map(drop).map_err(|error| format!("Failed to create pod sandbox: {error}"))
    }

    /// What the runtime calls the way in which a Pod is run; nothing is its usual one.
    async fn runtime_handler(&self, spec: &PodSpec) -> Result<String, String> {
        let Some(class) = spec.runtime_class_name.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(String::new());
        };
        let kind = objects_of("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses");
        let found = get(&self.client, &kind, None, class).await?;
        let found = found.ok_or_else(|| format!("RuntimeClass {class:?} not found"))?;
        Ok(found["handler"].as_str().unwrap_or_default().to_owned())
    }

    async fn sandbox_config(&self, pod: &Pod, attempt: u32) -> PodSandboxConfig {
        // A host without the file has no servers to name.
        let host = fs::read_to_string(&self.options.resolv_conf).unwrap_or_default();
        let settings = DnsSettings {
            cluster_dns: self.options.cluster_dns.clone(),
            cluster_domain: self.options.cluster_domain.clone(),
            host,
        };
        let (dns, warnings) = environment::dns(pod, &settings);
        for (reason, text) in warnings {
            self.warn(pod, None, reason, text).await;
        }
        let parts = SandboxParts {
            folders: &self.options.folders,
            attempt,
            dns,
            cluster_domain: &self.options.cluster_domain,
            port_mappings: self.options.port_mappings,
        };
        config::sandbox(pod, parts)
    }

    /// What a Pod's first addresses say about the cluster.
    pub(super) async fn greet(&self, pod: &Pod, ips: &[IpAddr]) {
        let Some(primary) = ips.first().map(HasFamily::family) else { return };
        let service = self.sources.services("default").into_iter().find(|one| one.name_any() == "kubernetes");
        let families = service.and_then(|one| one.spec.as_ref().and_then(|spec| spec.ip_families.clone()));
        let default = families.and_then(|families| families.first().cloned());
        if let Some(default) = default.filter(|family| *family != primary.to_string()) {
            let note = format!(
                "The primary address of this pod is {primary}, as its node's, and Services of this cluster are {default} by default: \
                 Services without an ipFamilyPolicy do not lead to it on its primary address"
            );
            self.warn(pod, None, "PrimaryIPFamilyMismatch", note).await;
        }
        let host = self.host_addresses();
        if config::is_host_network(pod) || host.len() == ips.len() {
            return;
        }
        if ips.len() > 1 && host.len() == 1 {
            let note = format!("podIPs {ips:?} has two families, and hostIPs {host:?} has one");
            self.warn(pod, None, "HostIPsIPFamilyMismatch", note).await;
        }
    }

    /// Starts containers one after the other, in the order of the plan.
    pub(super) fn spawn_starts(self: &Arc<Self>, pod: &Arc<Pod>, sandbox: &str, starts: Vec<(String, u32, bool)>) {
        let uid = uid(pod);
        let memory = self.memory(&uid);
        for (name, ..) in &starts {
            memory.lock().busy.insert(name.clone(), None);
        }
        let (pods, pod, sandbox) = (Arc::clone(self), Arc::clone(pod), sandbox.to_owned());
        beside("start-containers", async move {
            for (name, restarts, again) in starts {
                // A Pod that is to end meanwhile needs nothing more started.
                let gone = pods.index.pod(&uid).is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
                let outcome = if gone { Ok(()) } else { pods.start(&pod, &sandbox, &name, restarts).await };
                let mut memory = memory.lock();
                match outcome {
                    Ok(()) => {
                        memory.failures.started(&name);
                        if again && !gone {
                            memory.failures.restarted(&name, now());
                        }
                    }
                    Err(error) => {
                        tracing::info!(pod = %Key::of(&*pod), container = name, reason = error.reason, error = error.message, "container is not started");
                        memory.failures.failed(&name, error.reason, error.message, now());
                    }
                }
                memory.busy.remove(&name);
                drop(memory);
                pods.queue.add(uid.clone());
            }
        });
    }

    async fn start(&self, pod: &Arc<Pod>, sandbox: &str, name: &str, restarts: u32) -> Result<(), StartError> {
        let Some(member) = member(pod, name) else { return Ok(()) };
        let started = self.try_start(pod, sandbox, &member, restarts).await;
        if let Err(error) = started.as_ref()
            && !error.told
        {
            self.warn(pod, Some(name), "Failed", format!("Error: {}", error.message)).await;
        }
        started
    }

    async fn try_start(
        &self,
        pod: &Arc<Pod>,
        sandbox: &str,
        member: &Member<'_>,
        restarts: u32,
    ) -> Result<(), StartError> {
        let name = member.container.name.as_str();
        let image = self.pull(pod, member).await?;
        let observed = super::observe::Observed::of(&self.runtime, &uid(pod)).await;
        let observed = observed.map_err(|error| StartError::new("CreateContainerError", error.message))?;
        let found = observed.ready_sandbox().filter(|one| one.id == sandbox);
        let Some(found) = found else { return Err(StartError::new("CreateContainerError", "the sandbox is gone")) };
        let target = member.target.and_then(|target| observed.latest(target)).map(|one| one.id.clone());
        let host_ips = self.host_addresses();
        let ips = self.addresses(pod, &found.ips);
        let at = Addresses { pod_ips: &ips, host_ips: &host_ips };
        let wrong = |text: String| StartError::new("CreateContainerConfigError", text);
        let sources = WithFiles { sources: &self.sources, volumes: &self.volumes };
        let variables = environment::variables(pod, &member.container, &at, &self.options.allocatable, &sources)
            .map_err(|error| wrong(error.to_string()))?;
        let mut mounts =
            self.volumes.mounts(pod, &member.container, &variables).await.map_err(|error| wrong(error.to_string()))?;
        self.own_mounts(pod, member, &ips, &mut mounts).map_err(|error| wrong(error.to_string()))?;
        let devices = self.volumes.devices(pod, &member.container).await.map_err(|error| wrong(error.to_string()))?;
        let profiles = self.options.folders.root.join("seccomp");
        let defaults = Defaults { seccomp: self.options.seccomp_default, profiles: &profiles };
        let security = security::of_container(pod, member, &image.user, target.as_deref(), defaults).map_err(wrong)?;
        let logs = self.options.folders.logs_of(&pod.namespace().unwrap_or_default(), &pod.name_any(), &uid(pod));
        fs::create_dir_all(logs.join(name)).map_err(|error| wrong(format!("{}: {error}", logs.display())))?;
        let parts = ContainerParts {
            restarts,
            image: image.id,
            variables,
            mounts,
            devices,
            security,
            node_memory: self.options.allocatable.memory,
        };
        let config = config::container(pod, member, parts);
        let create = CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(self.sandbox_config(pod, found.attempt).await),
        };
        let made = self.runtime.call(create).await;
        let id = made.map_err(|error| StartError::new("CreateContainerError", error.message))?.container_id;
        self.normal(pod, Some(name), "Created", "Container created").await;
        if let Err(error) = self.runtime.call(StartContainerRequest { container_id: id.clone() }).await {
            self.discard(&id).await;
            return Err(StartError::new("RunContainerError", error.message));
        }
        self.normal(pod, Some(name), "Started", "Container started").await;
        self.after_start(pod, member, &id, &ips).await
    }

    /// What could not be started: the runtime may have it as ended, which is how it is told, or only as made.
    async fn discard(&self, id: &str) {
        let state = crate::cri::proto::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let made = i32::from(crate::cri::proto::ContainerState::Created);
        if self.runtime.call(state).await.is_ok_and(|answer| answer.status.is_some_and(|status| status.state == made)) {
            // It is found again and removed then.
            let _: Result<(), CriError> =
                self.runtime.end(RemoveContainerRequest { container_id: id.to_owned() }, crate::cri::PATIENCE).await;
        }
    }

    async fn after_start(
        &self,
        pod: &Arc<Pod>,
        member: &Member<'_>,
        id: &str,
        ips: &[IpAddr],
    ) -> Result<(), StartError> {
        let handler = member.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(handler) = handler else { return Ok(()) };
        let target = probes::Target { pod, container: &member.container, container_id: id, pod_ips: ips };
        if let Err(error) = probes::handle(handler, &target, &self.runtime, POST_START).await {
            let name = &member.container.name;
            self.warn(pod, Some(name), "FailedPostStartHook", "PostStartHook failed").await;
            tracing::info!(pod = %Key::of(&**pod), container = name, error, "the hook after the start failed");
            let grace = super::plan::grace(&pod.spec.clone().unwrap_or_default());
            self.normal(pod, Some(name), "Killing", "FailedPostStartHook").await;
            let stop = StopContainerRequest { container_id: id.to_owned(), timeout: grace };
            let patience = Duration::from_secs(grace.unsigned_abs()) + crate::cri::PATIENCE;
            // What still runs then is found by the next look at the Pod.
            let _ = self.runtime.end(stop, patience).await;
            return Err(StartError { reason: "PostStartHookError", message: error, told: true });
        }
        Ok(())
    }

    async fn pull(&self, pod: &Arc<Pod>, member: &Member<'_>) -> Result<super::images::Ready, StartError> {
        let container = &*member.container;
        let (name, image) = (container.name.as_str(), container.image.clone().unwrap_or_default());
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        let namespace = pod.namespace().unwrap_or_default();
        let named = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
        let secrets: Vec<_> = named.filter_map(|one| self.sources.secret(&namespace, &one.name)).collect();
        let pulling = async {
            self.normal(pod, Some(name), "Pulling", format!("Pulling image \"{image}\"")).await;
        };
        match self.images.ensure(&image, policy, &secrets, pulling).await {
            Ok(ready) => {
                if let Some(note) = &ready.note {
                    self.normal(pod, Some(name), "Pulled", note.clone()).await;
                }
                Ok(ready)
            }
            Err(error) => {
                let (reason, note) = match error.reason {
                    "ErrImageNeverPull" => ("ErrImageNeverPull", error.message.clone()),
                    "ImageInspectError" => ("InspectFailed", error.message.clone()),
                    _ => ("Failed", format!("Failed to pull image \"{image}\": {}", error.message)),
                };
                self.warn(pod, Some(name), reason, note).await;
                Err(StartError::new(error.reason, error.message))
            }
        }
    }

    /// The Pod's addresses in the order in which they are told.
    pub(super) fn addresses(&self, pod: &Pod, found: &[IpAddr]) -> Vec<IpAddr> {
        let host = self.host_addresses();
        if config::is_host_network(pod) {
            let told = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
            let told: Vec<_> = told.filter_map(|one| one.ip.parse().ok()).collect();
            return addresses::of_host(&told, &host);
        }
        addresses::of_pod(found, &host)
    }

    /// The names of hosts and the file for last words, unless the container brings its own.
    fn own_mounts(&self, pod: &Pod, member: &Member<'_>, ips: &[IpAddr], mounts: &mut Vec<Mount>) -> io::Result<()> {
        let folder = self.options.folders.of_pod(&uid(pod));
        let has = |mounts: &[Mount], path: &str| mounts.iter().any(|mount| mount.container_path == path);
        if !has(mounts, "/etc/hosts") {
            // Without it the Pod has its own names alone.
            let host = fs::read_to_string(&self.options.hosts).unwrap_or_default();
            let text = environment::hosts(pod, ips, &self.options.cluster_domain, &host);
            let file = folder.join("etc-hosts");
            write(&file, &text, 0o644)?;
            mounts.push(mount("/etc/hosts", &file));
        }
        let path = member.container.termination_message_path.as_deref().unwrap_or_default();
        if !path.is_empty() && !has(mounts, path) {
            let name = uuid::Uuid::new_v4().simple().to_string();
            let file = folder.join("containers").join(&member.container.name).join(&name[..8]);
            // Whoever the container runs as writes to it.
            write(&file, "", 0o666)?;
            mounts.push(mount(path, &file));
        }
        Ok(())
    }
}

fn mount(container: &str, host: &Path) -> Mount {
    Mount { container_path: container.to_owned(), host_path: host.display().to_string(), ..Mount::default() }
}

fn write(file: &PathBuf, text: &str, mode: u32) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(mode))
}
