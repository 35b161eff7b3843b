//! PodDisruptionBudget: how many pods may be evicted now, so that the eviction API can say yes or no.

mod plan;

use crate::{
    framework::{Context, Index, Key, Next, Reconcile, Result, Store, matches_labels, work},
    workloads::now,
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::Pod,
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Client, ResourceExt, api::PostParams};
use runtime::client::Api;
use std::{collections::HashMap, sync::Arc, time::Duration};

struct Budgets {
    client: Client,
    budgets: Store<PodDisruptionBudget>,
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    deployments: Store<Deployment>,
    by_namespace: Index,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (budgets, pods) = (context.store::<PodDisruptionBudget>(), context.store::<Pod>());
    let (sets, deployments) = (context.store::<ReplicaSet>(), context.store::<Deployment>());
    let queue = context.queue("disruption");
    let _budgets = budgets.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.on_change({
        let (queue, budgets) = (queue.clone(), budgets.clone());
        move |change| {
            for budget in budgets.in_namespace(&change.key().namespace) {
                if change.both().any(|pod| covers(&budget, pod)) {
                    queue.add(Key::of(&*budget));
                }
            }
        }
    });
    // The sizes of owners are what percentages are of.
    let sized = |queue: &crate::framework::Queue<Key>, budgets: &Store<PodDisruptionBudget>, namespace: &str| {
        budgets.in_namespace(namespace).iter().for_each(|budget| queue.add(Key::of(&**budget)));
    };
    let _sets = sets.on_change({
        let (queue, budgets) = (queue.clone(), budgets.clone());
        move |change| {
            if change.old.map(|set| set.spec.replicas) != change.new.map(|set| set.spec.replicas) {
                sized(&queue, &budgets, &change.key().namespace);
            }
        }
    });
    let _deployments = deployments.on_change({
        let (queue, budgets) = (queue.clone(), budgets.clone());
        move |change| {
            if change.old.map(|one| one.spec.replicas) != change.new.map(|one| one.spec.replicas) {
                sized(&queue, &budgets, &change.key().namespace);
            }
        }
    });
    context.synced(&[&budgets, &pods, &sets, &deployments]).await;
    let by_namespace = pods.index("namespace", |pod| vec![pod.namespace().unwrap_or_default()]);
    work(&queue, 2, &Budgets { client: context.client(), budgets, pods, sets, deployments, by_namespace }).await
}

/// Whether the budget is about this pod. A selector that says nothing is about all, an absent one about none.
fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| matches_labels(selector, pod.metadata.labels.as_ref()))
}

impl Reconcile for Budgets {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(budget) = self.budgets.get(key) else { return Ok(Next::Done) };
        let pods = self.pods.by(self.by_namespace, &key.namespace);
        let covered: Vec<&Pod> = pods.iter().map(|pod| &**pod).filter(|pod| covers(&budget, pod)).collect();
        let status = plan::status(&budget, &covered, self.expected(&covered), now());
        let next = plan::look_again_in(&status, now());
        if budget.status.as_ref() != Some(&status) {
            let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &key.namespace);
            let changed = PodDisruptionBudget { status: Some(status), ..(*budget).clone() };
            match api.replace_status(&key.name, &PostParams::default(), &changed).await {
                Ok(stored) => self.budgets.remember(stored),
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(next.map_or(Next::Done, |wait| Next::After(wait.try_into().unwrap_or(Duration::from_secs(1)))))
    }
}

impl Budgets {
    /// How many pods the owners of these want. Pods of owners without a size we know count as themselves.
    fn expected(&self, pods: &[&Pod]) -> i32 {
        let mut sizes: HashMap<String, i32> = HashMap::new();
        let mut single = 0;
        for pod in pods {
            match self.owner_size(pod) {
                Some((uid, size)) => drop(sizes.insert(uid, size)),
                None => single += 1,
            }
        }
        sizes.values().sum::<i32>() + single
    }

    fn owner_size(&self, pod: &Pod) -> Option<(String, i32)> {
        let namespace = pod.namespace().unwrap_or_default();
        let owner = controller(&pod.metadata, "ReplicaSet")?;
        let set: Arc<ReplicaSet> =
            self.sets.get(&Key::new(&namespace, &owner.name)).filter(|set| set.uid().as_ref() == Some(&owner.uid))?;
        if let Some(owner) = controller(&set.metadata, "Deployment")
            && let Some(deployment) = self.deployments.get(&Key::new(&namespace, &owner.name))
            && deployment.uid().as_ref() == Some(&owner.uid)
        {
            return Some((owner.uid.clone(), deployment.spec.replicas.unwrap_or(1)));
        }
        Some((owner.uid.clone(), set.spec.replicas.unwrap_or(1)))
    }
}

fn controller<'a>(meta: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true) && owner.kind == kind)
}
