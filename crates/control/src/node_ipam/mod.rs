//! `node-ipam-controller`: one pod CIDR per family for each node, cut from `--cluster-cidr` in its order.

pub mod allocations;
mod metrics;
#[cfg(test)]
mod tests;

use crate::framework::{Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work};
use allocations::{Allocations, Decision};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use metrics::Metrics;
use net::{Cidr, DualStack, NodeBlocks};
use parking_lot::Mutex;
use runtime::client::Api;
use serde_json::json;
use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

/// The controller of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "node-ipam-controller",
    alias: "nodeipam",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here.
#[derive(Clone, Debug, Default)]
pub struct NodeIpamOptions {
    /// `--cluster-cidr` cut by `--node-cidr-mask-size*`; none without `--allocate-node-cidrs`.
    pub blocks: Option<DualStack<NodeBlocks>>,
    /// `--service-cluster-ip-range`: not handed out to nodes where it overlaps.
    pub service_ranges: Vec<Cidr>,
}

/// As many as upstream has: assigning is mostly waiting for the API server.
const WORKERS: usize = 30;

/// When a node that found the range full looks again, if nobody wakes it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

struct NodeIpam {
    nodes: Store<Node>,
    api: Api<Node>,
    events: Events,
    shared: Arc<IpamState>,
    metrics: Arc<Metrics>,
}

/// What callbacks and workers share.
struct IpamState {
    allocations: Mutex<Allocations>,
    /// Nodes that found the range full; they are looked at again when something is freed.
    waiting: Mutex<BTreeSet<Key>>,
    /// Nodes with a CIDR from outside that were told so.
    reported: Mutex<HashSet<String>>,
}

async fn run(context: Context) -> Result<()> {
    let options = context.options().node_ipam.clone();
    let Some(blocks) = options.blocks else {
        tracing::info!("nodes get no pod CIDRs from here: --allocate-node-cidrs is off");
        return Ok(());
    };
    let nodes = context.store::<Node>();
    let queue: Queue<Key> = context.queue("node_ipam");
    let metrics = context.lasting(|_| Metrics::new(context.admin()));
    nodes.synced().await;
    let allocations = Mutex::new(Allocations::new(blocks, &options.service_ranges));
    let shared = Arc::new(IpamState { allocations, waiting: Mutex::default(), reported: Mutex::default() });
    // Everything that nodes have is noted before anything is handed out: the queue is not worked on before this returns.
    let _nodes = nodes.on_change({
        let (queue, shared, metrics) = (queue.clone(), Arc::clone(&shared), Arc::clone(&metrics));
        move |change| {
            let freed = match change.new {
                Some(node) => {
                    shared.allocations.lock().observe(node);
                    false
                }
                None => {
                    shared.reported.lock().remove(&change.key().name);
                    shared.allocations.lock().forget(&change.key().name)
                }
            };
            if freed {
                metrics.released();
                std::mem::take(&mut *shared.waiting.lock()).into_iter().for_each(|key| queue.add(key));
            }
            queue.add(change.key());
        }
    });
    let api = Api::all(context.client());
    let controller = NodeIpam { nodes, api, events: context.events("cidrAllocator"), shared, metrics };
    work(&queue, WORKERS, &controller).await
}

impl Reconcile for NodeIpam {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(node) = self.nodes.get(key) else { return Ok(Next::Done) };
        let foreign = self.shared.allocations.lock().observe(&node);
        if !foreign.is_empty() && self.shared.reported.lock().insert(key.name.clone()) {
            let list: Vec<String> = foreign.iter().map(ToString::to_string).collect();
            let note = format!("{} is not inside --cluster-cidr; it is left as it is", list.join(" and "));
            self.events.warning(&reference(&*node), "CIDROutsideClusterRange", note).await;
        }
        let decision = self.shared.allocations.lock().decide(&key.name);
        match decision {
            Decision::Keep => {}
            Decision::Exhausted(cluster) => {
                if self.shared.waiting.lock().insert(key.clone()) {
                    let note = format!("cluster CIDR {cluster} has no free node CIDR left");
                    self.events.warning(&reference(&*node), "CIDRNotAvailable", note).await;
                }
                // Something may have been freed just before it began to wait.
                return Ok(Next::After(LOOK_AGAIN));
            }
            Decision::Assign(cidrs) => self.assign(&node, key, &cidrs).await?,
        }
        self.metrics.show(&self.shared.allocations.lock().usage());
        Ok(Next::Done)
    }
}

impl NodeIpam {
    async fn assign(&self, node: &Node, key: &Key, cidrs: &[Cidr]) -> Result<()> {
        let texts: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
        // Against the version that was looked at: whoever wrote meanwhile may have assigned something.
        let patch = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"podCIDR": texts[0], "podCIDRs": texts},
        });
        let had = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_ref()).map_or(0, Vec::len);
        match self.api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => {
                self.metrics.allocated();
                self.nodes.remember(written);
                Ok(())
            }
            Err(kube::Error::Api(status)) if had > 0 && matches!(status.code, 403 | 422) => {
                self.shared.allocations.lock().refuse(&key.name);
                let note = format!(
                    "this API server does not let a node that has a pod CIDR get one of the second family; \
                     delete the node and let it register again to get {}",
                    texts.join(" and ")
                );
                self.events.warning(&reference(node), "SecondPodCIDRRefused", note).await;
                Ok(())
            }
            Err(error) => {
                if let kube::Error::Api(status) = &error
                    && status.code == 422
                {
                    let note = format!("pod CIDRs {} were refused: {}", texts.join(" and "), status.message);
                    self.events.warning(&reference(node), "CIDRAssignmentFailed", note).await;
                }
                Err(error.into())
            }
        }
    }
}
