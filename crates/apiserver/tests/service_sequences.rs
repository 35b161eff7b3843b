//! Whatever clients do, no address and no port is lost or given twice, and a server that starts after a crash at any step
//! finds everything in order.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use api::families;
use apiserver::{
    ApiServer,
    services::{Services, Settings, claims, repair},
    stored,
    testing::Lab,
};
use net::{Families, Family, PortRange, flags::service_ranges};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr, sync::Arc};
use store::{Op, Retention, Store, Txn};
use support::ask;

const COLLECTION: &str = "/api/v1/namespaces/default/services";

/// Ranges so small that requests fail because nothing is left.
fn settings(families: Families) -> Settings {
    let range = |family| match family {
        Family::V4 => "10.96.0.0/28",
        Family::V6 => "fd00:96::/124",
    };
    let ranges = families.iter().map(range).collect::<Vec<_>>().join(",");
    Settings {
        ranges: service_ranges(&ranges).unwrap(),
        node_ports: Some(PortRange::new(30000, 30007).unwrap()),
        ..Settings::default()
    }
}

fn lab(store: Store, families: Families) -> Lab {
    let mut lab = Lab::on(store);
    lab.server.services = Services::new(settings(families));
    lab
}

async fn start(store: Store, families: Families) -> Arc<ApiServer> {
    lab(store, families).start().await
}

/// One request; names and specs are chosen by number from small sets, so that requests meet.
#[derive(Clone, Copy, Debug)]
enum Request {
    Create(usize, usize),
    DryRun(usize, usize),
    Merge(usize, usize),
    Replace(usize, usize),
    Delete(usize),
}

/// What a Service may be created as, or replaced by.
fn specs() -> Vec<Value> {
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}]);
    vec![
        json!({}),
        json!({"ipFamilyPolicy": "PreferDualStack"}),
        json!({"ipFamilyPolicy": "RequireDualStack"}),
        json!({"ipFamilies": ["IPv6", "IPv4"]}),
        json!({"clusterIPs": ["10.96.0.5", "fd00:96::5"]}),
        json!({"clusterIP": "10.96.0.6"}),
        json!({"clusterIP": "fd00:96::6"}),
        json!({"clusterIP": "10.97.0.1"}),
        json!({"clusterIP": "None"}),
        json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilyPolicy": "PreferDualStack"}),
        json!({"type": "ExternalName", "externalName": "example.com"}),
        json!({"type": "NodePort", "ports": ports}),
        json!({"type": "NodePort", "ports": [{"port": 53, "protocol": "TCP", "name": "t"}, {"port": 53, "protocol": "UDP", "name": "u"}]}),
        json!({"type": "NodePort", "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80, "nodePort": 30001}]}),
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 81, "nodePort": 29999}]}),
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}),
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}),
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30002}),
    ]
}

/// How a Service may be changed.
fn changes() -> Vec<Value> {
    vec![
        json!({"ipFamilyPolicy": "PreferDualStack"}),
        json!({"ipFamilyPolicy": "RequireDualStack"}),
        json!({"ipFamilyPolicy": "SingleStack"}),
        json!({"preferDualStack": false}),
        json!({"type": "ExternalName", "externalName": "example.com"}),
        json!({"type": "ClusterIP"}),
        json!({"type": "NodePort"}),
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
        json!({"externalTrafficPolicy": "Cluster"}),
        json!({"ports": [{"port": 80, "nodePort": 30003}]}),
        json!({"ports": [{"name": "x", "port": 80}, {"name": "y", "port": 81}, {"name": "z", "port": 82}]}),
        json!({"clusterIP": "None"}),
        json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}),
        json!({"selector": {"c": "d"}}),
        json!({"type": "ClusterIP", "externalName": null, "clusterIP": "None"}),
    ]
}

fn object(name: usize, spec: usize) -> Value {
    let mut spec = specs()[spec % specs().len()].clone();
    if spec["ports"].is_null() {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"metadata": {"name": format!("s{name}")}, "spec": spec})
}

async fn send(server: &Arc<ApiServer>, request: Request) -> u16 {
    let one = |name: usize| format!("{COLLECTION}/s{name}");
    let merge = [("content-type", "application/merge-patch+json")];
    let reply = match request {
        Request::Create(name, spec) => ask(server, "POST", COLLECTION, &[], object(name, spec).to_string()).await,
        Request::DryRun(name, spec) => {
            ask(server, "POST", &format!("{COLLECTION}?dryRun=All"), &[], object(name, spec).to_string()).await
        }
        Request::Merge(name, change) => {
            let spec = changes()[change % changes().len()].clone();
            ask(server, "PATCH", &one(name), &merge, json!({"spec": spec}).to_string()).await
        }
        Request::Replace(name, spec) => ask(server, "PUT", &one(name), &[], object(name, spec).to_string()).await,
        Request::Delete(name) => ask(server, "DELETE", &one(name), &[], "").await,
    };
    reply.status
}

/// Addresses and ports of all Services are exactly those that the store and the pools know as taken.
async fn assert_in_order(server: &Arc<ApiServer>) {
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for service in server.objects("services/specs").await.unwrap() {
        let (its_addresses, its_ports) = families::held(&service);
        for ip in its_addresses {
            assert!(addresses.insert(ip), "{ip} is given twice");
        }
        for port in its_ports {
            assert!(ports.insert(port), "{port} is given twice");
        }
    }
    let names = server.objects("ipaddresses").await.unwrap();
    let known: BTreeSet<IpAddr> =
        names.iter().map(|ip| ip["metadata"]["name"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(known, addresses);
    let keys = server.store.list(claims::PORTS, None, None, None).await.unwrap().entries;
    let known: BTreeSet<i64> = keys.iter().map(|entry| entry.key()[claims::PORTS.len()..].parse().unwrap()).collect();
    assert_eq!(known, ports);
    let used: u64 = server.services.pools.addresses().iter().map(net::Pool::used).sum();
    assert_eq!(used, addresses.len() as u64);
    assert_eq!(server.services.pools.ports().unwrap().used(), ports.len() as u64);
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = prop_oneof![
        4 => (0..5_usize, 0..18_usize).prop_map(|(name, spec)| Request::Create(name, spec)),
        1 => (0..5_usize, 0..18_usize).prop_map(|(name, spec)| Request::DryRun(name, spec)),
        4 => (0..5_usize, 0..15_usize).prop_map(|(name, change)| Request::Merge(name, change)),
        1 => (0..5_usize, 0..18_usize).prop_map(|(name, spec)| Request::Replace(name, spec)),
        2 => (0..5_usize).prop_map(Request::Delete),
    ];
    prop::collection::vec(request, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_sequence_of_requests_loses_or_doubles_anything(shape in 0..4_usize, requests in requests()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = start(Store::memory(Retention::default()), Families::ALL[shape]).await;
            assert_in_order(&server).await;
            for request in requests {
                let status = send(&server, request).await;
                assert!(status <= 500, "{request:?} {status}");
                assert_in_order(&server).await;
            }
            let report = repair::repair(&server).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
        });
    }
}

/// The store as it was at a revision, in another store.
async fn copy_at(store: &Store, revision: u64) -> Store {
    let page = store.list("", None, None, Some(revision)).await.unwrap();
    let copy = Store::memory(Retention::default());
    let ops = page.entries.iter().map(|entry| Op::Put(entry.key().clone(), entry.value().clone()));
    copy.txn(Txn::of(ops)).await.unwrap();
    copy
}

#[tokio::test]
async fn a_server_that_was_cut_off_after_any_step_finds_everything_in_order() {
    let families = Families::both(Family::V6);
    let server = start(Store::memory(Retention::default()), families).await;
    let begun = server.store.known_revision();
    for request in [
        // The one with addresses of its own comes first, while nobody can have them.
        Request::Create(2, 4),
        Request::Create(0, 1),
        Request::Create(1, 15),
        Request::Merge(0, 6),
        Request::Merge(1, 8),
        Request::Merge(0, 2),
        Request::Merge(0, 4),
        Request::Delete(1),
        Request::Delete(2),
    ] {
        let status = send(&server, request).await;
        assert!(status < 300, "{request:?} {status}");
    }
    // Every revision of the requests, and some from the first start of the server.
    let ended = server.store.known_revision();
    for revision in (2..begun).step_by(12).chain(begun..=ended) {
        let restarted = start(copy_at(&server.store, revision).await, families).await;
        assert_in_order(&restarted).await;
        let report = repair::repair(&restarted).await.unwrap();
        assert!(report.is_clean(), "revision {revision}: {report:?}");
        let events = restarted.objects("events").await.unwrap();
        assert!(events.is_empty(), "revision {revision}: nothing had to be mended: {events:?}");
        assert!(restarted.object("services/specs/default/kubernetes").is_some());
    }
}

#[tokio::test]
async fn what_another_writer_broke_is_mended_and_told() {
    for families in Families::ALL {
        // The repair that follows a deleted address by itself would be first now and then.
        let server = lab(Store::memory(Retention::default()), families).start_still().await;
        for (name, spec) in [(0, 1), (1, 11)] {
            assert_eq!(send(&server, Request::Create(name, spec)).await, 201);
        }
        let first = server.object("services/specs/default/s0").unwrap();
        let ip: IpAddr = first["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
        let used = families::held(&server.object("services/specs/default/s1").unwrap()).1;
        let port = u16::try_from(used[0]).unwrap();
        let unused = (30000..30008).find(|port| !used.contains(&i64::from(*port))).unwrap();
        let spare = (1..14).map(|number: u16| match ip.is_ipv4() {
            true => format!("10.96.0.{number}").parse::<IpAddr>().unwrap(),
            false => format!("fd00:96::{number:x}").parse::<IpAddr>().unwrap(),
        });
        let spare = spare.into_iter().find(|ip| server.store.get(&claims::address_key(*ip)).is_none()).unwrap();
        let nobody = claims::Holder { namespace: "default".into(), name: "nobody".into() };
        let now = server.now();
        let address = |ip, holder: &claims::Holder| claims::address_bytes(ip, holder, now).unwrap();
        let mut copy = first.clone();
        copy["metadata"]["name"] = "copy".into();
        copy["spec"]["clusterIPs"] = json!([ip.to_string()]);
        let mut stray = copy.clone();
        stray["metadata"]["name"] = "stray".into();
        stray["spec"]["clusterIP"] = "192.0.2.1".into();
        stray["spec"]["clusterIPs"] = json!(["192.0.2.1"]);
        let key = |name: &str| format!("services/specs/default/{name}");
        for (broken, reasons, mended) in [
            (Op::Delete(claims::address_key(ip)), vec!["ClusterIPNotAllocated"], true),
            (Op::Put(claims::address_key(ip), address(ip, &nobody)), vec!["IPAddressWrongReference"], true),
            (Op::Put(claims::address_key(spare), address(spare, &nobody)), vec!["IPAddressNotAllocated"], true),
            (Op::Delete(claims::port_key(port)), vec!["PortNotAllocated"], true),
            (Op::Put(claims::port_key(port), claims::port_bytes(&nobody)), vec!["PortNotAllocated"], true),
            (Op::Put(claims::port_key(unused), claims::port_bytes(&nobody)), vec!["PortLeaked"], true),
            (Op::Put(key("copy").into(), stored::encode(&copy).unwrap()), vec!["ClusterIPAlreadyAllocated"], false),
            (Op::Delete(key("copy").into()), vec![], true),
            (
                Op::Put(key("stray").into(), stored::encode(&stray).unwrap()),
                vec!["ClusterIPOutOfRange", "ClusterIPNotAllocated"],
                false,
            ),
        ] {
            server.store.txn(Txn::of([broken.clone()])).await.unwrap();
            let report = repair::repair(&server).await.unwrap();
            assert_eq!(report.found, reasons, "{broken:?}");
            let events = server.objects("events").await.unwrap();
            for reason in &reasons {
                assert!(events.iter().any(|event| event["reason"] == *reason), "{reason}");
            }
            let again = repair::repair(&server).await.unwrap();
            assert_eq!(again.is_clean(), mended, "{broken:?} {again:?}");
        }
    }
}
