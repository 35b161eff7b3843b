//! Small clusters with one thing wrong each.

use super::{Severity, examine};
use crate::Snapshot;
use serde_json::{Value, json};

/// A dual-stack cluster without a fault.
fn healthy() -> Vec<Value> {
    vec![
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": ["10.96.0.0/16", "fd00:96::/108"]}}),
        node(&["192.0.2.1", "2001:db8::1"], &["10.244.0.0/24", "fd00:244::/64"]),
        pod(&["10.244.0.2", "fd00:244::2"]),
        service(json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]})),
        slice("IPv4", &["10.244.0.2"], true),
        slice("IPv6", &["fd00:244::2"], true),
    ]
}

fn node(addresses: &[&str], ranges: &[&str]) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|one| json!({"type": "InternalIP", "address": one})).collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"podCIDRs": ranges}, "status": {"addresses": addresses}})
}

fn pod(addresses: &[&str]) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|one| json!({"ip": one})).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running", "podIPs": addresses}})
}

fn service(change: Value) -> Value {
    let mut spec = json!({"type": "ClusterIP", "selector": {"app": "web"}});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

fn slice(family: &str, addresses: &[&str], ready: bool) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {"name": format!("web-{family}"), "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": addresses, "conditions": {"ready": ready}}]})
}

/// The healthy cluster with objects exchanged for others of their kind and name, or added.
fn found(changed: Vec<Value>) -> Vec<String> {
    let identity = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
    let mut objects = healthy();
    objects.retain(|old| changed.iter().all(|new| identity(new) != identity(old)));
    objects.extend(changed);
    let mut snapshot = Snapshot::default();
    snapshot.add(json!({"kind": "List", "items": objects})).unwrap();
    examine(&snapshot).iter().map(|one| format!("{:?} {}: {}", one.severity, one.about, one.problem)).collect()
}

#[test]
fn a_healthy_cluster_has_nothing_to_say() {
    assert_eq!(found(vec![]), Vec::<String>::new());
}

#[test]
fn nodes_and_their_pods_are_compared_with_the_cluster() {
    for (changed, expected) in [
        (
            vec![node(&["192.0.2.1"], &["10.244.0.0/24", "fd00:244::/64"])],
            vec!["Warning node/n1: has an IPv4 address only"],
        ),
        (
            vec![
                node(&["2001:db8::1", "192.0.2.1"], &["fd00:244::/64", "10.244.0.0/24"]),
                pod(&["fd00:244::2", "10.244.0.2"]),
            ],
            vec!["Warning node/n1: pods here are IPv6 first, Services IPv4 first"],
        ),
        (
            vec![node(&["192.0.2.1", "2001:db8::1"], &["10.244.0.0/24"]), pod(&["10.244.0.2"])],
            vec!["Warning node/n1: has a range of IPv4 for its pods, and none of IPv6"],
        ),
        (
            vec![node(&["192.0.2.1"], &["10.244.0.0/24"]), pod(&["10.244.0.2"])],
            vec![
                "Warning cluster: Services have both families, pods only IPv4",
                "Warning node/n1: has a range of IPv4 for its pods, and none of IPv6",
                "Warning node/n1: has an IPv4 address only",
            ],
        ),
        (vec![pod(&["10.244.0.2"])], vec!["Warning pod/web-1 in shop: has an IPv4 address only"]),
        (vec![pod(&["fd00:244::2"])], vec!["Warning pod/web-1 in shop: has an IPv6 address only"]),
        (
            vec![pod(&["fd00:244::2", "10.244.0.2"])],
            vec!["Warning pod/web-1 in shop: is IPv6 first, its node IPv4 first"],
        ),
    ] {
        assert_eq!(found(changed.clone()), expected, "{changed:?}");
    }
    let mut tainted = node(&["192.0.2.1", "2001:db8::1"], &["10.244.0.0/24", "fd00:244::/64"]);
    tainted["spec"]["taints"] =
        json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]);
    tainted["status"]["conditions"] =
        json!([{"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated", "message": "full"}]);
    assert_eq!(
        found(vec![tainted]),
        [
            "Error node/n1: has the taint node.cloudprovider.kubernetes.io/uninitialized, so that no pod comes here",
            "Error node/n1: its network is not there: NoRouteCreated",
        ]
    );
}

#[test]
fn services_are_what_was_meant_in_each_family() {
    let one = |policy: &str, family: &str| service(json!({"ipFamilyPolicy": policy, "ipFamilies": [family]}));
    for (changed, expected) in [
        (vec![one("PreferDualStack", "IPv4")], vec!["Warning service/web in shop: has IPv4 only"]),
        (vec![one("PreferDualStack", "IPv6")], vec!["Warning service/web in shop: has IPv6 only"]),
        (vec![one("SingleStack", "IPv4")], vec!["Hint service/web in shop: has IPv4 only"]),
        (
            vec![slice("IPv6", &["fd00:244::2"], false)],
            vec![
                "Error service/web in shop: has no ready endpoint of IPv6, but 1 of IPv4: who comes over IPv6 is refused",
            ],
        ),
        (
            vec![slice("IPv4", &["10.244.0.2"], false)],
            vec![
                "Error service/web in shop: has no ready endpoint of IPv4, but 1 of IPv6: who comes over IPv4 is refused",
            ],
        ),
        // Nothing is ready: that is no matter of families.
        (vec![slice("IPv4", &["10.244.0.2"], false), slice("IPv6", &["fd00:244::2"], false)], vec![]),
        (
            vec![one("SingleStack", "IPv6"), pod(&["10.244.0.2"]), slice("IPv6", &[], false)],
            vec![
                "Error service/web in shop: has no endpoint of IPv6",
                "Warning pod/web-1 in shop: has an IPv4 address only",
                "Hint service/web in shop: has IPv6 only",
            ],
        ),
        (
            vec![service(
                json!({"type": "LoadBalancer", "ipFamilies": ["IPv6", "IPv4"], "loadBalancerSourceRanges": ["10.0.0.0/8"]}),
            )],
            vec![
                "Error service/web in shop: has no load balancer",
                "Hint service/web in shop: is closed for IPv6: loadBalancerSourceRanges name IPv4 only",
            ],
        ),
        (vec![service(json!({"type": "ExternalName", "externalName": "example.test"}))], vec![]),
    ] {
        assert_eq!(found(changed.clone()), expected, "{changed:?}");
    }
}

#[test]
fn the_last_warning_tells_why_there_is_no_load_balancer() {
    let event = |name: &str, time: &str, note: &str| {
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "shop"}, "type": "Warning",
            "reason": "SyncLoadBalancerFailed", "note": note, "eventTime": time,
            "regarding": {"kind": "Service", "name": "web", "namespace": "shop"}})
    };
    let mut snapshot = Snapshot::default();
    let balancer = service(json!({"type": "LoadBalancer", "ipFamilies": ["IPv4", "IPv6"]}));
    let items = [
        balancer,
        event("b", "2026-01-01T00:00:02.000000Z", "needs ec2:CreateSecurityGroup"),
        event("a", "2026-01-01T00:00:01.000000Z", "old"),
    ];
    snapshot.add(json!({"kind": "List", "items": items})).unwrap();
    let all = examine(&snapshot);
    let finding = all.iter().find(|one| one.severity == Severity::Error).unwrap();
    assert_eq!(finding.why, "SyncLoadBalancerFailed: needs ec2:CreateSecurityGroup");
    assert_eq!(finding.mend, "kubectl describe service web -n shop");
}

#[test]
fn policies_with_blocks_of_one_family_are_told() {
    let policy = |blocks: &[&str]| {
        let peers: Vec<Value> = blocks.iter().map(|block| json!({"ipBlock": {"cidr": block}})).collect();
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": "shop"},
            "spec": {"podSelector": {}, "ingress": [{"from": peers}], "egress": [{"to": [{"podSelector": {}}]}]}})
    };
    assert_eq!(found(vec![policy(&["10.0.0.0/8", "fd00::/8"])]), Vec::<String>::new());
    let expected =
        "Hint networkpolicy/p in shop: names blocks of IPv6 only for incoming traffic: IPv4 of these peers is closed";
    assert_eq!(found(vec![policy(&["fd00::/8"])]), [expected]);
}

#[test]
fn conditions_of_operators_are_passed_on() {
    let custom = |version: &str, kind: &str, status: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "default", "namespace": "x"}, "status": status});
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "m"});
    let all = vec![
        custom(
            "operator.openshift.io/v1",
            "IngressController",
            json!({"conditions": [condition("Available", "True"), condition("DNSReady", "False")]}),
        ),
        custom(
            "operator.openshift.io/v1",
            "DNS",
            json!({"conditions": [condition("Degraded", "False"), condition("TemplateConfigurationValid", "False")]}),
        ),
        custom(
            "ingress.operator.openshift.io/v1",
            "DNSRecord",
            json!({"zones": [{"conditions": [condition("Published", "False")]}]}),
        ),
        custom(
            "route.openshift.io/v1",
            "Route",
            json!({"ingress": [{"conditions": [condition("Admitted", "False")]}, {"conditions": [condition("Admitted", "True")]}]}),
        ),
    ];
    assert_eq!(
        found(all),
        [
            "Error dnsrecord/default in x: Published is False: R",
            "Error ingresscontroller/default in x: DNSReady is False: R",
            "Error route/default in x: Admitted is False: R",
            "Warning dns/default in x: TemplateConfigurationValid is False: R",
        ]
    );
}

#[test]
fn a_cluster_of_one_family_is_left_alone() {
    for (range, node, family) in [
        ("10.96.0.0/16", node(&["192.0.2.1"], &["10.244.0.0/24"]), "IPv4"),
        ("fd00:96::/108", node(&["2001:db8::1"], &["fd00:244::/64"]), "IPv6"),
    ] {
        let mut snapshot = Snapshot::default();
        let range = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}, "spec": {"cidrs": [range]}});
        let service = service(json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": [family]}));
        snapshot.add(json!({"kind": "List", "items": [range, node, service]})).unwrap();
        assert_eq!(examine(&snapshot), []);
    }
}

#[test]
fn a_component_that_no_longer_sees_the_api_is_named() {
    // 2026-01-01T00:10:00Z
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_226_200);
    let lease = |renewed: &str, holder: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "twinstack-dns-n1", "namespace": "kube-system", "labels": {"twinstack.dev/view-of": "dns"}},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": renewed}})
    };
    let others = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    for (renewed, holder, taken, named) in [
        ("2026-01-01T00:09:30.000000Z", "n1", Some(now), false),
        ("2026-01-01T00:08:30.000000Z", "n1", Some(now), true),
        ("2026-01-01T00:08:30.000000Z", "", Some(now), false),
        ("2026-01-01T00:08:30.000000Z", "n1", None, false),
    ] {
        let mut snapshot = Snapshot { taken, ..Snapshot::default() };
        snapshot.add(json!({"kind": "List", "items": [lease(renewed, holder), others.clone()]})).unwrap();
        let found: Vec<String> =
            examine(&snapshot).iter().map(|one| format!("{}: {}", one.about, one.problem)).collect();
        let line = "lease/twinstack-dns-n1 in kube-system: dns on n1 has had no current view of the API for 90 seconds";
        assert_eq!(found, if named { vec![line.to_owned()] } else { Vec::new() }, "{renewed} {holder} {taken:?}");
    }
}

#[test]
fn a_node_that_is_not_ready_is_said_to_be() {
    for (status, expected) in [("True", None), ("False", Some("False")), ("Unknown", Some("Unknown"))] {
        let mut changed = node(&["192.0.2.1", "2001:db8::1"], &["10.244.0.0/24", "fd00:244::/64"]);
        changed["status"]["conditions"] = json!([{"type": "Ready", "status": status}]);
        let expected: Vec<String> =
            expected.map(|status| format!("Error node/n1: is not ready: Ready is {status}")).into_iter().collect();
        assert_eq!(found(vec![changed]), expected);
    }
}
