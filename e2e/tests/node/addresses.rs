//! Every Pod has an address of each family of its cluster, the node's primary family first.

use super::{lab, nothing_is_left, url};
use e2e::node_lab::{Shape, items, server_pod};
use std::net::IpAddr;

fn is_primary_first(shape: Shape, ips: &[IpAddr]) {
    let families: Vec<bool> = ips.iter().map(IpAddr::is_ipv4).collect();
    assert_eq!(families, shape.of(&[true, false]), "{ips:?}");
}

#[track_caller]
fn a_pod_runs(shape: Shape) {
    let Some(lab) = lab(shape, 1, &[]) else { return };
    let node = lab.get(&["get", "node", "n0"]).expect("it is there");
    let own: Vec<&str> = items(&node["status"]["addresses"])
        .iter()
        .filter(|one| one["type"] == "InternalIP")
        .filter_map(|one| one["address"].as_str())
        .collect();
    assert_eq!(own, lab.nodes[0].addresses);
    assert_eq!(items(&node["spec"]["podCIDRs"]).len(), shape.of(&[(), ()]).len());
    lab.apply(&server_pod("web"));
    let ips = lab.ready("web");
    is_primary_first(shape, &ips);
    let pod = lab.get(&["get", "pod", "web"]).expect("it is there");
    let hosts: Vec<&str> = items(&pod["status"]["hostIPs"]).iter().filter_map(|one| one["ip"].as_str()).collect();
    assert_eq!(hosts, lab.nodes[0].addresses);
    assert_eq!(pod["status"]["phase"], "Running");
    let told: Vec<String> = ips.iter().map(ToString::to_string).collect();
    for ip in &ips {
        let answer = lab.network.node(0).run("curl", &["-sS", "--max-time", "10", &url(ip, 8080)], "");
        let answer = answer.unwrap_or_else(|error| panic!("{ip}: {error}\n{}", lab.logs())).stdout;
        assert_eq!(answer.trim(), told.join(","), "the variable MY_POD_IPS");
    }
    lab.delete("web");
    nothing_is_left(&lab, 0);
}

#[test]
fn a_pod_has_an_ipv4_address() {
    a_pod_runs(Shape::V4);
}

#[test]
fn a_pod_has_an_ipv6_address() {
    a_pod_runs(Shape::V6);
}

#[test]
fn a_pod_has_an_ipv4_and_an_ipv6_address() {
    a_pod_runs(Shape::V4V6);
}

#[test]
fn a_pod_has_an_ipv6_and_an_ipv4_address() {
    a_pod_runs(Shape::V6V4);
}
