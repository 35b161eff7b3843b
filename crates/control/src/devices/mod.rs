//! `resourceclaim-controller`: pods that name a template get a claim for each, which goes with them; nobody keeps devices for a pod that
//! is gone.

use crate::{
    framework::{Context, Controller, Key, Next, Queue, Reconcile, Result, Store, work},
    workloads::pods,
};
use k8s_openapi::{
    api::{
        core::v1::{Pod, PodResourceClaim},
        resource::v1::{ResourceClaim, ResourceClaimTemplate},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::json;
use std::{fmt, sync::Arc};

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "resourceclaim-controller",
    alias: "resource-claim-controller",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// Claim: which entry of its pod it was made for.
const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";

struct Claims {
    pods: Store<Pod>,
    claims: Store<ResourceClaim>,
    templates: Store<ResourceClaimTemplate>,
    client: Client,
}

/// A pod, or a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Which {
    Pod(Key),
    Claim(Key),
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod {key}"),
            Self::Claim(key) => write!(f, "claim {key}"),
        }
    }
}

async fn run(context: Context) -> Result<()> {
    let (pods, claims, templates) =
        (context.store::<Pod>(), context.store::<ResourceClaim>(), context.store::<ResourceClaimTemplate>());
    let queue: Queue<Which> = context.queue("resource_claim");
    context.synced(&[&pods, &claims, &templates]).await;
    let _pods = pods.on_change({
        let (queue, claims) = (queue.clone(), claims.clone());
        move |change| {
            let pod = change.object();
            if entries(pod).next().is_none() {
                return;
            }
            queue.add(Which::Pod(change.key()));
            if change.new.is_none() || pods::is_finished(pod) {
                let theirs = claims.in_namespace(&pod.namespace().unwrap_or_default());
                theirs.iter().for_each(|claim| queue.add(Which::Claim(Key::of(&**claim))));
            }
        }
    });
    let _claims = claims.on_change({
        let queue = queue.clone();
        move |change| queue.add(Which::Claim(change.key()))
    });
    let _templates = templates.on_change({
        let (queue, pods) = (queue.clone(), pods.clone());
        move |change| {
            let name = change.key().name;
            let waiting = pods.in_namespace(&change.key().namespace);
            let names =
                |pod: &Pod| entries(pod).any(|entry| entry.resource_claim_template_name.as_ref() == Some(&name));
            waiting.iter().filter(|pod| names(pod)).for_each(|pod| queue.add(Which::Pod(Key::of(&**pod))));
        }
    });
    work(&queue, 2, &Claims { pods, claims, templates, client: context.client() }).await
}

fn entries(pod: &Pod) -> impl Iterator<Item = &PodResourceClaim> {
    pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten())
}

/// Whether the claim was made for this entry of the pod.
fn is_for(claim: &ResourceClaim, pod: &Pod, entry: &str) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    claim.annotations().get(ENTRY).is_some_and(|known| known == entry)
        && owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
}

impl Reconcile for Claims {
    type Key = Which;

    async fn reconcile(&self, which: &Which) -> Result<Next> {
        match which {
            Which::Pod(key) => match self.pods.get(key) {
                Some(pod) if pods::is_active(&pod) => self.pod(&pod).await?,
                _ => {}
            },
            Which::Claim(key) => {
                if let Some(claim) = self.claims.get(key) {
                    self.release(&claim).await?;
                }
            }
        }
        Ok(Next::Done)
    }
}

impl Claims {
    async fn pod(&self, pod: &Arc<Pod>) -> Result<()> {
        let namespace = pod.namespace().unwrap_or_default();
        let mut statuses = Vec::new();
        for entry in entries(pod) {
            let Some(template) = &entry.resource_claim_template_name else { continue };
            let made = self.claims.in_namespace(&namespace).into_iter().find(|claim| is_for(claim, pod, &entry.name));
            let name = match made {
                Some(claim) => claim.name_any(),
                None => match self.templates.get(&Key::new(&namespace, template)) {
                    Some(template) => self.make(pod, entry, &template).await?,
                    // It may come.
                    None => continue,
                },
            };
            statuses.push(json!({"name": entry.name, "resourceClaimName": name}));
        }
        let known = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
        let is_known = |status: &serde_json::Value| {
            known.into_iter().flatten().any(|one| {
                status["name"] == one.name.as_str() && status["resourceClaimName"] == json!(one.resource_claim_name)
            })
        };
        if statuses.iter().all(is_known) {
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"resourceClaimStatuses": statuses}});
        match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(written) => self.pods.remember(written),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn make(&self, pod: &Pod, entry: &PodResourceClaim, template: &ResourceClaimTemplate) -> Result<String> {
        let template = template.spec.clone().unwrap_or_default();
        let meta = template.metadata.unwrap_or_default();
        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.insert(ENTRY.to_owned(), entry.name.clone());
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let claim = ResourceClaim {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-{}-", pod.name_any(), entry.name)),
                labels: meta.labels,
                annotations: Some(annotations),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: template.spec,
            status: None,
        };
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let made = api.create(&PostParams::default(), &claim).await?;
        let name = made.name_any();
        self.claims.remember(made);
        Ok(name)
    }

    /// Takes the claim from pods that are gone or have ended; one that was made for such a pod goes itself.
    async fn release(&self, claim: &ResourceClaim) -> Result<()> {
        let namespace = claim.namespace().unwrap_or_default();
        let lives = |name: &str, uid: &str| {
            let pod = self.pods.get(&Key::new(&namespace, name));
            pod.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(uid) && !pods::is_finished(&pod))
        };
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &namespace);
        let reserved = claim.status.iter().flat_map(|status| status.reserved_for.iter().flatten());
        let (kept, gone): (Vec<_>, Vec<_>) =
            reserved.partition(|consumer| consumer.resource != "pods" || lives(&consumer.name, &consumer.uid));
        if !gone.is_empty() {
            let allocation = if kept.is_empty() {
                json!(null)
            } else {
                json!(claim.status.as_ref().and_then(|status| status.allocation.clone()))
            };
            let patch = json!({
                "metadata": {"resourceVersion": claim.metadata.resource_version},
                "status": {"reservedFor": kept, "allocation": allocation},
            });
            self.claims
                .remember(api.patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?);
        }
        let made = claim.annotations().contains_key(ENTRY);
        let owner = claim.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Pod");
        let ended = owner.is_some_and(|owner| {
            let pod = self.pods.get(&Key::new(&namespace, &owner.name));
            pod.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(&owner.uid) && pods::is_finished(&pod))
        });
        if made && ended && claim.metadata.deletion_timestamp.is_none() {
            match api.delete(&claim.name_any(), &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
