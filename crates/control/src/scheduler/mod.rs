//! The scheduler: which node a pod goes to. Small on purpose: filters, a few preferences, no preemption, no volumes.
//!
//! Pods are placed one at a time and bound many at a time: a choice counts for the next one at once, before the API shows
//! it. A pod that fits nowhere waits until a node or another pod changes in a way that may help.

pub mod fit;

mod cluster;
mod demand;
mod neighbours;
mod plan;
mod spread;
#[cfg(test)]
mod tests;

use crate::{
    framework::{Change, Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    workloads::{now, pods},
};
use cluster::Cluster;
use k8s_openapi::{
    api::core::v1::{Binding, Namespace, Node, ObjectReference, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use runtime::client::Api;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "scheduler",
    alias: "kube-scheduler",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// Pods that name no scheduler are ours.
const NAME: &str = "default-scheduler";

struct Scheduler {
    client: Client,
    pods: Store<Pod>,
    nodes: Store<Node>,
    namespaces: Store<Namespace>,
    events: Events,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    cluster: Mutex<Cluster>,
    /// Pods that fit nowhere.
    waiting: Mutex<HashSet<Key>>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (pods, nodes, namespaces) = (context.store::<Pod>(), context.store::<Node>(), context.store::<Namespace>());
    let state = Arc::new(State::default());
    let queue: Queue<Key> = context.queue("scheduler");
    let _pods = pods.on_change({
        let (state, queue) = (Arc::clone(&state), queue.clone());
        move |change| state.pod_changed(change, &queue)
    });
    let _nodes = nodes.on_change({
        let (state, queue) = (Arc::clone(&state), queue.clone());
        move |change| {
            if may_help(change) {
                state.wake(&queue);
            }
        }
    });
    context.synced(&[&pods, &nodes, &namespaces]).await;
    let events = context.events(NAME);
    let scheduler = Scheduler { client: context.client(), pods, nodes, namespaces, events, state };
    work(&queue, 16, &scheduler).await
}

impl State {
    fn pod_changed(&self, change: &Change<'_, Pod>, queue: &Queue<Key>) {
        match change.new {
            Some(pod) => self.cluster.lock().see(pod),
            None => self.cluster.lock().forget(change.object()),
        }
        let needs_node = |pod: &Pod| pods::is_active(pod) && pods::node_name(pod).is_empty() && is_ours(pod);
        match change.new {
            Some(pod) if needs_node(pod) => queue.add(change.key()),
            _ => {
                self.waiting.lock().remove(&change.key());
            }
        }
        // Room was made, or a neighbour came or changed its labels.
        let counts = |pod: &Arc<Pod>| !pods::node_name(pod).is_empty() && !pods::is_finished(pod);
        let labels = |pod: Option<&Arc<Pod>>| pod.and_then(|pod| pod.metadata.labels.clone());
        let placed = change.new.is_some_and(counts);
        if change.old.is_some_and(counts) != placed || (placed && labels(change.old) != labels(change.new)) {
            self.wake(queue);
        }
    }

    fn wake(&self, queue: &Queue<Key>) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(|key| queue.add(key));
    }
}

/// Whether a node changed in something that is asked about when a pod is placed.
fn may_help(change: &Change<'_, Node>) -> bool {
    let asked = |node: &Arc<Node>| {
        let spec = node.spec.clone().unwrap_or_default();
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
        (node.metadata.labels.clone(), spec.taints, spec.unschedulable, allocatable)
    };
    change.new.is_some() && change.old.map(asked) != change.new.map(asked)
}

/// Whether this scheduler is asked, and nothing holds the pod back.
fn is_ours(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.scheduler_name.as_deref().unwrap_or(NAME) == NAME && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}

impl Reconcile for Scheduler {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(pod) = self.pods.get(key) else { return Ok(Next::Done) };
        let bound = !pods::node_name(&pod).is_empty() || self.state.cluster.lock().node_of(&pod).is_some();
        if bound || !pods::is_active(&pod) || !is_ours(&pod) {
            return Ok(Next::Done);
        }
        // Waiting before looking: a change that comes while we look brings us back.
        self.state.waiting.lock().insert(key.clone());
        let nodes = self.nodes.all();
        let nodes: HashMap<&str, &Node> =
            nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, &**node))).collect();
        let namespaces = if self.asks_for_namespaces(&pod) { self.namespace_labels() } else { HashMap::new() };
        let chosen = {
            // Chosen and taken in one go: others choose at the same time.
            let mut cluster = self.state.cluster.lock();
            let chosen = plan::choose(&pod, &nodes, &cluster, &namespaces).map(str::to_owned);
            if let Ok(node) = &chosen {
                cluster.place(&pod, node);
            }
            chosen
        };
        match chosen {
            Ok(node) => {
                self.state.waiting.lock().remove(key);
                self.bind(&pod, &node).await?;
            }
            Err(why) => self.refuse(&pod, &why).await?,
        }
        Ok(Next::Done)
    }
}

impl Scheduler {
    /// Labels of namespaces matter to terms that select by them: the pod's own, or those of pods that want to be alone.
    fn asks_for_namespaces(&self, pod: &Pod) -> bool {
        pod.spec.as_ref().is_some_and(|spec| spec.affinity.is_some())
            || self.state.cluster.lock().loners().next().is_some()
    }

    fn namespace_labels(&self) -> neighbours::Namespaces {
        let all = self.namespaces.all();
        all.iter().map(|one| (one.name_any(), one.metadata.labels.clone().unwrap_or_default())).collect()
    }

    /// Tells the API; if it does not agree, the place is free again.
    async fn bind(&self, pod: &Arc<Pod>, node: &str) -> Result<()> {
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        let binding = Binding {
            metadata: ObjectMeta { name: Some(name.clone()), uid: pod.uid(), ..ObjectMeta::default() },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let answer: kube::Result<serde_json::Value> =
            api.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        match answer {
            Ok(_) => {
                let note = format!("Successfully assigned {namespace}/{name} to {node}");
                self.events.normal(&reference(&**pod), "Scheduled", note).await;
                Ok(())
            }
            Err(error) => {
                self.state.cluster.lock().forget(pod);
                match error {
                    kube::Error::Api(status) if status.code == 404 => Ok(()),
                    error => Err(error.into()),
                }
            }
        }
    }

    async fn refuse(&self, pod: &Pod, why: &str) -> Result<()> {
        let known = pods::condition(pod, "PodScheduled");
        let unchanged = known.is_some_and(|known| known.status == "False" && known.message.as_deref() == Some(why));
        if unchanged {
            return Ok(());
        }
        let since = known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.clone());
        let condition = PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("Unschedulable".to_owned()),
            message: Some(why.to_owned()),
            last_transition_time: Some(since.unwrap_or_else(|| Time(now()))),
            ..PodCondition::default()
        };
        self.events.warning(&reference(pod), "FailedScheduling", why).await;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
        match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(stored) => self.pods.remember(stored),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
