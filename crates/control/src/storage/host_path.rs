//! `host-path-provisioner-controller`: volumes that are folders on this machine, for classes of the provisioner
//! `twinstack.dev/host-path`.
//!
//! A folder is `<dir>/<node>/<volume>`. The volume can be used on its node alone: the one that the scheduler chose, or the first
//! that is ready where a claim does not wait. A folder is made before its volume and taken away before it. A claim grows by a new
//! number, for a folder has no size.

use super::{
    PROVISIONED_BY, SELECTED_NODE, Which, amount, bind::provisioned_by, class_of, selected_node, volume_of,
    waits_for_consumer,
};
use crate::framework::{Context, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work};
use k8s_openapi::{
    api::{
        core::v1::{Node, PersistentVolume, PersistentVolumeClaim},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The name of this provisioner in classes.
pub const PROVISIONER: &str = "twinstack.dev/host-path";
/// The class that `up` makes.
pub const CLASS: &str = "standard";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The class `standard`: for claims that name none.
#[must_use]
pub fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}

struct Provisioner {
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    classes: Store<StorageClass>,
    nodes: Store<Node>,
    client: Client,
    events: Events,
    dir: PathBuf,
}

/// Runs until it is dropped; ends at once when there is no folder for volumes.
pub(super) async fn run(context: Context) -> Result<()> {
    let Some(dir) = context.options().storage.host_path_dir.clone() else { return Ok(()) };
    let (claims, volumes) = (context.store::<PersistentVolumeClaim>(), context.store::<PersistentVolume>());
    let (classes, nodes) = (context.store::<StorageClass>(), context.store::<Node>());
    let queue: Queue<Which> = context.queue("host-path-provisioner");
    context.synced(&[&claims, &volumes, &classes, &nodes]).await;
    let _claims = claims.on_change({
        let queue = queue.clone();
        move |change| queue.add(Which::Claim(change.key()))
    });
    let _volumes = volumes.on_change({
        let queue = queue.clone();
        move |change| queue.add(Which::Volume(change.key()))
    });
    let _classes = classes.on_change({
        let (queue, claims) = (queue.clone(), claims.clone());
        move |_| claims.all().iter().for_each(|claim| queue.add(Which::Claim(Key::of(&**claim))))
    });
    let events = context.events(PROVISIONER);
    let client = context.client();
    work(&queue, 2, &Provisioner { claims, volumes, classes, nodes, client, events, dir }).await
}

impl Reconcile for Provisioner {
    type Key = Which;

    async fn reconcile(&self, which: &Which) -> Result<Next> {
        match which {
            Which::Claim(key) => match self.claims.get(key) {
                Some(claim) if volume_of(&claim).is_empty() => self.provision(&claim).await?,
                Some(claim) => self.grow(&claim).await?,
                None => {}
            },
            Which::Volume(key) => {
                if let Some(volume) = self.volumes.get(key).filter(|volume| is_ours(volume)) {
                    self.clear(&volume).await?;
                }
            }
        }
        Ok(Next::Done)
    }
}

fn is_ours(volume: &PersistentVolume) -> bool {
    provisioned_by(&volume.metadata.annotations) == Some(PROVISIONER)
}

impl Provisioner {
    async fn provision(&self, claim: &PersistentVolumeClaim) -> Result<()> {
        let class = self.classes.get(&Key::cluster(class_of(claim))).filter(|class| class.provisioner == PROVISIONER);
        let Some(class) = class.filter(|_| claim.metadata.deletion_timestamp.is_none()) else { return Ok(()) };
        let chosen = selected_node(claim);
        if waits_for_consumer(&class) && chosen.is_none() {
            return Ok(());
        }
        let name = format!("pvc-{}", claim.uid().unwrap_or_default());
        if self.volumes.get(&Key::cluster(&name)).is_some() {
            return Ok(());
        }
        let nodes = self.nodes.all();
        let node = match chosen {
            Some(name) => nodes.iter().find(|node| node.name_any() == name),
            None => nodes.iter().filter(|node| is_open(node)).min_by_key(|node| node.name_any()),
        };
        let Some(node) = node else {
            let note = match chosen {
                Some(name) => format!("failed to provision volume: node {name:?} is gone"),
                None => "failed to provision volume: no node is ready".to_owned(),
            };
            self.events.warning(&reference(claim), "ProvisioningFailed", &*note).await;
            if chosen.is_some() {
                // The scheduler chooses again.
                let api: Api<PersistentVolumeClaim> =
                    Api::namespaced(self.client.clone(), &claim.namespace().unwrap_or_default());
                let patch = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
                self.claims
                    .remember(api.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?);
                return Ok(());
            }
            return Err(note.into());
        };
        let note = format!(
            "External provisioner is provisioning volume for claim \"{}/{}\"",
            claim.namespace().unwrap_or_default(),
            claim.name_any()
        );
        self.events.normal(&reference(claim), "Provisioning", note).await;
        let path = self.dir.join(node.name_any()).join(&name);
        if let Err(error) = make_folder(&path) {
            let note = format!("failed to provision volume: {}: {error}", path.display());
            self.events.warning(&reference(claim), "ProvisioningFailed", &*note).await;
            return Err(note.into());
        }
        let volume = volume(&name, claim, &class, node, &path)?;
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        match api.create(&PostParams::default(), &volume).await {
            Ok(made) => self.volumes.remember(made),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        let note = format!("Successfully provisioned volume {name}");
        self.events.normal(&reference(claim), "ProvisioningSucceeded", note).await;
        Ok(())
    }

    /// A volume without a claim goes, with its folder, if its class says so.
    async fn clear(&self, volume: &PersistentVolume) -> Result<()> {
        let spec = volume.spec.clone().unwrap_or_default();
        let released = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released");
        if !released || spec.persistent_volume_reclaim_policy.as_deref() != Some("Delete") {
            return Ok(());
        }
        let path = spec.host_path.map(|source| PathBuf::from(source.path)).unwrap_or_default();
        // Nothing but what was made here, whatever the volume says.
        if path.parent().and_then(Path::parent) == Some(&self.dir)
            && let Err(error) = remove_folder(&path)
        {
            let note = format!("{}: {error}", path.display());
            self.events.warning(&reference(volume), "VolumeFailedDelete", &*note).await;
            return Err(note.into());
        }
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        match api.delete(&volume.name_any(), &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn grow(&self, claim: &PersistentVolumeClaim) -> Result<()> {
        let Some(volume) = self.volumes.get(&Key::cluster(volume_of(claim))).filter(|volume| is_ours(volume)) else {
            return Ok(());
        };
        let wanted = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
        let Some(size) = wanted.as_ref().and_then(|amounts| amounts.get("storage")) else { return Ok(()) };
        let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let has = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
        if !is_bound || amount(wanted.as_ref()) <= amount(has) {
            return Ok(());
        }
        let params = PatchParams::default();
        if amount(wanted.as_ref()) > amount(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref())) {
            let api: Api<PersistentVolume> = Api::all(self.client.clone());
            let patch = json!({"spec": {"capacity": {"storage": size}}});
            self.volumes.remember(api.patch(&volume.name_any(), &params, &Patch::Merge(patch)).await?);
        }
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &claim.namespace().unwrap_or_default());
        let patch = json!({"status": {"capacity": {"storage": size}}});
        self.claims.remember(api.patch_status(&claim.name_any(), &params, &Patch::Merge(patch)).await?);
        let note = "the volume has the new size";
        self.events.normal(&reference(claim), "FileSystemResizeSuccessful", note).await;
        Ok(())
    }
}

fn is_open(node: &Node) -> bool {
    let closed = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    !closed && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn volume(
    name: &str,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: &Node,
    path: &Path,
) -> Result<PersistentVolume> {
    let spec = claim.spec.clone().unwrap_or_default();
    let capacity: Option<BTreeMap<String, Quantity>> = spec.resources.and_then(|resources| resources.requests);
    let host = node.labels().get(HOSTNAME).cloned().unwrap_or_else(|| node.name_any());
    let volume = json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": capacity.and_then(|capacity| capacity.get("storage").cloned())},
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "persistentVolumeReclaimPolicy": class.reclaim_policy,
            "storageClassName": class.name_any(),
            "mountOptions": class.mount_options,
            "claimRef": reference(claim),
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": HOSTNAME, "operator": "In", "values": [host]}]}]}},
        },
    });
    Ok(objects::from_value(&volume)?)
}

/// Everybody may write there: pods run as anybody.
fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
