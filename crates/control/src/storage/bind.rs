//! `persistentvolume-binder-controller`: brings claims and volumes together, and says of each how far it is.
//!
//! Every step is one write and the object comes back by its change, so that a crash between two of them is a step not yet made. A
//! volume is written before its claim: who is asked twice finds the volume already his.

use super::{
    Annotations, BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, PROVISIONED_BY, PROVISIONER, Which, annotation,
    claim_ref, claims_of, class_of, host_path,
    matching::{Candidates, best, is_promised},
    selected_node, volume_of, waits_for_consumer,
};
use crate::{
    framework::{Context, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    workloads::pods,
};
use k8s_openapi::api::{
    core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use runtime::{client::Api, controller::Index};
use serde_json::{Value, json};
use std::time::Duration;

/// Claims that wait for somebody are told so again from time to time, as upstream has it.
const PERIOD: Duration = Duration::from_secs(15);

struct Binder {
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    classes: Store<StorageClass>,
    pods: Store<Pod>,
    pods_by_claim: Index,
    client: kube::Client,
    events: Events,
}

/// Runs until it is dropped.
pub(super) async fn run(context: Context) -> Result<()> {
    let (claims, volumes) = (context.store::<PersistentVolumeClaim>(), context.store::<PersistentVolume>());
    let (classes, pods) = (context.store::<StorageClass>(), context.store::<Pod>());
    let queue: Queue<Which> = context.queue("persistentvolume-binder");
    context.synced(&[&claims, &volumes, &classes, &pods]).await;
    let by_volume = claims.index("volume", |claim| vec![volume_of(claim).to_owned()]);
    let by_owner = volumes.index("claim", |volume| claim_ref(volume).map(owner).into_iter().collect());
    let _claims = claims.on_change({
        let (queue, volumes) = (queue.clone(), volumes.clone());
        move |change| {
            queue.add(Which::Claim(change.key()));
            // The volume hears when its claim is bound, or gone.
            change.both().map(|claim| volume_of(claim)).filter(|name| !name.is_empty()).for_each(|name| {
                queue.add(Which::Volume(Key::cluster(name)));
            });
            if change.new.is_none() {
                let key = change.key();
                let theirs = volumes.by(by_owner, &format!("{}/{}", key.namespace, key.name));
                theirs.iter().for_each(|volume| queue.add(Which::Volume(Key::of(&**volume))));
            }
        }
    });
    let _volumes = volumes.on_change({
        let (queue, claims) = (queue.clone(), claims.clone());
        move |change| {
            queue.add(Which::Volume(change.key()));
            for owner in change.both().filter_map(|volume| claim_ref(volume)) {
                let (namespace, name) = (owner.namespace.as_deref(), owner.name.as_deref());
                queue.add(Which::Claim(Key::new(namespace.unwrap_or_default(), name.unwrap_or_default())));
            }
            // One that is free may be what somebody waits for; one that is gone was somebody's.
            let free = change.new.is_some_and(|volume| claim_ref(volume).is_none());
            let waiting = if free { claims.by(by_volume, "") } else { Vec::new() };
            let named = claims.by(by_volume, &change.key().name);
            waiting.iter().chain(&named).for_each(|claim| queue.add(Which::Claim(Key::of(&**claim))));
        }
    });
    let _classes = classes.on_change({
        let (queue, claims) = (queue.clone(), claims.clone());
        move |change| {
            let (unbound, name) = (claims.by(by_volume, ""), change.key().name);
            let waiting = unbound.iter().filter(|claim| class_of(claim) == name);
            waiting.for_each(|claim| queue.add(Which::Claim(Key::of(&**claim))));
        }
    });
    let pods_by_claim = pods.index("claim", pods_by_claim);
    let events = context.events("persistentvolume-controller");
    let client = context.client();
    work(&queue, 4, &Binder { claims, volumes, classes, pods, pods_by_claim, client, events }).await
}

/// The claim that a reference is to: `namespace/name`.
fn owner(owner: &ObjectReference) -> String {
    format!("{}/{}", owner.namespace.as_deref().unwrap_or_default(), owner.name.as_deref().unwrap_or_default())
}

/// Under which claims a pod is found: `namespace/name`.
pub(super) fn pods_by_claim(pod: &Pod) -> Vec<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    claims_of(pod).into_iter().map(|name| format!("{namespace}/{name}")).collect()
}

impl Reconcile for Binder {
    type Key = Which;

    async fn reconcile(&self, which: &Which) -> Result<Next> {
        let outcome = match which {
            Which::Claim(key) => match self.claims.get(key) {
                Some(claim) => self.claim(&claim).await,
                None => Ok(Next::Done),
            },
            Which::Volume(key) => match self.volumes.get(key) {
                Some(volume) => self.volume(&volume).await.map(|()| Next::Done),
                None => Ok(Next::Done),
            },
        };
        match outcome {
            // It has gone meanwhile: its change will say so.
            Err(error) if is_gone(&*error) => Ok(Next::Done),
            other => other,
        }
    }
}

fn is_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 404)
}

impl Binder {
    async fn claim(&self, claim: &PersistentVolumeClaim) -> Result<Next> {
        let completed = annotation(&claim.metadata.annotations, BIND_COMPLETED).is_some();
        let name = volume_of(claim);
        let volume = if name.is_empty() { None } else { self.volumes.get(&Key::cluster(name)) };
        match (completed, name, volume) {
            (false, "", _) => return self.search(claim).await,
            // It may come.
            (false, _, None) => self.pending(claim).await?,
            (false, _, Some(volume)) if claim_ref(&volume).is_none() || is_promised(claim, &volume) => {
                self.bind(claim, &volume).await?;
            }
            (false, _, Some(_)) => {
                let note = format!("volume {name:?} already bound to a different claim.");
                self.events.warning(&reference(claim), "FailedBinding", note).await;
                self.pending(claim).await?;
            }
            (true, "", _) => {
                self.lose(
                    claim,
                    "ClaimLost",
                    "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
                )
                .await?
            }
            (true, _, None) => {
                self.lose(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
                    .await?
            }
            (true, _, Some(volume)) if claim_ref(&volume).is_none() || is_promised(claim, &volume) => {
                self.bind(claim, &volume).await?;
            }
            (true, _, Some(_)) => {
                self.lose(
                    claim,
                    "ClaimMisbound",
                    "Two claims are bound to the same volume, this one is bound incorrectly",
                )
                .await?
            }
        }
        Ok(Next::Done)
    }

    /// A claim without a volume: one that is there, one that is made, or a word on why not.
    async fn search(&self, claim: &PersistentVolumeClaim) -> Result<Next> {
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        let name = class_of(claim);
        let class = self.classes.get(&Key::cluster(name));
        let waits = class.as_ref().is_some_and(|class| waits_for_consumer(class));
        let candidates = if waits { Candidates::Promised } else { Candidates::All };
        let all = self.volumes.all();
        if let Some(volume) = best(claim, all.iter().map(|volume| &**volume), candidates) {
            self.bind(claim, volume).await?;
            return Ok(Next::Done);
        }
        let about = reference(claim);
        match class {
            Some(_) if waits && selected_node(claim).is_none() => {
                let (reason, note) = match self.consumer(claim) {
                    Some(pod) => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
                    None => {
                        let note = "waiting for first consumer to be created before binding";
                        ("WaitForFirstConsumer", note.to_owned())
                    }
                };
                self.events.normal(&about, reason, note).await;
            }
            Some(class) if class.provisioner != NO_PROVISIONER => self.ask(claim, &class.provisioner).await?,
            Some(_) => {
                let note = format!("storageclass.storage.k8s.io {name:?} makes no volumes; it needs one made by hand");
                self.events.warning(&about, "ProvisioningFailed", note).await;
            }
            None if name.is_empty() => {
                let note = "no persistent volumes available for this claim and no storage class is set";
                self.events.normal(&about, "FailedBinding", note).await;
            }
            None => {
                let note = format!("storageclass.storage.k8s.io {name:?} not found");
                self.events.warning(&about, "ProvisioningFailed", note).await;
            }
        }
        self.pending(claim).await?;
        Ok(Next::After(PERIOD))
    }

    /// A pod that wants the claim and has no node.
    fn consumer(&self, claim: &PersistentVolumeClaim) -> Option<String> {
        let key = format!("{}/{}", claim.namespace().unwrap_or_default(), claim.name_any());
        let pods = self.pods.by(self.pods_by_claim, &key);
        pods.iter().find(|pod| pods::node_name(pod).is_empty()).map(|pod| pod.name_any())
    }

    /// Asks a provisioner for a volume, by name.
    async fn ask(&self, claim: &PersistentVolumeClaim, provisioner: &str) -> Result<()> {
        if provisioner != host_path::PROVISIONER {
            let note = format!(
                "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
                 system administrator. If volume creation is delayed, please verify that the provisioner is running and \
                 correctly registered."
            );
            self.events.normal(&reference(claim), "ExternalProvisioning", note).await;
        }
        if PROVISIONER.iter().all(|key| annotation(&claim.metadata.annotations, key) == Some(provisioner)) {
            return Ok(());
        }
        let annotations: Value = PROVISIONER.iter().map(|key| ((*key).to_owned(), json!(provisioner))).collect();
        self.patch_claim(claim, json!({"metadata": {"annotations": annotations}})).await.map(drop)
    }

    /// Volume first, then claim; what is as it should be is not written.
    async fn bind(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<()> {
        let owned = claim_ref(volume).is_some_and(|owner| owner.uid == claim.metadata.uid && owner.uid.is_some());
        let mut bound = volume.clone();
        if !owned {
            let owner = reference(claim);
            let mut patch = json!({"spec": {"claimRef": owner}});
            if claim_ref(volume).is_none() {
                patch["metadata"] = json!({"annotations": {BOUND_BY_CONTROLLER: "yes"}});
            }
            bound = self.patch_volume(volume, patch).await?;
        }
        self.volume_phase(&bound, "Bound", "").await?;
        let mut annotations = json!({});
        if annotation(&claim.metadata.annotations, BIND_COMPLETED).is_none() {
            annotations[BIND_COMPLETED] = "yes".into();
        }
        if volume_of(claim).is_empty() {
            annotations[BOUND_BY_CONTROLLER] = "yes".into();
        }
        let mut new = claim.clone();
        if annotations.as_object().is_some_and(|all| !all.is_empty()) {
            let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": bound.name_any()}});
            new = self.patch_claim(claim, patch).await?;
        }
        let (status, spec) = (new.status.clone().unwrap_or_default(), bound.spec.clone().unwrap_or_default());
        let grown = status.phase.as_deref() == Some("Bound") && status.capacity.is_some();
        if !grown || status.access_modes != spec.access_modes {
            let capacity = if grown { status.capacity } else { spec.capacity };
            let status = json!({"phase": "Bound", "accessModes": spec.access_modes, "capacity": capacity,
                "currentVolumeAttributesClassName": spec.volume_attributes_class_name});
            self.claim_status(&new, status).await?;
        }
        Ok(())
    }

    async fn pending(&self, claim: &PersistentVolumeClaim) -> Result<()> {
        match claim.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Pending") => Ok(()),
            _ => self.claim_status(claim, json!({"phase": "Pending"})).await,
        }
    }

    async fn lose(&self, claim: &PersistentVolumeClaim, reason: &str, note: &str) -> Result<()> {
        if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
            return Ok(());
        }
        self.events.warning(&reference(claim), reason, note).await;
        self.claim_status(claim, json!({"phase": "Lost"})).await
    }

    async fn volume(&self, volume: &PersistentVolume) -> Result<()> {
        let Some(owner) = claim_ref(volume) else { return self.volume_phase(volume, "Available", "").await };
        let uid = owner.uid.as_deref().unwrap_or_default();
        if uid.is_empty() {
            return self.volume_phase(volume, "Available", "").await;
        }
        let key = Key::new(owner.namespace.as_deref().unwrap_or_default(), owner.name.as_deref().unwrap_or_default());
        let claim = self.claims.get(&key).filter(|claim| claim.metadata.uid.as_deref() == Some(uid));
        match claim {
            None => self.release(volume).await,
            Some(claim) if volume_of(&claim) == volume.name_any() => self.volume_phase(volume, "Bound", "").await,
            // The claim comes to it in a moment.
            Some(claim) if volume_of(&claim).is_empty() => Ok(()),
            Some(_) if annotation(&volume.metadata.annotations, PROVISIONED_BY).is_some() => self.release(volume).await,
            // The claim went with another volume.
            Some(_) => {
                let by_us = annotation(&volume.metadata.annotations, BOUND_BY_CONTROLLER).is_some();
                let patch = match by_us {
                    true => {
                        json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}})
                    }
                    false => json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}}),
                };
                let free = self.patch_volume(volume, patch).await?;
                self.volume_phase(&free, "Available", "").await
            }
        }
    }

    /// A volume whose claim is gone.
    async fn release(&self, volume: &PersistentVolume) -> Result<()> {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        let made = annotation(&volume.metadata.annotations, PROVISIONED_BY).is_some();
        let failure = match policy {
            Some("Recycle") => {
                Some(("VolumeFailedRecycle", "volumes are not recycled here; delete the volume, or its claimRef"))
            }
            Some("Delete") if !made => {
                Some(("VolumeFailedDelete", "nobody made this volume who could delete it; delete the PersistentVolume"))
            }
            // Kept, or its provisioner takes it away.
            _ => None,
        };
        match failure {
            None if phase == "Failed" => Ok(()),
            None => self.volume_phase(volume, "Released", "").await,
            Some(_) if phase == "Failed" => Ok(()),
            Some((reason, note)) => {
                self.events.warning(&reference(volume), reason, note).await;
                self.volume_phase(volume, "Failed", note).await
            }
        }
    }

    async fn volume_phase(&self, volume: &PersistentVolume, phase: &str, message: &str) -> Result<()> {
        if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase) {
            return Ok(());
        }
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let message = if message.is_empty() { Value::Null } else { message.into() };
        let patch = json!({"metadata": {"uid": volume.metadata.uid}, "status": {"phase": phase, "message": message}});
        let written = api.patch_status(&volume.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.volumes.remember(written);
        Ok(())
    }

    async fn patch_volume(&self, volume: &PersistentVolume, mut patch: Value) -> Result<PersistentVolume> {
        guard(&mut patch, &volume.metadata.resource_version);
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let written = api.patch(&volume.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.volumes.remember(written.clone());
        Ok(written)
    }

    async fn patch_claim(&self, claim: &PersistentVolumeClaim, mut patch: Value) -> Result<PersistentVolumeClaim> {
        guard(&mut patch, &claim.metadata.resource_version);
        let written =
            self.claims_in(claim).patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.claims.remember(written.clone());
        Ok(written)
    }

    async fn claim_status(&self, claim: &PersistentVolumeClaim, status: Value) -> Result<()> {
        let patch = json!({"metadata": {"uid": claim.metadata.uid}, "status": status});
        let api = self.claims_in(claim);
        let written = api.patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.claims.remember(written);
        Ok(())
    }

    fn claims_in(&self, claim: &PersistentVolumeClaim) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &claim.namespace().unwrap_or_default())
    }
}

/// The write holds only if nobody was faster.
fn guard(patch: &mut Value, version: &Option<String>) {
    patch["metadata"]["resourceVersion"] = json!(version);
}

/// For other rooms: whether the annotations say who made a volume.
pub(super) fn provisioned_by(annotations: &Annotations) -> Option<&str> {
    annotation(annotations, PROVISIONED_BY)
}
