//! Pod CIDRs against the real API: a second family for nodes that have one, and a range that is full.

mod support;

use control::{framework::ControllerOptions, node_ipam};
use k8s_openapi::api::{core::v1::Node, events::v1::Event};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use net::{NodeMaskFlags, flags::one_or_pair, node_blocks};
use serde_json::json;
use support::{Running, client, server, until};

fn options(clusters: &str) -> ControllerOptions {
    let clusters = one_or_pair("cluster-cidr", clusters).expect("ranges");
    let blocks = node_blocks(&clusters, NodeMaskFlags::default()).expect("blocks");
    ControllerOptions {
        node_ipam: node_ipam::NodeIpamOptions { blocks: Some(blocks), service_ranges: Vec::new() },
        ..ControllerOptions::default()
    }
}

async fn make(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a node");
    nodes.create(&PostParams::default(), &node).await.expect("made");
}

async fn cidrs(client: &Client, name: &str, count: usize) -> Vec<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    until("the node has its CIDRs", || async {
        let list = nodes.get(name).await.expect("there").spec.and_then(|spec| spec.pod_cidrs).unwrap_or_default();
        (list.len() == count).then_some(list)
    })
    .await
}

async fn reported(client: &Client, reason: &str) {
    let events: Api<Event> = Api::all(client.clone());
    until(reason, || async {
        let list = events.list(&ListParams::default()).await.expect("a list").items;
        list.iter().any(|event| event.reason.as_deref() == Some(reason)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_is_added_later_is_appended_to_nodes_that_are_there() {
    for (first, both, expected) in [
        ("10.244.0.0/16", "10.244.0.0/16,fd00:244::/48", ["10.244.0.0/24", "fd00:244::/64"]),
        ("fd00:244::/48", "fd00:244::/48,10.244.0.0/16", ["fd00:244::/64", "10.244.0.0/24"]),
    ] {
        let server = server("v4v6").await;
        let client = client(&server);
        let running = Running::start(client.clone(), "node-ipam-controller", options(first));
        make(&client, "a").await;
        assert_eq!(cidrs(&client, "a", 1).await, expected[..1]);
        running.stop().await;
        let running = Running::start(client.clone(), "node-ipam-controller", options(both));
        assert_eq!(cidrs(&client, "a", 2).await, expected);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_finds_the_range_full_gets_its_cidrs_when_another_goes() {
    let server = server("v4v6").await;
    let client = client(&server);
    let running = Running::start(client.clone(), "node-ipam-controller", options("10.244.0.0/23,fd00:244::/48"));
    for name in ["a", "b"] {
        make(&client, name).await;
        cidrs(&client, name, 2).await;
    }
    make(&client, "c").await;
    reported(&client, "CIDRNotAvailable").await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(cidrs(&client, "c", 2).await[0], "10.244.0.0/24");
    running.stop().await;
}
