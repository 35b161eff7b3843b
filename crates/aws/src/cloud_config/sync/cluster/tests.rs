//! Objects and kinds that come and go, on a whole API server in memory.

use super::{
    super::{ALONE, SyncOptions},
    Cluster, ClusterConfig, ObjectState,
};
use apiserver::{
    ApiServer,
    client::{InProcess, myself},
    testing::Lab,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use runtime::{
    admin::Admin,
    controller::{self, Context, Selection},
    health::Health,
    metrics::{Metrics, TextFormat},
    task::Tasks,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const GATE: &str = "AWSServiceLBNetworkSecurityGroup";

/// A server, and the two objects as they are followed there.
struct World {
    server: Arc<ApiServer>,
    client: Client,
    cluster: Arc<Cluster>,
    changes: Arc<AtomicUsize>,
    /// Ends what runs in it when it is dropped.
    _following: JoinSet<()>,
}

impl World {
    async fn start() -> Self {
        let server = Lab::new().start().await;
        let client = Client::new(InProcess::new(Arc::clone(&server), myself()), "default");
        let cluster = Arc::new(Cluster::new());
        let changes = Arc::new(AtomicUsize::new(0));
        let mut following = JoinSet::new();
        following.spawn({
            let (client, cluster, changes) = (client.clone(), Arc::clone(&cluster), Arc::clone(&changes));
            async move {
                let changed = || {
                    changes.fetch_add(1, Ordering::SeqCst);
                };
                cluster.follow(&client, changed).await;
            }
        });
        Self { server, client, cluster, changes, _following: following }
    }

    fn definitions(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    /// Makes the two kinds, which are served a moment later.
    async fn define(&self) {
        for definition in api::config::definitions() {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            if ["infrastructures.config.openshift.io", "featuregates.config.openshift.io"].contains(&name) {
                let definition = serde_json::from_value(definition).unwrap();
                self.definitions().create(&PostParams::default(), &definition).await.unwrap();
            }
        }
        for watched in [&self.cluster.infrastructure, &self.cluster.gates] {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &watched.resource);
            while api.list(&ListParams::default()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Makes the object if it is not there, and sets a part of it.
    async fn set(&self, resource: &ApiResource, part: &str, value: Value) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let object = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "cluster"}, "spec": {}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        if api.get_opt("cluster").await.unwrap().is_none() {
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({part: value})));
        match part {
            "status" => api.patch_status("cluster", &params, &patch).await.unwrap(),
            _ => api.patch("cluster", &params, &patch).await.unwrap(),
        };
    }

    /// Until both are heard of and say this.
    async fn until(&self, what: &str, fits: impl Fn(&ClusterConfig) -> bool) {
        let asking = async {
            while !self.cluster.config().unwrap().is_some_and(|config| fits(&config)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asking).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    /// How often the two kinds were read: one by one, or as lists.
    fn reads(&self) -> Vec<String> {
        let text = self.server.admin.metrics.render(TextFormat::Classic).body;
        let about = text.lines().filter(|line| line.contains("config.openshift.io"));
        about.filter(|line| line.contains("\"GET\"") || line.contains("\"LIST\"")).map(str::to_owned).collect()
    }
}

fn is_open(config: &ClusterConfig) -> bool {
    config.gates.is_enabled(None, GATE)
}

fn gates(open: bool) -> Value {
    let (some, none) = (json!([{"name": GATE}]), json!([]));
    let (enabled, disabled) = if open { (some, none) } else { (none, some) };
    json!({"featureGates": [{"version": "1", "enabled": enabled, "disabled": disabled}]})
}

#[tokio::test]
async fn kinds_and_objects_come_and_go() {
    let world = World::start().await;
    // Without the kinds there is nothing to be said, and that is known.
    world
        .until("the kinds are not served", |config| config.infrastructure.reference.is_none() && !is_open(config))
        .await;
    let first = world.changes.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.changes.load(Ordering::SeqCst), first, "that they are still missing is no change");
    world.define().await;
    world.set(&world.cluster.gates.resource, "status", gates(true)).await;
    world.until("the gate is open", is_open).await;
    world.set(&world.cluster.gates.resource, "status", gates(false)).await;
    world.until("the gate is closed", |config| !is_open(config)).await;
    let named = json!({"cloudConfig": {"name": "mine", "key": "config"}});
    world.set(&world.cluster.infrastructure.resource, "spec", named).await;
    world.until("a file is named", |config| config.infrastructure.file.name == "mine").await;
    world.set(&world.cluster.gates.resource, "status", gates(true)).await;
    world.until("the gate is open again", is_open).await;
    let api: Api<DynamicObject> = Api::all_with(world.client.clone(), &world.cluster.gates.resource);
    api.delete("cluster", &DeleteParams::default()).await.unwrap();
    world.until("without an object no gate is open", |config| !is_open(config)).await;
    let name = "infrastructures.config.openshift.io";
    world.definitions().delete(name, &DeleteParams::default()).await.unwrap();
    world.until("without the kind no file is named", |config| config.infrastructure.file.name.is_empty()).await;
}

#[tokio::test]
async fn the_controller_reads_neither_of_them_again() {
    let world = World::start().await;
    world.define().await;
    world.set(&world.cluster.gates.resource, "status", gates(true)).await;
    world.set(&world.cluster.infrastructure.resource, "spec", json!({})).await;
    world.until("both are watched", |config| is_open(config) && config.infrastructure.reference.is_some()).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    for name in ["openshift-config-managed", "openshift-cloud-controller-manager"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let admin = Admin { health: Health::new(), metrics: Metrics::new() };
    let tasks = Tasks::new(&admin.metrics, &admin.health);
    let context = Context::new(world.client.clone(), SyncOptions::default(), &admin, &tasks);
    controller::start(&context, &ALONE.iter().collect::<Vec<_>>(), &Selection::default());
    let (sources, targets): (Api<ConfigMap>, Api<ConfigMap>) =
        ["openshift-config-managed", "openshift-cloud-controller-manager"]
            .map(|namespace| Api::namespaced(world.client.clone(), namespace))
            .into();
    let mut reads = None;
    for number in 0..5 {
        let text = format!("[Global]\nVPC = vpc-{number}\n");
        let source = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-cloud-config"}, "data": {"cloud.conf": text}});
        sources.patch("kube-cloud-config", &PatchParams::apply("test").force(), &Patch::Apply(source)).await.unwrap();
        let written = async {
            loop {
                let data = targets.get_opt("cloud-conf").await.unwrap().and_then(|map| map.data).unwrap_or_default();
                let text = data.get("cloud.conf").cloned().unwrap_or_default();
                if text.contains(&format!("vpc-{number}\n")) && text.contains("= Managed") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), written).await.expect("the target follows");
        let now = world.reads();
        assert_eq!(*reads.get_or_insert_with(|| now.clone()), now, "what is watched is not read as well");
    }
    assert!(reads.is_some_and(|reads| !reads.is_empty()), "reads are counted");
    tasks.stop(Duration::from_secs(5)).await;
}

#[test]
fn what_is_not_known_or_not_understood_is_not_taken_for_nothing() {
    let cluster = Cluster::new();
    assert!(cluster.config().unwrap().is_none(), "nothing was heard");
    *cluster.infrastructure.seen.lock() = ObjectState::Missing;
    assert!(cluster.config().unwrap().is_none(), "one is not heard of yet");
    *cluster.gates.seen.lock() = ObjectState::Missing;
    assert!(!is_open(&cluster.config().unwrap().unwrap()));
    let object = json!({"metadata": {"name": "cluster"}, "status": {"featureGates": "all"}});
    *cluster.gates.seen.lock() = ObjectState::There(Arc::new(serde_json::from_value(object).unwrap()));
    let error = cluster.config().err().unwrap().to_string();
    assert!(error.starts_with("FeatureGate cluster: status: "), "{error}");
}
