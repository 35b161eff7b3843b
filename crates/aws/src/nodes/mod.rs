//! Nodes as AWS knows them: provider id, addresses of the wanted families, zone and instance type.
//!
//! Mirrors cloud-node-controller: acts on a node that is not initialised, and keeps its addresses. Leftovers of Services and groups that wait are looked
//! after here too, as controllers of their own.

mod describe;
mod find;
mod identity;
mod leftovers;
mod lifecycle;
#[cfg(test)]
mod tests;

pub use describe::{Facts, facts};
pub use identity::cluster_uid;
pub use leftovers::leftovers_metric;
pub use lifecycle::SHUTDOWN;

use crate::apply::{Aws, Caution};
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use net::Families;
use prometheus_client::metrics::gauge::Gauge;
use runtime::{
    client::Api,
    controller::{Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// The taint of a node that nobody has described yet.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// How often a node's addresses are looked at.
const PERIOD: Duration = Duration::from_secs(300);
/// How often the instance of a node that is not described yet is looked for.
const SOON: Duration = Duration::from_secs(15);

/// What these controllers are given.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub provider: Arc<Aws>,
    /// `NodeIPFamilies`.
    pub families: Families,
    /// The region, for the nodes' label.
    pub region: String,
    /// How often leftovers are looked for.
    pub sweep: Duration,
    /// How careful one is with them.
    pub caution: Caution,
    /// How many there are.
    pub leftovers: Gauge,
}

/// The controllers of this room.
pub const CONTROLLERS: &[Controller<NodeOptions>] = &[
    Controller {
        name: "cloud-node-controller",
        alias: "cloud-node",
        default_on: true,
        run: |context| Box::pin(run(context)),
    },
    Controller {
        name: "cloud-node-lifecycle-controller",
        alias: "cloud-node-lifecycle",
        default_on: true,
        run: |context| Box::pin(lifecycle::run(context)),
    },
    Controller {
        name: "aws-leftovers-controller",
        alias: "aws-leftovers",
        default_on: true,
        run: |context| Box::pin(leftovers::run(context)),
    },
    Controller {
        name: "aws-security-group-removal-controller",
        alias: "aws-security-group-removal",
        default_on: true,
        run: |context| Box::pin(async move { context.options().provider.remove_groups().await }),
    },
    Controller {
        name: "aws-service-conditions-controller",
        alias: "aws-service-conditions",
        default_on: true,
        run: |context| Box::pin(async move { context.options().provider.write_conditions(context.client()).await }),
    },
];

struct Nodes {
    nodes: Store<Node>,
    api: Api<Node>,
    events: Events,
    options: NodeOptions,
}

async fn run(context: Context<NodeOptions>) -> Result<()> {
    let nodes = context.store::<Node>();
    let queue: Queue<Key> = context.queue("cloud-node");
    let _nodes = nodes.on_change({
        let queue = queue.clone();
        move |change| {
            if matters(change.old.map(|old| &**old), change.new.map(|new| &**new)) {
                queue.add(change.key());
            }
        }
    });
    context.synced(&[&nodes]).await;
    let controller = Nodes {
        nodes,
        api: Api::all(context.client()),
        events: context.events("cloud-node-controller"),
        options: context.options().clone(),
    };
    work(&queue, 1, &controller).await
}

impl Reconcile for Nodes {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(node) = self.nodes.get(key) else { return Ok(Next::Done) };
        let found = self.options.provider.find_instance(&node).await?;
        let Some(instance) = found.filter(|instance| instance.state == "running") else {
            if is_uninitialized(&node) {
                let note = "no running instance has this node's provider id or name";
                self.events.warning(&reference(&*node), "InstanceNotFound", note).await;
                return Ok(Next::After(SOON));
            }
            return Ok(Next::After(PERIOD));
        };
        let facts = facts(&node, &instance, self.options.families, &self.options.region);
        if !facts.has_address() {
            let note = format!("instance {} has no address of NodeIPFamilies ({})", instance.id, self.options.families);
            self.events.warning(&reference(&*node), "AddressNotFound", note).await;
            return Ok(Next::After(SOON));
        }
        if let Some(patch) = facts.patch(&node) {
            match self.api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(written) => self.nodes.remember(written),
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Next::Done),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(addresses) = facts.changed_addresses(&node) {
            let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
            match self.api.patch_status(&key.name, &PatchParams::default(), &patch).await {
                Ok(written) => self.nodes.remember(written),
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Next::Done),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::After(PERIOD))
    }
}

/// Whether a change is about something that is written here. Most are not: a kubelet reports its health all the time, and each look costs a call.
fn matters(old: Option<&Node>, new: Option<&Node>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let addresses = |node: &Node| node.status.as_ref().and_then(|status| status.addresses.clone()).unwrap_or_default();
    old.uid() != new.uid() || old.spec != new.spec || old.labels() != new.labels() || addresses(old) != addresses(new)
}

fn is_uninitialized(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == UNINITIALIZED)
}
