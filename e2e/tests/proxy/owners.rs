//! An address and port that several Services name: the one that `twinstack proxy` serves there, who takes over, and which external
//! IPs nobody serves. Real connections, both families.

use e2e::{
    proxy_lab::{self, Lab, NODE, PATIENCE, PODS, Pair, ask, ip},
    wait_for,
};
use serde_json::{Value, json};
use std::{
    io::ErrorKind,
    net::SocketAddr,
    time::{Duration, Instant},
};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SHARED: Pair = ["198.18.7.7", "2001:db8:18::77"];
const OWN: [Pair; 4] = [
    ["10.96.7.1", "fd00:10:96::701"],
    ["10.96.7.2", "fd00:10:96::702"],
    ["10.96.7.3", "fd00:10:96::703"],
    ["10.96.7.4", "fd00:10:96::704"],
];
/// Of a Service range, but no Service's.
const UNUSED: Pair = ["10.96.7.99", "fd00:10:96::799"];

/// Another node's.
const NEIGHBOUR: Pair = ["198.18.7.50", "2001:db8:18::750"];

/// A Service whose endpoint is a pod.
fn make(lab: &Lab, name: &str, ips: Pair, pod: usize, more: &Value) {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": ips[0], "clusterIPs": ips, "ipFamilyPolicy": "RequireDualStack",
            "ports": [{"name": "x", "port": 80, "protocol": "TCP"}]},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    lab.apply(&object);
    for (family, kind) in ["IPv4", "IPv6"].into_iter().enumerate() {
        lab.apply(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{name}-{family}"), "namespace": "default",
                "labels": {"kubernetes.io/service-name": name}},
            "addressType": kind, "endpoints": [{"addresses": [PODS[pod][family]], "nodeName": "n1"}],
            "ports": [{"name": "x", "port": 8080, "protocol": "TCP"}],
        }));
    }
}

/// Waits until this pod answers at both addresses, several times in a row.
#[track_caller]
fn leads_to(lab: &Lab, to: Pair, pod: usize) {
    for text in to {
        let to = SocketAddr::new(ip(text), 80);
        let mut last = None;
        let found = wait_for(PATIENCE, || {
            let good =
                (0..5).all(|_| matches!(last.insert(ask(&lab.client, to)), Ok((answered, _)) if *answered == pod));
            good.then_some(())
        });
        assert!(found.is_some(), "{to} does not lead to pod {pod}: {last:?}");
    }
}

fn an_address_has_one_owner(mode: &str) {
    if let Some(how) = proxy_lab::missing() {
        e2e::skip("Services that name one address, through the proxy", how);
        return;
    }
    let lab = Lab::new();
    let proxy = lab.proxy(mode, "proxy.log");
    lab.wait_in_place(&proxy);
    // Names are such that the alphabet would decide otherwise.
    make(&lab, "z-old", OWN[0], 0, &json!({"externalIPs": SHARED}));
    leads_to(&lab, SHARED, 0);
    // Times of creation have seconds.
    let made = Instant::now();
    wait_for(PATIENCE, || (made.elapsed() > Duration::from_millis(1100)).then_some(()));
    make(&lab, "a-young", OWN[1], 1, &json!({"externalIPs": SHARED}));
    leads_to(&lab, OWN[1], 1);
    leads_to(&lab, SHARED, 0);
    make(&lab, "m-balancer", OWN[2], 2, &json!({"type": "LoadBalancer"}));
    let ingress: Vec<Value> = SHARED.iter().map(|ip| json!({"ip": ip})).collect();
    lab.set_status(&format!("{SERVICES}/m-balancer"), &json!({"loadBalancer": {"ingress": ingress}}));
    leads_to(&lab, SHARED, 2);
    external_ips_of_others_are_ignored(&lab);
    for (gone, next) in [("m-balancer", 0), ("z-old", 1)] {
        lab.delete(&format!("{SERVICES}/{gone}"));
        leads_to(&lab, SHARED, next);
    }
    lab.delete(&format!("{SERVICES}/a-young"));
    for text in SHARED {
        let closed = wait_for(PATIENCE, || ask(&lab.client, SocketAddr::new(ip(text), 80)).is_err().then_some(()));
        assert!(closed.is_some(), "{text} still answers");
    }
    assert!(!proxy.output().contains("ERROR"), "{}", proxy.output());
}

/// Cluster IPs of other Services, unused ones, and addresses of nodes: with an event for each.
fn external_ips_of_others_are_ignored(lab: &Lab) {
    lab.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}));
    let addresses: Vec<Value> = NEIGHBOUR.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
    lab.set_status("/api/v1/nodes/n2", &json!({"addresses": addresses}));
    let wanted: Vec<&str> = [OWN[1], UNUSED, NODE, NEIGHBOUR].concat();
    // Also at a port that the owner of the cluster IP does not have.
    let ports = json!([{"name": "x", "port": 80, "protocol": "TCP"}, {"name": "y", "port": 8443, "protocol": "TCP"}]);
    make(lab, "a-thief", OWN[3], 2, &json!({"externalIPs": wanted, "ports": ports}));
    leads_to(lab, OWN[3], 2);
    leads_to(lab, OWN[1], 1);
    for family in [0, 1] {
        for (at, port) in [(UNUSED[family], 80), (OWN[1][family], 8443), (NEIGHBOUR[family], 80)] {
            let to = SocketAddr::new(ip(at), port);
            assert!(ask(&lab.client, to).is_err(), "{to} is answered");
        }
        let node = ask(&lab.client, SocketAddr::new(ip(NODE[family]), 80));
        assert_eq!(node, Err(ErrorKind::ConnectionRefused), "nothing listens there");
    }
    for (ips, reason) in [
        (OWN[1], "ExternalIPInServiceRange"),
        (UNUSED, "ExternalIPInServiceRange"),
        (NODE, "ExternalIPOfNode"),
        (NEIGHBOUR, "ExternalIPOfNode"),
    ] {
        for ip in ips {
            let events = || lab.get("/apis/events.k8s.io/v1/namespaces/default/events");
            let reported = wait_for(PATIENCE, || {
                let events = events();
                let mut mine =
                    events["items"].as_array()?.iter().filter(|event| event["regarding"]["name"] == "a-thief");
                let about = |event: &&Value| {
                    let note = event["note"].as_str().unwrap_or_default();
                    event["reason"] == reason
                        && event["type"] == "Warning"
                        && note.contains(&format!(" {ip} is not served"))
                };
                mine.find(about).map(drop)
            });
            assert!(reported.is_some(), "no event {reason} for {ip}: {:#}", events());
        }
    }
}

#[test]
fn an_address_has_one_owner_in_nftables_mode() {
    an_address_has_one_owner("nftables");
}

#[test]
fn an_address_has_one_owner_in_iptables_mode() {
    an_address_has_one_owner("iptables");
}
