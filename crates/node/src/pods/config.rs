//! A Pod as the runtime is told it: the sandbox and each container. Pure.

use super::{
    cgroup,
    containers::Member,
    labels::{GRACE, IMAGE, NAME, POD_NAME, POD_NAMESPACE, RESTARTS, TERMINATION_PATH, TERMINATION_POLICY, UID},
    plan::grace,
    resources, security,
};
use crate::{
    cri::proto::{
        ContainerConfig, ContainerMetadata, Device, DnsConfig, ImageSpec, KeyValue, LinuxContainerConfig,
        LinuxContainerSecurityContext, LinuxPodSandboxConfig, Mount, PodSandboxConfig, PodSandboxMetadata, PortMapping,
        Protocol,
    },
    environment,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Where a node keeps what belongs to Pods.
#[derive(Clone, Debug)]
pub struct Folders {
    /// `--root-dir`.
    pub root: PathBuf,
    /// `podLogsDir`.
    pub logs: PathBuf,
    /// The cgroup that all Pods are below, such as `/`.
    pub cgroup: String,
}

impl Folders {
    /// Where the volumes and files of a Pod are.
    #[must_use]
    pub fn of_pod(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    #[must_use]
    pub fn logs_of(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.logs.join(format!("{namespace}_{name}_{uid}"))
    }
}

/// What else a sandbox is made of.
#[derive(Clone, Debug)]
pub struct SandboxParts<'a> {
    pub folders: &'a Folders,
    pub attempt: u32,
    pub dns: DnsConfig,
    pub cluster_domain: &'a str,
    /// Whether somebody else's CNI plugins open host ports.
    pub port_mappings: bool,
}

pub(super) fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}

pub(super) fn is_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
}

fn metadata(pod: &Pod) -> (String, String, String) {
    (pod.namespace().unwrap_or_default(), pod.name_any(), uid(pod))
}

fn names(pod: &Pod) -> BTreeMap<String, String> {
    let (namespace, name, uid) = metadata(pod);
    BTreeMap::from([(POD_NAMESPACE.to_owned(), namespace), (POD_NAME.to_owned(), name), (UID.to_owned(), uid)])
}

pub(super) fn sandbox(pod: &Pod, parts: SandboxParts<'_>) -> PodSandboxConfig {
    let (namespace, name, uid) = metadata(pod);
    let log_directory = parts.folders.logs_of(&namespace, &name, &uid).display().to_string();
    let spec = pod.spec.clone().unwrap_or_default();
    let sysctls = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    let mut labels = pod.labels().clone();
    labels.extend(names(pod));
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata { name, uid: uid.clone(), namespace, attempt: parts.attempt }),
        hostname: if is_host_network(pod) { String::new() } else { environment::hostname(pod, parts.cluster_domain).0 },
        log_directory,
        dns_config: Some(parts.dns),
        port_mappings: if parts.port_mappings { port_mappings(pod) } else { Vec::new() },
        labels,
        annotations: pod.annotations().clone(),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: cgroup::of_pod(&parts.folders.cgroup, resources::qos(pod), &uid),
            security_context: Some(security::of_sandbox(pod)),
            sysctls: sysctls.map(|one| (one.name.clone(), one.value.clone())).collect(),
            ..LinuxPodSandboxConfig::default()
        }),
    }
}

fn port_mappings(pod: &Pod) -> Vec<PortMapping> {
    let ports = pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|one| one.ports.iter().flatten());
    let mapping = |port: &k8s_openapi::api::core::v1::ContainerPort| PortMapping {
        protocol: match port.protocol.as_deref() {
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            _ => Protocol::Tcp,
        }
        .into(),
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or_default(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    };
    ports.map(mapping).collect()
}

/// What else a container is made of.
#[derive(Clone, Debug)]
pub struct ContainerParts {
    pub restarts: u32,
    /// As the runtime names it.
    pub image: String,
    pub variables: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    pub security: LinuxContainerSecurityContext,
    /// Of the node, in bytes.
    pub node_memory: i64,
}

pub(super) fn container(pod: &Pod, member: &Member<'_>, parts: ContainerParts) -> ContainerConfig {
    let container = &*member.container;
    let (command, args) = environment::command(container, &parts.variables);
    let spec = pod.spec.clone().unwrap_or_default();
    let mut labels = names(pod);
    labels.insert(NAME.to_owned(), container.name.clone());
    let named = container.image.clone().unwrap_or_default();
    let annotations = [
        (RESTARTS, parts.restarts.to_string()),
        (TERMINATION_PATH, container.termination_message_path.clone().unwrap_or_default()),
        (TERMINATION_POLICY, container.termination_message_policy.clone().unwrap_or_default()),
        (GRACE, grace(&spec).to_string()),
        (IMAGE, named.clone()),
    ];
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: container.name.clone(), attempt: parts.restarts }),
        image: Some(ImageSpec { image: parts.image, user_specified_image: named, ..ImageSpec::default() }),
        command,
        args,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: parts.variables.into_iter().map(|(key, value)| KeyValue { key, value: value.into_bytes() }).collect(),
        mounts: parts.mounts,
        devices: parts.devices,
        labels,
        annotations: annotations.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        log_path: log_path(&container.name, parts.restarts).display().to_string(),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        linux: Some(LinuxContainerConfig {
            resources: Some(resources::to_runtime(container, pod, parts.node_memory)),
            security_context: Some(parts.security),
        }),
        ..ContainerConfig::default()
    }
}

/// The log of a container below the folder of its Pod.
pub(super) fn log_path(name: &str, restarts: u32) -> PathBuf {
    Path::new(name).join(format!("{restarts}.log"))
}
