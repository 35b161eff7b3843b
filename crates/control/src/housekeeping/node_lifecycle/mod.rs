//! Node lifecycle: nodes that fall silent become Unknown, their pods not ready, and taints say so to scheduler and eviction.

pub mod eviction;

mod plan;

use super::HousekeepingOptions;
use crate::{
    framework::{Context, Events, Index, Key, Next, Reconcile, Result, Store, reference, work},
    workloads::{now, pods},
};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use runtime::client::Api;
use serde_json::json;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Where nodes keep their leases.
const LEASES: &str = "kube-node-lease";

/// Signs of life: any change of these counts, whatever the clocks say.
type Signs = (Option<MicroTime>, Option<Time>);

struct Nodes {
    client: Client,
    nodes: Store<Node>,
    pods: Store<Pod>,
    by_node: Index,
    leases: Store<Lease>,
    options: HousekeepingOptions,
    events: Events,
    heard: Mutex<HashMap<String, (Signs, Instant)>>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (nodes, pods, leases) = (context.store::<Node>(), context.store::<Pod>(), context.store::<Lease>());
    let by_node = pods.index("node", |pod| vec![pods::node_name(pod).to_owned()]);
    let queue = context.queue("node_lifecycle");
    let _nodes = nodes.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _leases = leases.on_change({
        let queue = queue.clone();
        move |change| {
            if change.key().namespace == LEASES {
                queue.add(Key::cluster(change.key().name));
            }
        }
    });
    context.synced(&[&nodes, &pods, &leases]).await;
    let nodes = Nodes {
        client: context.client(),
        nodes,
        pods,
        by_node,
        leases,
        options: context.options().housekeeping.clone(),
        events: context.events("node-controller"),
        heard: Mutex::default(),
    };
    work(&queue, 4, &nodes).await
}

impl Reconcile for Nodes {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(node) = self.nodes.get(key) else {
            self.heard.lock().remove(&key.name);
            return Ok(Next::Done);
        };
        let silence = self.silence(&node);
        let left = self.options.node_monitor_grace_period.saturating_sub(silence);
        let node = if left.is_zero() { self.give_up(node).await? } else { node };
        if let Some(taints) = plan::taints(&node, now()) {
            let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
            let api: Api<Node> = Api::all(self.client.clone());
            let stored = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            self.nodes.remember(stored);
        }
        if left.is_zero() {
            // Pods that were bound meanwhile, or that could not be written.
            self.mark_pods(&node).await?;
            return Ok(Next::After(self.options.node_monitor_period));
        }
        Ok(Next::After(left))
    }
}

impl Nodes {
    /// How long nothing has been heard.
    fn silence(&self, node: &Node) -> Duration {
        let name = node.name_any();
        let lease = self.leases.get(&Key::new(LEASES, &name));
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let heartbeat = conditions.filter(|one| one.type_ == "Ready").find_map(|one| one.last_heartbeat_time.clone());
        let signs: Signs = (renewed, heartbeat);
        let mut heard = self.heard.lock();
        let (known, at) = heard.entry(name).or_insert_with(|| (signs.clone(), Instant::now()));
        if *known != signs {
            (*known, *at) = (signs, Instant::now());
        }
        at.elapsed()
    }

    async fn give_up(&self, node: Arc<Node>) -> Result<Arc<Node>> {
        let Some(conditions) = plan::unknown(&node, now()) else { return Ok(node) };
        let mut changed = (*node).clone();
        changed.status.get_or_insert_default().conditions = Some(conditions);
        let api: Api<Node> = Api::all(self.client.clone());
        let stored = api.replace_status(&node.name_any(), &PostParams::default(), &changed).await?;
        self.nodes.remember(stored.clone());
        let note = format!("Node {} status is now: NodeNotReady", node.name_any());
        self.events.normal(&reference(&*node), "NodeNotReady", note).await;
        Ok(Arc::new(stored))
    }

    /// Pods of a silent node serve nobody who asks for them by their Service.
    async fn mark_pods(&self, node: &Node) -> Result<()> {
        if !plan::is_unknown(node) {
            return Ok(());
        }
        for pod in self.pods.by(self.by_node, &node.name_any()).iter().filter(|pod| pods::is_ready(pod)) {
            let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": now().to_string()});
            let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
            match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
                Ok(stored) => self.pods.remember(stored),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
