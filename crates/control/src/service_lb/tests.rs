//! Addresses of the lab, which nodes count, and whose Service it is.

use super::{
    lab::{CLASS, Lab},
    nodes::eligible,
    provider::{Provider, Providers},
};
use crate::framework::{Context, ControllerOptions, Selection, start};
use apiserver::client::{InProcess, myself};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};
use kube::{Client, api::PostParams};
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
    assert!(matches!(addresses(&lab, &third).await, Err(CloudError::Later { .. })));
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
