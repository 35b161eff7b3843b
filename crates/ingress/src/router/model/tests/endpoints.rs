//! From EndpointSlices to servers.

use super::*;

#[test]
fn a_dual_stack_pod_is_one_server_of_the_services_first_family() {
    for (families, expected, without_first) in [
        (&["IPv4"][..], "10.1.0.1:8080", "10.1.0.1:8080"),
        (&["IPv6"], "[fd01::1]:8080", "[fd01::1]:8080"),
        (&["IPv4", "IPv6"], "10.1.0.1:8080", "[fd01::1]:8080"),
        (&["IPv6", "IPv4"], "[fd01::1]:8080", "10.1.0.1:8080"),
    ] {
        let mut cluster = Cluster::default();
        cluster.put_service("a", "s", families, 1);
        let key = cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
        let mut model = cluster.model(Admission::default());
        assert_eq!(servers(&model, &key), [(expected.to_owned(), 1)], "{families:?}");
        let name = |model: &Model| model.backend(&Id::route(key.clone())).unwrap().servers[0].name.clone();
        let before = name(&model);
        cluster.cut_off.insert(expected.parse::<std::net::SocketAddr>().unwrap().ip());
        model.reach_changed();
        model.settle(&cluster);
        assert_eq!(servers(&model, &key), [(without_first.to_owned(), 1)], "{families:?} without a way to the first");
        assert_eq!(name(&model), before, "the same pod keeps its name");
    }
}

#[test]
fn endpoints_are_taken_as_they_are_meant() {
    let slice = |change: Value| {
        let mut slice = json!({"metadata": {"name": "x", "namespace": "a"}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.1.0.1"]}]});
        slice.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        slice
    };
    for (name, change, port, expected) in [
        ("ready is what nobody denies", json!({}), json!(null), vec!["10.1.0.1:8080"]),
        (
            "not ready",
            json!({"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": false}}]}),
            json!(null),
            vec![],
        ),
        (
            "names of hosts are not followed",
            json!({"addressType": "FQDN", "endpoints": [{"addresses": ["x.test"]}]}),
            json!(null),
            vec![],
        ),
        ("an address of the other family", json!({"endpoints": [{"addresses": ["fd01::1"]}]}), json!(null), vec![]),
        (
            "another sort of address",
            json!({"addressType": "Pigeon", "endpoints": [{"addresses": ["10.1.0.1"]}]}),
            json!(null),
            vec![],
        ),
        (
            "not ready yet, but nobody says so",
            json!({"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"serving": false}}]}),
            json!(null),
            vec!["10.1.0.1:8080"],
        ),
        (
            "ready while it ends",
            json!({"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true, "terminating": true}}]}),
            json!(null),
            vec!["10.1.0.1:8080"],
        ),
        ("no address", json!({"endpoints": [{"addresses": []}]}), json!(null), vec![]),
        ("no text that is an address", json!({"endpoints": [{"addresses": ["10.1.0.256"]}]}), json!(null), vec![]),
        ("no port", json!({"ports": []}), json!(null), vec![]),
        ("port 0", json!({"ports": [{"name": "http", "port": 0}]}), json!(null), vec![]),
        ("SCTP", json!({"ports": [{"name": "x", "port": 1, "protocol": "SCTP"}]}), json!(null), vec![]),
        ("loopback", json!({"endpoints": [{"addresses": ["127.0.0.1"]}]}), json!(null), vec![]),
        ("UDP", json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}), json!(null), vec![]),
        (
            "the same twice",
            json!({"endpoints": [{"addresses": ["10.1.0.1"]}, {"addresses": ["10.1.0.1"]}]}),
            json!(null),
            vec!["10.1.0.1:8080"],
        ),
        ("port by name", json!({}), json!("http"), vec!["10.1.0.1:8080"]),
        ("port by another name", json!({}), json!("web"), vec![]),
        ("port of the pod", json!({}), json!(8080), vec!["10.1.0.1:8080"]),
        ("port of the Service", json!({}), json!(80), vec!["10.1.0.1:8080"]),
        ("no such port", json!({}), json!(81), vec![]),
        (
            "all ports",
            json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}),
            json!(null),
            vec!["10.1.0.1:1", "10.1.0.1:2"],
        ),
    ] {
        let mut cluster = Cluster::default();
        let service = cluster.put_service("a", "s", &["IPv4"], 0);
        cluster.slices.insert(service, vec![read(slice(change))]);
        let key = cluster.put_route("a", "r", 1, json!({"host": "h.test", "port": {"targetPort": port}}));
        let found: Vec<String> =
            servers(&cluster.model(Admission::default()), &key).into_iter().map(|(at, _)| at).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// Slices of one Service are read together: they come, change and go, and one pod in several of them is one server.
#[test]
fn slices_of_a_service_are_merged() {
    let slice = |name: &str, family: &str, pods: &[u8]| {
        let address = |pod: &u8| if family == "IPv4" { format!("10.1.0.{pod}") } else { format!("fd01::{pod:x}") };
        let endpoint =
            |pod: &u8| json!({"addresses": [address(pod)], "targetRef": {"kind": "Pod", "name": format!("p{pod}")}});
        read(
            json!({"metadata": {"name": name, "namespace": "a"}, "addressType": family, "ports": [{"name": "http", "port": 8080}],
            "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>()}),
        )
    };
    let mut cluster = Cluster::default();
    let service = cluster.put_service("a", "s", &["IPv4", "IPv6"], 0);
    let key = cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
    let mut model = cluster.model(Admission::default());
    for (name, slices, expected) in [
        ("none", vec![], vec![]),
        ("the first", vec![slice("x", "IPv4", &[1])], vec!["10.1.0.1:8080"]),
        (
            "a second of the same family",
            vec![slice("x", "IPv4", &[1]), slice("y", "IPv4", &[2])],
            vec!["10.1.0.1:8080", "10.1.0.2:8080"],
        ),
        ("the same pod in both", vec![slice("x", "IPv4", &[1]), slice("y", "IPv4", &[1])], vec!["10.1.0.1:8080"]),
        (
            "the other family of the same pods",
            vec![slice("x", "IPv4", &[1, 2]), slice("z", "IPv6", &[1, 2])],
            vec!["10.1.0.1:8080", "10.1.0.2:8080"],
        ),
        (
            "a pod that has only the second family",
            vec![slice("x", "IPv4", &[1]), slice("z", "IPv6", &[1, 3])],
            vec!["10.1.0.1:8080", "[fd01::3]:8080"],
        ),
        ("the first family goes", vec![slice("z", "IPv6", &[1, 3])], vec!["[fd01::1]:8080", "[fd01::3]:8080"]),
        ("all gone", vec![], vec![]),
    ] {
        cluster.slices.insert(service.clone(), slices);
        model.service_changed(service.clone());
        model.settle(&cluster);
        let found: Vec<String> = servers(&model, &key).into_iter().map(|(at, _)| at).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn traffic_is_not_sent_to_places_that_are_not_pods() {
    for (address, usable) in [
        ("10.0.0.1", true),
        ("192.168.1.1", true),
        ("100.64.0.1", true),
        ("172.16.0.1", true),
        ("203.0.113.7", true),
        ("8.8.8.8", true),
        ("fd00::1", true),
        ("2001:db8::1", true),
        ("fc00::1", true),
        ("2600::1", true),
        ("fd00:ec2::253", true),
        ("64:ff9b::1", true),
        ("0.0.0.0", false),
        ("127.0.0.1", false),
        ("127.255.255.254", false),
        ("169.254.0.1", false),
        ("169.254.169.254", false),
        ("224.0.0.1", false),
        ("239.255.255.255", false),
        ("255.255.255.255", false),
        ("168.63.129.16", false),
        ("::", false),
        ("::1", false),
        ("fe80::1", false),
        ("febf::1", false),
        ("ff02::1", false),
        ("ff0e::1", false),
        ("fd00:ec2::254", false),
        ("::ffff:127.0.0.1", false),
        ("::ffff:169.254.169.254", false),
        ("::ffff:168.63.129.16", false),
        ("::ffff:0.0.0.0", false),
        ("::127.0.0.1", false),
        ("::169.254.169.254", false),
        ("::ffff:10.0.0.1", true),
        ("::ffff:224.0.0.1", false),
        ("10.255.255.254", true),
        ("169.253.255.255", true),
        ("169.255.0.0", true),
        ("168.63.129.15", true),
        ("fec0::1", true),
        ("fd00:ec2::255", true),
        ("::ffff:255.255.255.255", false),
        ("::ffff:127.255.0.1", false),
        ("::0.0.0.0", false),
        ("::168.63.129.16", false),
        ("ff01::1", false),
    ] {
        assert_eq!(is_usable(address.parse::<IpAddr>().unwrap()), usable, "{address}");
    }
}

#[test]
fn shares_of_several_services() {
    for (termination, expected) in [
        (json!(null), vec![("10.1.0.1:8080", 0), ("10.1.0.1:8080", 256), ("10.1.0.2:8080", 128)]),
        (json!({"termination": "passthrough"}), vec![("10.1.0.1:8080", 256), ("10.1.0.2:8080", 128)]),
    ] {
        let mut cluster = Cluster::default();
        for (name, pods) in [("one", 1), ("two", 2), ("off", 1)] {
            cluster.put_service("a", name, &["IPv4"], pods);
        }
        let more =
            json!([{"kind": "Service", "name": "two", "weight": 10}, {"kind": "Service", "name": "off", "weight": 0}]);
        let spec = json!({"host": "h.test", "tls": termination, "to": {"kind": "Service", "name": "one", "weight": 10}, "alternateBackends": more});
        let key = cluster.put_route("a", "r", 1, spec);
        let mut found = servers(&cluster.model(Admission::default()), &key);
        found.sort();
        found.dedup();
        let expected: Vec<(String, u16)> = expected.into_iter().map(|(at, weight)| (at.to_owned(), weight)).collect();
        assert_eq!(found.iter().filter(|found| expected.contains(found)).count(), expected.len(), "{found:?}");
    }
}

#[test]
fn an_idled_service_is_reached_at_its_own_address_by_the_family_that_works() {
    for (ips, cut_off, expected) in [
        (json!(["10.96.0.1", "fd96::1"]), "", "10.96.0.1:80"),
        (json!(["fd96::1", "10.96.0.1"]), "", "[fd96::1]:80"),
        (json!(["10.96.0.1", "fd96::1"]), "10.96.0.1", "[fd96::1]:80"),
    ] {
        let mut cluster = Cluster::default();
        let service = cluster.put_service("a", "s", &["IPv4"], 0);
        let idled = json!({"metadata": {"name": "s", "namespace": "a", "annotations": {"idling.alpha.openshift.io/idled-at": "x"}},
            "spec": {"clusterIPs": ips, "clusterIP": ips[0], "ports": [{"name": "http", "port": 80}]}});
        cluster.services.insert(service, read(idled));
        cluster.cut_off.extend(cut_off.parse::<IpAddr>().ok());
        let key = cluster.put_route("a", "r", 1, json!({"host": "h.test"}));
        assert_eq!(servers(&cluster.model(Admission::default()), &key), [(expected.to_owned(), 1)]);
    }
}
