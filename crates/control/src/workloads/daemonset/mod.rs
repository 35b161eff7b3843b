//! DaemonSet: one pod on every node that fits.

pub mod plan;
pub mod pod;

#[cfg(test)]
mod tests;

use super::{
    batches,
    history::{self, History, Kept},
    now,
    owned::{self, Owned, owners_of},
    pods,
    replicaset::is_namespace_leaving,
};
use crate::framework::{Change, Context, Events, Key, Next, Reconcile, Result, Store, reference, work};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::{Client, ResourceExt, api::PostParams};
use parking_lot::Mutex;
use plan::{Plan, View};
use runtime::{
    backoff::Backoff,
    client::{Api, error_line},
};
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

struct DaemonSets {
    client: Client,
    sets: Store<DaemonSet>,
    history: History,
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
    let (history, pods) = (History::new(&context, pod::HASH_LABEL), Owned::<Pod>::new(&context));
    let queue = context.queue("daemonset");
    let _sets = sets.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.store.on_change({
        let (queue, owners) = (queue.clone(), sets.clone());
        move |change| {
            let keys = owners_of(change, &owners, |set| Cow::Borrowed(&set.spec.selector));
            keys.into_iter().for_each(|key| queue.add(key));
        }
    });
    let _nodes = nodes.on_change({
        let (queue, sets) = (queue.clone(), sets.clone());
        move |change| {
            if matters(change) {
                sets.all().iter().for_each(|set| queue.add(Key::of(&**set)));
            }
        }
    });
    context.synced(&[&sets, history.store(), &pods.store, &nodes]).await;
    let events = context.events("daemonset-controller");
    let failures = Mutex::default();
    work(&queue, 2, &DaemonSets { client: context.client(), sets, history, pods, nodes, events, failures }).await
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
        let collisions = set.status.as_ref().and_then(|status| status.collision_count);
        let kept = self.history.keep(set, &set.spec.selector, &set.spec.template, collisions).await?;
        let (present, old) = match kept {
            Kept::Revisions { present, old } => (present, old),
            Kept::Taken(name) => {
                let mut status = set.status.clone().unwrap_or_default();
                status.collision_count = Some(status.collision_count.unwrap_or_default() + 1);
                self.write_status(set, status).await?;
                return Err(history::taken(&name));
            }
        };
        let pods = self.pods.of(&set.uid().unwrap_or_default());
        let live =
            |hash: &str| pods.iter().any(|pod| pod.labels().get(pod::HASH_LABEL).is_some_and(|label| label == hash));
        let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or_default();
        let surplus = old.len().saturating_sub(limit);
        for revision in old.iter().filter(|one| !live(self.history.hash(one))).take(surplus) {
            self.history.delete(revision).await?;
        }
        Ok(self.history.hash(&present).to_owned())
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
                self.events
                    .warning(&reference(set), "FailedCreate", format!("Error creating: {}", error_line(&error)))
                    .await;
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
