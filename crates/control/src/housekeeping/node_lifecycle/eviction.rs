//! Taint eviction: pods leave nodes that no longer want them, after as long as they tolerate it.

use crate::{
    framework::{Context, Events, Key, Next, Reconcile, Result, Store, reference, work},
    scheduler::fit,
    workloads::{disrupted, pods},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use parking_lot::Mutex;
use runtime::client::Api;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Since when each taint of a node has been seen by a pod on it; `kubectl taint` does not say when it came.
type Seen = Vec<(Taint, Timestamp)>;

struct Evictions {
    client: Client,
    nodes: Store<Node>,
    pods: Store<Pod>,
    events: Events,
    /// By pod: those that will have to go.
    waiting: Mutex<HashMap<Key, (Option<String>, Seen)>>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (nodes, pods) = (context.store::<Node>(), context.store::<Pod>());
    let by_node = pods.index("node", |pod| vec![pods::node_name(pod).to_owned()]);
    let queue = context.queue("taint_eviction");
    let _pods = pods.on_change({
        let (queue, nodes) = (queue.clone(), nodes.clone());
        move |change| {
            let node = nodes.get(&Key::cluster(pods::node_name(change.object())));
            if change.new.is_some() && node.is_some_and(|node| repelling(&node).next().is_some()) {
                queue.add(change.key());
            }
        }
    });
    let _nodes = nodes.on_change({
        let (queue, pods) = (queue.clone(), pods.clone());
        move |change| {
            let taints = |node: Option<&Arc<Node>>| -> Vec<Taint> {
                node.map(|node| repelling(node).cloned().collect()).unwrap_or_default()
            };
            if taints(change.old) != taints(change.new) {
                pods.by(by_node, &change.key().name).iter().for_each(|pod| queue.add(Key::of(&**pod)));
            }
        }
    });
    context.synced(&[&nodes, &pods]).await;
    let events = context.events("taint-eviction-controller");
    let waiting = Mutex::default();
    work(&queue, 4, &Evictions { client: context.client(), nodes, pods, events, waiting }).await
}

fn repelling(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().filter(|taint| taint.effect == "NoExecute")
}

/// When the pod has to go; none when it may stay for good.
fn deadline(pod: &Pod, node: &Node, seen: &Seen, now: Timestamp) -> Option<Timestamp> {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.clone()).unwrap_or_default();
    let bound = pods::condition(pod, "PodScheduled").and_then(|bound| Some(bound.last_transition_time.as_ref()?.0));
    let due = |taint: &Taint| {
        let first = seen.iter().find(|(known, _)| known == taint).map_or(now, |(_, at)| *at);
        // A taint may be older than the pod's time on the node.
        let added = taint.time_added.as_ref().map(|time| bound.map_or(time.0, |bound| time.0.max(bound)));
        let since = added.unwrap_or(first);
        match tolerations.iter().find(|toleration| fit::tolerates(toleration, taint)) {
            None => Some(now),
            Some(toleration) => {
                let seconds = toleration.toleration_seconds?.max(0);
                Some(since.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX))
            }
        }
    };
    repelling(node).filter_map(due).min()
}

impl Reconcile for Evictions {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(pod) = self.pods.get(key).filter(|pod| pods::is_active(pod)) else {
            self.waiting.lock().remove(key);
            return Ok(Next::Done);
        };
        let Some(node) = self.nodes.get(&Key::cluster(pods::node_name(&pod))) else { return Ok(Next::Done) };
        let now = Timestamp::now();
        let seen = self.seen(key, &pod, &node, now);
        let Some(due) = deadline(&pod, &node, &seen, now) else {
            if self.waiting.lock().remove(key).is_some() {
                let note = format!("Cancelling deletion of Pod {key}");
                self.events.normal(&reference(&*pod), "TaintManagerEviction", note).await;
            }
            return Ok(Next::Done);
        };
        self.waiting.lock().insert(key.clone(), (pod.uid(), seen));
        if due > now {
            return Ok(Next::After(due.duration_since(now).try_into().unwrap_or(Duration::from_secs(1))));
        }
        let note = format!("Marking for deletion Pod {key}");
        self.events.normal(&reference(&*pod), "TaintManagerEviction", note).await;
        let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let why = "Taint manager: deleting due to NoExecute taint";
        match disrupted::mark(&api, &pod, "DeletionByTaintManager", why).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(Next::Done),
            told => told?,
        }
        match api.delete(&key.name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            answer => drop(answer?),
        }
        Ok(Next::Done)
    }
}

impl Evictions {
    /// Since when the pod has had the taints of its node to bear.
    fn seen(&self, key: &Key, pod: &Pod, node: &Node, now: Timestamp) -> Seen {
        let waiting = self.waiting.lock();
        let known = waiting.get(key).filter(|(uid, _)| *uid == pod.uid()).map(|(_, seen)| seen.as_slice());
        let since = |taint: &Taint| {
            known.unwrap_or_default().iter().find(|(known, _)| known == taint).map_or(now, |(_, at)| *at)
        };
        repelling(node).map(|taint| (taint.clone(), since(taint))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn pods_stay_as_long_as_they_tolerate_it() {
        let node = |taints| -> Node { from_value(json!({"spec": {"taints": taints}})).unwrap() };
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-01-01T01:00:00Z");
        let gone = json!([{"key": "gone", "effect": "NoExecute", "timeAdded": "2026-01-01T00:59:00Z"}]);
        for (taints, tolerations, expected) in [
            (json!([]), json!([]), None),
            (json!([{"key": "a", "effect": "NoSchedule"}]), json!([]), None),
            (gone.clone(), json!([]), Some(now)),
            (gone.clone(), json!([{"key": "gone", "operator": "Exists"}]), None),
            (
                gone.clone(),
                json!([{"key": "gone", "operator": "Exists", "tolerationSeconds": 300}]),
                Some(at("2026-01-01T01:04:00Z")),
            ),
            (
                gone.clone(),
                json!([{"key": "gone", "operator": "Exists", "tolerationSeconds": -1}]),
                Some(at("2026-01-01T00:59:00Z")),
            ),
            (gone, json!([{"key": "other", "operator": "Exists"}]), Some(now)),
            (
                // By kubectl, which does not say when.
                json!([{"key": "plain", "effect": "NoExecute"}]),
                json!([{"key": "plain", "operator": "Exists", "tolerationSeconds": 60}]),
                Some(at("2026-01-01T01:00:30Z")),
            ),
        ] {
            let pod: Pod = from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap();
            let node = node(taints);
            let before = at("2026-01-01T00:59:30Z");
            let seen: Seen = repelling(&node).map(|taint| (taint.clone(), before)).collect();
            assert_eq!(deadline(&pod, &node, &seen, now), expected, "{tolerations}");
        }
    }
}
