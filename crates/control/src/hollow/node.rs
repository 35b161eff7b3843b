//! Hollow nodes register, and say that they are alive.

use super::{HollowOptions, addresses, behaviour, index, name};
use crate::{
    framework::{Context, Key, Next, Reconcile, Result, Store, work},
    workloads::now,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, NodeAddress, NodeCondition, NodeStatus},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
    },
};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use objects::from_value;
use runtime::client::Api;
use serde_json::json;
use std::collections::BTreeMap;

/// Where nodes keep their leases.
const LEASES: &str = "kube-node-lease";

struct Nodes {
    client: Client,
    nodes: Store<Node>,
    options: HollowOptions,
}

pub(super) async fn run(context: &Context) -> Result<()> {
    let options = context.options().hollow.clone();
    let nodes = context.store::<Node>();
    let queue = context.queue("hollow-node");
    let _nodes = nodes.on_change({
        let (queue, options) = (queue.clone(), options.clone());
        move |change| {
            // Heartbeats come by the clock; this is for a node that was deleted, made silent, or has got what it lacked.
            let key = change.key();
            let told = |node: Option<&std::sync::Arc<Node>>| {
                let extended = |node: &Node| node.status.as_ref().and_then(|status| status.capacity.clone());
                node.map(|node| (behaviour::is_silent(&node.metadata), has_network(node), extended(node)))
            };
            if index(&key.name, &options).is_some() && told(change.old) != told(change.new) {
                queue.add(key);
            }
        }
    });
    context.synced(&[&nodes]).await;
    (0..options.nodes).for_each(|index| queue.add(Key::cluster(name(index))));
    work(&queue, 8, &Nodes { client: context.client(), nodes, options }).await
}

impl Reconcile for Nodes {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(index) = index(&key.name, &self.options) else { return Ok(Next::Done) };
        let node = match self.nodes.get(key) {
            Some(node) => (*node).clone(),
            None => self.register(index).await?,
        };
        if behaviour::is_silent(&node.metadata) {
            return Ok(Next::Done);
        }
        self.renew(&node).await?;
        self.report(&node, index).await?;
        Ok(Next::After(self.options.heartbeat))
    }
}

impl Nodes {
    async fn register(&self, index: u32) -> Result<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        let node: Node = from_value(&json!({
            "metadata": {"name": name(index), "labels": {
                "kubernetes.io/hostname": name(index), "kubernetes.io/os": "linux", "kubernetes.io/arch": arch(),
                "twinstack.dev/hollow": "true"}},
        }))?;
        let stored = match api.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => api.get(&name(index)).await?,
            answer => answer?,
        };
        self.nodes.remember(stored.clone());
        Ok(stored)
    }

    async fn renew(&self, node: &Node) -> Result<()> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let name = node.name_any();
        let time = MicroTime(Timestamp::now());
        let patch = json!({"spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": time}});
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let owner = OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: name.clone(),
                    uid: node.uid().unwrap_or_default(),
                    ..OwnerReference::default()
                };
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        owner_references: Some(vec![owner]),
                        ..ObjectMeta::default()
                    },
                    spec: Some(LeaseSpec {
                        holder_identity: Some(name),
                        lease_duration_seconds: Some(40),
                        renew_time: Some(time),
                        ..LeaseSpec::default()
                    }),
                };
                api.create(&PostParams::default(), &lease).await?;
            }
            answer => {
                answer?;
            }
        }
        Ok(())
    }

    /// Writes the status if anything in it but the time of the last heartbeat is not as it should be.
    async fn report(&self, node: &Node, index: u32) -> Result<()> {
        let wanted = status(node, index, &self.options, now());
        if node.status.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let api: Api<Node> = Api::all(self.client.clone());
        let changed = Node { status: Some(wanted), ..node.clone() };
        let stored = api.replace_status(&node.name_any(), &PostParams::default(), &changed).await?;
        self.nodes.remember(stored);
        Ok(())
    }
}

/// What a healthy node says of itself. Conditions of others are kept.
pub(super) fn status(node: &Node, number: u32, options: &HollowOptions, now: Timestamp) -> NodeStatus {
    let mut status = node.status.clone().unwrap_or_default();
    let address = |type_: &str, address| NodeAddress { type_: type_.to_owned(), address };
    let addresses = addresses::of_node(number, options.families).into_iter();
    let addresses = addresses.map(|one| address("InternalIP", one.to_string()));
    let room = [("cpu", "32"), ("memory", "256Gi"), ("ephemeral-storage", "1Ti"), ("pods", "110")];
    let room: BTreeMap<String, Quantity> =
        room.into_iter().map(|(what, much)| (what.to_owned(), Quantity(much.to_owned()))).collect();
    let info = json!({"kubeletVersion": "v1.37.0-hollow", "kubeProxyVersion": "", "containerRuntimeVersion": "hollow://1",
        "operatingSystem": "linux", "architecture": arch(), "osImage": "hollow", "kernelVersion": "", "machineID": "",
        "systemUUID": "", "bootID": ""});
    status.addresses = Some(addresses.chain([address("Hostname", name(number))]).collect());
    // What others say that the node has, nobody here takes away: an extended resource is there for pods as soon as it is told.
    let mut all: BTreeMap<String, Quantity> = status.capacity.take().unwrap_or_default();
    all.extend(room);
    status.capacity = Some(all.clone());
    status.allocatable = Some(all);
    status.node_info = from_value(&info).ok();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let (ready, reason, message) = if has_network(node) {
        ("True", "KubeletReady", "hollow node is posting ready status")
    } else {
        ("False", "KubeletNotReady", NO_NETWORK)
    };
    for (kind, wanted, reason, message) in [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", ready, reason, message),
    ] {
        if conditions.iter().any(|one| one.type_ == kind && one.status == wanted) {
            continue;
        }
        conditions.retain(|one| one.type_ != kind);
        let condition = json!({"type": kind, "status": wanted, "reason": reason, "message": message,
            "lastHeartbeatTime": now.to_string(), "lastTransitionTime": now.to_string()});
        conditions.extend(from_value::<NodeCondition>(&condition).ok());
    }
    status.conditions = Some(conditions);
    status
}

/// As a kubelet tells it whose network plugin has no range to give addresses from.
const NO_NETWORK: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin \
     returns error: the node has no pod CIDR (spec.podCIDRs)";

/// Whether pods on the node can have addresses.
fn has_network(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_ref()).is_some_and(|cidrs| !cidrs.is_empty())
}

/// Kubernetes' word for this machine's kind of processor.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
