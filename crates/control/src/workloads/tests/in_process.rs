//! Workloads, scheduler and hollow nodes together, against the real API server in the same process.

use crate::{
    controllers,
    framework::{Context, ControllerOptions, Selection, start},
};
use apiserver::client::{InProcess, myself};
use futures::future::BoxFuture;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet},
    core::v1::{Node, Pod},
};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use runtime::{admin::Admin, client::Api, health::Health, metrics::Metrics, task::Tasks};
use serde_json::{Value, from_value, json};
use std::time::Duration;

/// A cluster: API server, the picked controllers, hollow nodes with pod CIDRs of both families.
pub(crate) struct Lab {
    pub(crate) client: Client,
    tasks: Tasks,
}

impl Lab {
    pub(crate) async fn start(picked: &str, options: ControllerOptions) -> Self {
        let server = apiserver::testing::server().await;
        let client = Client::new(InProcess::new(server, myself()), "default");
        let nodes = options.hollow.nodes;
        let lab = Self::over(client, picked, options);
        lab.give_all_cidrs(nodes).await;
        lab
    }

    /// Only the controllers, over a client of any kind.
    pub(crate) fn over(client: Client, picked: &str, options: ControllerOptions) -> Self {
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        let context = Context::new(client.clone(), options, &admin, &tasks);
        let all = controllers();
        start(&context, &all, &Selection::parse(picked, &all).unwrap());
        Self { client, tasks }
    }

    pub(crate) async fn give_all_cidrs(&self, nodes: u32) {
        for index in 0..nodes {
            self.give_cidrs(index).await;
        }
    }

    /// What node IPAM does.
    async fn give_cidrs(&self, index: u32) {
        let api: Api<Node> = Api::all(self.client.clone());
        let cidrs = json!([format!("10.{index}.0.0/24"), format!("fd00:{index}::/64")]);
        let patch = json!({"spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs}});
        self.eventually("the node is registered", || {
            let (api, patch) = (api.clone(), patch.clone());
            Box::pin(async move {
                api.patch(&crate::hollow::name(index), &PatchParams::default(), &Patch::Merge(patch)).await.ok()
            })
        })
        .await;
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Asks until there is an answer.
    pub(crate) async fn eventually<T>(&self, what: &str, mut ask: impl FnMut() -> BoxFuture<'static, Option<T>>) -> T {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asking).await.unwrap_or_else(|_| panic!("never: {what}"))
    }

    /// Waits for an object that passes the test.
    pub(crate) async fn until<K>(&self, api: &Api<K>, name: &str, what: &str, test: fn(&K) -> bool) -> K
    where
        K: Clone + objects::Decode + std::fmt::Debug + Send + Sync + 'static,
    {
        self.eventually(what, || {
            let (api, name) = (api.clone(), name.to_owned());
            Box::pin(async move { api.get(&name).await.ok().filter(test) })
        })
        .await
    }

    /// Waits until so many pods of an app are there and none other.
    pub(crate) async fn pods(&self, app: &str, count: usize) -> Vec<Pod> {
        let api = self.api::<Pod>();
        let params = ListParams::default().labels(&format!("app={app}"));
        self.eventually(&format!("{count} pods of {app}"), || {
            let (api, params) = (api.clone(), params.clone());
            Box::pin(
                async move { api.list(&params).await.ok().map(|list| list.items).filter(|pods| pods.len() == count) },
            )
        })
        .await
    }

    pub(crate) async fn stop(self) {
        self.tasks.stop(Duration::from_secs(5)).await;
    }
}

pub(crate) fn hollow(nodes: u32) -> ControllerOptions {
    let mut options = ControllerOptions::default();
    options.hollow.nodes = nodes;
    options
}

pub(crate) fn deployment(name: &str, replicas: i32, image: &str) -> Deployment {
    from_value(json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod_template(name, image)},
    }))
    .unwrap()
}

pub(crate) fn pod_template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// What `kubectl rollout status` waits for.
pub(crate) fn is_rolled_out(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.replicas.filter(|count| *count > 0);
    status.observed_generation >= deployment.metadata.generation
        && status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
}

const WORKLOADS: &str = "deployment,replicaset,daemonset,scheduler,hollow-node,nodelifecycle";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_grows_rolls_goes_back_and_shrinks() {
    let lab = Lab::start(WORKLOADS, hollow(3)).await;
    let deployments = lab.api::<Deployment>();
    deployments.create(&PostParams::default(), &deployment("web", 1, "one")).await.unwrap();
    let first = lab.until(&deployments, "web", "rolled out", is_rolled_out).await;
    assert_eq!(first.metadata.generation, Some(1), "the controller changes nothing that was asked for");

    let scale = |count: i32| Patch::Merge(json!({"spec": {"replicas": count}}));
    deployments.patch("web", &PatchParams::default(), &scale(50)).await.unwrap();
    lab.until(&deployments, "web", "50 replicas", is_rolled_out).await;
    let pods = lab.pods("web", 50).await;
    let mut addresses: Vec<String> = Vec::new();
    let versions = |pods: &[Pod]| pods.iter().map(|pod| (pod.name_any(), pod.resource_version())).collect::<Vec<_>>();
    assert_eq!(versions(&lab.pods("web", 50).await), versions(&pods), "nobody writes when nothing changes");
    for pod in &pods {
        let ips = pod.status.as_ref().and_then(|status| status.pod_ips.clone()).unwrap_or_default();
        assert_eq!(ips.len(), 2, "an address of each family: {ips:?}");
        assert!(ips[0].ip.starts_with("10.") && ips[1].ip.starts_with("fd00:"), "in the node's order: {ips:?}");
        addresses.extend(ips.into_iter().map(|ip| ip.ip));
    }
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 100, "no address twice");
    deployments.patch("web", &PatchParams::default(), &scale(3)).await.unwrap();
    lab.until(&deployments, "web", "3 replicas", is_rolled_out).await;
    lab.pods("web", 3).await;

    for (image, revision) in [("two", "2"), ("one", "3")] {
        let patch = json!({"spec": {"template": pod_template("web", image)}});
        deployments.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        let done = lab.until(&deployments, "web", "rolled out", is_rolled_out).await;
        assert_eq!(done.annotations()["deployment.kubernetes.io/revision"], revision);
        let pods = lab.pods("web", 3).await;
        assert!(pods.iter().all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image)));
    }
    let sets = lab.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 2, "the first template's ReplicaSet is used again");
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_set_adopts_releases_and_replaces() {
    let lab = Lab::start("replicaset,scheduler,hollow-node,nodelifecycle", hollow(1)).await;
    let (sets, pods) = (lab.api::<ReplicaSet>(), lab.api::<Pod>());
    let orphan: Pod = from_value(json!({"metadata": {"name": "orphan", "labels": {"app": "rs"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}))
    .unwrap();
    pods.create(&PostParams::default(), &orphan).await.unwrap();
    let set: ReplicaSet = from_value(json!({"metadata": {"name": "rs"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "rs"}}, "template": pod_template("rs", "i")}}))
    .unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let ready = |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.available_replicas == Some(2));
    lab.until(&sets, "rs", "two are available", ready).await;
    assert_eq!(lab.pods("rs", 2).await.iter().filter(|pod| pod.name_any() == "orphan").count(), 1);
    assert_eq!(pods.get("orphan").await.unwrap().owner_references().len(), 1);

    let relabel = Patch::Merge(json!({"metadata": {"labels": {"app": "free"}}}));
    pods.patch("orphan", &PatchParams::default(), &relabel).await.unwrap();
    lab.until(&pods, "orphan", "let go", |pod| pod.owner_references().is_empty()).await;
    let two = lab.pods("rs", 2).await;
    pods.delete(&two[0].name_any(), &DeleteParams::default()).await.unwrap();
    let victim = two[0].uid();
    lab.eventually("replaced", || {
        let (pods, victim) = (pods.clone(), victim.clone());
        Box::pin(async move {
            let now = pods.list(&ListParams::default().labels("app=rs")).await.ok()?.items;
            (now.len() == 2 && now.iter().all(|pod| pod.uid() != victim)).then_some(())
        })
    })
    .await;
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_set_covers_the_nodes_and_rolls() {
    let lab = Lab::start(WORKLOADS, hollow(3)).await;
    let sets = lab.api::<DaemonSet>();
    let set: DaemonSet = from_value(json!({"metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": pod_template("agent", "one")}}))
    .unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let done = |set: &DaemonSet| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == set.metadata.generation
            && status.desired_number_scheduled == 3
            && status.number_available == Some(3)
            && status.updated_number_scheduled == Some(3)
    };
    lab.until(&sets, "agent", "on all nodes", done).await;
    let mut nodes: Vec<String> =
        lab.pods("agent", 3).await.iter().map(|pod| super::super::pods::node_name(pod).to_owned()).collect();
    nodes.sort();
    assert_eq!(nodes, ["hollow-0", "hollow-1", "hollow-2"]);
    let patch = json!({"spec": {"template": pod_template("agent", "two")}});
    sets.patch("agent", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    lab.until(&sets, "agent", "rolled", done).await;
    let revisions = lab.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
    let mut numbers: Vec<i64> = revisions.iter().filter_map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_nowhere_says_why_and_goes_when_it_fits() {
    let lab = Lab::start("scheduler,hollow-node,nodelifecycle", hollow(1)).await;
    let pods = lab.api::<Pod>();
    let pod: Pod = from_value(json!({"metadata": {"name": "picky"}, "spec": {"nodeSelector": {"disk": "fast"},
        "containers": [{"name": "c", "image": "i"}]}}))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    // The node's own taint goes first.
    const WHY: &str = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: \
               0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    let refused = |pod: &Pod| {
        let scheduled = super::super::pods::condition(pod, "PodScheduled");
        scheduled.is_some_and(|one| {
            one.status == "False"
                && one.reason.as_deref() == Some("Unschedulable")
                && one.message.as_deref() == Some(WHY)
        })
    };
    lab.until(&pods, "picky", "refused", refused).await;
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "fast"}}}));
    nodes.patch("hollow-0", &PatchParams::default(), &label).await.unwrap();
    lab.until(&pods, "picky", "ready", super::super::pods::is_ready).await;
    lab.stop().await;
}
