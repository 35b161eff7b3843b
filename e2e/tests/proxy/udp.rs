//! UDP through `twinstack proxy`: flows that keep their source port while a Service appears, gets its first endpoint, others or
//! none, lets one drain, or changes its ports; at every kind of frontend, in both families, from outside and from the node.
//!
//! A Service for each change, with all frontends, and all of them at once: one start of the proxy per mode. Where `KUBE_PROXY` names
//! one, it is held to the same; what it does otherwise stands beside the expectation.

use e2e::{
    proxy_lab::{self, Flows, Heard, Lab, NODE, PATIENCE, PODS, ask, ask_udp, ip},
    wait_for,
};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{collections::BTreeMap, io::ErrorKind, net::SocketAddr};

const SERVICES: &str = "/api/v1/namespaces/default/services";
/// One for each way in which a Service may change.
const NAMES: [&str; 7] = ["later", "first", "other", "target", "gap", "drain", "ports"];
const FRONTENDS: [&str; 4] = ["cluster", "external", "balancer", "node-port"];
const SERVED: u16 = 8053;
const UNSERVED: u16 = 8099;
const BEFORE: u16 = 53;
const AFTER: u16 = 54;
const EVERY_NODE_ADDRESS: &str = "--nodeport-addresses=0.0.0.0/0,::/0";

/// Which proxy is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    Upstream,
}

fn number(name: &str) -> usize {
    1 + NAMES.iter().position(|other| *other == name).expect("one of them")
}

/// A Service's port after a change of its ports is the next one.
fn node_port(name: &str, port: u16) -> u16 {
    30_500 + 2 * u16::try_from(number(name)).expect("few") + (port - BEFORE)
}

fn address(name: &str, frontend: &str, family: usize, port: u16) -> SocketAddr {
    let number = number(name);
    let text = match (frontend, family) {
        ("cluster", 0) => format!("10.96.5.{number}"),
        ("cluster", _) => format!("fd00:10:96::50{number}"),
        ("external", 0) => format!("198.18.5.{number}"),
        ("external", _) => format!("2001:db8:18::50{number}"),
        ("balancer", 0) => format!("198.19.5.{number}"),
        ("balancer", _) => format!("2001:db8:19::50{number}"),
        _ => return SocketAddr::new(ip(NODE[family]), node_port(name, port)),
    };
    SocketAddr::new(ip(&text), port)
}

fn make(lab: &Lab, name: &str, port: u16) {
    let ips = |frontend: &str| [0, 1].map(|family| address(name, frontend, family, port).ip().to_string());
    let cluster = ips("cluster");
    lab.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "clusterIP": cluster[0], "clusterIPs": cluster,
            "externalIPs": ips("external"),
            "ports": [{"name": "dns", "port": port, "protocol": "UDP", "nodePort": node_port(name, port)}]},
    }));
    let ingress: Vec<Value> = ips("balancer").iter().map(|ip| json!({"ip": ip})).collect();
    lab.set_status(&format!("{SERVICES}/{name}"), &json!({"loadBalancer": {"ingress": ingress}}));
}

/// Pods with whether they are about to end.
fn endpoints(lab: &Lab, name: &str, pods: &[(usize, bool)], port: u16) {
    for (family, kind) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let endpoint = |(pod, ending): &(usize, bool)| {
            let conditions = json!({"ready": !ending, "serving": true, "terminating": ending});
            json!({"addresses": [PODS[*pod][family]], "nodeName": "n1", "conditions": conditions})
        };
        lab.apply(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{name}-{family}"), "namespace": "default",
                "labels": {"kubernetes.io/service-name": name}},
            "addressType": kind, "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
            "ports": [{"name": "dns", "port": port, "protocol": "UDP"}],
        }));
    }
}

/// Flows to every frontend of every Service; those to ports that come later have labels that end in `after`.
fn begin(lab: &Lab) -> Flows {
    let mut wanted = Vec::new();
    for name in NAMES {
        for frontend in FRONTENDS {
            for family in [0, 1] {
                for (from, space) in [("outside", &lab.client), ("node", &lab.node)] {
                    let to = |port| address(name, frontend, family, port);
                    wanted.push((format!("{name} {from} {frontend}"), space, to(BEFORE)));
                    if name == "ports" {
                        wanted.push((format!("after {name} {from} {frontend}"), space, to(AFTER)));
                    }
                }
            }
        }
    }
    Flows::begin(wanted)
}

fn flows_keep_up(mode: &str) {
    if let Some(how) = proxy_lab::missing() {
        e2e::skip("UDP through the proxy", how);
        return;
    }
    let lab = Lab::new();
    let proxy = lab.proxy_with("proxy.log", &[&format!("--proxy-mode={mode}"), EVERY_NODE_ADDRESS]);
    lab.wait_in_place(&proxy);
    matrix(&lab, mode, Whose::Ours);
}

/// A comparison, not a test that CI needs: runs when `KUBE_PROXY` names one.
fn flows_keep_up_upstream(mode: &str) {
    if proxy_lab::kube_proxy().is_none() {
        return;
    }
    let lab = Lab::new();
    let _peer = lab.kube_proxy(mode, &[EVERY_NODE_ADDRESS]);
    matrix(&lab, mode, Whose::Upstream);
}

fn matrix(lab: &Lab, mode: &str, whose: Whose) {
    for name in NAMES.into_iter().filter(|name| *name != "later") {
        make(lab, name, BEFORE);
        let port = if name == "target" { UNSERVED } else { SERVED };
        endpoints(lab, name, if name == "first" { &[] } else { &[(0, false)] }, port);
    }
    let flows = begin(lab);
    for name in ["other", "gap", "drain", "ports"] {
        flows.all_hear(name, &[Heard::Pod(0)]);
    }
    for from in refused_from(mode, whose) {
        flows.all_hear(&format!("first {from}"), &[Heard::Refused, Heard::Forbidden]);
    }
    flows.all_hear("first node node-port", &[Heard::Refused]);
    flows.go_on("target");
    flows.go_on("later");

    make(lab, "later", BEFORE);
    for name in ["later", "first", "other", "target"] {
        endpoints(lab, name, &[(1, false)], SERVED);
    }
    make(lab, "ports", AFTER);
    endpoints(lab, "gap", &[], SERVED);
    endpoints(lab, "drain", &[(0, true), (1, false)], SERVED);
    for name in ["later", "first", "other", "target"] {
        flows.all_hear(name, &[Heard::Pod(1)]);
    }
    flows.all_hear("after ports", &[Heard::Pod(0)]);
    endpoints_drain(lab, &flows);
    if whose == Whose::Ours {
        flows.no_pod_answers("ports");
        flows.all_hear("gap", &[Heard::Refused, Heard::Forbidden]);
    }
    for (pods, heard) in [(&[(1, false)][..], Heard::Pod(1)), (&[], Heard::Refused), (&[(0, false)], Heard::Pod(0))] {
        endpoints(lab, "gap", pods, SERVED);
        // kube-proxy lets flows to a node port, a former port and a Service that is gone go on to the pod that they were sent to.
        if whose == Whose::Ours || heard != Heard::Refused {
            flows.all_hear("gap outside", &[heard]);
            flows.all_hear("gap node node-port", &[heard]);
        }
    }
    loopback(lab, mode);
    lab.delete(&format!("{SERVICES}/other"));
    match whose {
        Whose::Ours => flows.no_pod_answers("other"),
        Whose::Upstream => flows.all_hear("other outside node-port", &[Heard::Pod(1)]),
    }
}

/// Whose flows hear that a Service has no endpoints. A program of the node that sends to an external or load balancer address hears nothing
/// of kube-proxy in iptables mode.
fn refused_from(mode: &str, whose: Whose) -> &'static [&'static str] {
    match (mode, whose) {
        ("iptables", Whose::Upstream) => &["outside", "node cluster"],
        _ => &["outside", "node"],
    }
}

/// Flows stay with a pod that ends until it is gone; new ones go elsewhere.
fn endpoints_drain(lab: &Lab, flows: &Flows) {
    for frontend in FRONTENDS {
        for family in [0, 1] {
            let to = address("drain", frontend, family, BEFORE);
            let fresh =
                |space: &Namespace| wait_for(PATIENCE, || (ask_udp(space, to) == Some(Heard::Pod(1))).then_some(()));
            assert!(fresh(&lab.client).is_some(), "new flows to {to} do not go to the pod that is ready");
        }
    }
    let heard: BTreeMap<String, Vec<Heard>> = flows.hear_now("drain").into_iter().collect();
    let moved: Vec<_> = heard.iter().filter(|(_, heard)| heard.iter().any(|heard| *heard != Heard::Pod(0))).collect();
    assert!(moved.is_empty(), "cut off from a pod that still serves: {moved:#?}");
    endpoints(lab, "drain", &[(1, false)], SERVED);
    flows.all_hear("drain", &[Heard::Pod(1)]);
}

/// The kernel routes nothing away from loopback addresses unless it is told to, which only iptables mode does, for IPv4: there
/// a node port is answered, elsewhere it is refused, and nowhere does a client wait.
fn loopback(lab: &Lab, mode: &str) {
    let ports = json!([{"name": "x", "port": 80, "protocol": "TCP", "nodePort": 30590},
        {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30591}]);
    lab.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "here", "namespace": "default"},
        "spec": {"type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": ports},
    }));
    for (family, kind) in ["IPv4", "IPv6"].into_iter().enumerate() {
        lab.apply(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("here-{family}"), "namespace": "default", "labels": {"kubernetes.io/service-name": "here"}},
            "addressType": kind, "endpoints": [{"addresses": [PODS[0][family]], "nodeName": "n1"}],
            "ports": [{"name": "x", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": SERVED, "protocol": "UDP"}],
        }));
        let [tcp, udp] = [30590, 30591].map(|port| SocketAddr::new(ip(NODE[family]), port));
        assert!(wait_for(PATIENCE, || ask(&lab.node, tcp).ok()).is_some(), "{tcp} is not answered");
        assert_eq!(ask_udp(&lab.node, udp), Some(Heard::Pod(0)), "{udp}");
    }
    for at in ["127.0.0.1", "::1"] {
        let [tcp, udp] = [30590, 30591].map(|port| SocketAddr::new(ip(at), port));
        if mode == "iptables" && tcp.is_ipv4() {
            assert!(ask(&lab.node, tcp).is_ok() && ask_udp(&lab.node, udp) == Some(Heard::Pod(0)), "{at}");
            continue;
        }
        assert_eq!(ask(&lab.node, tcp), Err(ErrorKind::ConnectionRefused), "{tcp}");
        assert_eq!(ask_udp(&lab.node, udp), Some(Heard::Refused), "{udp}");
    }
}

#[test]
fn flows_of_datagrams_keep_up_with_services_in_nftables_mode() {
    flows_keep_up("nftables");
}

#[test]
fn flows_of_datagrams_keep_up_with_services_in_iptables_mode() {
    flows_keep_up("iptables");
}

#[test]
fn kube_proxy_does_the_same_in_nftables_mode() {
    flows_keep_up_upstream("nftables");
}

#[test]
fn kube_proxy_does_the_same_in_iptables_mode() {
    flows_keep_up_upstream("iptables");
}
