//! ReplicaSet, and ReplicationController before it: as many pods of one template as asked for.
//!
//! Both are one controller: what it asks of either is [`Replicated`].

pub mod plan;
pub mod status;

mod kind;
mod order;
#[cfg(test)]
mod tests;

use super::{
    batches, now,
    owned::{self, Owned, owners_of},
    pods, template,
};
use crate::framework::{Context, Events, Key, Next, Reconcile, Result, Store, reference, work};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, ReplicationController},
};
use kind::Replicated;
use kube::{Client, ResourceExt, api::PostParams};
use plan::{Plan, View};
use runtime::client::{Api, error_line};
use std::{collections::HashMap, sync::Arc, time::Duration};

struct Controller<O> {
    client: Client,
    sets: Owned<O>,
    pods: Owned<Pod>,
    events: Events,
}

/// ReplicaSets. Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    control::<ReplicaSet>(context).await
}

/// ReplicationControllers. Runs until it is dropped.
pub async fn run_replication_controllers(context: Context) -> Result<()> {
    control::<ReplicationController>(context).await
}

async fn control<O: Replicated>(context: Context) -> Result<()> {
    let (sets, pods) = (Owned::<O>::new(&context), Owned::<Pod>::new(&context));
    let queue = context.queue(O::QUEUE);
    let _sets = sets.store.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.store.on_change({
        let (queue, owners): (_, Store<O>) = (queue.clone(), sets.store.clone());
        move |change| owners_of(change, &owners, O::selector).into_iter().for_each(|key| queue.add(key))
    });
    context.synced(&[&sets.store, &pods.store]).await;
    let events = context.events(O::REPORTER);
    work(&queue, 5, &Controller { client: context.client(), sets, pods, events }).await
}

impl<O: Replicated> Reconcile for Controller<O> {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(set) = self.sets.store.get(key) else { return Ok(Next::Done) };
        let owned = self.pods.claim(&*set, &set.selector()).await?;
        let outcome = if set.meta().deletion_timestamp.is_none() { self.change(&set, &owned).await } else { Ok(()) };
        let owned = self.pods.of(&set.uid().unwrap_or_default());
        let all: Vec<&Pod> = owned.iter().map(|pod| &**pod).collect();
        let failure = outcome.as_ref().err().map(|error| error_line(&**error));
        let changed = set.with_status(status::status(&set.as_set(), &all, failure.as_deref(), now()));
        if !changed.same_status(&set) {
            self.sets.write_status(&changed).await?;
        }
        outcome?;
        let min_ready = set.as_set().spec.min_ready_seconds.unwrap_or_default();
        let waits = all.iter().filter_map(|pod| pods::available_in(pod, min_ready, now()));
        let next = waits.filter(|wait| !wait.is_zero()).min();
        Ok(next.map_or(Next::Done, |wait| Next::After(wait.try_into().unwrap_or(Duration::from_secs(1)))))
    }
}

impl<O: Replicated> Controller<O> {
    async fn change(&self, set: &O, owned: &[Arc<Pod>]) -> Result<()> {
        let active: Vec<&Pod> = owned.iter().map(|pod| &**pod).filter(|pod| pods::is_active(pod)).collect();
        let wanted = usize::try_from(set.as_set().spec.replicas.unwrap_or(1)).unwrap_or_default();
        let crowd = if active.len() > wanted { self.crowd(set) } else { HashMap::new() };
        match plan::plan(&View { wanted, active: &active, crowd: &crowd, now: now() }) {
            Plan::Nothing => Ok(()),
            Plan::Create(count) => self.create(set, count).await,
            Plan::Delete(surplus) => {
                let deletions = surplus.into_iter().map(|pod| self.delete(set, pod));
                futures::future::join_all(deletions).await.into_iter().collect()
            }
        }
    }

    async fn create(&self, set: &O, count: usize) -> Result<()> {
        let pod = template::pod(&set.as_set().spec.template.clone().unwrap_or_default(), &owned::reference(set));
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        let (_, failure) = batches::slow_start(count, |_| async {
            let made = api.create(&PostParams::default(), &pod).await?;
            let note = format!("Created pod: {}", made.name_any());
            self.pods.store.remember(made);
            self.events.normal(&reference(set), "SuccessfulCreate", note).await;
            Ok::<(), kube::Error>(())
        })
        .await;
        let Some(error) = failure else { return Ok(()) };
        if is_namespace_leaving(&error) {
            return Ok(());
        }
        self.events.warning(&reference(set), "FailedCreate", format!("Error creating: {}", error_line(&error))).await;
        Err(error.into())
    }

    async fn delete(&self, set: &O, pod: &Pod) -> Result<()> {
        self.pods.delete(pod).await?;
        self.events.normal(&reference(set), "SuccessfulDelete", format!("Deleted pod: {}", pod.name_any())).await;
        Ok(())
    }

    /// Active pods per node of all with the same owner.
    fn crowd(&self, set: &O) -> HashMap<String, usize> {
        let siblings = match owned::controller_of(set.meta()) {
            Some(owner) => self.sets.of(&owner.uid).iter().filter_map(|sibling| sibling.uid()).collect(),
            None => Vec::from_iter(set.uid()),
        };
        let mut crowd = HashMap::new();
        for pod in siblings.iter().flat_map(|uid| self.pods.of(uid)).filter(|pod| pods::is_active(pod)) {
            *crowd.entry(pods::node_name(&pod).to_owned()).or_default() += 1;
        }
        crowd
    }
}

/// Whether nothing can be made because the namespace is being deleted: no error, but nothing to do either.
pub(crate) fn is_namespace_leaving(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 403 && status.message.contains("being terminated")
}
