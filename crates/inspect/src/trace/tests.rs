//! Ways to Services and Routes of small clusters.

use super::{Target, trace};
use crate::Snapshot;
use serde_json::{Value, json};

const SERVICE: Target<'static> = Target { kind: "service", namespace: "shop", name: "web", domain: "cluster.local" };

fn service(change: Value) -> Value {
    let mut spec = json!({"type": "ClusterIP", "clusterIPs": ["10.96.0.9", "fd00:96::9"], "ipFamilies": ["IPv4", "IPv6"],
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

fn slice(family: &str, address: &str) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {"name": format!("web-{family}"), "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"port": 8080}], "endpoints": [{"addresses": [address], "nodeName": "n1", "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": "web-1"}}]})
}

fn printed(objects: Vec<Value>, target: Target<'_>) -> Vec<String> {
    let mut snapshot = Snapshot::default();
    snapshot.add(json!({"kind": "List", "items": objects})).unwrap();
    let mut lines = Vec::new();
    for path in trace(&snapshot, target).unwrap() {
        lines.push(path.family.to_string());
        lines.extend(path.steps.iter().map(|step| format!("{}: {}", step.what, step.detail)));
        lines.push(path.ends.map_or_else(|| "arrives".to_owned(), |why| format!("ends: {why}")));
    }
    lines
}

#[test]
fn each_family_has_its_own_way() {
    let objects = vec![service(json!({})), slice("IPv4", "10.244.0.2"), slice("IPv6", "fd00:244::2")];
    assert_eq!(
        printed(objects, SERVICE),
        [
            "IPv4",
            "DNS: web.shop.svc.cluster.local A 10.96.0.9",
            "cluster IP: 10.96.0.9:80/TCP to port 8080",
            "endpoint: 10.244.0.2 port 8080 pod/web-1 on n1",
            "arrives",
            "IPv6",
            "DNS: web.shop.svc.cluster.local AAAA fd00:96::9",
            "cluster IP: [fd00:96::9]:80/TCP to port 8080",
            "endpoint: fd00:244::2 port 8080 pod/web-1 on n1",
            "arrives",
        ]
    );
}

#[test]
fn a_way_says_where_it_ends() {
    let single =
        service(json!({"ipFamilies": ["IPv6"], "clusterIPs": ["fd00:96::9"], "ipFamilyPolicy": "SingleStack"}));
    let lines = printed(vec![single], SERVICE);
    assert_eq!(lines[1], "ends: the Service has IPv6 only (ipFamilyPolicy SingleStack)");
    assert_eq!(lines.last().unwrap(), "ends: no endpoint of IPv6 is ready");
    let balancer = service(json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["fd00::/8"],
        "ports": [{"port": 80, "nodePort": 30080}], "externalTrafficPolicy": "Local"}));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"addresses": [{"type": "InternalIP", "address": "2001:db8::1"}]}});
    let lines = printed(vec![balancer, node, slice("IPv6", "fd00:244::2")], SERVICE);
    assert!(lines.contains(&"ends: loadBalancerSourceRanges let nobody of IPv4 in".to_owned()), "{lines:#?}");
    assert!(
        lines.contains(&"node port: 30080 on 1 of 1 nodes, only to endpoints of the same node".to_owned()),
        "{lines:#?}"
    );
    assert_eq!(lines.last().unwrap(), "arrives");
}

#[test]
fn routes_lead_through_their_router() {
    let route = |admitted: &str| {
        json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"to": {"name": "web"}}, "status": {"ingress": [{"host": "web.apps.example.test", "routerName": "default",
            "conditions": [{"type": "Admitted", "status": admitted, "message": "host is taken"}]}]}})
    };
    let record = json!({"apiVersion": "ingress.operator.openshift.io/v1", "kind": "DNSRecord", "metadata": {"name": "default-wildcard", "namespace": "x"},
        "spec": {"dnsName": "*.apps.example.test.", "targets": ["lb.example.test"]}});
    let mut front = service(json!({"ipFamilies": ["IPv4"]}));
    front["metadata"] = json!({"name": "router-default", "namespace": "openshift-ingress"});
    let target = Target { kind: "route", ..SERVICE };
    let lines = printed(vec![route("True"), record, front, service(json!({})), slice("IPv6", "fd00:244::2")], target);
    assert_eq!(
        lines,
        [
            "IPv4",
            "DNS: web.apps.example.test by *.apps.example.test to lb.example.test",
            "router: default, by service/router-default in openshift-ingress",
            "service: web",
            // The pod has IPv6 alone; the router reaches it for clients of IPv4 too.
            "endpoint: fd00:244::2",
            "arrives",
            "IPv6",
            "DNS: web.apps.example.test by *.apps.example.test to lb.example.test",
            "ends: router default is published for IPv4 only",
        ]
    );
    let lines = printed(vec![route("False")], target);
    assert_eq!(lines[1], "ends: no router has admitted the Route: host is taken");
}
