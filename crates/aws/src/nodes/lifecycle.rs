//! Nodes whose instances are gone or stopped.
//!
//! Mirrors cloud-node-lifecycle-controller: only a node that is not ready, and says that it is an instance, is looked up. One whose instance is gone is deleted, one whose instance is
//! stopped gets a taint, which goes when the node is ready again. Differs in that an instance has to be missing for a while, since AWS may not yet tell of
//! a new one.

use super::NodeOptions;
use crate::{account::Instance, model::nodes};
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use parking_lot::Mutex;
use runtime::{
    client::Api,
    controller::{Context, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The taint of a node whose instance is stopped.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// How often a node that is not ready is looked up, and how long its instance has to be missing.
const PERIOD: Duration = Duration::from_secs(10);

/// What becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    /// Its instance is stopped.
    IsTainted,
    /// It is ready again.
    IsCleared,
    /// Its instance is gone.
    IsDeleted,
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_tainted(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == SHUTDOWN)
}

/// Whether AWS is asked about it. What runs elsewhere is none of our business: AWS would not know it.
fn is_looked_up(node: &Node) -> bool {
    !is_ready(node) && nodes::instance_of(node).is_some()
}

/// What becomes of a node that is not ready.
fn fate(node: &Node, instance: Option<&Instance>) -> Fate {
    match instance.map(|instance| instance.state.as_str()) {
        None | Some("terminated") => Fate::IsDeleted,
        Some("stopped" | "stopping" | "shutting-down") if !is_tainted(node) => Fate::IsTainted,
        Some("running") if is_tainted(node) => Fate::IsCleared,
        Some(_) => Fate::Stays,
    }
}

struct Lives {
    nodes: Store<Node>,
    api: Api<Node>,
    events: Events,
    options: NodeOptions,
    missing: Mutex<Missing>,
}

/// Nodes whose instance was missing at the last look, by uid, and since when. A node changes several times while it stops being ready, and is looked up
/// each time: it is the time between looks that counts, not their number.
#[derive(Default)]
struct Missing(BTreeMap<String, Instant>);

impl Missing {
    /// Notes that the instance was missing; says how long it still may be.
    fn note(&mut self, uid: &str, now: Instant) -> Duration {
        let since = *self.0.entry(uid.to_owned()).or_insert(now);
        PERIOD.saturating_sub(now.duration_since(since))
    }

    fn clear(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

pub(super) async fn run(context: Context<NodeOptions>) -> Result<()> {
    let nodes = context.store::<Node>();
    let queue: Queue<Key> = context.queue("cloud-node-lifecycle");
    let _nodes = nodes.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    context.synced(&[&nodes]).await;
    let controller = Lives {
        nodes,
        api: Api::all(context.client()),
        events: context.events("cloud-node-lifecycle-controller"),
        options: context.options().clone(),
        missing: Mutex::default(),
    };
    work(&queue, 1, &controller).await
}

impl Reconcile for Lives {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(node) = self.nodes.get(key) else { return Ok(Next::Done) };
        let uid = node.uid().unwrap_or_default();
        if !is_looked_up(&node) {
            self.missing.lock().clear(&uid);
            if is_ready(&node) && is_tainted(&node) {
                self.taint(&node, false).await?;
            }
            return Ok(Next::Done);
        }
        let found = self.options.provider.find_instance(&node).await?;
        match fate(&node, found.as_ref()) {
            Fate::Stays => {}
            Fate::IsTainted => self.taint(&node, true).await?,
            Fate::IsCleared => self.taint(&node, false).await?,
            Fate::IsDeleted => {
                let left = self.missing.lock().note(&uid, Instant::now());
                if !left.is_zero() {
                    return Ok(Next::After(left));
                }
                self.delete(&node).await?;
                self.missing.lock().clear(&uid);
                return Ok(Next::Done);
            }
        }
        self.missing.lock().clear(&uid);
        Ok(Next::After(PERIOD))
    }
}

impl Lives {
    async fn taint(&self, node: &Node, is_down: bool) -> Result<()> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let mut taints: Vec<_> = taints.filter(|taint| taint.key != SHUTDOWN).map(|taint| json!(taint)).collect();
        if is_down {
            taints.push(json!({"key": SHUTDOWN, "effect": "NoSchedule"}));
        }
        let version = &node.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        match self.api.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => self.nodes.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn delete(&self, node: &Node) -> Result<()> {
        let name = node.name_any();
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        let note = format!("Deleting node {name} because it does not exist in the cloud provider: {id}");
        self.events.normal(&reference(node), "DeletingNode", &note).await;
        let preconditions = Preconditions { uid: node.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api.delete(&name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Example;

    #[test]
    fn only_instances_that_are_not_ready_are_looked_up() {
        let node = |provider_id: Option<&str>, ready: &str| -> Node {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            let object = json!({"metadata": {"name": "a"}, "spec": {"providerID": provider_id}, "status": status});
            serde_json::from_value(object).unwrap()
        };
        for (provider_id, ready, expected) in [
            (Some("aws:///us-east-1a/i-0000"), "False", true),
            (Some("aws:///us-east-1a/i-0000"), "Unknown", true),
            (Some("aws:///us-east-1a/i-0000"), "True", false),
            (Some("aws:///us-east-1a/0123/fargate-ip-10-0-0-1.ec2.internal"), "Unknown", false),
            (Some("eks-hybrid:///us-east-1/cluster/mi-0000"), "Unknown", false),
            (Some("kind://docker/a/b"), "False", false),
            (None, "False", false),
        ] {
            assert_eq!(is_looked_up(&node(provider_id, ready)), expected, "{provider_id:?} {ready}");
        }
    }

    #[test]
    fn an_instance_is_missing_for_a_while_before_its_node_goes() {
        let (mut missing, start) = (Missing::default(), Instant::now());
        let after = |millis: u64| start + Duration::from_millis(millis);
        for (uid, at, left) in [
            ("a", 0, 10_000),
            ("a", 5, 9_995),
            ("b", 6_000, 10_000),
            ("a", 9_999, 1),
            ("a", 10_000, 0),
            ("b", 12_000, 4_000),
            ("a", 20_000, 0),
        ] {
            assert_eq!(missing.note(uid, after(at)).as_millis(), left, "{uid} {at}");
        }
        // Found in between it counts from the start again.
        missing.clear("a");
        assert_eq!(missing.note("a", after(30_000)), PERIOD);
    }

    #[test]
    fn only_a_node_without_instance_goes() {
        let state = Example { nodes: 1 }.state();
        let node = |taint: bool| -> Node {
            let taints = if taint { json!([{"key": SHUTDOWN, "effect": "NoSchedule"}]) } else { json!([]) };
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"taints": taints}})).unwrap()
        };
        for (state_of, tainted, expected) in [
            (None, false, Fate::IsDeleted),
            (Some("terminated"), true, Fate::IsDeleted),
            (Some("shutting-down"), false, Fate::IsTainted),
            (Some("stopped"), false, Fate::IsTainted),
            (Some("stopped"), true, Fate::Stays),
            (Some("pending"), false, Fate::Stays),
            (Some("running"), false, Fate::Stays),
            (Some("running"), true, Fate::IsCleared),
        ] {
            let mut instance = state.instances["i-0000"].clone();
            let found = state_of.map(|text| {
                text.clone_into(&mut instance.state);
                &instance
            });
            assert_eq!(fate(&node(tainted), found), expected, "{state_of:?} {tainted}");
        }
    }
}
