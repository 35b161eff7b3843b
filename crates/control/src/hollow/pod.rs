//! Pods on hollow nodes start, run and end.

use super::{
    HollowOptions,
    addresses::{self, Places},
    behaviour, index,
    status::{Step, View},
};
use crate::{
    framework::{Context, Index, Key, Next, Queue, Reconcile, Result, Store, work},
    workloads::{now, pods},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use net::Cidr;
use parking_lot::Mutex;
use runtime::client::Api;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

struct Pods {
    client: Client,
    pods: Store<Pod>,
    nodes: Store<Node>,
    options: HollowOptions,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    places: Mutex<Places>,
    /// When a pod was first seen bound, or first seen deleted.
    since: Mutex<HashMap<(String, bool), Instant>>,
}

pub(super) async fn run(context: &Context) -> Result<()> {
    let options = context.options().hollow.clone();
    let (nodes, pods) = (context.store::<Node>(), context.store::<Pod>());
    let state = Arc::new(State::default());
    let queue: Queue<Key> = context.queue("hollow-pod");
    // Addresses that pods have are known before any is given away.
    context.synced(&[&nodes, &pods]).await;
    for pod in pods.all() {
        let node = nodes.get(&Key::cluster(pods::node_name(&pod)));
        if let Some(node) = node {
            state.places.lock().note(&pod, &node.name_any(), &cidrs(&node));
        }
    }
    let by_node = pods.index("node", |pod| vec![pods::node_name(pod).to_owned()]);
    let _pods = pods.on_change({
        let (queue, options, state) = (queue.clone(), options.clone(), Arc::clone(&state));
        move |change| {
            if index(pods::node_name(change.object()), &options).is_none() {
                return;
            }
            match change.new {
                Some(_) => queue.add(change.key()),
                None => state.forget(change.object()),
            }
        }
    });
    let _nodes = nodes.on_change({
        let (queue, options, pods) = (queue.clone(), options.clone(), pods.clone());
        move |change| {
            // New pod CIDRs, or a node that talks again.
            let given = |node: Option<&Arc<Node>>| node.map(|node| (cidrs(node), behaviour::is_silent(&node.metadata)));
            if index(&change.key().name, &options).is_some() && given(change.old) != given(change.new) {
                wake(&pods, by_node, &change.key().name, &queue);
            }
        }
    });
    work(&queue, 8, &Pods { client: context.client(), pods, nodes, options, state }).await
}

fn wake(pods: &Store<Pod>, by_node: Index, node: &str, queue: &Queue<Key>) {
    pods.by(by_node, node).iter().for_each(|pod| queue.add(Key::of(&**pod)));
}

/// The node's pod CIDRs, in its order of families.
fn cidrs(node: &Node) -> Vec<Cidr> {
    let given = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_ref());
    given.into_iter().flatten().filter_map(|text| text.parse().ok()).collect()
}

impl State {
    fn forget(&self, pod: &Pod) {
        let Some(uid) = pod.uid() else { return };
        self.places.lock().free(&uid);
        let mut since = self.since.lock();
        since.remove(&(uid.clone(), false));
        since.remove(&(uid, true));
    }

    fn waited(&self, pod: &Pod) -> Duration {
        let key = (pod.uid().unwrap_or_default(), pod.metadata.deletion_timestamp.is_some());
        self.since.lock().entry(key).or_insert_with(Instant::now).elapsed()
    }
}

impl Reconcile for Pods {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(pod) = self.pods.get(key) else { return Ok(Next::Done) };
        let node_name = pods::node_name(&pod).to_owned();
        let Some(number) = index(&node_name, &self.options) else { return Ok(Next::Done) };
        let Some(node) = self.nodes.get(&Key::cluster(&node_name)) else { return Ok(Next::Done) };
        // A machine that does not answer does not end its pods either.
        if behaviour::is_silent(&node.metadata) {
            return Ok(Next::Done);
        }
        let host = addresses::of_node(number, self.options.families);
        let own = self.addresses(&pod, &node, &host);
        let behaviour = behaviour::of(&pod, &self.options);
        let waited = self.state.waited(&pod);
        let view = View { pod: &pod, host: &host, addresses: &own, behaviour, waited, now: now() };
        match view.step() {
            Step::Nothing => Ok(Next::Done),
            Step::Wait(left) => Ok(Next::After(left)),
            Step::Remove => self.remove(&pod).await,
            Step::Write(status, left) => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
                let changed = Pod { status: Some(*status), ..(*pod).clone() };
                match api.replace_status(&key.name, &PostParams::default(), &changed).await {
                    Ok(stored) => self.pods.remember(stored),
                    Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                    Err(error) => return Err(error.into()),
                }
                Ok(left.map_or(Next::Done, Next::After))
            }
        }
    }
}

impl Pods {
    fn addresses(&self, pod: &Pod, node: &Node, host: &[IpAddr]) -> Vec<IpAddr> {
        if pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true)) {
            return host.to_vec();
        }
        let uid = pod.uid().unwrap_or_default();
        self.state.places.lock().take(&uid, &node.name_any(), &cidrs(node)).unwrap_or_default()
    }

    async fn remove(&self, pod: &Pod) -> Result<Next> {
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        match api.delete(&pod.name_any(), &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }
}
