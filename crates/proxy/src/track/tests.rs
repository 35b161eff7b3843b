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

/// A Service of a namespace with a spec, made at a second of a minute.
fn made(name: &str, second: u8, spec: Value, ingress: &[&str]) -> core::Service {
    let ingress: Vec<Value> = ingress.iter().map(|ip| json!({"ip": ip})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
        "spec": spec, "status": {"loadBalancer": {"ingress": ingress}},
    }))
    .unwrap()
}

#[test]
fn an_address_belongs_to_the_highest_rank_then_to_the_older_service() {
    for (family, shared, ips) in [
        (Family::V4, "192.0.2.7", ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]),
        (Family::V6, "2001:db8::7", ["fd00::1", "fd00::2", "fd00::3", "fd00::4"]),
    ] {
        let ports = json!([{"port": 80}, {"port": 81, "name": "more"}]);
        let external = |name, second, ip: &str| {
            made(name, second, json!({"clusterIPs": [ip], "externalIPs": [shared], "ports": ports.clone()}), &[])
        };
        let young = external("a-young", 9, ips[0]);
        let old = external("z-old", 1, ips[1]);
        let twin = external("b-twin", 1, ips[2]);
        let balancer =
            made("zz", 30, json!({"type": "LoadBalancer", "clusterIPs": [ips[3]], "ports": [{"port": 80}]}), &[shared]);
        let cluster = made("zzz", 40, json!({"clusterIPs": [shared], "ports": [{"port": 80}]}), &[]);
        let mut tracker = Tracker::new("n1", &[]);
        let owner = |tracker: &Tracker, port| {
            let frontend = Frontend::Address { ip: shared.parse().unwrap(), protocol: Protocol::Tcp, port };
            tracker.owner(family, frontend).map(|name| name.name.to_string()).unwrap_or_default()
        };
        tracker.service(&young);
        assert_eq!((owner(&tracker, 80), changed(&mut tracker)), ("a-young".to_owned(), vec!["a/a-young".to_owned()]));
        tracker.service(&old);
        assert_eq!(owner(&tracker, 80), "z-old");
        assert_eq!(changed(&mut tracker), ["a/a-young", "a/z-old"], "who loses it is planned again too");
        tracker.service(&twin);
        assert_eq!(owner(&tracker, 80), "b-twin", "of two of the same second the first by name");
        changed(&mut tracker);
        tracker.service(&balancer);
        assert_eq!((owner(&tracker, 80), owner(&tracker, 81)), ("zz".to_owned(), "b-twin".to_owned()));
        assert_eq!(changed(&mut tracker), ["a/b-twin", "a/zz"], "those that have nothing to lose are not");
        tracker.service(&cluster);
        assert_eq!(owner(&tracker, 80), "zzz");
        changed(&mut tracker);

        for (gone, next) in [(&cluster, "zz"), (&balancer, "b-twin"), (&twin, "z-old"), (&old, "a-young"), (&young, "")]
        {
            tracker.no_service(gone);
            assert_eq!(owner(&tracker, 80), next);
            let next = (!next.is_empty()).then(|| format!("a/{next}"));
            let gone = format!("a/{}", gone.metadata.name.as_ref().unwrap());
            let mut expected: Vec<String> = next.into_iter().chain([gone]).collect();
            expected.sort();
            assert_eq!(changed(&mut tracker), expected);
        }
        assert!(tracker.owners.is_empty(), "{:?}", tracker.owners);
    }
}

#[test]
fn a_node_port_is_one_in_each_family() {
    let mut tracker = Tracker::new("n1", &[]);
    let ports = json!([{"port": 80, "nodePort": 30080}]);
    tracker.service(&made(
        "six",
        2,
        json!({"type": "NodePort", "clusterIPs": ["fd00::1"], "ports": ports.clone()}),
        &[],
    ));
    tracker.service(&made("four", 1, json!({"type": "NodePort", "clusterIPs": ["10.0.0.1"], "ports": ports}), &[]));
    let frontend = Frontend::NodePort { protocol: Protocol::Tcp, port: 30080 };
    let owner = |family| tracker.owner(family, frontend).unwrap().name.to_string();
    assert_eq!(Family::BOTH.map(owner), ["four", "six"]);
}

#[test]
fn external_ips_of_service_ranges_and_nodes_are_refused_as_long_as_they_are_such() {
    let mut tracker = Tracker::new("n1", &[]);
    let external = ["10.96.0.7", "fd00:10:96::7", "192.168.0.9", "fd09::9", "192.0.2.1"];
    let spec = json!({"clusterIPs": ["10.96.0.1", "fd00:10:96::1"], "externalIPs": external, "ports": [{"port": 80}]});
    let refused = |tracker: &Tracker| -> Vec<String> {
        tracker.get(&Name::new("a", "web")).unwrap().refused.keys().map(ToString::to_string).collect()
    };
    let messages = |tracker: &mut Tracker| -> Vec<String> {
        tracker.take_refusals().iter().map(|new| format!("{} {}: {}", new.uid, new.ip, new.why)).collect()
    };
    tracker.service(&made("web", 1, spec.clone(), &[]));
    assert!(refused(&tracker).is_empty() && messages(&mut tracker).is_empty());
    let range: ServiceCIDR = serde_json::from_value(
        json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16", "fd00:10:96::/112"]}}),
    )
    .unwrap();
    tracker.range(&range);
    let node: core::Node = serde_json::from_value(json!({"metadata": {"name": "n1"}, "status": {"addresses": [
        {"type": "InternalIP", "address": "192.168.0.9"}, {"type": "ExternalIP", "address": "fd09::9"}]}}))
    .unwrap();
    tracker.set_node(Some(&node));
    assert_eq!(refused(&tracker), ["10.96.0.7", "192.168.0.9", "fd00:10:96::7", "fd09::9"]);
    assert_eq!(
        messages(&mut tracker),
        [
            "web 10.96.0.7: it lies in the Service range 10.96.0.0/16",
            "web fd00:10:96::7: it lies in the Service range fd00:10:96::/112",
            "web 192.168.0.9: it is an address of a node",
            "web fd09::9: it is an address of a node",
        ]
    );
    let at = |tracker: &Tracker, text: &str| {
        let ip: IpAddr = text.parse().unwrap();
        let frontend = Frontend::Address { ip, protocol: Protocol::Tcp, port: 80 };
        tracker.owner(net::HasFamily::family(&ip), frontend).is_some()
    };
    assert!(external[..4].iter().all(|ip| !at(&tracker, ip)) && at(&tracker, external[4]));
    tracker.service(&made("web", 1, spec, &[]));
    assert!(messages(&mut tracker).is_empty(), "nothing new");
    tracker.no_range(&range);
    tracker.set_node(None);
    assert!(refused(&tracker).is_empty() && external.iter().all(|ip| at(&tracker, ip)));
}

#[test]
fn addresses_of_all_nodes_are_refused_and_asked_for_only_where_there_are_external_ips() {
    let mut tracker = Tracker::new("n1", &[]);
    tracker.service(&plain());
    assert!(!tracker.wants_peers());
    let node = |name: &str, ips: [&str; 2]| -> core::Node {
        let addresses = ips.map(|ip| json!({"type": "InternalIP", "address": ip}));
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"addresses": addresses}})).unwrap()
    };
    let external = ["192.168.0.2", "fd09::2"];
    tracker.service(&made(
        "web",
        1,
        json!({"clusterIPs": ["10.0.0.9", "fd00::9"], "externalIPs": external, "ports": [{"port": 80}]}),
        &[],
    ));
    assert!(tracker.wants_peers());
    tracker.take_changed();
    let refused = |tracker: &Tracker| tracker.get(&Name::new("a", "web")).unwrap().refused.len();
    tracker.peers_begin();
    tracker.peer(&node("n1", ["192.168.0.1", "fd09::1"]));
    tracker.peer(&node("n2", external));
    tracker.peers_end();
    assert_eq!((refused(&tracker), changed(&mut tracker)), (2, vec!["a/web".to_owned()]));
    tracker.peer(&node("n2", external));
    assert!(!tracker.has_changed(), "heartbeats change nothing");
    tracker.peers_begin();
    tracker.peer(&node("n1", ["192.168.0.1", "fd09::1"]));
    tracker.peers_end();
    assert_eq!((refused(&tracker), changed(&mut tracker)), (0, vec!["a/web".to_owned()]));
    tracker.peer(&node("n3", external));
    assert_eq!(refused(&tracker), 2);
    tracker.no_peer(&node("n3", external));
    assert_eq!(refused(&tracker), 0);
}
