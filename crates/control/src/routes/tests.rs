//! Which routes there should be, in every shape of cluster.

use super::plan::{Plan, of_node, plan};
use k8s_openapi::api::core::v1::Node;
use net::Cidr;
use runtime::cloud::Route;
use serde_json::json;
use std::sync::Arc;

fn node(name: &str, cidrs: &[&str], addresses: &[&str]) -> Arc<Node> {
    let addresses: Vec<_> = addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": format!("{name}-uid")},
            "spec": {"podCIDRs": cidrs}, "status": {"addresses": addresses},
        }))
        .unwrap(),
    )
}

fn clusters() -> Vec<Cidr> {
    ["10.244.0.0/16", "fd00:244::/48"].map(|text| text.parse().unwrap()).to_vec()
}

#[test]
fn every_pod_cidr_goes_by_the_nodes_address_of_its_family() {
    let (four, six) = ("10.244.1.0/24", "fd00:244:0:1::/64");
    for cidrs in [vec![four], vec![six], vec![four, six], vec![six, four]] {
        let one = node("a", &cidrs, &["192.168.0.1", "fd00::1"]);
        let plan = plan(&[one], &[], &clusters());
        let shown: Vec<String> =
            plan.create.iter().map(|route| format!("{} via {}", route.pods, route.via.unwrap())).collect();
        let mut expected: Vec<String> = cidrs
            .iter()
            .map(|cidr| format!("{cidr} via {}", if *cidr == four { "192.168.0.1" } else { "fd00::1" }))
            .collect();
        let mut shown = shown;
        shown.sort();
        expected.sort();
        assert_eq!(shown, expected);
        assert_eq!(
            super::plan::plan(&[node("a", &cidrs, &["192.168.0.1", "fd00::1"])], &plan.create, &clusters()),
            Plan::default()
        );
    }
}

#[test]
fn stale_routes_go_and_others_routes_stay() {
    let one = node("a", &["10.244.1.0/24", "fd00:244:0:1::/64"], &["192.168.0.1", "fd00::1"]);
    let route =
        |name: &str, pods: &str| Route { name: name.into(), node: name.into(), via: None, pods: pods.parse().unwrap() };
    let mut stored = of_node(&one);
    stored.push(route("gone", "10.244.2.0/24"));
    stored.push(route("gone", "fd00:244:0:2::/64"));
    stored.push(route("foreign", "172.16.0.0/24"));
    let made = plan(std::slice::from_ref(&one), &stored, &clusters());
    assert_eq!(made.delete, [route("gone", "10.244.2.0/24"), route("gone", "fd00:244:0:2::/64")]);
    assert!(made.create.is_empty());
    // The node's address has changed: the route leads elsewhere.
    let moved = node("a", &["10.244.1.0/24", "fd00:244:0:1::/64"], &["192.168.0.2", "fd00::1"]);
    let made = plan(&[moved], &of_node(&one), &clusters());
    assert_eq!((made.delete.len(), made.create.len()), (1, 1));
}
