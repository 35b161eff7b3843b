//! What Services take from the cluster and give back: addresses, node ports, ranges, and the `kubernetes` Service.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../store/tests/support/mod.rs"]
mod etcd;
mod service_cidrs;
#[path = "../support/mod.rs"]
mod support;

use apiserver::{
    ApiServer,
    services::{Advertised, KubernetesService, RuleSet, Services, Settings, kubernetes, ranges, repair},
    testing::Lab,
};
use net::{Families, Family, PortRange, flags::service_ranges};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr, sync::Arc};
use store::{Retention, Store};
use support::{Reply, ask};

const COLLECTION: &str = "/api/v1/namespaces/default/services";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];

fn settings(list: &str) -> Settings {
    Settings { ranges: service_ranges(list).unwrap(), ..Settings::default() }
}

async fn on(store: &Store, settings: Settings) -> Arc<ApiServer> {
    let mut lab = Lab::on(store.clone());
    lab.server.services = Services::new(settings);
    Box::pin(lab.start()).await
}

async fn server(settings: Settings) -> Arc<ApiServer> {
    on(&Store::memory(Retention::default()), settings).await
}

async fn create(server: &Arc<ApiServer>, name: &str, spec: Value) -> Reply {
    create_at(server, COLLECTION, name, spec).await
}

async fn create_at(server: &Arc<ApiServer>, path: &str, name: &str, mut spec: Value) -> Reply {
    if spec["ports"].is_null() {
        spec["ports"] = json!([{"port": 80}]);
    }
    ask(server, "POST", path, &[], json!({"metadata": {"name": name}, "spec": spec}).to_string()).await
}

async fn patch(server: &Arc<ApiServer>, name: &str, spec: Value) -> Reply {
    ask(server, "PATCH", &format!("{COLLECTION}/{name}"), &MERGE, json!({"spec": spec}).to_string()).await
}

async fn delete(server: &Arc<ApiServer>, name: &str) {
    assert_eq!(ask(server, "DELETE", &format!("{COLLECTION}/{name}"), &[], "").await.status, 200);
}

async fn get(server: &Arc<ApiServer>, path: &str) -> Value {
    ask(server, "GET", path, &[], "").await.json()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn node_ports(service: &Value) -> Vec<i64> {
    service["spec"]["ports"].as_array().unwrap().iter().filter_map(|port| port["nodePort"].as_i64()).collect()
}

fn causes(reply: &Reply) -> Vec<String> {
    let object = reply.json();
    let causes = object["details"]["causes"].as_array().into_iter().flatten();
    causes.filter_map(|cause| cause["field"].as_str().map(str::to_owned)).collect()
}

async fn taken(server: &Arc<ApiServer>) -> BTreeSet<String> {
    let list = get(server, ADDRESSES).await;
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_service_and_its_addresses_come_and_go_together() {
    for (list, first) in [("10.96.0.0/16,fd00:96::/108", "IPv4"), ("fd00:96::/108,10.96.0.0/16", "IPv6")] {
        let server = server(settings(list)).await;
        let service = create(&server, "s", json!({"ipFamilyPolicy": "RequireDualStack"})).await.json();
        let ips = texts(&service["spec"]["clusterIPs"]);
        for (i, ip) in ips.iter().enumerate() {
            let address = get(&server, &format!("{ADDRESSES}/{ip}")).await;
            assert_eq!(
                address["spec"]["parentRef"],
                json!({"resource": "services", "namespace": "default", "name": "s"})
            );
            let family = &address["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"];
            assert_eq!(family == first, i == 0);
            assert_eq!(address["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"], "ipallocator.k8s.io");
            assert_eq!(
                address["metadata"]["resourceVersion"], service["metadata"]["resourceVersion"],
                "one transaction"
            );
        }
        delete(&server, "s").await;
        assert_eq!(taken(&server).await.len(), 1, "the kubernetes Service alone has one");
    }
}

#[tokio::test]
async fn a_finalizer_holds_the_addresses_until_it_goes() {
    let server = server(settings("10.96.0.0/16,fd00:96::/108")).await;
    let body = json!({
        "metadata": {"name": "s", "finalizers": ["example.com/wait"]},
        "spec": {"ports": [{"port": 80}], "type": "NodePort", "ipFamilyPolicy": "PreferDualStack"},
    });
    assert_eq!(ask(&server, "POST", COLLECTION, &[], body.to_string()).await.status, 201);
    delete(&server, "s").await;
    assert_eq!(taken(&server).await.len(), 3);
    let path = format!("{COLLECTION}/s");
    let reply = ask(&server, "PATCH", &path, &MERGE, json!({"metadata": {"finalizers": null}}).to_string()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(taken(&server).await.len(), 1);
    assert_eq!(server.services.pools.ports().unwrap().used(), 0);
}

#[tokio::test]
async fn if_one_family_cannot_be_had_nothing_stays_taken() {
    // Seven IPv6 addresses, plenty of IPv4.
    for list in ["10.96.0.0/16,fd00:96::/125", "fd00:96::/125,10.96.0.0/16"] {
        let server = server(settings(list)).await;
        let mut made = 0;
        while create(&server, &format!("s{made}"), json!({"ipFamilies": ["IPv6"]})).await.status == 201 {
            made += 1;
        }
        let before = taken(&server).await;
        let reply = create(&server, "both", json!({"ipFamilyPolicy": "RequireDualStack", "type": "NodePort"})).await;
        assert_eq!((reply.status, &reply.json()["reason"]), (500, &json!("InternalError")), "{}", reply.json());
        let used = server.services.pools.addresses().iter().map(net::Pool::used).sum::<u64>();
        assert_eq!((taken(&server).await, used), (before.clone(), before.len() as u64));
        assert_eq!(server.services.pools.ports().unwrap().used(), 0);
        // Asked for by name: the address that is taken is told, the other one stays free.
        let ips = ["10.96.0.9", "fd00:96::1"];
        assert!(before.contains(ips[1]));
        let reply = create(&server, "both", json!({"clusterIPs": ips})).await;
        assert_eq!(causes(&reply), ["spec.clusterIPs"]);
        assert!(
            reply.json()["message"]
                .as_str()
                .unwrap()
                .contains("failed to allocate IP fd00:96::1: provided IP is already allocated")
        );
        assert_eq!(create(&server, "one", json!({"clusterIP": ips[0]})).await.status, 201);
    }
}

#[tokio::test]
async fn a_dry_run_takes_nothing() {
    let server = server(settings("10.96.0.0/16,fd00:96::/108")).await;
    let before = taken(&server).await;
    let path = format!("{COLLECTION}?dryRun=All");
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ipFamilyPolicy": "PreferDualStack"});
    let shown = create_at(&server, &path, "s", spec).await.json();
    assert_eq!(texts(&shown["spec"]["clusterIPs"]).len(), 2, "what it would get is shown");
    assert!(shown["spec"]["healthCheckNodePort"].is_i64());
    assert_eq!(taken(&server).await, before);
    let used = server.services.pools.addresses().iter().map(net::Pool::used).sum::<u64>();
    assert_eq!((used, server.services.pools.ports().unwrap().used()), (1, 0));
}

/// Both servers have more requests than there are ports, and hardly more addresses than ports.
async fn exhaust(stores: [&Store; 2], families: Families) {
    let list = families.iter().map(|family| if family == Family::V4 { "10.96.0.0/26" } else { "fd00:96::/122" });
    let settings = Settings {
        node_ports: Some(PortRange::new(30000, 30059).unwrap()),
        ..settings(&list.collect::<Vec<_>>().join(","))
    };
    let servers = [on(stores[0], settings.clone()).await, on(stores[1], settings).await];
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..80 {
        let server = Arc::clone(&servers[i % 2]);
        tasks.spawn(async move {
            let spec = json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack"});
            create(&server, &format!("s{i}"), spec).await.status
        });
    }
    let statuses = tasks.join_all().await;
    assert!(statuses.iter().all(|status| matches!(status, 201 | 500)), "nothing fails but for a full pool");
    let made = statuses.iter().filter(|status| **status == 201).count();
    servers[0].store.revision().await.unwrap();
    let (mut ips, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for service in servers[0].objects("services/specs").await.unwrap() {
        assert!(texts(&service["spec"]["clusterIPs"]).iter().all(|ip| ips.insert((*ip).to_owned())));
        assert!(node_ports(&service).iter().all(|port| ports.insert(*port)));
    }
    assert_eq!((made, ports.len()), (60, 60));
    for server in &servers {
        assert!(repair::repair(server).await.unwrap().found.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_store_give_every_address_and_port_once() {
    for families in [Families::both(Family::V4), Families::both(Family::V6)] {
        let store = Store::memory(Retention::default());
        exhaust([&store, &store], families).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_etcd_give_every_address_and_port_once() {
    for (loopback, family) in [(etcd::Loopback::V4, Family::V4), (etcd::Loopback::V6, Family::V6)] {
        let Some(etcd) = etcd::Server::start(loopback) else { return };
        let (one, other) = (etcd.store("/registry").await, etcd.store("/registry").await);
        exhaust([&one, &other], Families::both(family)).await;
    }
}

#[tokio::test]
async fn what_another_server_gave_back_can_be_asked_for_at_once() {
    let store = Store::memory(Retention::default());
    let (one, other) = (on(&store, Settings::default()).await, on(&store, Settings::default()).await);
    for (first, second) in [(&one, &other), (&other, &one)] {
        for _ in 0..5 {
            let spec =
                json!({"type": "NodePort", "clusterIP": "fd00:96::9", "ports": [{"port": 80, "nodePort": 30009}]});
            assert_eq!(create(first, "s", spec.clone()).await.status, 201);
            assert_eq!(causes(&create(second, "t", spec.clone()).await), ["spec.clusterIPs", "spec.ports[0].nodePort"]);
            delete(second, "s").await;
            assert_eq!(create(first, "t", spec).await.status, 201);
            delete(second, "t").await;
        }
    }
}

#[tokio::test]
async fn a_node_port_is_one_for_both_families_and_shared_by_protocols() {
    let server = server(settings("10.96.0.0/16,fd00:96::/108")).await;
    let dns = json!([{"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"}]);
    let spec = json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": dns});
    let service = create(&server, "dns", spec).await.json();
    let ports = node_ports(&service);
    assert_eq!(ports[0], ports[1]);
    assert!((30086..=32767).contains(&ports[0]), "drawn from the upper band");
    // Of another family and another protocol, it is still taken.
    let spec = json!({"type": "NodePort", "ipFamilies": ["IPv6"], "ports": [{"port": 1, "protocol": "SCTP", "nodePort": ports[0]}]});
    let reply = create(&server, "other", spec).await;
    assert_eq!(causes(&reply), ["spec.ports[0].nodePort"]);
    for wrong in [80, 29999, 32768, 70000] {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": wrong}]});
        assert_eq!(causes(&create(&server, "wrong", spec).await), ["spec.ports[0].nodePort"], "{wrong}");
    }
    // Leaving the type gives them back.
    assert_eq!(patch(&server, "dns", json!({"type": "ClusterIP"})).await.status, 200);
    assert_eq!(server.services.pools.ports().unwrap().used(), 0);
}

#[tokio::test]
async fn load_balancers_draw_node_ports_and_a_health_check_port_when_they_need_them() {
    let server = server(settings("fd00:96::/108,10.96.0.0/16")).await;
    let used = || server.services.pools.ports().unwrap().used();
    let none = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    assert!(node_ports(&create(&server, "none", none).await.json()).is_empty());
    assert_eq!(used(), 0);
    let kept = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80, "nodePort": 30005}]});
    assert_eq!(node_ports(&create(&server, "kept", kept).await.json()), [30005]);
    assert_eq!(used(), 1);
    let local =
        create(&server, "local", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})).await.json();
    let health = local["spec"]["healthCheckNodePort"].as_i64().unwrap();
    assert_eq!(used(), 3);
    // An update that leaves it out keeps it; another number is refused; another policy gives it back.
    let reply = patch(&server, "local", json!({"healthCheckNodePort": null})).await;
    assert_eq!(reply.json()["spec"]["healthCheckNodePort"], health);
    assert_eq!(
        causes(&patch(&server, "local", json!({"healthCheckNodePort": 30010})).await),
        ["spec.healthCheckNodePort"]
    );
    let reply = patch(&server, "local", json!({"externalTrafficPolicy": "Cluster"})).await;
    assert_eq!((reply.status, used()), (200, 2));
    let taken = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30005});
    assert_eq!(causes(&create(&server, "taken", taken).await), ["spec.healthCheckNodePort"]);
}

#[tokio::test]
async fn clients_that_know_only_the_singular_field_change_nothing_else() {
    for list in ["10.96.0.0/16,fd00:96::/108", "fd00:96::/108,10.96.0.0/16"] {
        let server = server(settings(list)).await;
        let created =
            create(&server, "s", json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack"})).await.json();
        let mut known = created.clone();
        let spec = known["spec"].as_object_mut().unwrap();
        for unknown in ["clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            spec.remove(unknown);
        }
        spec.insert("selector".into(), json!({"a": "b"}));
        spec["ports"][0].as_object_mut().unwrap().remove("nodePort");
        let reply = ask(&server, "PUT", &format!("{COLLECTION}/s"), &[], known.to_string()).await;
        let updated = reply.json();
        assert_eq!(reply.status, 200, "{updated}");
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "ports"] {
            assert_eq!(updated["spec"][field], created["spec"][field], "{field}");
        }
    }
}

#[tokio::test]
async fn a_service_that_prefers_both_stays_as_it_is_when_the_cluster_gains_a_family() {
    let store = Store::memory(Retention::default());
    let single = on(&store, settings("10.96.0.0/16")).await;
    create(&single, "s", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    let dual = on(&store, settings("10.96.0.0/16,fd00:96::/108")).await;
    let touched = patch(&dual, "s", json!({"selector": {"a": "b"}})).await.json();
    assert_eq!(texts(&touched["spec"]["ipFamilies"]), ["IPv4"]);
    let upgraded = patch(&dual, "s", json!({"ipFamilyPolicy": "RequireDualStack"})).await.json();
    assert_eq!(texts(&upgraded["spec"]["ipFamilies"]), ["IPv4", "IPv6"]);
    assert_eq!(upgraded["spec"]["clusterIP"], touched["spec"]["clusterIP"]);
}

#[tokio::test]
async fn nodes_keep_their_pod_cidrs_and_may_gain_the_other_family() {
    let server = server(Settings::default()).await;
    for (name, first, second) in [("n4", "10.1.0.0/24", "fd00:1::/64"), ("n6", "fd00:2::/64", "10.2.0.0/24")] {
        let node = json!({"metadata": {"name": name}, "spec": {"podCIDR": first}}).to_string();
        let created = ask(&server, "POST", "/api/v1/nodes", &[], node).await.json();
        assert_eq!(texts(&created["spec"]["podCIDRs"]), [first]);
        let path = format!("/api/v1/nodes/{name}");
        let change = async |spec: Value| ask(&server, "PATCH", &path, &MERGE, json!({"spec": spec}).to_string()).await;
        for wrong in
            [json!({"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}), json!({"podCIDRs": [first, first]})]
        {
            assert_eq!(change(wrong).await.status, 422);
        }
        let both = change(json!({"podCIDRs": [first, second]})).await;
        assert_eq!((both.status, texts(&both.json()["spec"]["podCIDRs"])), (200, vec![first, second]));
        for wrong in [json!({"podCIDR": second, "podCIDRs": [second, first]}), json!({"podCIDRs": [first]})] {
            assert_eq!(causes(&change(wrong).await), ["spec.podCIDRs"]);
        }
    }
}

#[tokio::test]
async fn the_address_of_a_service_that_somebody_deleted_comes_back() {
    let server = server(Settings::default()).await;
    let service = create(&server, "s", json!({"ipFamilyPolicy": "RequireDualStack"})).await.json();
    for ip in texts(&service["spec"]["clusterIPs"]) {
        let path = format!("{ADDRESSES}/{ip}");
        assert_eq!(ask(&server, "DELETE", &path, &[], "").await.status, 200);
        etcd::eventually("the IPAddress is made again", async || {
            ask(&server, "GET", &path, &[], "").await.status == 200
        })
        .await;
    }
    etcd::eventually("an event tells", async || {
        server.objects("events").await.unwrap().iter().any(|event| event["reason"] == "ClusterIPNotAllocated")
    })
    .await;
}

#[tokio::test]
async fn prefer_dual_stack_is_read_in_every_kind_of_write() {
    let server = server(Settings::default()).await;
    let path = format!("{COLLECTION}/s");
    let spec = json!({"spec": {"preferDualStack": true}}).to_string();
    let json_patch = json!([{"op": "add", "path": "/spec/preferDualStack", "value": true}]).to_string();
    let apply =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"preferDualStack": true}});
    for (kind, query, body) in [
        ("application/merge-patch+json", "", spec.clone()),
        ("application/strategic-merge-patch+json", "", spec.clone()),
        ("application/json-patch+json", "", json_patch),
        ("application/apply-patch+yaml", "&fieldManager=m", apply.to_string()),
    ] {
        create(&server, "s", json!({})).await;
        let url = format!("{path}?fieldValidation=Strict{query}");
        for _ in 0..2 {
            let reply = ask(&server, "PATCH", &url, &[("content-type", kind)], body.clone()).await;
            let object = reply.json();
            assert_eq!(
                (reply.status, &object["spec"]["ipFamilyPolicy"]),
                (200, &json!("PreferDualStack")),
                "{kind} {object}"
            );
            assert_eq!(texts(&object["spec"]["ipFamilies"]), ["IPv4", "IPv6"]);
            assert!(reply.headers.get("warning").unwrap().to_str().unwrap().contains("was read as"));
        }
        let mut object = get(&server, &path).await;
        object["spec"]["preferDualStack"] = false.into();
        let reply = ask(&server, "PUT", &path, &[], object.to_string()).await;
        assert_eq!((reply.status, &reply.json()["spec"]["ipFamilyPolicy"]), (200, &json!("SingleStack")));
        assert!(!reply.json().to_string().contains("preferDualStack"), "{}", reply.json());
        delete(&server, "s").await;
    }
    let wrong = create(&server, "s", json!({"preferDualStack": "yes"})).await;
    assert_eq!(causes(&wrong), ["spec.preferDualStack"]);
}

#[tokio::test]
async fn by_upstream_rules_prefer_dual_stack_is_an_unknown_field() {
    let server = server(Settings { rules: RuleSet::Upstream, ..Settings::default() }).await;
    let reply = create(&server, "s", json!({"preferDualStack": true})).await;
    assert_eq!((reply.status, &reply.json()["spec"]["ipFamilyPolicy"]), (201, &json!("SingleStack")));
    assert_eq!(reply.headers.get("warning").unwrap(), r#"299 - "unknown field \"spec.preferDualStack\"""#);
    let strict = format!("{COLLECTION}?fieldValidation=Strict");
    assert_eq!(create_at(&server, &strict, "t", json!({"preferDualStack": true})).await.status, 400);
}

#[tokio::test]
async fn a_service_that_requires_both_can_still_be_changed_and_deleted_when_the_cluster_lost_a_family() {
    for (rules, status) in [(RuleSet::Seed, 200), (RuleSet::Upstream, 422)] {
        let store = Store::memory(Retention::default());
        let dual = on(&store, settings("fd00:96::/108,10.96.0.0/16")).await;
        let body = json!({
            "metadata": {"name": "s", "finalizers": ["example.com/wait"]},
            "spec": {"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"},
        });
        assert_eq!(ask(&dual, "POST", COLLECTION, &[], body.to_string()).await.status, 201);
        let single = on(&store, Settings { rules, ..settings("fd00:96::/108") }).await;
        assert_eq!(patch(&single, "s", json!({"selector": {"a": "b"}})).await.status, status);
        delete(&single, "s").await;
        let change = json!({"metadata": {"finalizers": null}}).to_string();
        assert_eq!(ask(&single, "PATCH", &format!("{COLLECTION}/s"), &MERGE, change).await.status, status);
        assert_eq!(taken(&single).await.len(), if status == 200 { 1 } else { 3 });
    }
}
