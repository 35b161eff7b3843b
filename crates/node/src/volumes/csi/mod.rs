//! Volumes of CSI drivers: staged once on the node, published to each Pod, over the driver's own socket.
//!
//! What was published lies beside the volume (`vol_data.json`, as upstream writes it), so that it can be taken back by a kubelet that
//! knows nothing else of the Pod. A driver makes itself known by a socket in `plugins_registry`.

mod kept;
mod proto;
mod register;
mod request;
#[cfg(test)]
mod tests;

use super::{
    claims::{self, Persistent},
    folder::Root,
    ownership::{Change, Ownership},
    tokens::{Tokens, Wanted},
};
use crate::cri::{Runtime, proto::Rpc};
use k8s_openapi::api::core::v1::{CSIVolumeSource, Pod};
use kept::{PublishedVolume, StagedVolume, digest};
use kube::Client;
use parking_lot::Mutex;
use proto::{
    NodeGetCapabilitiesRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest, RpcType,
};
use request::{Driver, Volume};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// As upstream's limit on one call; the next sync tries again.
const PATIENCE: Duration = Duration::from_secs(120);

/// The drivers of this node.
pub(super) struct Csi {
    root: Root,
    client: Client,
    node: String,
    tokens: Arc<Tokens>,
    /// Sockets by the name of the driver.
    known: Mutex<BTreeMap<String, Runtime>>,
    /// Registrations by the socket that they came through, with when it was made.
    seen: Mutex<BTreeMap<PathBuf, (String, Option<std::time::SystemTime>)>>,
    /// Staging and unstaging of one volume must not overtake each other.
    staging: tokio::sync::Mutex<()>,
}

impl Csi {
    pub(super) fn new(root: Root, client: Client, node: String, tokens: Arc<Tokens>) -> Self {
        let (known, seen) = (Mutex::default(), Mutex::default());
        Self { root, client, node, tokens, known, seen, staging: tokio::sync::Mutex::default() }
    }

    async fn call<R: Rpc>(&self, driver: &str, request: R) -> Result<R::Answer, String> {
        if !self.known.lock().contains_key(driver) {
            self.discover().await;
        }
        let socket = self.known.lock().get(driver).cloned();
        let socket =
            socket.ok_or_else(|| format!("driver name {driver} not found in the list of registered CSI drivers"))?;
        let answer = socket.call_within(request, PATIENCE).await;
        answer.map_err(|error| format!("{}: {}", R::PATH, error.message))
    }

    async fn can(&self, driver: &str) -> Result<Vec<i32>, String> {
        let answer = self.call(driver, NodeGetCapabilitiesRequest {}).await?;
        Ok(answer.capabilities.into_iter().filter_map(|one| one.rpc).map(|rpc| rpc.r#type).collect())
    }

    /// A volume of the Pod itself, which lives as long as the Pod.
    pub(super) async fn publish_inline(
        &self,
        pod: &Pod,
        name: &str,
        source: &CSIVolumeSource,
    ) -> Result<PathBuf, String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let handle = format!("csi-{}", digest(&format!("{uid}{name}")));
        let secret = source.node_publish_secret_ref.as_ref().map(|secret| secret.name.clone());
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let volume = Volume {
            handle,
            name: name.to_owned(),
            read_only: source.read_only.unwrap_or_default(),
            fs_type: source.fs_type.clone().unwrap_or_default(),
            attributes: source.volume_attributes.clone().unwrap_or_default(),
            ephemeral: true,
            block: false,
            access_modes: Vec::new(),
            mount_options: Vec::new(),
            stage_secret: None,
            publish_secret: secret.map(|name| (namespace, name)),
        };
        self.publish(pod, &source.driver, volume).await
    }

    /// A volume that a claim is bound to.
    pub(super) async fn publish_persistent(
        &self,
        pod: &Pod,
        found: &Persistent,
        source: &Value,
        read_only: bool,
    ) -> Result<PathBuf, String> {
        let driver = source["driver"].as_str().unwrap_or_default();
        self.publish(pod, driver, Volume::read(found, source, read_only)).await
    }

    async fn publish(&self, pod: &Pod, driver_name: &str, volume: Volume) -> Result<PathBuf, String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let target = match volume.block {
            true => self.root.published_device(uid, &volume.name),
            false => self.root.published(uid, &volume.name),
        };
        let beside = self.root.volume(uid, "csi", &volume.name);
        let driver = self.driver(driver_name).await?;
        let done = kernel::mount::is_mounted(&target).map_err(|error| error.to_string())?;
        if done && !driver.requires_republish {
            return Ok(target);
        }
        let publish_context = match driver.attach_required && !volume.ephemeral {
            true => self.attached(driver_name, &volume.name).await?,
            false => BTreeMap::new(),
        };
        let can = self.can(driver_name).await?;
        let has = |capability: RpcType| can.contains(&(capability as i32));
        let group = request::fs_group(pod);
        let mount_group = group.filter(|_| has(RpcType::VolumeMountGroup)).map(|group| group.to_string());
        let capability = volume.capability(mount_group.as_deref(), has(RpcType::SingleNodeMultiWriter));
        let _order = self.staging.lock().await;
        let mut staging_target_path = String::new();
        if has(RpcType::StageUnstageVolume) && !volume.ephemeral {
            let staged = StagedVolume { driver: driver_name.to_owned(), handle: volume.handle.clone() };
            let folder = staged.folder(&self.root);
            let place = folder.join("globalmount");
            staging_target_path = place.display().to_string();
            // Written before the call: a stage that was cut off is still taken back.
            written(fs::create_dir_all(&place).and_then(|()| staged.write(&folder)))?;
            let request = NodeStageVolumeRequest {
                volume_id: volume.handle.clone(),
                publish_context: publish_context.clone(),
                staging_target_path: staging_target_path.clone(),
                volume_capability: Some(capability.clone()),
                secrets: self.secret(volume.stage_secret.as_ref()).await?,
                volume_context: volume.attributes.clone(),
            };
            self.call(driver_name, request).await?;
        }
        let published = PublishedVolume {
            name: volume.name.clone(),
            handle: volume.handle.clone(),
            driver: driver_name.to_owned(),
            node: self.node.clone(),
            ephemeral: volume.ephemeral,
            block: volume.block,
        };
        written(fs::create_dir_all(&beside).and_then(|()| published.write(&beside)))?;
        let mut volume_context = volume.attributes.clone();
        if driver.pod_info_on_mount {
            volume_context.extend(request::pod_info(pod, volume.ephemeral));
        }
        if !driver.tokens.is_empty() {
            volume_context.insert(
                "csi.storage.k8s.io/serviceAccount.tokens".to_owned(),
                self.service_account(pod, &driver).await?,
            );
        }
        let request = NodePublishVolumeRequest {
            volume_id: volume.handle.clone(),
            publish_context,
            staging_target_path,
            target_path: target.display().to_string(),
            volume_capability: Some(capability),
            readonly: volume.read_only,
            secrets: self.secret(volume.publish_secret.as_ref()).await?,
            volume_context,
        };
        self.call(driver_name, request).await?;
        if let Some(group) = group.filter(|_| mount_group.is_none() && !done && driver.changes_group(&volume)) {
            let change = if request::on_root_mismatch(pod) { Change::OnRootMismatch } else { Change::Always };
            let ownership = Ownership { group, read_only: volume.read_only, change };
            let root = target.clone();
            let changed = tokio::task::spawn_blocking(move || ownership.apply(&root)).await;
            written(changed.map_err(io::Error::other).and_then(|changed| changed))?;
        }
        Ok(target)
    }

    /// Takes back everything that was published to a Pod, and unstages what no Pod uses any more.
    pub(super) async fn unpublish_all(&self, uid: &str) -> Result<(), String> {
        for beside in kept::of_pod(&self.root, uid) {
            let Some(published) = PublishedVolume::read(&beside) else { continue };
            let target = beside.join(if published.block { "device" } else { "mount" });
            let _order = self.staging.lock().await;
            let request = NodeUnpublishVolumeRequest {
                volume_id: published.handle.clone(),
                target_path: target.display().to_string(),
            };
            self.call(&published.driver, request).await?;
            // A driver that left a mount behind must not have its data removed below.
            if kernel::mount::is_mounted(&target).map_err(|error| error.to_string())? {
                written(kernel::mount::detach(&target))?;
            }
            let _ = fs::remove_dir(&target).or_else(|_| fs::remove_file(&target));
            written(fs::remove_dir_all(&beside))?;
            self.unstage(&published).await?;
        }
        Ok(())
    }

    async fn unstage(&self, published: &PublishedVolume) -> Result<(), String> {
        let staged = StagedVolume { driver: published.driver.clone(), handle: published.handle.clone() };
        let folder = staged.folder(&self.root);
        if published.ephemeral || !folder.exists() || kept::is_used(&self.root, published) {
            return Ok(());
        }
        let place = folder.join("globalmount");
        let request =
            NodeUnstageVolumeRequest { volume_id: staged.handle, staging_target_path: place.display().to_string() };
        self.call(&staged.driver, request).await?;
        if kernel::mount::is_mounted(&place).map_err(|error| error.to_string())? {
            return Err(format!("{} is still mounted after it was unstaged", place.display()));
        }
        written(fs::remove_dir_all(&folder))
    }

    /// What the cluster says of a driver; one that nobody has described attaches and wants nothing special.
    async fn driver(&self, name: &str) -> Result<Driver, String> {
        let kind = claims::resource("storage.k8s.io", "v1", "CSIDriver", "csidrivers");
        Ok(Driver::read(claims::get(&self.client, &kind, None, name).await?.as_ref()))
    }

    /// What the attacher has to tell the driver; an error until it has attached the volume.
    async fn attached(&self, driver: &str, volume: &str) -> Result<BTreeMap<String, String>, String> {
        let kind = claims::resource("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments");
        request::attachment(&claims::list(&self.client, &kind).await?, driver, &self.node, volume)
    }

    async fn secret(&self, named: Option<&(String, String)>) -> Result<BTreeMap<String, String>, String> {
        let Some((namespace, name)) = named else { return Ok(BTreeMap::new()) };
        let kind = claims::resource("", "v1", "Secret", "secrets");
        let found = claims::get(&self.client, &kind, Some(namespace), name).await?;
        let found = found.ok_or_else(|| format!("secret {namespace}/{name} not found"))?;
        Ok(request::decoded(&found))
    }

    /// Tokens of the Pod's service account for the audiences that the driver asks for.
    async fn service_account(&self, pod: &Pod, driver: &Driver) -> Result<String, String> {
        let mut tokens = serde_json::Map::new();
        for (audience, seconds) in &driver.tokens {
            let wanted = Wanted::new(pod, Some(audience), *seconds);
            let (token, expires) = self.tokens.get(&wanted).await?;
            let value = serde_json::json!({"token": token, "expirationTimestamp": expires.to_string()});
            tokens.insert(audience.clone(), value);
        }
        Ok(Value::Object(tokens).to_string())
    }
}

fn written(done: io::Result<()>) -> Result<(), String> {
    done.map_err(|error| error.to_string())
}

/// Where drivers put their sockets, for whoever shows it.
pub(super) fn prepare(root: &Root) -> io::Result<()> {
    for folder in [root.registrations(), root.0.join("plugins")] {
        fs::create_dir_all::<&Path>(&folder)?;
    }
    Ok(())
}
