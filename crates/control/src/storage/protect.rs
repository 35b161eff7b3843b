//! `persistentvolumeclaim-protection-controller` and `persistentvolume-protection-controller`: a claim that was deleted stays while a
//! pod uses it, a volume while a claim has it.

use super::bind;
use crate::{
    framework::{Context, Key, Next, Queue, Reconcile, Result, Store, work},
    workloads::pods,
};
use api::kinds::storage::{CLAIM_PROTECTION, VOLUME_PROTECTION};
use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use runtime::{client::Api, controller::Index};
use serde_json::{Value, json};

/// What to do with the finalizer of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Keep,
    Add,
    Remove,
}

/// Objects have it while they live, and lose it when they are deleted and not in use.
pub(super) fn step(meta: &ObjectMeta, finalizer: &str, in_use: bool) -> Step {
    let has = meta.finalizers.iter().flatten().any(|known| known == finalizer);
    match (meta.deletion_timestamp.is_some(), has) {
        (false, false) => Step::Add,
        (true, true) if !in_use => Step::Remove,
        _ => Step::Keep,
    }
}

fn patch(meta: &ObjectMeta, finalizer: &str, step: Step) -> Value {
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    match step {
        Step::Add => finalizers.push(finalizer.to_owned()),
        _ => finalizers.retain(|known| known != finalizer),
    }
    json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}})
}

struct Claims {
    claims: Store<PersistentVolumeClaim>,
    pods: Store<Pod>,
    by_claim: Index,
    client: Client,
}

/// Runs until it is dropped.
pub(super) async fn run_claims(context: Context) -> Result<()> {
    let (claims, pods) = (context.store::<PersistentVolumeClaim>(), context.store::<Pod>());
    let queue: Queue<Key> = context.queue("pvcprotection");
    context.synced(&[&claims, &pods]).await;
    let by_claim = pods.index("claim", bind::pods_by_claim);
    let _claims = claims.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.on_change({
        let queue = queue.clone();
        move |change| {
            let pod = change.object();
            // Only one that goes or has ended frees a claim.
            if change.new.is_none() || pods::is_finished(pod) {
                let namespace = pod.namespace().unwrap_or_default();
                super::claims_of(pod).iter().for_each(|name| queue.add(Key::new(&namespace, name)));
            }
        }
    });
    work(&queue, 2, &Claims { claims, pods, by_claim, client: context.client() }).await
}

/// Pods without a node cannot start any more with a claim that is going.
fn uses(pod: &Pod) -> bool {
    !pods::node_name(pod).is_empty() && !pods::is_finished(pod)
}

impl Reconcile for Claims {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(claim) = self.claims.get(key) else { return Ok(Next::Done) };
        let known = self.pods.by(self.by_claim, &format!("{}/{}", key.namespace, key.name));
        let mut step = step(&claim.metadata, CLAIM_PROTECTION, known.iter().any(|pod| uses(pod)));
        if step == Step::Remove && self.is_used_now(key).await? {
            step = Step::Keep;
        }
        if step == Step::Keep {
            return Ok(Next::Done);
        }
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = Patch::Merge(patch(&claim.metadata, CLAIM_PROTECTION, step));
        match api.patch(&key.name, &PatchParams::default(), &patch).await {
            Ok(written) if step == Step::Add => self.claims.remember(written),
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }
}

impl Claims {
    /// Asks the server itself: a pod that was placed a moment ago must not lose its data.
    async fn is_used_now(&self, key: &Key) -> Result<bool> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods = api.list(&ListParams::default()).await?;
        Ok(pods.items.iter().any(|pod| uses(pod) && super::claims_of(pod).contains(&key.name)))
    }
}

struct Volumes {
    volumes: Store<PersistentVolume>,
    api: Api<PersistentVolume>,
}

/// Runs until it is dropped.
pub(super) async fn run_volumes(context: Context) -> Result<()> {
    let volumes = context.store::<PersistentVolume>();
    let queue: Queue<Key> = context.queue("pvprotection");
    let _volumes = volumes.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    context.synced(&[&volumes]).await;
    work(&queue, 2, &Volumes { volumes, api: Api::all(context.client()) }).await
}

impl Reconcile for Volumes {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(volume) = self.volumes.get(key) else { return Ok(Next::Done) };
        let bound = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let step = step(&volume.metadata, VOLUME_PROTECTION, bound);
        if step == Step::Keep {
            return Ok(Next::Done);
        }
        let patch = Patch::Merge(patch(&volume.metadata, VOLUME_PROTECTION, step));
        match self.api.patch(&key.name, &PatchParams::default(), &patch).await {
            Ok(written) if step == Step::Add => self.volumes.remember(written),
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }
}
