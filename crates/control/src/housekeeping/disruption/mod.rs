//! PodDisruptionBudget: how many pods may be evicted now, so that the eviction API can say yes or no.

mod plan;

use crate::{
    framework::{Context, Index, Key, Next, Queue, Reconcile, Result, Store, Subscription, matches_labels, work},
    workloads::{now, owned::controller_of},
};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    core::v1::{Pod, ReplicationController},
    policy::v1::PodDisruptionBudget,
};
use kube::{Client, ResourceExt, api::PostParams};
use runtime::client::{Api, Kind};
use std::{collections::HashMap, time::Duration};

struct Budgets {
    client: Client,
    budgets: Store<PodDisruptionBudget>,
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    deployments: Store<Deployment>,
    stateful: Store<StatefulSet>,
    controllers: Store<ReplicationController>,
    by_namespace: Index,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (budgets, pods) = (context.store::<PodDisruptionBudget>(), context.store::<Pod>());
    let (sets, deployments) = (context.store::<ReplicaSet>(), context.store::<Deployment>());
    let (stateful, controllers) = (context.store::<StatefulSet>(), context.store::<ReplicationController>());
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
    let _owners = (
        on_resize(&sets, &queue, &budgets, |set: &ReplicaSet| set.spec.replicas),
        on_resize(&deployments, &queue, &budgets, |one: &Deployment| one.spec.replicas),
        on_resize(&stateful, &queue, &budgets, |set: &StatefulSet| set.spec.replicas),
        on_resize(&controllers, &queue, &budgets, |one: &ReplicationController| size(one)),
    );
    context.synced(&[&budgets, &pods, &sets, &deployments, &stateful, &controllers]).await;
    let by_namespace = pods.index("namespace", |pod| vec![pod.namespace().unwrap_or_default()]);
    let client = context.client();
    let all = Budgets { client, budgets, pods, sets, deployments, stateful, controllers, by_namespace };
    work(&queue, 2, &all).await
}

/// Looks at the budgets of a namespace again when an owner there changes its size.
fn on_resize<K: Kind>(
    owners: &Store<K>,
    queue: &Queue<Key>,
    budgets: &Store<PodDisruptionBudget>,
    size: fn(&K) -> Option<i32>,
) -> Subscription {
    let (queue, budgets) = (queue.clone(), budgets.clone());
    owners.on_change(move |change| {
        if change.old.map(|owner| size(owner)) != change.new.map(|owner| size(owner)) {
            let there = budgets.in_namespace(&change.key().namespace);
            there.iter().for_each(|budget| queue.add(Key::of(&**budget)));
        }
    })
}

fn size(controller: &ReplicationController) -> Option<i32> {
    controller.spec.as_ref().and_then(|spec| spec.replicas)
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
        let owner = controller_of(&pod.metadata)?;
        let key = Key::new(pod.namespace().unwrap_or_default(), &owner.name);
        let is_it = |uid: Option<String>| uid.as_ref() == Some(&owner.uid);
        let replicas = match owner.kind.as_str() {
            "ReplicaSet" => return self.sets.get(&key).filter(|set| is_it(set.uid())).map(|set| self.set_size(&set)),
            "StatefulSet" => self.stateful.get(&key).filter(|set| is_it(set.uid()))?.spec.replicas,
            "ReplicationController" => size(&*self.controllers.get(&key).filter(|one| is_it(one.uid()))?),
            _ => return None,
        };
        Some((owner.uid.clone(), replicas.unwrap_or(1)))
    }

    /// A ReplicaSet of a Deployment is as large as all of that.
    fn set_size(&self, set: &ReplicaSet) -> (String, i32) {
        if let Some(owner) = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment")
            && let Some(deployment) = self.deployments.get(&Key::new(set.namespace().unwrap_or_default(), &owner.name))
            && deployment.uid().as_ref() == Some(&owner.uid)
        {
            return (owner.uid.clone(), deployment.spec.replicas.unwrap_or(1));
        }
        (set.uid().unwrap_or_default(), set.spec.replicas.unwrap_or(1))
    }
}
