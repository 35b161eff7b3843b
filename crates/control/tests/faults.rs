//! Controllers that are cut off after any of their writes, the answer lost with it, and started again: all comes out the same.

mod support;

use control::{
    framework::ControllerOptions,
    node_ipam,
    service_lb::{
        self,
        lab::Lab,
        provider::{Provider, Providers},
    },
};
use k8s_openapi::api::{
    core::v1::{Endpoints, Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use net::{NodeMaskFlags, flags::one_or_pair, node_blocks};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::atomic::Ordering};
use support::{Running, breaking, client, server, until};

const CONTROLLERS: &str = "endpointslice-controller,endpoints-controller,endpointslice-mirroring-controller,\
                           node-ipam-controller,service-cidr-controller,service-lb-controller";

fn options() -> ControllerOptions {
    let clusters = one_or_pair("cluster-cidr", "10.244.0.0/16,fd00:244::/48").expect("ranges");
    let ranges = one_or_pair("load-balancer-ip-range", "192.0.2.0/24,2001:db8::/120").expect("ranges");
    let lab = Provider::new(Lab::new(ranges).expect("a lab"));
    ControllerOptions {
        node_ipam: node_ipam::NodeIpamOptions {
            blocks: Some(node_blocks(&clusters, NodeMaskFlags::default()).expect("blocks")),
            service_ranges: Vec::new(),
        },
        service_lb: service_lb::ServiceLbOptions {
            providers: Providers { default: Some(lab), ..Providers::default() },
            workers: 1,
        },
        ..ControllerOptions::default()
    }
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn pod(number: usize) -> Value {
    json!({
        "metadata": {"name": format!("p{number}"), "labels": {"app": "x"}},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]},
    })
}

async fn add_pod(client: &Client, number: usize) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &object(pod(number))).await.expect("a pod");
    let ips = [format!("10.1.0.{number}"), format!("fd00:1::{number}")];
    let status = json!({"status": {
        "phase": "Running", "podIP": ips[0], "podIPs": [{"ip": ips[0]}, {"ip": ips[1]}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    pods.patch_status(&format!("p{number}"), &PatchParams::default(), &Patch::Merge(status)).await.expect("its status");
}

/// Two nodes, three Pods, a Service of both families with a load balancer, and Endpoints made by hand.
async fn make(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    for name in ["n1", "n2"] {
        nodes.create(&PostParams::default(), &object(json!({"metadata": {"name": name}}))).await.expect("a node");
    }
    for number in 1..=3 {
        add_pod(client, number).await;
    }
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let by_hand = json!({"metadata": {"name": "hand"}, "spec": {"ports": [{"port": 80}]}});
    services.create(&PostParams::default(), &object(by_hand)).await.expect("a service");
    let endpoints: Api<Endpoints> = Api::default_namespaced(client.clone());
    let list = json!({
        "metadata": {"name": "hand"},
        "subsets": [{"addresses": [{"ip": "10.9.0.1"}, {"ip": "fd00:9::1"}], "ports": [{"port": 80}]}],
    });
    endpoints.create(&PostParams::default(), &object(list)).await.expect("endpoints");
    let service = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "selector": {"app": "x"}, "ports": [{"port": 80}],
    }});
    services.create(&PostParams::default(), &object(service)).await.expect("a service");
}

/// One Pod goes, one comes, the Service loses a family and its load balancer, a node goes and another comes.
async fn change(client: &Client) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.delete("p2", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    add_pod(client, 4).await;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let patch = json!({"spec": {"type": "ClusterIP", "ipFamilyPolicy": "SingleStack"}});
    services.patch("s", &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("n2", &DeleteParams::default()).await.expect("deleted");
    nodes.create(&PostParams::default(), &object(json!({"metadata": {"name": "n3"}}))).await.expect("a node");
    let endpoints: Api<Endpoints> = Api::default_namespaced(client.clone());
    let patch = json!({"subsets": [{"addresses": [{"ip": "fd00:9::2"}], "ports": [{"port": 81}]}]});
    endpoints.patch("hand", &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
}

/// What controllers made of it, without what is random.
async fn outcome(client: &Client) -> Value {
    let slices: Api<EndpointSlice> = Api::default_namespaced(client.clone());
    let list = slices.list(&ListParams::default()).await.expect("a list").items;
    let mut shown: Vec<String> = list
        .iter()
        .map(|slice| {
            let mut ips: Vec<&str> =
                slice.endpoints.iter().flatten().map(|endpoint| endpoint.addresses[0].as_str()).collect();
            ips.sort_unstable();
            let labels = slice.metadata.labels.as_ref().expect("labels");
            format!("{} {} {}", labels["kubernetes.io/service-name"], slice.address_type, ips.join(","))
        })
        .filter(|line| !line.starts_with("kubernetes "))
        .collect();
    shown.sort();
    let endpoints: Api<Endpoints> = Api::default_namespaced(client.clone());
    let old = endpoints.get_opt("s").await.expect("an answer").and_then(|found| found.subsets).unwrap_or_default();
    let old: Vec<String> =
        old.into_iter().flat_map(|subset| subset.addresses.unwrap_or_default()).map(|address| address.ip).collect();
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let service = services.get("s").await.expect("there");
    let ingress = service.status.and_then(|status| status.load_balancer).and_then(|status| status.ingress);
    let families: Vec<bool> =
        ingress.unwrap_or_default().into_iter().filter_map(|one| one.ip).map(|ip| ip.contains(':')).collect();
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.expect("a list").items;
    let cidrs: Vec<String> = nodes
        .into_iter()
        .filter_map(|node| node.spec?.pod_cidrs)
        .inspect(|list| assert_eq!(list.len(), 2))
        .flatten()
        .collect();
    let distinct: BTreeSet<&String> = cidrs.iter().collect();
    json!({
        "slices": shown, "endpoints": old, "load balancer": families, "finalizers": service.metadata.finalizers,
        "pod CIDRs": distinct.len(), "given twice": cidrs.len() - distinct.len(),
    })
}

fn made() -> Value {
    json!({
        "slices": [
            "hand IPv4 10.9.0.1", "hand IPv6 fd00:9::1",
            "s IPv4 10.1.0.1,10.1.0.2,10.1.0.3", "s IPv6 fd00:1::1,fd00:1::2,fd00:1::3",
        ],
        "endpoints": ["10.1.0.1", "10.1.0.2", "10.1.0.3"], "load balancer": [false, true],
        "finalizers": ["service.kubernetes.io/load-balancer-cleanup"], "pod CIDRs": 4, "given twice": 0,
    })
}

fn changed() -> Value {
    json!({
        "slices": ["hand IPv6 fd00:9::2", "s IPv4 10.1.0.1,10.1.0.3,10.1.0.4"],
        "endpoints": ["10.1.0.1", "10.1.0.3", "10.1.0.4"], "load balancer": [], "finalizers": null,
        "pod CIDRs": 4, "given twice": 0,
    })
}

/// Runs controllers until they are done or cut off after `writes`. Whether they were cut off.
async fn run_until_cut(server: &std::sync::Arc<apiserver::ApiServer>, writes: i64, wanted: &Value) -> bool {
    let (wire, left) = breaking(server, writes);
    let good = client(server);
    let running = Running::start(wire, CONTROLLERS, options());
    let cut = until("done or cut off", || async {
        if left.load(Ordering::SeqCst) <= 0 {
            return Some(true);
        }
        (outcome(&good).await == *wanted).then_some(false)
    })
    .await;
    running.stop().await;
    cut
}

async fn converge(server: &std::sync::Arc<apiserver::ApiServer>, what: &str, wanted: &Value) {
    let good = client(server);
    let running = Running::start(good.clone(), CONTROLLERS, options());
    let deadline = tokio::time::Instant::now() + support::PATIENCE;
    loop {
        let now = outcome(&good).await;
        if now == *wanted {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what}:\n  wanted {wanted}\n  have   {now}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_is_the_same_after_a_cut_at_any_write() {
    for writes in 1.. {
        let server = server("v4v6").await;
        make(&client(&server)).await;
        let cut = run_until_cut(&server, writes, &made()).await;
        converge(&server, &format!("made, cut after {writes}"), &made()).await;
        if !cut {
            assert!(writes > 5, "there is more to write than {writes}");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_is_the_same_after_a_cut_at_any_write() {
    for writes in 1.. {
        let server = server("v4v6").await;
        make(&client(&server)).await;
        converge(&server, "made", &made()).await;
        change(&client(&server)).await;
        let cut = run_until_cut(&server, writes, &changed()).await;
        converge(&server, &format!("changed, cut after {writes}"), &changed()).await;
        if !cut {
            assert!(writes > 5, "there is more to write than {writes}");
            return;
        }
    }
}
