//! Volumes of Pods: what they are made from, where they are, and how they go away again.
//!
//! `mount` asks for what a Pod's volumes need (claims, tokens, drivers), `payload` says which files they hold, `set_up` brings it
//! about. Everything that is known later is read from the folder of the Pod: a kubelet that was cut off takes up where it stopped.

mod asked;
mod atomic;
mod claims;
mod container;
mod csi;
mod file;
mod folder;
mod host_path;
mod ownership;
mod payload;
mod set_up;
mod subpath;
#[cfg(test)]
mod tests;
mod tokens;
mod usage;

pub(crate) use claims::{get, resource};
pub use file::{File, Files};
pub use usage::VolumeUsage;

use crate::{
    cri::Runtime,
    environment::{Addresses, Allocatable, Sources},
};
use api::kinds::quantity;
use claims::Source;
use csi::Csi;
use folder::Root;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, Volume};
use kube::Client;
use payload::Given;
use set_up::{Group, Medium, SetUp};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};
use tokens::Tokens;
use tokio_util::sync::CancellationToken;

/// Why a Pod's volumes are not ready: one sentence for each, as upstream's `FailedMount` has it. Retried.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct VolumeError(pub String);

/// Where volumes are and what they are made from.
pub struct VolumesOptions {
    pub client: Client,
    /// `--root-dir`.
    pub root: PathBuf,
    pub node_name: String,
    pub runtime: Runtime,
    pub allocatable: Allocatable,
}

/// The volumes of this node.
pub struct Volumes {
    client: Client,
    root: Root,
    allocatable: Allocatable,
    sources: Arc<dyn Sources + Send + Sync>,
    tokens: Arc<Tokens>,
    csi: Csi,
    /// Whether the runtime can mount all below a folder without writing.
    recursive_read_only: std::sync::atomic::AtomicBool,
}

impl Volumes {
    pub fn new(options: VolumesOptions, sources: Arc<dyn Sources + Send + Sync>) -> Self {
        let VolumesOptions { client, root, node_name, runtime: _, allocatable } = options;
        let (root, tokens) = (Root(root), Arc::new(Tokens::new(client.clone())));
        let csi = Csi::new(root.clone(), client.clone(), node_name, Arc::clone(&tokens));
        Self { client, root, allocatable, sources, tokens, csi, recursive_read_only: false.into() }
    }

    /// Says what the runtime's handler can do (`RuntimeHandlerFeatures`).
    pub fn set_recursive_read_only(&self, able: bool) {
        self.recursive_read_only.store(able, std::sync::atomic::Ordering::Relaxed);
    }

    /// Follows CSI drivers as they come and go, until `stop`.
    pub async fn follow_drivers(&self, stop: CancellationToken) {
        if let Err(error) = csi::prepare(&self.root) {
            tracing::warn!(%error, "drivers cannot register");
        }
        self.csi.follow(stop).await;
    }

    /// Makes what is missing and renews what changed.
    pub async fn mount(&self, pod: &Pod, _addresses: &Addresses<'_>) -> Result<(), VolumeError> {
        let used = used(pod);
        let mut problems = Vec::new();
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let group = group(pod);
        for volume in volumes.filter(|volume| used.contains(volume.name.as_str())) {
            let done = match self.wanted(pod, volume).await {
                Ok(wanted) => {
                    let stamp = Timestamp::now().strftime("%Y_%m_%d_%H_%M_%S").to_string();
                    let applied = tokio::task::spawn_blocking(move || wanted.apply(group, &stamp)).await;
                    applied.map_err(|error| error.to_string()).and_then(|applied| applied)
                }
                Err(problem) => Err(problem),
            };
            if let Err(problem) = done {
                problems.push(format!("MountVolume.SetUp failed for volume {:?} : {problem}", volume.name));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(VolumeError(problems.join("; "))) }
    }

    /// Asks for all that a volume needs.
    async fn wanted(&self, pod: &Pod, volume: &Volume) -> Result<SetUp, String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if let Some(source) = &volume.empty_dir {
            let at = self.root.volume(uid, "empty-dir", &volume.name);
            return Ok(SetUp::EmptyDir { at, medium: medium(source, pod, &self.allocatable)? });
        }
        if let Some(source) = &volume.host_path {
            return Ok(SetUp::HostPath {
                path: source.path.clone().into(),
                kind: source.type_.clone().unwrap_or_default(),
            });
        }
        let asked = match &volume.projected {
            Some(source) => self.asked(pod, source).await?,
            None => BTreeMap::new(),
        };
        let (sources, allocatable) = (self.sources.as_ref(), &self.allocatable);
        let given = Given { pod, allocatable, sources, asked: &asked };
        if let Some(files) = payload::files(volume, &given) {
            let kind = kind_of(volume);
            let at = self.root.volume(uid, kind, &volume.name);
            return Ok(SetUp::Files { at, files: files?, in_memory: kind != "configmap" });
        }
        if let Some(source) = &volume.csi {
            self.csi.publish_inline(pod, &volume.name, source).await?;
            return Ok(SetUp::Elsewhere);
        }
        if volume.image.is_some() {
            return Ok(SetUp::Elsewhere);
        }
        let Some((claim, made_for, read_only)) = claim_of(pod, volume) else {
            return Err("this kind of volume is not known here; accepted are configMap, csi, downwardAPI, emptyDir, ephemeral, hostPath, image, \
                        persistentVolumeClaim, projected, secret"
                .to_owned());
        };
        let found = claims::find(&self.client, pod, &claim, made_for).await?;
        match &found.source {
            Source::HostPath { path, kind } => Ok(SetUp::HostPath { path: path.into(), kind: kind.clone() }),
            // Shown to the container as the device that it is.
            Source::Local { path } if found.block => {
                Ok(SetUp::HostPath { path: path.into(), kind: "BlockDevice".to_owned() })
            }
            Source::Local { path } => {
                let at = self.root.volume(uid, "local-volume", &found.name);
                Ok(SetUp::Local { path: path.into(), at, read_only })
            }
            Source::Csi(source) => {
                self.csi.publish_persistent(pod, &found, source, read_only).await?;
                Ok(SetUp::Elsewhere)
            }
        }
    }

    /// Takes back and removes everything of a Pod, by what its folder says alone.
    pub async fn unmount(&self, uid: &str) -> Result<(), VolumeError> {
        if uid.is_empty() || uid.contains('/') || uid.starts_with('.') {
            return Err(VolumeError(format!("{uid:?} is no uid of a Pod")));
        }
        self.tokens.forget(uid);
        self.csi.unpublish_all(uid).await.map_err(VolumeError)?;
        let folder = self.root.pod(uid);
        let removed = tokio::task::spawn_blocking(move || set_up::tear_down(&folder)).await;
        let removed =
            removed.map_err(|error| error.to_string()).and_then(|removed| removed.map_err(|error| error.to_string()));
        removed.map_err(|error| VolumeError(format!("volumes of pod {uid} cannot be removed: {error}")))
    }

    /// Pods that have a folder.
    pub fn uids(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.pods()).into_iter().flatten().filter_map(Result::ok);
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Upstream's name of the plugin, by which folders are called.
fn kind_of(volume: &Volume) -> &'static str {
    if volume.config_map.is_some() {
        "configmap"
    } else if volume.secret.is_some() {
        "secret"
    } else if volume.downward_api.is_some() {
        "downward-api"
    } else if volume.projected.is_some() {
        "projected"
    } else {
        "empty-dir"
    }
}

/// The claim of a volume, the volume that it was made for if it was, and whether it is only read.
fn claim_of<'a>(pod: &Pod, volume: &'a Volume) -> Option<(String, Option<&'a str>, bool)> {
    if let Some(source) = &volume.persistent_volume_claim {
        return Some((source.claim_name.clone(), None, source.read_only.unwrap_or_default()));
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    volume.ephemeral.as_ref().map(|_| (format!("{name}-{}", volume.name), Some(volume.name.as_str()), false))
}

/// Names of the volumes that a container mounts, has as a device, or reads variables from. Others are never made.
fn used(pod: &Pod) -> BTreeSet<&str> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for container in containers {
        found.extend(container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()));
        found.extend(container.volume_devices.iter().flatten().map(|device| device.name.as_str()));
        let files =
            container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()?.file_key_ref.as_ref());
        found.extend(files.map(|file| file.volume_name.as_str()));
    }
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    found.extend(ephemeral.flat_map(|one| one.volume_mounts.iter().flatten()).map(|mount| mount.name.as_str()));
    found
}

fn group(pod: &Pod) -> Group {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let id = context.and_then(|context| context.fs_group).and_then(|group| u32::try_from(group).ok());
    let policy = context.and_then(|context| context.fs_group_change_policy.as_deref());
    Group { id, on_root_mismatch: policy == Some("OnRootMismatch") }
}

fn medium(source: &EmptyDirVolumeSource, pod: &Pod, allocatable: &Allocatable) -> Result<Medium, String> {
    let bytes = |text: &str| quantity::nanos(text).and_then(|nanos| u64::try_from(nanos / 1_000_000_000).ok());
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Medium::Disk),
        "Memory" => {
            let limit = source.size_limit.as_ref().and_then(|limit| bytes(&limit.0)).filter(|limit| *limit > 0);
            let node = u64::try_from(allocatable.memory).ok().filter(|memory| *memory > 0);
            // Never more than the Pod may use, nor than the node has.
            Ok(Medium::Memory([limit, memory_limit(pod, bytes), node].into_iter().flatten().min()))
        }
        other => match other.strip_prefix("HugePages-").and_then(bytes) {
            Some(size) => Ok(Medium::HugePages(size)),
            None => Err(format!(
                "emptyDir.medium {other:?} is not known; accepted are \"\", \"Memory\" and \"HugePages-<size>\""
            )),
        },
    }
}

/// What all containers together may use, if each has a limit.
fn memory_limit(pod: &Pod, bytes: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let containers = pod.spec.as_ref()?.containers.iter();
    let limits = containers.map(|one| bytes(&one.resources.as_ref()?.limits.as_ref()?.get("memory")?.0));
    limits.sum::<Option<u64>>().filter(|limit| *limit > 0)
}
