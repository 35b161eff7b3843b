//! Deployment: ReplicaSets that take over from each other as the template changes.

pub mod plan;
pub mod revision;
pub mod status;

mod rolling;
mod scale;
mod strategy;
#[cfg(test)]
mod tests;

use super::{
    now,
    owned::{self, Owned, owners_of},
    pods,
    replicaset::is_namespace_leaving,
    template,
};
use crate::framework::{Context, Events, Key, Next, Reconcile, Result, Store, reference, work};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet},
    core::v1::Pod,
};
use kube::{Client, ResourceExt, api::PostParams};
use plan::Step;
use runtime::client::Api;
use status::News;
use std::{borrow::Cow, sync::Arc, time::Duration};

struct Deployments {
    client: Client,
    deployments: Store<Deployment>,
    sets: Owned<ReplicaSet>,
    pods: Owned<Pod>,
    events: Events,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let deployments = context.store::<Deployment>();
    let (sets, pods) = (Owned::<ReplicaSet>::new(&context), Owned::<Pod>::new(&context));
    let queue = context.queue("deployment");
    let _deployments = deployments.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _sets = sets.store.on_change({
        let (queue, owners) = (queue.clone(), deployments.clone());
        move |change| {
            let keys = owners_of(change, &owners, |one| Cow::Borrowed(&one.spec.selector));
            keys.into_iter().for_each(|key| queue.add(key));
        }
    });
    context.synced(&[&deployments, &sets.store, &pods.store]).await;
    let events = context.events("deployment-controller");
    work(&queue, 5, &Deployments { client: context.client(), deployments, sets, pods, events }).await
}

impl Reconcile for Deployments {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Next::Done) };
        if owned::is_empty(&deployment.spec.selector) {
            let note = "This deployment is selecting all pods. A non-empty selector is required.";
            self.events.warning(&reference(&*deployment), "SelectingAll", note).await;
            return Ok(Next::Done);
        }
        let sets = self.sets.claim(&*deployment, &deployment.spec.selector).await?;
        let seen: Vec<&ReplicaSet> = sets.iter().map(|set| &**set).collect();
        let plan = plan::plan(&deployment, &seen, self.old_pods_left(&deployment, &seen));
        let mut news = News::None;
        let mut outcome = Ok(());
        for step in &plan.steps {
            outcome = self.take(&deployment, step, &mut news).await;
            if outcome.is_err() {
                break;
            }
        }
        let sets = self.sets.of(&deployment.uid().unwrap_or_default());
        let seen: Vec<&ReplicaSet> = sets.iter().map(|set| &**set).collect();
        let (new, _) = revision::split(&deployment, &seen);
        let mut status = status::status(&deployment, &seen, new, plan.phase, &news, now());
        let written = self.deployments.get(key).and_then(|one| one.status.as_ref().and_then(|one| one.collision_count));
        status.collision_count = status.collision_count.max(written);
        let again = status::look_again_in(&deployment, &status, now());
        self.write(&deployment, plan.revision, status).await?;
        outcome?;
        Ok(again.map_or(Next::Done, |wait| Next::After(wait.try_into().unwrap_or(Duration::from_secs(1)))))
    }
}

impl Deployments {
    async fn take(&self, deployment: &Deployment, step: &Step<'_>, news: &mut News) -> Result<()> {
        let api = self.sets.api(&deployment.namespace().unwrap_or_default());
        match step {
            Step::Create(set) => return self.create(deployment, set, news).await,
            Step::Delete(set) => return self.sets.delete(set).await,
            Step::Annotate(set, annotations) => {
                let mut changed = self.fresh(set);
                changed.metadata.annotations = Some(annotations.clone());
                changed.spec.min_ready_seconds = deployment.spec.min_ready_seconds;
                let stored = api.replace(&set.name_any(), &PostParams::default(), &changed).await?;
                self.sets.store.remember(stored);
            }
            Step::Scale(set, size) => {
                let mut changed = self.fresh(set);
                let before = strategy::size(&changed);
                changed.spec.replicas = Some(*size);
                changed.metadata.annotations.get_or_insert_default().extend(revision::sizes(deployment));
                let stored = api.replace(&set.name_any(), &PostParams::default(), &changed).await?;
                self.sets.store.remember(stored);
                if before != *size {
                    let direction = if before < *size { "up" } else { "down" };
                    let note = format!("Scaled {direction} replica set {} from {before} to {size}", set.name_any());
                    self.events.normal(&reference(deployment), "ScalingReplicaSet", note).await;
                }
            }
        }
        Ok(())
    }

    /// The ReplicaSet as it is after our own writes.
    fn fresh(&self, set: &ReplicaSet) -> ReplicaSet {
        self.sets.store.get(&Key::of(set)).map_or_else(|| set.clone(), |known| (*known).clone())
    }

    async fn create(&self, deployment: &Deployment, set: &ReplicaSet, news: &mut News) -> Result<()> {
        let api = self.sets.api(&deployment.namespace().unwrap_or_default());
        let name = set.name_any();
        match api.create(&PostParams::default(), set).await {
            Ok(made) => {
                let size = strategy::size(&made);
                self.sets.store.remember(made);
                *news = News::Created(name.clone());
                if size > 0 {
                    let note = format!("Scaled up replica set {name} from 0 to {size}");
                    self.events.normal(&reference(deployment), "ScalingReplicaSet", note).await;
                }
                Ok(())
            }
            Err(kube::Error::Api(answer)) if answer.code == 409 => {
                let known = api.get(&name).await?;
                let ours =
                    owned::controller_of(&known.metadata).map(|owner| &owner.uid) == deployment.metadata.uid.as_ref();
                let same =
                    known.spec.template.as_ref().is_some_and(|one| template::same(one, &deployment.spec.template));
                if ours && same {
                    self.sets.store.remember(known);
                    return Ok(());
                }
                self.avoid(deployment).await?;
                Err(format!("ReplicaSet {name} exists and is not ours; another name is tried").into())
            }
            Err(error) if is_namespace_leaving(&error) => Ok(()),
            Err(error) => {
                let why = format!("Failed to create new replica set \"{name}\": {error}");
                self.events.warning(&reference(deployment), "ReplicaSetCreateError", &why).await;
                *news = News::NotCreated(why);
                Err(error.into())
            }
        }
    }

    /// Another hash next time: this one's name is taken.
    async fn avoid(&self, deployment: &Deployment) -> Result<()> {
        let mut status = deployment.status.clone().unwrap_or_default();
        status.collision_count = Some(status.collision_count.unwrap_or_default() + 1);
        self.write(deployment, None, status).await
    }

    /// Whether pods of other templates still run.
    fn old_pods_left(&self, deployment: &Deployment, sets: &[&ReplicaSet]) -> bool {
        if !strategy::is_recreate(deployment) {
            return false;
        }
        let (_, old) = revision::split(deployment, sets);
        let pods = old.iter().flat_map(|set| self.pods.of(&set.uid().unwrap_or_default()));
        pods.into_iter().any(|pod: Arc<Pod>| !pods::is_finished(&pod))
    }

    async fn write(&self, deployment: &Deployment, revision: Option<i64>, status: DeploymentStatus) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &deployment.namespace().unwrap_or_default());
        let mut present =
            self.deployments.get(&Key::of(deployment)).map_or_else(|| deployment.clone(), |one| (*one).clone());
        if present.uid() != deployment.uid() {
            return Ok(());
        }
        let before = present.clone();
        if let Some(revision) = revision {
            // By the status, as upstream does it: on the object itself an annotation would be a new generation.
            present.annotations_mut().insert(revision::REVISION.to_owned(), revision.to_string());
        }
        present.status = Some(status);
        if present == before {
            return Ok(());
        }
        match api.replace_status(&present.name_any(), &PostParams::default(), &present).await {
            Ok(stored) => self.deployments.remember(stored),
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
