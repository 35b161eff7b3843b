//! Objects and kinds that come and go, on a whole API server in memory.

use super::{
    super::{ALONE, SyncOptions},
    Cluster, ClusterConfig, FeatureGate, Infrastructure,
};
use apiserver::{
    ApiServer,
    client::{InProcess, myself},
    testing::Lab,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use runtime::{
    admin::Admin,
    controller::{self, Context, Selection, Subscription},
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

const GATE: &str = "AWSServiceLBNetworkSecurityGroup";

/// A server, and the two objects as they are followed there.
struct World {
    server: Arc<ApiServer>,
    client: Client,
    context: Context<SyncOptions>,
    cluster: Cluster,
    changes: Arc<AtomicUsize>,
    _told: [Subscription; 2],
}

impl World {
    async fn start() -> Self {
        let server = Lab::new().start().await;
        let client = Client::new(InProcess::new(Arc::clone(&server), myself()), "default");
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        let context = Context::new(client.clone(), SyncOptions::default(), &admin, &tasks);
        let (cluster, changes) = (Cluster::new(&context), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&changes);
        let told = cluster.on_change(move || _ = counted.fetch_add(1, Ordering::SeqCst));
        Self { server, client, context, cluster, changes, _told: told }
    }

    /// Makes the two kinds.
    async fn define(&self) {
        let names = ["infrastructures.config.openshift.io", "featuregates.config.openshift.io"];
        let needed = api::config::definitions_named(&names);
        runtime::operator::definitions::install(&self.client, &needed).await.unwrap();
    }

    fn infrastructure(&self) -> ApiResource {
        ApiResource::erase::<Infrastructure>(&())
    }

    fn gates(&self) -> ApiResource {
        ApiResource::erase::<FeatureGate>(&())
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
            while !fits(&self.cluster.config()) {
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
    world.cluster.known().await;
    world.until("the kinds are not served", |config| config.infrastructure.is_none() && !is_open(config)).await;
    let first = world.changes.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.changes.load(Ordering::SeqCst), first, "that they are still missing is no change");
    world.define().await;
    world.set(&world.gates(), "status", gates(true)).await;
    world.until("the gate is open", is_open).await;
    world.set(&world.gates(), "status", gates(false)).await;
    world.until("the gate is closed", |config| !is_open(config)).await;
    let named = json!({"cloudConfig": {"name": "mine", "key": "config"}});
    world.set(&world.infrastructure(), "spec", named).await;
    world.until("a file is named", |config| config.file.name == "mine").await;
    world.set(&world.gates(), "status", gates(true)).await;
    world.until("the gate is open again", is_open).await;
    let api: Api<DynamicObject> = Api::all_with(world.client.clone(), &world.gates());
    api.delete("cluster", &DeleteParams::default()).await.unwrap();
    world.until("without an object no gate is open", |config| !is_open(config)).await;
    let name = "infrastructures.config.openshift.io";
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(world.client.clone(), &ApiResource::from_gvk(&kind));
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    world.until("without the kind no file is named", |config| config.file.name.is_empty()).await;
}

#[tokio::test]
async fn the_controller_reads_neither_of_them_again() {
    let world = World::start().await;
    world.define().await;
    world.set(&world.gates(), "status", gates(true)).await;
    world.set(&world.infrastructure(), "spec", json!({})).await;
    world.until("both are watched", |config| is_open(config) && config.infrastructure.is_some()).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    for name in ["openshift-config-managed", "openshift-cloud-controller-manager"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }
    controller::start(&world.context, &ALONE.iter().collect::<Vec<_>>(), &Selection::default());
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
    world.context.tasks().stop(Duration::from_secs(5)).await;
}
