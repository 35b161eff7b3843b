//! `ephemeral-volume-controller`: pods whose volumes live as long as they do get a claim for each, which goes with them.

use crate::{
    framework::{Context, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    workloads::pods,
};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod, Volume},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Client, ResourceExt, api::PostParams};
use runtime::client::Api;

struct Ephemeral {
    pods: Store<Pod>,
    claims: Store<PersistentVolumeClaim>,
    client: Client,
    events: Events,
}

/// Runs until it is dropped.
pub(super) async fn run(context: Context) -> Result<()> {
    let (pods, claims) = (context.store::<Pod>(), context.store::<PersistentVolumeClaim>());
    let queue: Queue<Key> = context.queue("ephemeral_volume");
    context.synced(&[&pods, &claims]).await;
    let _pods = pods.on_change({
        let queue = queue.clone();
        move |change| {
            if change.new.is_some_and(|pod| volumes(pod).next().is_some()) {
                queue.add(change.key());
            }
        }
    });
    let _claims = claims.on_change({
        let queue = queue.clone();
        move |change| {
            let claim = change.object();
            let owners = claim.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "Pod");
            if change.new.is_none() {
                owners.for_each(|owner| queue.add(Key::new(claim.namespace().unwrap_or_default(), &owner.name)));
            }
        }
    });
    let events = context.events("ephemeral_volume");
    work(&queue, 2, &Ephemeral { pods, claims, client: context.client(), events }).await
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let all = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    all.filter(|volume| volume.ephemeral.is_some())
}

/// Whether the claim was made for this pod, and no other of the same name.
fn is_of(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
}

impl Reconcile for Ephemeral {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(pod) = self.pods.get(key) else { return Ok(Next::Done) };
        if pod.metadata.deletion_timestamp.is_some() || pods::is_finished(&pod) {
            return Ok(Next::Done);
        }
        for volume in volumes(&pod) {
            let name = format!("{}-{}", key.name, volume.name);
            match self.claims.get(&Key::new(&key.namespace, &name)) {
                Some(claim) if is_of(&claim, &pod) => {}
                Some(_) => {
                    let note = format!(
                        "PVC {}/{name} was not created for the pod: it belongs to somebody else",
                        key.namespace
                    );
                    self.events.warning(&reference(&*pod), "FailedCreate", note).await;
                }
                None => self.make(&pod, volume, name).await?,
            }
        }
        Ok(Next::Done)
    }
}

impl Ephemeral {
    async fn make(&self, pod: &Pod, volume: &Volume, name: String) -> Result<()> {
        let Some(template) = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.clone()) else {
            return Ok(());
        };
        let meta = template.metadata.unwrap_or_default();
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                labels: meta.labels,
                annotations: meta.annotations,
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(template.spec),
            ..PersistentVolumeClaim::default()
        };
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        match api.create(&PostParams::default(), &claim).await {
            Ok(made) => self.claims.remember(made),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
