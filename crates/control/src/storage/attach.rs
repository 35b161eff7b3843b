//! `persistentvolume-attach-detach-controller`: volumes of drivers that attach are at the nodes where pods need them, and nowhere else.
//!
//! Says so by VolumeAttachments; the driver's own attacher brings it about.

use super::{bind, claim_ref, claims_of, is_bound, volume_of};
use crate::{
    framework::{Context, Key, Next, Queue, Reconcile, Result, Store, work},
    workloads::pods,
};
use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
        storage::v1::{CSIDriver, VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use runtime::{client::Api, controller::Index, pki::sha256_hex};
use std::collections::BTreeMap;

struct Attacher {
    pods: Store<Pod>,
    by_claim: Index,
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    drivers: Store<CSIDriver>,
    attachments: Store<VolumeAttachment>,
    api: Api<VolumeAttachment>,
}

/// Runs until it is dropped. Attachments are few: one key stands for all of them.
pub(super) async fn run(context: Context) -> Result<()> {
    let pods = context.store::<Pod>();
    let attacher = Attacher {
        by_claim: pods.index("claim", bind::pods_by_claim),
        pods,
        claims: context.store(),
        volumes: context.store(),
        drivers: context.store(),
        attachments: context.store(),
        api: Api::all(context.client()),
    };
    let queue: Queue<Key> = context.queue("attachdetach");
    let all = Key::cluster("all");
    let Attacher { pods, claims, volumes, drivers, attachments, .. } = &attacher;
    context.synced(&[pods, claims, volumes, drivers, attachments]).await;
    let wake = || {
        let (queue, all) = (queue.clone(), all.clone());
        move || queue.add(all.clone())
    };
    let on_pod = wake();
    let _pods = pods.on_change(move |change| {
        if change.both().any(|pod| !claims_of(pod).is_empty()) {
            on_pod();
        }
    });
    let on_volume = wake();
    let _volumes = volumes.on_change(move |change| {
        if change.object().spec.as_ref().is_some_and(|spec| spec.csi.is_some()) {
            on_volume();
        }
    });
    let on_claim = wake();
    let _claims = claims.on_change(move |change| {
        if is_bound(change.object()) {
            on_claim();
        }
    });
    let on_driver = wake();
    let _drivers = drivers.on_change(move |_| on_driver());
    let on_attachment = wake();
    let _attachments = attachments.on_change(move |_| on_attachment());
    work(&queue, 1, &attacher).await
}

/// The name of the attachment of a volume to a node, as upstream computes it.
pub(super) fn name(handle: &str, driver: &str, node: &str) -> String {
    format!("csi-{}", sha256_hex(format!("{handle}{driver}{node}").as_bytes()))
}

impl Attacher {
    /// What should be attached where: from each volume of a driver to the pods of its claim.
    fn wanted(&self) -> BTreeMap<String, VolumeAttachmentSpec> {
        let mut wanted = BTreeMap::new();
        for volume in self.volumes.all() {
            let Some(csi) = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()) else { continue };
            let Some(owner) = claim_ref(&volume) else { continue };
            let key =
                Key::new(owner.namespace.as_deref().unwrap_or_default(), owner.name.as_deref().unwrap_or_default());
            let claim = self.claims.get(&key).filter(|claim| is_bound(claim) && volume_of(claim) == volume.name_any());
            // A driver that says nothing of itself attaches.
            let driver = self.drivers.get(&Key::cluster(&csi.driver));
            let attaches = driver.is_none_or(|driver| driver.spec.attach_required != Some(false));
            if claim.is_none() || !attaches {
                continue;
            }
            for pod in self.pods.by(self.by_claim, &format!("{}/{}", key.namespace, key.name)) {
                let node = pods::node_name(&pod);
                if node.is_empty() || pods::is_finished(&pod) {
                    continue;
                }
                let source = VolumeAttachmentSource {
                    persistent_volume_name: volume.metadata.name.clone(),
                    ..VolumeAttachmentSource::default()
                };
                let spec = VolumeAttachmentSpec { attacher: csi.driver.clone(), node_name: node.to_owned(), source };
                wanted.insert(name(&csi.volume_handle, &csi.driver, node), spec);
            }
        }
        wanted
    }
}

impl Reconcile for Attacher {
    type Key = Key;

    async fn reconcile(&self, _all: &Key) -> Result<Next> {
        let wanted = self.wanted();
        for (name, spec) in &wanted {
            if self.attachments.get(&Key::cluster(name)).is_some() {
                continue;
            }
            let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
            let attachment = VolumeAttachment { metadata, spec: spec.clone(), status: None };
            match self.api.create(&PostParams::default(), &attachment).await {
                Ok(made) => self.attachments.remember(made),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        for attachment in self.attachments.all() {
            // Of others only those are ours to end whose name we would have given.
            let ours = self.is_ours(&attachment);
            if ours && !wanted.contains_key(&attachment.name_any()) && attachment.metadata.deletion_timestamp.is_none()
            {
                match self.api.delete(&attachment.name_any(), &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(Next::Done)
    }
}

impl Attacher {
    fn is_ours(&self, attachment: &VolumeAttachment) -> bool {
        let spec = &attachment.spec;
        let volume = spec.source.persistent_volume_name.as_ref().and_then(|name| self.volumes.get(&Key::cluster(name)));
        let csi = volume.and_then(|volume| volume.spec.as_ref()?.csi.clone());
        csi.is_some_and(|csi| attachment.name_any() == name(&csi.volume_handle, &csi.driver, &spec.node_name))
    }
}
