//! The scheduler: which node a pod goes to. Small on purpose: filters, a few preferences, preemption, volumes.
//!
//! Pods are placed one at a time and bound many at a time: a choice counts for the next one at once, before the API shows
//! it. A pod that fits nowhere waits until a node or another pod changes in a way that may help.

pub mod fit;

mod cluster;
mod demand;
mod neighbours;
mod plan;
mod preempt;
mod spread;
#[cfg(test)]
mod tests;
mod volumes;

use crate::{
    framework::{Change, Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    storage::{BOUND_BY_CONTROLLER, SELECTED_NODE, claims_of},
    workloads::{disrupted, now, pods},
};
use cluster::{Cluster, Nodes};
use k8s_openapi::{
    api::{
        core::v1::{
            Binding, Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition,
        },
        policy::v1::PodDisruptionBudget,
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use parking_lot::Mutex;
use runtime::client::Api;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use volumes::{Step, Storage, Volumes};

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "scheduler",
    alias: "kube-scheduler",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What a pod hears that waits for others to be gone.
const TERMINATING: &str = "a terminating pod on the nominated node";

/// Pods that name no scheduler are ours.
const NAME: &str = "default-scheduler";

struct Scheduler {
    client: Client,
    pods: Store<Pod>,
    namespaces: Store<Namespace>,
    budgets: Store<PodDisruptionBudget>,
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    classes: Store<StorageClass>,
    events: Events,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    cluster: Mutex<Cluster>,
    /// All nodes, one change at a time; who looks at them keeps what he looks at.
    nodes: Mutex<Arc<Nodes>>,
    /// Pods that fit nowhere.
    waiting: Mutex<HashSet<Key>>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (pods, nodes, namespaces) = (context.store::<Pod>(), context.store::<Node>(), context.store::<Namespace>());
    let budgets = context.store::<PodDisruptionBudget>();
    let state = Arc::new(State::default());
    let queue: Queue<Key> = context.queue("scheduler");
    let _pods = pods.on_change({
        let (state, queue) = (Arc::clone(&state), queue.clone());
        move |change| state.pod_changed(change, &queue)
    });
    let _nodes = nodes.on_change({
        let (state, queue) = (Arc::clone(&state), queue.clone());
        move |change| {
            state.node_changed(change);
            if may_help(change) {
                state.wake(&queue);
            }
        }
    });
    let (claims, volumes, classes) = (context.store(), context.store(), context.store());
    let wake = || {
        let (state, queue) = (Arc::clone(&state), queue.clone());
        move || state.wake(&queue)
    };
    // What a claim, a volume or a class has become may be what a pod waits for.
    let (on_claim, on_volume, on_class) = (wake(), wake(), wake());
    let _claims = claims.on_change(move |_: &Change<'_, PersistentVolumeClaim>| on_claim());
    let _volumes = volumes.on_change(move |_: &Change<'_, PersistentVolume>| on_volume());
    let _classes = classes.on_change(move |_: &Change<'_, StorageClass>| on_class());
    context.synced(&[&pods, &nodes, &namespaces, &budgets, &claims, &volumes, &classes]).await;
    let events = context.events(NAME);
    let client = context.client();
    let scheduler = Scheduler { client, pods, namespaces, budgets, claims, volumes, classes, events, state };
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

    fn node_changed(&self, change: &Change<'_, Node>) {
        let mut nodes = self.nodes.lock();
        let nodes = Arc::make_mut(&mut nodes);
        match change.new {
            Some(node) => drop(nodes.insert(node.name_any(), Arc::clone(node))),
            None => drop(nodes.remove(&change.key().name)),
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
        let nodes = Arc::clone(&self.state.nodes.lock());
        let namespaces = if self.asks_for_namespaces(&pod) { self.namespace_labels() } else { HashMap::new() };
        let claims_devices =
            pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref()).is_some_and(|all| !all.is_empty());
        if claims_devices {
            let why = "cannot allocate all claims: devices are not allocated by this scheduler";
            self.refuse(&pod, why, None).await?;
            return Ok(Next::Done);
        }
        let volumes = match Volumes::of(&pod, &Lookup { scheduler: self, pod: &pod }) {
            Ok(volumes) => volumes,
            Err(why) => {
                self.refuse(&pod, &why, None).await?;
                return Ok(Next::Done);
            }
        };
        let chosen = {
            // Chosen and taken in one go: others choose at the same time.
            let mut cluster = self.state.cluster.lock();
            let chosen = plan::choose(&pod, &nodes, &cluster, &namespaces, &volumes).map(str::to_owned);
            if let Ok(node) = &chosen
                && volumes.are_there()
            {
                cluster.place(&pod, node);
            }
            chosen
        };
        match chosen {
            // It comes back when its volumes are there.
            Ok(node) if !volumes.are_there() => {
                let steps = nodes.get(node.as_str()).and_then(|node| volumes.steps(node)).unwrap_or_default();
                self.prepare(steps, &node).await?;
            }
            Ok(node) => {
                self.state.waiting.lock().remove(key);
                self.bind(&pod, &node).await?;
            }
            Err(refusal) => {
                let (why, made) = self.make_room(&pod, &refusal, &nodes, &namespaces);
                let node = made.as_ref().map(|made| made.node.as_str());
                self.refuse(&pod, &why, node).await?;
                if let Some(made) = made {
                    self.preempt(&pod, &made).await?;
                }
            }
        }
        Ok(Next::Done)
    }
}

/// The stores as one pod sees them.
struct Lookup<'a> {
    scheduler: &'a Scheduler,
    pod: &'a Pod,
}

impl Storage for Lookup<'_> {
    fn claim(&self, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.scheduler.claims.get(&Key::new(self.pod.namespace().unwrap_or_default(), name))
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.scheduler.volumes.get(&Key::cluster(name))
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.scheduler.classes.get(&Key::cluster(name))
    }

    fn volumes(&self) -> Vec<Arc<PersistentVolume>> {
        self.scheduler.volumes.all()
    }

    fn is_taken(&self, claim: &str) -> bool {
        let others = self.scheduler.pods.in_namespace(&self.pod.namespace().unwrap_or_default());
        others.iter().any(|other| {
            other.metadata.uid != self.pod.metadata.uid
                && !pods::node_name(other).is_empty()
                && !pods::is_finished(other)
                && claims_of(other).iter().any(|name| name == claim)
        })
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

    /// Brings volumes to a node, or has them made for it.
    async fn prepare(&self, steps: Vec<Step>, node: &str) -> Result<()> {
        let params = PatchParams::default();
        for step in steps {
            match step {
                Step::Promise { volume, claim } => {
                    let patch = json!({
                        "metadata": {"resourceVersion": volume.metadata.resource_version, "annotations": {BOUND_BY_CONTROLLER: "yes"}},
                        "spec": {"claimRef": reference(&*claim)},
                    });
                    let api: Api<PersistentVolume> = Api::all(self.client.clone());
                    self.volumes.remember(api.patch(&volume.name_any(), &params, &Patch::Merge(patch)).await?);
                }
                Step::Select(claim) => {
                    let patch = json!({"metadata": {
                        "resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node}}});
                    let namespace = claim.namespace().unwrap_or_default();
                    let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
                    self.claims.remember(api.patch(&claim.name_any(), &params, &Patch::Merge(patch)).await?);
                }
            }
        }
        Ok(())
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

    /// Whom to send away so that the pod can run, if that is allowed and helps; and the whole of what there is to tell.
    fn make_room(
        &self,
        pod: &Pod,
        refusal: &plan::Refusal,
        nodes: &Nodes,
        namespaces: &neighbours::Namespaces,
    ) -> (String, Option<preempt::Preemption>) {
        let mut cluster = self.state.cluster.lock();
        if nodes.is_empty() {
            return (refusal.why.clone(), None);
        }
        if let Some(why) = preempt::is_not_eligible(pod, &cluster) {
            return (format!("{} preemption: {why}", refusal.why), None);
        }
        let budgets = self.budgets.all();
        match preempt::choose(pod, &refusal.curable, nodes, &mut cluster, namespaces, &budgets) {
            Ok(made) => {
                cluster.nominate(pod, &made.node);
                (refusal.why.clone(), Some(made))
            }
            Err(why) => {
                cluster.nominate(pod, "");
                (format!("{} preemption: {why}", refusal.why), None)
            }
        }
    }

    /// Sends the victims away. The pod comes back here when they are gone.
    async fn preempt(&self, pod: &Pod, made: &preempt::Preemption) -> Result<()> {
        let node = made.node.as_str();
        let uid = pod.uid().unwrap_or_default();
        for victim in &made.victims {
            if victim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let (name, namespace) = (victim.name_any(), victim.namespace().unwrap_or_default());
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
            let why = format!("{NAME}: preempting to accommodate a higher priority pod");
            let told = disrupted::mark(&api, victim, "PreemptionByScheduler", &why).await;
            let preconditions = Some(Preconditions { uid: victim.uid(), resource_version: None });
            let gone = match told {
                Ok(_) => api.delete(&name, &DeleteParams { preconditions, ..DeleteParams::default() }).await.map(drop),
                Err(error) => Err(error),
            };
            match gone {
                Ok(()) => {
                    let note = format!("Preempted by pod {uid} on node {node}");
                    self.events.normal(&reference(&**victim), "Preempted", note).await;
                }
                // It went by itself, or is another one by now.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Room that was made for those that matter less is not theirs any more: they look for another.
        let below = self.state.cluster.lock().nominated_below(pod, node);
        for other in self.pods.all().iter().filter(|other| other.uid().is_some_and(|uid| below.contains(&uid))) {
            self.state.cluster.lock().nominate(other, "");
            self.set_status(other, &json!({"nominatedNodeName": null})).await?;
        }
        Ok(())
    }

    /// Tells why the pod goes nowhere, and for which node room is being made.
    async fn refuse(&self, pod: &Pod, why: &str, nominated: Option<&str>) -> Result<()> {
        let known = pods::condition(pod, "PodScheduled");
        let before = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
        let waits = why.contains(TERMINATING);
        let moved =
            nominated.is_some_and(|node| before != Some(node)) || (nominated.is_none() && before.is_some() && !waits);
        let unchanged = known.is_some_and(|known| known.status == "False" && known.message.as_deref() == Some(why));
        if unchanged && !moved {
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
        if !unchanged {
            self.events.warning(&reference(pod), "FailedScheduling", why).await;
        }
        let mut status = json!({"conditions": [condition]});
        if moved {
            status["nominatedNodeName"] = json!(nominated);
        }
        self.set_status(pod, &status).await
    }

    async fn set_status(&self, pod: &Pod, status: &serde_json::Value) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(stored) => self.pods.remember(stored),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
