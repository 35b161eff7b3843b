//! What is written into the API: the cloud-config's target and the Services' conditions, on a whole API server in memory.
#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

use apiserver::{
    client::{InProcess, myself},
    testing::Lab,
};
use aws::{
    apply::{Aws, CONDITION},
    cloud_config::{
        GroupMode,
        sync::{self, ALONE},
    },
    memory::{
        Example, Memory,
        testing::{AT_ONCE, annotated, families, service, settings},
    },
    model::Settings,
    nodes::{CONTROLLERS, NodeOptions, cluster_uid, leftovers_metric},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Event, Namespace, Service},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use net::{Families, Family};
use runtime::{
    admin::Admin,
    cloud::LoadBalancers,
    controller::{self, Context, Selection},
    health::Health,
    metrics::Metrics,
    task::Tasks,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

async fn client() -> Client {
    Client::new(InProcess::new(Lab::new().start().await, myself()), "default")
}

/// Asks until there is an answer.
async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
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

async fn namespace(client: &Client, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    match Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        outcome => drop(outcome.unwrap()),
    }
}

/// A cluster of OpenShift's kind, with the controller that keeps the cloud-config.
struct Cluster {
    client: Client,
    tasks: Tasks,
}

impl Cluster {
    async fn start() -> Self {
        let client = client().await;
        let names = ["infrastructures.config.openshift.io", "featuregates.config.openshift.io"];
        let needed = api::config::definitions_named(&names);
        runtime::operator::definitions::install(&client, &needed).await.unwrap();
        for name in ["openshift-config", "openshift-config-managed", "openshift-cloud-controller-manager"] {
            namespace(&client, name).await;
        }
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        Self { client, tasks }
    }

    /// Starts the controller.
    fn run(&self) {
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let context = Context::new(self.client.clone(), sync::SyncOptions::default(), &admin, &self.tasks);
        let all: Vec<_> = ALONE.iter().collect();
        controller::start(&context, &all, &Selection::default());
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A ConfigMap with this text under a key.
    async fn put(&self, namespace: &str, name: &str, key: &str, text: &str) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: text}});
        let params = PatchParams::apply("test").force();
        self.maps(namespace).patch(name, &params, &Patch::Apply(map)).await.unwrap();
    }

    /// An object `cluster` of config.openshift.io.
    async fn cluster(&self, kind: &str, plural: &str, part: &str, value: &Value) {
        let resource = ApiResource {
            group: "config.openshift.io".into(),
            version: "v1".into(),
            api_version: "config.openshift.io/v1".into(),
            kind: kind.into(),
            plural: plural.into(),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let spec = if part == "spec" { value.clone() } else { json!({}) };
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
        if api.get_opt("cluster").await.unwrap().is_none() {
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
        let patch = Patch::Merge(json!({part: value}));
        if part == "status" {
            api.patch_status("cluster", &PatchParams::default(), &patch).await.unwrap();
        } else {
            api.patch("cluster", &PatchParams::default(), &patch).await.unwrap();
        }
    }

    /// The target, once it holds all of these and none of those.
    async fn target(&self, holds: &[&str], not: &[&str]) -> String {
        eventually(&format!("a target with {holds:?}"), async || {
            let map = self.maps("openshift-cloud-controller-manager").get("cloud-conf").await.ok()?;
            let text = map.data?.remove("cloud.conf")?;
            let fits = holds.iter().all(|part| text.contains(part)) && !not.iter().any(|part| text.contains(part));
            fits.then_some(text)
        })
        .await
    }
}

#[tokio::test]
async fn the_cloud_config_is_kept_with_its_defaults() {
    let cluster = Cluster::start().await;
    // Nothing is there yet: the defaults.
    cluster.run();
    let text = cluster.target(&["HealthProbeMode       = Shared"], &["NLBSecurityGroupMode"]).await;
    assert!(text.starts_with("[Global]\n"), "{text}");
    // What the administrator wrote, by the name that the Infrastructure gives.
    let families = "[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\nMystery = 1\n";
    let named = json!({"cloudConfig": {"name": "mine", "key": "config"}});
    cluster.cluster("Infrastructure", "infrastructures", "spec", &named).await;
    cluster.put("openshift-config", "mine", "config", families).await;
    let text = cluster.target(&["= ipv6", "= ipv4", "Mystery"], &["NLBSecurityGroupMode"]).await;
    assert!(text.find("= ipv6") < text.find("= ipv4"), "{text}");
    // The gate; a change of the source makes it look at once.
    let gates = json!({"featureGates": [{"version": "1", "enabled": [{"name": "AWSServiceLBNetworkSecurityGroup"}], "disabled": []}]});
    cluster.cluster("FeatureGate", "featuregates", "status", &gates).await;
    cluster.put("openshift-config", "mine", "config", &families.replace("Mystery", "Riddle")).await;
    cluster.target(&["NLBSecurityGroupMode                            = Managed", "Riddle"], &["Mystery"]).await;
    // The managed source wins over the one that is named.
    cluster.put("openshift-config-managed", "kube-cloud-config", "cloud.conf", "[Global]\nVPC = vpc-7\n").await;
    let text = cluster.target(&["vpc-7", "= Managed"], &["Riddle"]).await;
    // What somebody writes into the target is undone.
    cluster.put("openshift-cloud-controller-manager", "cloud-conf", "cloud.conf", "[Global]\n").await;
    assert_eq!(cluster.target(&["vpc-7"], &[]).await, text);
    // A text with mistakes leaves the target as it is, and is told.
    let wrong = "[Global]\nVPC = vpc-8\nClusterServiceLoadBalancerHealthProbeMode = shared\n";
    cluster.put("openshift-config-managed", "kube-cloud-config", "cloud.conf", wrong).await;
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "openshift-config-managed");
    eventually("an event", async || {
        let all = events.list(&ListParams::default()).await.ok()?.items;
        all.into_iter().find(|event| {
            let message = event.message.clone().unwrap_or_default();
            event.reason.as_deref() == Some("CloudConfigInvalid") && message.contains("did you mean \"Shared\"")
        })
    })
    .await;
    assert_eq!(cluster.target(&["vpc-7"], &[]).await, text);
    // Mended, and taken away: back to the one that is named.
    cluster.put("openshift-config-managed", "kube-cloud-config", "cloud.conf", "[Global]\nVPC = vpc-8\n").await;
    cluster.target(&["vpc-8"], &["vpc-7"]).await;
    cluster.maps("openshift-config-managed").delete("kube-cloud-config", &DeleteParams::default()).await.unwrap();
    cluster.target(&["Riddle"], &["vpc-8"]).await;
    // A key that the Infrastructure names and that is not there is told, and nothing changes.
    cluster.put("openshift-config", "mine", "other", "[Global]\n").await;
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "openshift-config");
    eventually("an event", async || {
        let all = events.list(&ListParams::default()).await.ok()?.items;
        all.into_iter()
            .find(|event| event.message.as_deref().is_some_and(|message| message.contains("has no key config")))
    })
    .await;
    cluster.target(&["Riddle"], &[]).await;
    cluster.tasks.stop(Duration::from_secs(5)).await;
}

/// The Service in the API, and what its condition says.
async fn condition(api: &Api<Service>) -> Option<Condition> {
    let conditions = api.get("web").await.ok()?.status?.conditions?;
    conditions.into_iter().find(|condition| condition.type_ == CONDITION)
}

/// Starts one of the provider's controllers.
fn run(client: &Client, aws: &Arc<Aws>, controller: &str) -> Tasks {
    let admin = Admin { health: Health::new(), metrics: Metrics::new() };
    let tasks = Tasks::new(&admin.metrics, &admin.health);
    let options = NodeOptions {
        provider: Arc::clone(aws),
        families: Families::one(Family::V4),
        region: "us-east-1".to_owned(),
        sweep: Duration::from_millis(5),
        caution: AT_ONCE,
        leftovers: leftovers_metric(&admin.metrics),
    };
    let context = Context::new(client.clone(), options, &admin, &tasks);
    let all: Vec<_> = CONTROLLERS.iter().collect();
    controller::start(&context, &all, &Selection::parse(controller, &all).unwrap());
    tasks
}

/// Waits for an event about the whole cluster.
async fn event_of_the_cluster(client: &Client, reason: &str) -> String {
    let events: Api<Event> = Api::all(client.clone());
    eventually(reason, async || {
        let all = events.list(&ListParams::default()).await.ok()?.items;
        let found = all.into_iter().find(|event| event.reason.as_deref() == Some(reason))?;
        assert_eq!(found.involved_object.name.as_deref(), Some("kube-system"));
        found.message
    })
    .await
}

#[tokio::test]
async fn leftovers_are_told_of_and_removed_where_the_api_server_is_this_clusters() {
    for families in [families("SingleStack", &["IPv4"]), families("RequireDualStack", &["IPv6", "IPv4"])] {
        let client = client().await;
        let uid = cluster_uid(&client).await.expect("kube-system has a UID");
        let gone = service("web", &families);
        for (uid, of_this) in [("another".to_owned(), false), (uid, true)] {
            let memory = Arc::new(Memory::new(Example { nodes: 3 }.state()));
            let mut settings = settings();
            settings.cluster.uid = Some(uid);
            let before = memory.state();
            let aws = Arc::new(Aws::new(memory.clone(), settings.clone()));
            aws.ensure(&gone, &Example { nodes: 3 }.nodes()).await.unwrap();
            let made = memory.state();
            let aws = Arc::new(Aws::new(memory.clone(), settings));
            let tasks = run(&client, &aws, "aws-leftovers-controller");
            if of_this {
                let message = event_of_the_cluster(&client, "LeftoversFound").await;
                assert!(message.contains("loadbalancer/"), "{message}");
                eventually("they go", async || {
                    let state = memory.state();
                    let left = state.groups.len() + state.load_balancers.len() + state.target_groups.len();
                    (left == before.groups.len()).then_some(())
                })
                .await;
            } else {
                let message = event_of_the_cluster(&client, "LeftoversNotRemoved").await;
                assert!(message.contains("another cluster's"), "{message}");
                assert_eq!(memory.state(), made);
            }
            tasks.stop(Duration::from_secs(5)).await;
        }
    }
}

#[tokio::test]
async fn a_load_balancer_without_security_group_is_a_lasting_condition() {
    for (policy, families) in
        [("SingleStack", &["IPv4"][..]), ("PreferDualStack", &["IPv4"]), ("PreferDualStack", &["IPv6"])]
    {
        let client = client().await;
        namespace(&client, "ns").await;
        let api: Api<Service> = Api::namespaced(client.clone(), "ns");
        let memory = Arc::new(Memory::new(Example { nodes: 3 }.state()));
        let nodes = Example { nodes: 3 }.nodes();
        // Made before groups were managed; the server's own families are of no matter to the provider.
        let mut wanted = service("web", &json!({}));
        wanted.metadata.uid = None;
        let spec = wanted.spec.as_mut().unwrap();
        (spec.ip_families, spec.ip_family_policy) = (None, None);
        let made = api.create(&PostParams::default(), &wanted).await.unwrap();
        let shaped = |mut service: Service| {
            let spec = service.spec.as_mut().unwrap();
            spec.ip_families = Some(families.iter().map(|family| (*family).to_owned()).collect());
            spec.ip_family_policy = Some(policy.to_owned());
            service
        };
        let before = Settings { nlb_groups: GroupMode::Unmanaged, ..settings() };
        Aws::new(memory.clone(), before).ensure(&shaped(made), &nodes).await.unwrap();
        let aws = Arc::new(Aws::new(memory.clone(), settings()));
        let tasks = run(&client, &aws, "aws-service-conditions-controller");
        aws.ensure(&shaped(api.get("web").await.unwrap()), &nodes).await.unwrap();
        let first = eventually("a condition", async || condition(&api).await).await;
        assert_eq!((first.status.as_str(), first.reason.as_str()), ("False", "CreatedWithoutSecurityGroup"));
        assert!(first.message.contains("delete the Service"), "{}", first.message);
        // Bringing a group is refused, the condition stays, and nothing changes in AWS.
        let state = memory.state();
        let brought = annotated(&[("security-groups", Example::BROUGHT_GROUP)]);
        api.patch("web", &PatchParams::default(), &Patch::Merge(brought)).await.unwrap();
        let outcome = aws.ensure(&shaped(api.get("web").await.unwrap()), &nodes).await;
        assert!(outcome.unwrap_err().to_string().contains("created without a security group"));
        assert_eq!(memory.state().load_balancers, state.load_balancers);
        assert_eq!(condition(&api).await, Some(first));
        // Made anew it has its group, and the condition says so.
        memory.change(|state| {
            state.load_balancers.clear();
            state.listeners.clear();
        });
        aws.ensure(&shaped(api.get("web").await.unwrap()), &nodes).await.unwrap();
        eventually("it is solved", async || condition(&api).await.filter(|condition| condition.status == "True")).await;
        assert!(memory.state().load_balancers.values().all(|held| !held.load_balancer.security_groups.is_empty()));
        tasks.stop(Duration::from_secs(5)).await;
    }
}
