//! The index: what counts as a change, and what is left out.

use super::*;
use serde_json::{Value, json};

fn service(spec: Value) -> core::Service {
    serde_json::from_value(json!({"metadata": {"namespace": "a", "name": "web"}, "spec": spec})).unwrap()
}

fn slice(name: &str, service: &str, kind: &str, address: &str) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {"namespace": "a", "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind, "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "nodeName": "n1"}],
    }))
    .unwrap()
}

fn plain() -> core::Service {
    service(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ports": [{"port": 80}]}))
}

fn changed(tracker: &mut Tracker) -> Vec<String> {
    tracker.take_changed().services.iter().map(Name::to_string).collect()
}

#[test]
fn only_what_is_new_counts() {
    let mut tracker = Tracker::new("n1", &[]);
    tracker.slice(&slice("web-1", "web", "IPv4", "10.1.0.1"));
    assert!(!tracker.has_changed(), "slices without a Service need no rules");
    tracker.service(&plain());
    assert_eq!(changed(&mut tracker), ["a/web"]);
    tracker.service(&plain());
    tracker.slice(&slice("web-1", "web", "IPv4", "10.1.0.1"));
    assert!(!tracker.has_changed());
    tracker.slice(&slice("web-1", "other", "IPv4", "10.1.0.1"));
    assert_eq!(changed(&mut tracker), ["a/web"]);
    assert!(tracker.get(&Name::new("a", "web")).unwrap().slices.is_empty());
    tracker.no_slice(&slice("web-1", "other", "IPv4", "10.1.0.1"));
    tracker.no_service(&plain());
    assert_eq!(changed(&mut tracker), ["a/web"]);
    assert_eq!(tracker.iter().count(), 0);
}

#[test]
fn what_a_new_list_does_not_name_is_gone() {
    let mut tracker = Tracker::new("n1", &[]);
    tracker.service(&plain());
    tracker.slice(&slice("web-1", "web", "IPv6", "fd01::1"));
    tracker.take_changed();
    tracker.slices_begin();
    tracker.slices_end();
    assert_eq!(changed(&mut tracker), ["a/web"]);
    tracker.services_begin();
    tracker.services_end();
    assert_eq!(changed(&mut tracker), ["a/web"]);
    assert_eq!(tracker.iter().count(), 0);
}

#[test]
fn headless_services_aliases_and_those_of_others_need_no_rules() {
    for spec in [
        json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]}),
        json!({"type": "ExternalName", "externalName": "example.org"}),
        json!({"clusterIP": "", "ports": [{"port": 80}]}),
        json!({"clusterIP": "nonsense", "ports": [{"port": 80}]}),
    ] {
        let mut tracker = Tracker::new("n1", &[]);
        tracker.service(&service(spec));
        assert!(!tracker.has_changed());
    }
    let mut tracker = Tracker::new("n1", &[]);
    let mut foreign = plain();
    foreign.metadata.labels = Some([("service.kubernetes.io/service-proxy-name".to_owned(), "x".to_owned())].into());
    tracker.service(&foreign);
    assert!(!tracker.has_changed());
}

#[test]
fn malformed_parts_are_left_out_and_the_rest_stays() {
    let mut tracker = Tracker::new("n1", &[]);
    tracker.service(&service(json!({
        "type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "externalIPs": ["x", "192.0.2.1"],
        "loadBalancerSourceRanges": ["nonsense"],
        "ports": [{"name": "a", "port": 0}, {"name": "b", "port": 80, "protocol": "ICMP"}, {"name": "c", "port": 80, "nodePort": 70000}],
    })));
    tracker.slice(&slice("web-1", "web", "IPv4", "fd00::5"));
    let entry = tracker.get(&Name::new("a", "web")).unwrap();
    let read = entry.service.as_ref().unwrap();
    assert_eq!(read.ports.iter().map(|port| (port.name.as_str(), port.node_port)).collect::<Vec<_>>(), [("c", None)]);
    assert_eq!(read.external_ips.len(), 1);
    assert_eq!(read.source_ranges, Some(Vec::new()), "a list that cannot be read lets nobody in");
    assert!(entry.slices["web-1"].endpoints.is_empty());
}

#[test]
fn ranges_of_cluster_ips_follow_their_objects() {
    let range = |name: &str, cidrs: Value| -> ServiceCIDR {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}})).unwrap()
    };
    let of = |tracker: &Tracker| {
        Family::BOTH
            .map(|family| tracker.service_cidrs(family).iter().map(Cidr::to_string).collect::<Vec<_>>().join(","))
    };
    let mut tracker = Tracker::new("n1", &[]);
    tracker.range(&range("kubernetes", json!(["10.96.0.0/16", "fd00:10:96::/112"])));
    assert!(tracker.take_changed().node);
    tracker.range(&range("kubernetes", json!(["10.96.0.0/16", "fd00:10:96::/112"])));
    assert!(!tracker.has_changed(), "nothing new");
    tracker.range(&range("more", json!(["10.96.4.0/24", "10.97.0.0/16", "nonsense"])));
    assert!(tracker.take_changed().node);
    assert_eq!(of(&tracker), ["10.96.0.0/16,10.97.0.0/16", "fd00:10:96::/112"]);
    tracker.ranges_begin();
    tracker.range(&range("kubernetes", json!(["10.96.0.0/16", "fd00:10:96::/112"])));
    tracker.ranges_end();
    assert!(tracker.take_changed().node);
    assert_eq!(of(&tracker), ["10.96.0.0/16", "fd00:10:96::/112"]);
    tracker.no_range(&range("kubernetes", json!([])));
    assert!(tracker.take_changed().node);
    assert_eq!(of(&tracker), ["", ""]);
}

#[test]
fn a_node_that_goes_away_is_no_change_of_rules() {
    let mut tracker = Tracker::new("n1", &[]);
    let node = |taints: Value| -> core::Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}},
            "spec": {"podCIDRs": ["10.1.0.0/24", "fd01::/64"], "taints": taints},
            "status": {"addresses": [{"type": "Hostname", "address": "n1"}, {"type": "ExternalIP", "address": "192.0.2.9"},
                {"type": "InternalIP", "address": "192.168.0.9"}, {"type": "InternalIP", "address": "fd09::9"}]},
        }))
        .unwrap()
    };
    tracker.set_node(Some(&node(json!([]))));
    assert!(tracker.take_changed().node && tracker.node().eligible);
    assert_eq!(tracker.node().address(Family::V4).unwrap().to_string(), "192.168.0.9");
    assert_eq!(tracker.node().address(Family::V6).unwrap().to_string(), "fd09::9");
    tracker.set_node(Some(&node(json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]))));
    assert!(!tracker.has_changed() && !tracker.node().eligible);
    tracker.set_node(None);
    assert!(tracker.take_changed().node);
}
