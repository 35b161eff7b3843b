//! The operator on a whole API server in memory, with doubles of the cloud and of the Deployment controller: made, changed and taken
//! away, undisturbed and cut off after each of its writes.

use super::super::{
    OperatorOptions,
    dns::recording::Recording,
    names::{OPERAND_NAMESPACE, OPERATOR_NAMESPACE},
    objects::{DnsConfig, DnsRecord, Infrastructure, IngressConfig, IngressController, Network},
    start,
};
use apiserver::{
    ApiServer,
    client::{InProcess, myself},
    services::{Services, Settings},
    testing::{Breaking, Lab},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret, Service},
    networking::v1::IngressClass,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use net::flags::service_ranges;
use runtime::{admin::Admin, controller::Context, health::Health, metrics::Metrics, task::Tasks};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster: its API server and its DNS service.
pub(super) struct World {
    server: Arc<ApiServer>,
    pub(super) client: Client,
    pub(super) dns: Arc<Recording>,
}

/// The operator, until it is stopped.
pub(super) struct Running(Tasks);

impl World {
    pub(super) async fn new(family: &str) -> Self {
        let mut lab = Lab::new();
        let ranges = match family {
            "DualStackIPv6Primary" => "fd00:96::/108,10.96.0.0/16",
            _ => "10.96.0.0/16,fd00:96::/108",
        };
        lab.server.services =
            Services::new(Settings { ranges: service_ranges(ranges).expect("ranges"), ..Settings::default() });
        let server = lab.start().await;
        let client = Client::new(InProcess::new(Arc::clone(&server), myself()), "default");
        super::super::define(&client).await.expect("definitions");
        let world = Self { server, client, dns: Arc::default() };
        let infrastructure = json!({"infrastructureTopology": "HighlyAvailable", "controlPlaneTopology": "HighlyAvailable",
            "platformStatus": {"type": "AWS", "aws": {"region": "eu-west-1", "ipFamily": family}}});
        world.singleton::<Infrastructure>(json!({}), infrastructure).await;
        let nlb = json!({"platform": {"type": "AWS", "aws": {"type": "NLB"}}});
        world.singleton::<IngressConfig>(json!({"domain": "apps.example.test", "loadBalancer": nlb}), json!({})).await;
        let zones = json!({"baseDomain": "example.test", "publicZone": {"id": "ZPUB"}, "privateZone": {"tags": {"Name": "int"}}});
        world.singleton::<DnsConfig>(zones, json!({})).await;
        let networks = json!({"clusterNetwork": [{"cidr": "10.128.0.0/14"}, {"cidr": "fd01::/48"}]});
        world.singleton::<Network>(networks.clone(), networks).await;
        world
    }

    async fn singleton<K>(&self, spec: Value, status: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": "cluster"}, "spec": spec, "status": status,
        });
        api.create(&PostParams::default(), &serde_json::from_value(object).expect("an object")).await.expect("created");
        let patch = Patch::Merge(json!({"status": status}));
        match api.patch_status("cluster", &PatchParams::default(), &patch).await {
            // The status of a Network is part of the object.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => drop(answer.expect("its status")),
        }
    }

    pub(super) fn start(&self, client: Client) -> Running {
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        let dns: Arc<dyn runtime::cloud::DnsProvider> = Arc::clone(&self.dns) as _;
        let options = OperatorOptions {
            image: "twinstack".to_owned(),
            process: None,
            dns: Some(dns),
            own_zone: None,
            secrets: Default::default(),
        };
        start(&Context::new(client, options, &admin, &tasks));
        Running(tasks)
    }

    pub(super) fn operands<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), OPERAND_NAMESPACE)
    }

    pub(super) fn controllers(&self) -> Api<IngressController> {
        Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE)
    }

    /// What the cloud controller and the Deployment controller would do now.
    pub(super) async fn doubles(&self) {
        let services = self.operands::<Service>();
        for service in services.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let balanced = service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
            let has =
                service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref()).is_some();
            if balanced && !has {
                let kind = super::super::plan::live::kind(&service).name().to_lowercase();
                let patch =
                    json!({"status": {"loadBalancer": {"ingress": [{"hostname": format!("{kind}.elb.test")}]}}});
                let _ = services.patch_status(&service.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
            }
        }
        let deployments = self.operands::<Deployment>();
        for one in deployments.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let (count, seen) = (one.spec.replicas, one.metadata.generation);
            if one.status.as_ref().and_then(|status| status.observed_generation) == seen {
                continue;
            }
            let patch = json!({"status": {
                "observedGeneration": seen, "replicas": count, "updatedReplicas": count, "readyReplicas": count, "availableReplicas": count,
                "conditions": [{"type": "Available", "status": "True"}],
            }});
            let _ = deployments.patch_status(&one.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        }
    }

    /// Everything that matters, without names of versions and times.
    async fn outcome(&self) -> Value {
        let mut all = json!({"zones": self.dns.records()});
        let default = self.controllers().get_opt("default").await.expect("an answer");
        let conditions = default.iter().filter_map(|one| one.status.as_ref()).flat_map(|status| &status.conditions);
        let conditions: Vec<String> =
            conditions.map(|one| format!("{}={} {}", one.kind, one.status, one.reason)).collect();
        all["conditions"] = json!(conditions);
        all["finalizers"] = json!(default.as_ref().map(|one| one.finalizers().to_vec()));
        all["strategy"] = json!(default.and_then(|one| one.status?.endpoint_publishing_strategy));
        all["services"] = listed(&self.operands::<Service>(), |service| {
            let spec = &service["spec"];
            json!([
                spec["type"],
                spec["ipFamilyPolicy"],
                spec["ipFamilies"],
                service["metadata"]["annotations"],
                service["metadata"]["labels"]
            ])
        })
        .await;
        all["deployments"] = listed(&self.operands::<Deployment>(), |one| {
            one["spec"]["template"]["spec"]["containers"][0]["env"].clone()
        })
        .await;
        all["budgets"] = listed(&self.operands::<PodDisruptionBudget>(), |one| one["spec"].clone()).await;
        all["secrets"] = listed(&self.operands::<Secret>(), |one| {
            json!(one["data"].as_object().map(|data| data.keys().cloned().collect::<Vec<_>>()))
        })
        .await;
        let classes: Api<IngressClass> = Api::all(self.client.clone());
        all["classes"] = listed(&classes, |one| one["spec"].clone()).await;
        let records: Api<DnsRecord> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        all["records"] = listed(&records, |one| {
            let zones = one["status"]["zones"].as_array().cloned().unwrap_or_default();
            let zones: Vec<Value> =
                zones.iter().map(|zone| json!([zone["dnsZone"], zone["conditions"][0]["reason"]])).collect();
            json!([
                one["spec"],
                zones,
                one["metadata"]["annotations"]["ingress.operator.openshift.io/target-hosted-zone-id"]
            ])
        })
        .await;
        all
    }

    /// Plays the doubles until the outcome is of the wanted sort.
    pub(super) async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            self.doubles().await;
            let now = self.outcome().await;
            if wanted(&now) {
                return now;
            }
            assert!(tokio::time::Instant::now() < deadline, "{what} never happened:\n{now:#}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) async fn change(&self, patch: Value) {
        self.controllers().patch("default", &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
    }
}

pub(super) async fn listed<K>(api: &Api<K>, show: impl Fn(&Value) -> Value) -> Value
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let items = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let shown = items.iter().map(|item| (item.name_any(), show(&serde_json::to_value(item).expect("JSON"))));
    Value::Object(shown.collect())
}

pub(super) fn has(outcome: &Value, condition: &str) -> bool {
    outcome["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|one| one.as_str().is_some_and(|text| text.starts_with(condition)))
}

/// Settled: reachable, still, published.
pub(super) fn settled(outcome: &Value) -> bool {
    ["Available=True", "Progressing=False", "Reconciled=True"].iter().all(|condition| has(outcome, condition))
}

pub(super) fn to(kind: &str) -> Value {
    json!({"spec": {"endpointPublishingStrategy": {"type": "LoadBalancerService", "loadBalancer": {
        "scope": "External", "dnsManagementPolicy": "Managed", "providerParameters": {"type": "AWS", "aws": {"type": kind}},
    }}}})
}

impl Running {
    pub(super) async fn stop(self) {
        self.0.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dual_stack_cluster_from_nothing_to_a_classic_load_balancer_and_back() {
    for (family, families) in
        [("DualStackIPv4Primary", json!(["IPv4", "IPv6"])), ("DualStackIPv6Primary", json!(["IPv6", "IPv4"]))]
    {
        let world = Box::pin(World::new(family)).await;
        let operator = world.start(world.client.clone());
        let made = world.until("made", settled).await;
        let service = &made["services"]["router-default"];
        assert_eq!((&service[1], &service[2]), (&json!("RequireDualStack"), &families), "{made:#}");
        assert_eq!(
            made["zones"],
            json!([
                "ZPUB *.apps.example.test. A+AAAA -> nlb.elb.test",
                "int *.apps.example.test. A+AAAA -> nlb.elb.test"
            ])
        );
        assert!(has(&made, "LoadBalancerDualStack=True"), "{made:#}");
        let env = made["deployments"]["router-default"].to_string();
        assert!(env.contains("v4v6") && !env.contains("ROUTER_USE_PROXY_PROTOCOL"), "{env}");

        // To Classic: nothing happens to the live one until the administrator replaces it.
        world.change(to("Classic")).await;
        let pending = world.until("pending", |now| has(now, "Progressing=True")).await;
        assert_eq!(pending["services"], made["services"], "the live Service is left alone");
        assert_eq!(pending["deployments"], made["deployments"], "and so are the routers");
        assert!(has(&pending, "Available=True") && has(&pending, "DNSReady=True"), "{pending:#}");
        world.operands::<Service>().delete("router-default", &DeleteParams::default()).await.expect("deleted");
        let classic = world.until("classic", |now| settled(now) && now["zones"].to_string().contains("classic")).await;
        let service = &classic["services"]["router-default"];
        assert_eq!((&service[1], &service[2]), (&json!("SingleStack"), &json!(["IPv4"])), "{classic:#}");
        assert!(has(&classic, "LoadBalancerDualStack=False ClassicLoadBalancerIsIPv4Only"), "{classic:#}");
        assert!(classic["deployments"].to_string().contains("ROUTER_USE_PROXY_PROTOCOL"));
        assert_eq!(
            classic["records"]["default-wildcard"][2], "Z-classic",
            "where the new target is found is refreshed"
        );

        // Back, without being asked to delete anything.
        world
            .change(
                json!({"metadata": {"annotations": {"ingress.operator.openshift.io/auto-delete-load-balancer": ""}}}),
            )
            .await;
        world.change(to("NLB")).await;
        let back = world.until("back", |now| settled(now) && now["zones"].to_string().contains("nlb.elb")).await;
        assert_eq!(back["services"], made["services"]);
        operator.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_service_of_our_name_is_left_alone() {
    let world = Box::pin(World::new("IPv4")).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = json!({"metadata": {"name": OPERAND_NAMESPACE}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).expect("one")).await.expect("created");
    let foreign = json!({"metadata": {"name": "router-default"}, "spec": {"ports": [{"port": 1}]}});
    let services = world.operands::<Service>();
    let before =
        services.create(&PostParams::default(), &serde_json::from_value(foreign).expect("one")).await.expect("created");
    let operator = world.start(world.client.clone());
    world.until("told", |now| has(now, "Reconciled=False")).await;
    let after = services.get("router-default").await.expect("there");
    assert_eq!(after.resource_version(), before.resource_version());
    world.controllers().delete("default", &DeleteParams::default()).await.expect("deleted");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_belongs_to_one() {
    let world = Box::pin(World::new("IPv4")).await;
    let operator = world.start(world.client.clone());
    world.until("made", settled).await;
    let second = IngressController::new(
        Some(OPERATOR_NAMESPACE),
        "second",
        serde_json::from_value(json!({
            "domain": "apps.example.test", "endpointPublishingStrategy": {"type": "Private"},
        }))
        .expect("a spec"),
    );
    world.controllers().create(&PostParams::default(), &second).await.expect("created");
    let admitted = async |wanted: &str| {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let status = world.controllers().get("second").await.expect("there").status.unwrap_or_default();
            let found = status.conditions.iter().find(|one| one.kind == "Admitted").map(|one| one.status.clone());
            if found.as_deref() == Some(wanted) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "Admitted is {found:?}");
            world.doubles().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    admitted("False").await;
    assert!(world.operands::<Deployment>().get_opt("router-second").await.expect("an answer").is_none());
    // It is served once the domain is free.
    let patch = Patch::Merge(json!({"spec": {"domain": "second.example.test"}}));
    world.controllers().patch("second", &PatchParams::default(), &patch).await.expect("patched");
    admitted("True").await;
    operator.stop().await;
}

impl World {
    /// Runs the operator until it is done or cut off after `writes`; whether it was cut off.
    async fn run_until_cut(&self, writes: i64, wanted: impl Fn(&Value) -> bool) -> bool {
        let (wire, left) = Breaking::new(&self.server, writes);
        let operator = self.start(Client::new(wire, "default"));
        let cut = || left.load(Ordering::SeqCst) <= 0;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            self.doubles().await;
            // Looked at first, because the outcome costs more to see.
            if cut() || wanted(&self.outcome().await) {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "neither done nor cut off after {writes} writes");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let was_cut = cut();
        operator.stop().await;
        was_cut
    }

    async fn converge(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let operator = self.start(self.client.clone());
        let outcome = self.until(what, wanted).await;
        operator.stop().await;
        outcome
    }
}

fn classic(now: &Value) -> bool {
    settled(now) && now["zones"].to_string().contains("classic") && !now["zones"].to_string().contains("nlb")
}

fn gone(now: &Value) -> bool {
    ["zones", "services", "deployments", "budgets", "secrets", "classes", "records"].iter().all(|part| {
        now[part].as_array().is_some_and(Vec::is_empty) || now[part].as_object().is_some_and(serde_json::Map::is_empty)
    }) && now["finalizers"].is_null()
}

/// Does something that is cut off after 1, 2, 3 ... writes, until there are so many that it is not; `one` says whether it was.
async fn cut_everywhere(what: &str, least: i64, mut one: impl AsyncFnMut(i64) -> bool) {
    let mut writes = 1;
    while one(writes).await {
        writes += 1;
    }
    assert!(writes > least, "{what}: there is more to write than {writes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_is_the_same_after_a_cut_at_any_write() {
    let world = Box::pin(World::new("DualStackIPv6Primary")).await;
    let expected = world.converge("made", settled).await;
    cut_everywhere("made", 15, async |writes| {
        let world = Box::pin(World::new("DualStackIPv6Primary")).await;
        let was_cut = world.run_until_cut(writes, settled).await;
        let made = world.converge(&format!("made, cut after {writes}"), settled).await;
        assert_eq!(made, expected, "made, cut after {writes}");
        was_cut
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_is_replaced_though_it_is_cut_at_any_write() {
    let world = Box::pin(World::new("DualStackIPv6Primary")).await;
    let expected = world.converge("made", settled).await;
    let services = world.operands::<Service>();
    cut_everywhere("replaced", 5, async |writes| {
        world.change(to("Classic")).await;
        services.delete("router-default", &DeleteParams::default()).await.expect("deleted");
        let was_cut = world.run_until_cut(writes, classic).await;
        world.converge(&format!("classic, cut after {writes}"), classic).await;
        // And back, for the next one.
        world.change(to("NLB")).await;
        services.delete("router-default", &DeleteParams::default()).await.expect("deleted");
        let nlb = |now: &Value| settled(now) && !now["zones"].to_string().contains("classic");
        let back = world.converge(&format!("back, cut after {writes}"), nlb).await;
        assert_eq!((&back["services"], &back["zones"]), (&expected["services"], &expected["zones"]));
        was_cut
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_a_cut_at_any_write() {
    let world = Box::pin(World::new("DualStackIPv6Primary")).await;
    let config: Api<IngressConfig> = Api::all(world.client.clone());
    let domain = async |domain: &str| {
        let patch = Patch::Merge(json!({"spec": {"domain": domain}}));
        config.patch("cluster", &PatchParams::default(), &patch).await.expect("patched");
    };
    cut_everywhere("gone", 8, async |writes| {
        domain("apps.example.test").await;
        world.converge("made", settled).await;
        // No other one is made in its place.
        domain("").await;
        world.controllers().delete("default", &DeleteParams::default()).await.expect("deleted");
        let was_cut = world.run_until_cut(writes, gone).await;
        world.converge(&format!("gone, cut after {writes}"), gone).await;
        was_cut
    })
    .await;
}
