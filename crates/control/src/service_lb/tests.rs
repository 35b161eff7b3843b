//! Addresses of the lab, which nodes count, and whose Service it is.

use super::{
    lab::{self, CLASS, Lab},
    nodes::eligible,
    provider::{Provider, Providers},
};
use crate::framework::{Context, ControllerOptions, Selection, start};
use apiserver::client::{InProcess, myself};
use k8s_openapi::api::core::v1::{Event, LoadBalancerStatus, Node, Service};
use kube::{
    Client,
    api::{DeleteParams, ListParams, PostParams},
};
use net::{Families, flags::one_or_pair};
use runtime::{
    admin::Admin,
    client::Api,
    cloud::{Answer, CloudError, CloudProvider, LoadBalancers},
    health::Health,
    metrics::Metrics,
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

fn service(uid: &str, families: Families, policy: &str, more: Value) -> Service {
    let list: Vec<String> = families.iter().map(|family| family.to_string()).collect();
    let mut object = json!({
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"type": "LoadBalancer", "ipFamilies": list, "ipFamilyPolicy": policy},
    });
    for (field, value) in more.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

async fn addresses(lab: &Lab, service: &Service) -> Result<Vec<String>, CloudError> {
    let status = lab.ensure(service, &[]).await?;
    Ok(status.ingress.unwrap().into_iter().filter_map(|ingress| ingress.ip).collect())
}

fn lab(ranges: &str) -> Lab {
    Lab::new(one_or_pair("load-balancer-ip-range", ranges).unwrap()).unwrap()
}

const RANGES: &str = "192.0.2.0/29,2001:db8::/125";

#[tokio::test]
async fn each_family_that_the_service_wants_gets_an_address_in_its_order() {
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    for (families, expected) in Families::ALL.into_iter().zip([vec![v4], vec![v6], vec![v4, v6], vec![v6, v4]]) {
        let lab = lab(RANGES);
        let one = service("a", families, "PreferDualStack", json!({}));
        assert_eq!(addresses(&lab, &one).await.unwrap(), expected, "{families}");
        assert_eq!(addresses(&lab, &one).await.unwrap(), expected, "again, {families}");
        lab.delete(&one).await.unwrap();
        lab.delete(&one).await.unwrap();
        assert!(!lab.exists(&one).await.unwrap());
    }
}

#[tokio::test]
async fn a_service_that_becomes_dual_keeps_its_first_address() {
    let lab = lab(RANGES);
    let single = service("a", Families::ALL[1], "SingleStack", json!({}));
    assert_eq!(addresses(&lab, &single).await.unwrap(), ["2001:db8::1"]);
    let dual = service("a", Families::ALL[3], "RequireDualStack", json!({}));
    assert_eq!(addresses(&lab, &dual).await.unwrap(), ["2001:db8::1", "192.0.2.1"]);
    assert_eq!(addresses(&lab, &single).await.unwrap(), ["2001:db8::1"]);
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let lab = lab("192.0.2.0/30");
    let refused = |outcome: Result<Vec<String>, CloudError>| match outcome {
        Err(CloudError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    let six = service("a", Families::ALL[1], "SingleStack", json!({}));
    assert_eq!(
        refused(addresses(&lab, &six).await),
        "the Service wants IPv6, but --load-balancer-ip-range has only IPv4"
    );
    let both = service("a", Families::ALL[2], "RequireDualStack", json!({}));
    assert!(refused(addresses(&lab, &both).await).contains("IPv4,IPv6"));
    let prefer = service("a", Families::ALL[2], "PreferDualStack", json!({}));
    assert_eq!(addresses(&lab, &prefer).await.unwrap(), ["192.0.2.1"]);
    let asks = service("b", Families::ALL[0], "SingleStack", json!({"loadBalancerIP": "198.51.100.1"}));
    assert!(refused(addresses(&lab, &asks).await).contains("198.51.100.1"));
    let asks = service("b", Families::ALL[0], "SingleStack", json!({"loadBalancerIP": "192.0.2.2"}));
    assert_eq!(addresses(&lab, &asks).await.unwrap(), ["192.0.2.2"]);
    // Two addresses are all that a /30 has to give.
    let third = service("c", Families::ALL[0], "SingleStack", json!({}));
    assert!(matches!(addresses(&lab, &third).await, Err(CloudError::Exhausted { .. })));
    lab.delete(&asks).await.unwrap();
    assert_eq!(addresses(&lab, &third).await.unwrap(), ["192.0.2.2"]);
}

#[tokio::test]
async fn after_a_restart_everyone_keeps_what_the_status_says() {
    let lab = lab(RANGES);
    let mut old = service("old", Families::ALL[2], "RequireDualStack", json!({}));
    old.status =
        serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]}}))
            .unwrap();
    lab.adopt(&old);
    let new = service("new", Families::ALL[2], "RequireDualStack", json!({}));
    assert_eq!(addresses(&lab, &new).await.unwrap(), ["192.0.2.2", "2001:db8::2"]);
    assert_eq!(addresses(&lab, &old).await.unwrap(), ["192.0.2.1", "2001:db8::1"]);
}

#[test]
fn the_class_decides_whose_service_it_is() {
    let provider = Provider::new(lab(RANGES));
    let none = Providers { default: None, by_class: [(CLASS.to_owned(), provider.clone())].into() };
    let both = Providers { default: Some(provider), ..none.clone() };
    for (class, with_default, without, foreign) in
        [(None, true, false, false), (Some(CLASS), true, true, false), (Some("example.com/x"), false, false, true)]
    {
        let one = service("a", Families::ALL[0], "SingleStack", json!({"loadBalancerClass": class}));
        assert_eq!(both.wanted_by(&one).is_some(), with_default, "{class:?}");
        assert_eq!(none.wanted_by(&one).is_some(), without, "{class:?}");
        assert_eq!(both.is_foreign(&one), foreign, "{class:?}");
    }
}

#[test]
fn nodes_that_are_taken_out_do_not_count() {
    let node = |value: Value| serde_json::from_value::<Node>(value).unwrap();
    assert!(eligible(&node(json!({"metadata": {"name": "a"}}))));
    for out in [
        json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {}, "spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}}),
    ] {
        assert!(!eligible(&node(out)));
    }
}

/// A cloud whose load balancers others may change; counts how often it is asked.
#[derive(Default)]
struct Changing {
    asked: AtomicUsize,
}

impl CloudProvider for Changing {
    fn name(&self) -> &str {
        "changing"
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }
}

impl LoadBalancers for Changing {
    fn exists<'a>(&'a self, _: &'a Service) -> Answer<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    fn ensure<'a>(&'a self, _: &'a Service, _: &'a [Arc<Node>]) -> Answer<'a, LoadBalancerStatus> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let status = serde_json::from_value(json!({"ingress": [{"hostname": "lb.example.test"}]})).unwrap();
        Box::pin(async { Ok(status) })
    }

    fn update_nodes<'a>(&'a self, _: &'a Service, _: &'a [Arc<Node>]) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, _: &'a Service) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn look_again(&self) -> Option<Duration> {
        Some(Duration::from_millis(5))
    }
}

#[tokio::test]
async fn who_waits_for_an_address_is_told_and_gets_what_is_given_back() {
    let client = Client::new(InProcess::new(apiserver::testing::server().await, myself()), "default");
    // A /30 has two addresses to give.
    let providers = Providers { default: Some(Provider::new(lab("192.0.2.0/30"))), ..Providers::default() };
    let options = ControllerOptions {
        service_lb: super::ServiceLbOptions { providers, workers: 1 },
        ..ControllerOptions::default()
    };
    let admin = Admin { health: Health::new(), metrics: Metrics::new() };
    let tasks = Tasks::new(&admin.metrics, &admin.health);
    let context = Context::new(client.clone(), options, &admin, &tasks);
    let all = crate::controllers();
    start(&context, &all, &Selection::parse("service-lb-controller", &all).unwrap());
    let api: Api<Service> = Api::namespaced(client.clone(), "default");
    let has_address = async |name: &str| {
        let address = async {
            while super::ingress(&api.get(name).await.unwrap()).is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Much shorter than the time after which it would look by itself.
        tokio::time::timeout(lab::PATIENCE / 3, address).await.expect("an address in time");
    };
    for name in ["a", "b", "c"] {
        let spec = json!({"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]});
        let wanted = json!({"metadata": {"name": name}, "spec": spec});
        api.create(&PostParams::default(), &serde_json::from_value(wanted).unwrap()).await.unwrap();
        if name != "c" {
            has_address(name).await;
        }
    }
    let events: Api<Event> = Api::namespaced(client, "default");
    let told = async {
        loop {
            let list = events.list(&ListParams::default()).await.unwrap().items;
            let warning = list.into_iter().find(|event| event.reason.as_deref() == Some("SyncLoadBalancerFailed"));
            if let Some(warning) = warning {
                return warning;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), told).await.expect("a warning");
    assert_eq!((told.type_.as_deref(), told.involved_object.name.as_deref()), (Some("Warning"), Some("c")));
    assert!(told.message.unwrap().starts_with("no load balancer address of IPv4 is free"));
    api.delete("a", &DeleteParams::default()).await.unwrap();
    has_address("c").await;
    tasks.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_load_balancer_that_others_may_change_is_looked_at_again() {
    let client = Client::new(InProcess::new(apiserver::testing::server().await, myself()), "default");
    let cloud = Arc::new(Changing::default());
    let default = Some(Provider::shared(Arc::<Changing>::clone(&cloud)));
    let providers = Providers { default, ..Providers::default() };
    let options = ControllerOptions {
        service_lb: super::ServiceLbOptions { providers, workers: 1 },
        ..ControllerOptions::default()
    };
    let admin = Admin { health: Health::new(), metrics: Metrics::new() };
    let tasks = Tasks::new(&admin.metrics, &admin.health);
    let context = Context::new(client.clone(), options, &admin, &tasks);
    let all = crate::controllers();
    start(&context, &all, &Selection::parse("service-lb-controller", &all).unwrap());
    let wanted = json!({
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]},
    });
    let api: Api<Service> = Api::namespaced(client, "default");
    api.create(&PostParams::default(), &serde_json::from_value(wanted).unwrap()).await.unwrap();
    let looked = async {
        while cloud.asked.load(Ordering::SeqCst) < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.expect("nothing changes, and it is looked at");
    tasks.stop(Duration::from_secs(5)).await;
}

/// A cloud that refuses Services with the annotation `refuse`, and keeps how many nodes it was shown each time.
#[derive(Default)]
struct Refusing {
    shown: parking_lot::Mutex<Vec<(bool, usize)>>,
}

impl Refusing {
    fn show(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        let refused = service.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("refuse"));
        self.shown.lock().push((refused, nodes.len()));
        if refused { Err(CloudError::Refused("refuse: \"\" is not accepted".to_owned())) } else { Ok(()) }
    }
}

impl CloudProvider for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }
}

impl LoadBalancers for Refusing {
    fn exists<'a>(&'a self, _: &'a Service) -> Answer<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    fn ensure<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, LoadBalancerStatus> {
        let outcome = self.show(service, nodes);
        let status = serde_json::from_value(json!({"ingress": [{"hostname": "lb.example.test"}]})).unwrap();
        Box::pin(async { outcome.map(|()| status) })
    }

    fn update_nodes<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, ()> {
        let outcome = self.show(service, nodes);
        Box::pin(async { outcome })
    }

    fn delete<'a>(&'a self, _: &'a Service) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn nodes_that_come_are_shown_to_a_provider_that_refused_the_last_change() {
    let client = Client::new(InProcess::new(apiserver::testing::server().await, myself()), "default");
    let cloud = Arc::new(Refusing::default());
    let default = Some(Provider::shared(Arc::<Refusing>::clone(&cloud)));
    let options = ControllerOptions {
        service_lb: super::ServiceLbOptions { providers: Providers { default, ..Providers::default() }, workers: 1 },
        ..ControllerOptions::default()
    };
    let admin = Admin { health: Health::new(), metrics: Metrics::new() };
    let tasks = Tasks::new(&admin.metrics, &admin.health);
    let context = Context::new(client.clone(), options, &admin, &tasks);
    let all = crate::controllers();
    start(&context, &all, &Selection::parse("service-lb-controller", &all).unwrap());
    let shown = async |wanted: (bool, usize)| {
        let seen = async {
            while !cloud.shown.lock().contains(&wanted) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), seen).await.unwrap_or_else(|_| panic!("never {wanted:?}"));
    };
    let nodes: Api<Node> = Api::all(client.clone());
    let add = async |name: &str| {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    };
    add("one").await;
    let api: Api<Service> = Api::namespaced(client.clone(), "default");
    let spec = json!({"type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]});
    let wanted = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    api.create(&PostParams::default(), &wanted).await.unwrap();
    shown((false, 1)).await;
    let annotate = async |value: Value| {
        let patch = kube::api::Patch::Merge(json!({"metadata": {"annotations": {"refuse": value}}}));
        api.patch("web", &kube::api::PatchParams::default(), &patch).await.unwrap();
    };
    annotate(json!("yes")).await;
    shown((true, 1)).await;
    // It never looks again by itself: what it is shown comes of the nodes.
    add("two").await;
    shown((true, 2)).await;
    nodes.delete("one", &DeleteParams::default()).await.unwrap();
    nodes.delete("two", &DeleteParams::default()).await.unwrap();
    shown((true, 0)).await;
    annotate(Value::Null).await;
    shown((false, 0)).await;
    // The same refusal is told once.
    let events: Api<Event> = Api::namespaced(client, "default");
    let list = events.list(&ListParams::default()).await.unwrap().items;
    let refusals: Vec<_> =
        list.iter().filter(|event| event.reason.as_deref() == Some("SyncLoadBalancerFailed")).collect();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals[0].count.unwrap_or(1), 1, "{refusals:?}");
    tasks.stop(Duration::from_secs(5)).await;
}
