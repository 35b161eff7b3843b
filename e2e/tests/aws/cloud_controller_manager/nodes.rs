//! Nodes: what AWS tells of them, the routes to their pods, and the end of their instances.

use super::cloud::{Cloud, RANGES};
use e2e::aws_strict::{Api, Example};
use serde_json::{Value, json};

/// Addresses of a node's pods.
fn pods(index: usize) -> [String; 2] {
    let number = index + 1;
    [format!("10.244.{number}.0/24"), format!("fd00:10:244:{number}::/64")]
}

/// What an instance is like for a kubelet that knows nothing of AWS.
fn bare_node(cloud: &Cloud, index: usize) -> Value {
    let mut node = cloud.example.node(index);
    node["status"] = json!({});
    node["spec"] = json!({
        "providerID": node["spec"]["providerID"],
        "podCIDRs": pods(index), "podCIDR": pods(index)[0],
        "taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}],
    });
    node
}

/// Destinations of the routes that lead to an instance.
fn routes_to(cloud: &Cloud, instance: &str) -> Vec<String> {
    let found = cloud.aws.look(Api::Ec2, "DescribeRouteTables", &[("RouteTableId.1", &cloud.example.route_table)]);
    let found = found.unwrap();
    let all = found.all("routeTableSet/item/routeSet/item").into_iter();
    let to = all.filter(|route| route.text("instanceId") == instance);
    let to = to.map(|route| route.text("destinationCidrBlock").to_owned() + route.text("destinationIpv6CidrBlock"));
    let mut to: Vec<String> = to.collect();
    to.sort();
    to
}

#[test]
fn nodes_are_described_their_pods_get_routes_and_they_go_with_their_instances() {
    for families in [&["ipv4"][..], &["ipv6"], &["ipv4", "ipv6"], &["ipv6", "ipv4"]] {
        let lines = |example: &Example| {
            let families: String = families.iter().map(|family| format!("NodeIPFamilies = {family}\n")).collect();
            format!("{families}RouteTableID = {}\n", example.route_table)
        };
        let flags = &["--cluster-cidr=10.244.0.0/16,fd00:10:244::/48", "--route-reconciliation-period=1s"];
        let Some(cloud) = Cloud::without_nodes(lines, flags, RANGES[0], 2) else { return };
        (0..2).for_each(|index| cloud.create(&bare_node(&cloud, index)));
        // Somebody's own hardware, of which AWS knows nothing: it is left alone.
        let stranger = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "stranger"},
            "spec": {"providerID": "eks-hybrid:///us-east-1/example/mi-0123"}});
        cloud.create(&stranger);
        let node = |index: usize| -> Value {
            let text = cloud.kubectl.ok(&["get", "node", &format!("node-{index}"), "-o", "json"]);
            serde_json::from_str(&text).unwrap()
        };
        for index in 0..2 {
            let described = cloud.until("the node is described", || {
                // Nobody here says that the node is ready; that taint stays.
                let waits = |taint: &Value| taint["key"] == "node.cloudprovider.kubernetes.io/uninitialized";
                Some(node(index))
                    .filter(|node| !node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(waits)))
            });
            let labels = &described["metadata"]["labels"];
            let (id, zone) = &cloud.example.instances[index];
            assert_eq!(labels["topology.kubernetes.io/zone"], *zone);
            assert_eq!(labels["topology.kubernetes.io/region"], "us-east-1");
            assert_eq!(labels["node.kubernetes.io/instance-type"], "m6i.large");
            let internal = cloud.until("it has addresses", || {
                let all = node(index)["status"]["addresses"].as_array()?.clone();
                let internal = all.iter().filter(|address| address["type"] == "InternalIP");
                let text = |address: &Value| address["address"].as_str().unwrap_or_default().to_owned();
                Some(internal.map(text).collect::<Vec<_>>())
            });
            let kinds: Vec<&str> =
                internal.iter().map(|address| if address.contains(':') { "ipv6" } else { "ipv4" }).collect();
            assert_eq!(kinds, families, "{internal:?}");
            cloud.until("its pods have routes", || (routes_to(&cloud, id) == pods(index)).then_some(()));
        }
        let metrics = cloud.metrics();
        for queue in ["service", "cloud-node", "cloud-node-lifecycle"] {
            assert!(metrics.contains(&format!("workqueue_adds_total{{name=\"{queue}\"}}")), "{queue}:\n{metrics}");
        }
        if families != ["ipv6", "ipv4"] {
            continue;
        }
        // Not ready, its instance stopped and started, then gone for good. It takes half a minute, and is the same for all.
        let (id, _) = &cloud.example.instances[1];
        let down = "{.spec.taints[?(@.key=='node.cloudprovider.kubernetes.io/shutdown')].effect}";
        let taint = || cloud.kubectl.ok(&["get", "node", "node-1", "-o", &format!("jsonpath={down}")]);
        cloud.aws.look(Api::Ec2, "StopInstances", &[("InstanceId.1", id)]).unwrap();
        cloud.until("a stopped one is tainted", || (taint() == "NoSchedule").then_some(()));
        cloud.aws.look(Api::Ec2, "StartInstances", &[("InstanceId.1", id)]).unwrap();
        cloud.until("a started one is not", || taint().is_empty().then_some(()));
        cloud.aws.look(Api::Ec2, "TerminateInstances", &[("InstanceId.1", id)]).unwrap();
        let there = || cloud.kubectl.ok(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
        cloud.until("a node without instance goes", || (there() == "node-0 stranger").then_some(()));
        cloud.until("its routes go with it", || routes_to(&cloud, id).is_empty().then_some(()));
        assert_eq!(routes_to(&cloud, &cloud.example.instances[0].0).len(), 2, "the others stay");
        assert!(cloud.events("node-1").contains("DeletingNode"), "{}", cloud.events("node-1"));
    }
}
