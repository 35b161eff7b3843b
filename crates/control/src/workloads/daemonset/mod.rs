//! DaemonSet: one pod on every node that fits.

pub mod plan;
pub mod pod;

mod history;
#[cfg(test)]
mod tests;

use super::{
    batches, now,
    owned::{self, Owned, owners_of},
    pods,
    replicaset::is_namespace_leaving,
};
use crate::framework::{Change, Context, Events, Key, Next, Reconcile, Result, Store, reference, work};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Node, Pod},
};
use kube::{Client, ResourceExt, api::PostParams};
use parking_lot::Mutex;
use plan::{Plan, View};
use runtime::{backoff::Backoff, client::Api};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

struct DaemonSets {
    client: Client,
    sets: Store<DaemonSet>,
    revisions: Owned<ControllerRevision>,
    pods: Owned<Pod>,
    nodes: Store<Node>,
    events: Events,
    /// How often daemon pods failed, by DaemonSet and node, and when the last was taken away.
    failures: Mutex<HashMap<(String, String), (u32, Instant)>>,
}

/// Pauses between attempts on a node whose daemon pods fail.
const PAUSES: Backoff = Backoff { first: Duration::from_secs(1), cap: Duration::from_secs(15 * 60) };

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (sets, nodes) = (context.store::<DaemonSet>(), context.store::<Node>());
    let (revisions, pods) = (Owned::<ControllerRevision>::new(&context), Owned::<Pod>::new(&context));
    let queue = context.queue("daemonset");
    let _sets = sets.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.store.on_change({
        let (queue, owners) = (queue.clone(), sets.clone());
        move |change| owners_of(change, &owners, |set| &set.spec.selector).into_iter().for_each(|key| queue.add(key))
    });
    let _nodes = nodes.on_change({
        let (queue, sets) = (queue.clone(), sets.clone());
        move |change| {
            if matters(change) {
                sets.all().iter().for_each(|set| queue.add(Key::of(&**set)));
            }
        }
    });
    context.synced(&[&sets, &revisions.store, &pods.store, &nodes]).await;
    let events = context.events("daemonset-controller");
    let failures = Mutex::default();
    work(&queue, 2, &DaemonSets { client: context.client(), sets, revisions, pods, nodes, events, failures }).await
}

/// Whether a node came, went, or changed in what decides about daemons.
fn matters(change: &Change<'_, Node>) -> bool {
    let asked =
        |node: &Arc<Node>| (node.metadata.labels.clone(), node.spec.as_ref().and_then(|spec| spec.taints.clone()));
    change.old.map(asked) != change.new.map(asked)
}

impl Reconcile for DaemonSets {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(set) = self.sets.get(key) else {
            self.failures.lock().retain(|(owner, _), _| *owner != key.to_string());
            return Ok(Next::Done);
        };
        if owned::is_empty(&set.spec.selector) {
            let note = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.events.warning(&reference(&*set), "SelectingAll", note).await;
            return Ok(Next::Done);
        }
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        let hash = self.keep_history(&set).await?;
        let claimed = self.pods.claim(&*set, &set.spec.selector).await?;
        let nodes = self.nodes.all();
        let nodes: Vec<&Node> = nodes.iter().map(|node| &**node).collect();
        let seen: Vec<&Pod> = claimed.iter().map(|pod| &**pod).collect();
        let mut plan = View { set: &set, nodes: &nodes, pods: &seen, hash: &hash, now: now() }.plan();
        let pause = self.hold_back(key, &mut plan);
        let outcome = self.change(&set, &plan, &hash).await;
        let owned = self.pods.of(&set.uid().unwrap_or_default());
        let seen: Vec<&Pod> = owned.iter().map(|pod| &**pod).collect();
        let view = View { set: &set, nodes: &nodes, pods: &seen, hash: &hash, now: now() };
        self.write_status(&set, view.status()).await?;
        outcome?;
        let min_ready = set.spec.min_ready_seconds.unwrap_or_default();
        let waits = seen.iter().filter_map(|pod| pods::available_in(pod, min_ready, now()));
        let waits = waits.filter(|wait| !wait.is_zero()).filter_map(|wait| Duration::try_from(wait).ok());
        Ok(waits.chain(pause).min().map_or(Next::Done, Next::After))
    }
}

impl DaemonSets {
    /// Takes failed pods out of the plan as long as their node's pause lasts; answers with the shortest that is left.
    fn hold_back(&self, key: &Key, plan: &mut Plan<'_>) -> Option<Duration> {
        let mut failures = self.failures.lock();
        let mut shortest = None;
        plan.delete.retain(|pod| {
            if pods::phase(pod) != "Failed" {
                return true;
            }
            let node = (key.to_string(), pod::node(pod).to_owned());
            let (count, last) = failures.get(&node).copied().unwrap_or_else(|| (0, Instant::now()));
            let left =
                if count == 0 { Duration::ZERO } else { PAUSES.delay(count, 0.0).saturating_sub(last.elapsed()) };
            if left.is_zero() {
                // A node that was well for long starts over.
                let well = last.elapsed() > PAUSES.cap * 2;
                failures.insert(node, (if well { 1 } else { count + 1 }, Instant::now()));
                return true;
            }
            shortest = Some(shortest.map_or(left, |known: Duration| known.min(left)));
            false
        });
        shortest
    }

    /// Makes the present template's revision the newest, drops those nobody needs; answers with its hash.
    async fn keep_history(&self, set: &DaemonSet) -> Result<String> {
        let revisions = self.revisions.claim(set, &set.spec.selector).await?;
        let all: Vec<&ControllerRevision> = revisions.iter().map(|revision| &**revision).collect();
        let (present, old) = history::split(set, &all);
        let next = history::next(&old);
        let api = self.revisions.api(&set.namespace().unwrap_or_default());
        let hash = match present {
            None => {
                let wanted = history::create(set, next);
                let made = match api.create(&PostParams::default(), &wanted).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        return self.collide(set, &wanted).await;
                    }
                    made => made?,
                };
                let hash = history::hash(&made).to_owned();
                self.revisions.store.remember(made);
                hash
            }
            Some(present) if history::number(present) < next => {
                let changed = ControllerRevision { revision: Some(next), ..present.clone() };
                let stored = api.replace(&present.name_any(), &PostParams::default(), &changed).await?;
                self.revisions.store.remember(stored);
                history::hash(present).to_owned()
            }
            Some(present) => history::hash(present).to_owned(),
        };
        let pods = self.pods.of(&set.uid().unwrap_or_default());
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        for revision in history::outdated(set, &old, &pods) {
            self.revisions.delete(revision).await?;
        }
        Ok(hash)
    }

    /// A revision of this name exists: ours, only not seen yet, or somebody's with the same hash.
    async fn collide(&self, set: &DaemonSet, wanted: &ControllerRevision) -> Result<String> {
        let known = self.revisions.api(&set.namespace().unwrap_or_default()).get(&wanted.name_any()).await?;
        let ours = owned::controller_of(&known.metadata).map(|owner| &owner.uid) == set.metadata.uid.as_ref();
        if ours && known.data == wanted.data {
            let hash = history::hash(&known).to_owned();
            self.revisions.store.remember(known);
            return Ok(hash);
        }
        let mut status = set.status.clone().unwrap_or_default();
        status.collision_count = Some(status.collision_count.unwrap_or_default() + 1);
        self.write_status(set, status).await?;
        Err(format!("ControllerRevision {} exists and is not ours; another name is tried", wanted.name_any()).into())
    }

    async fn change(&self, set: &DaemonSet, plan: &Plan<'_>, hash: &str) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        for pod in &plan.delete {
            if pods::phase(pod) == "Failed" {
                let note = format!("Found failed daemon pod {}, will try to kill it", Key::of(*pod));
                self.events.warning(&reference(set), "FailedDaemonPod", note).await;
            }
            self.pods.delete(pod).await?;
            let note = format!("Deleted pod: {}", pod.name_any());
            self.events.normal(&reference(set), "SuccessfulDelete", note).await;
        }
        let (_, failure) = batches::slow_start(plan.create.len(), |index| {
            let pod = pod::create(set, plan.create[index], hash);
            let api = &api;
            async move {
                let made = api.create(&PostParams::default(), &pod).await?;
                let note = format!("Created pod: {}", made.name_any());
                self.pods.store.remember(made);
                self.events.normal(&reference(set), "SuccessfulCreate", note).await;
                Ok::<(), kube::Error>(())
            }
        })
        .await;
        match failure {
            None => Ok(()),
            Some(error) if is_namespace_leaving(&error) => Ok(()),
            Some(error) => {
                self.events.warning(&reference(set), "FailedCreate", format!("Error creating: {error}")).await;
                Err(error.into())
            }
        }
    }

    async fn write_status(&self, set: &DaemonSet, status: k8s_openapi::api::apps::v1::DaemonSetStatus) -> Result<()> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let changed = DaemonSet { status: Some(status), ..set.clone() };
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        match api.replace_status(&set.name_any(), &PostParams::default(), &changed).await {
            Ok(stored) => self.sets.remember(stored),
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
