//! Tables over the four shapes of a cluster: which frontends there are, who may use them, where they lead.

use super::*;
use crate::track::{Node, Tracker};
use net::{Cidr, Families};
use serde_json::{Value, json};

const NODE: &str = "n1";

/// The Service `a/web` with a spec for a cluster of this shape; addresses of families that it lacks are left out.
fn tracker(shape: Families, spec: Value, endpoints: &[Value]) -> Tracker {
    let mut tracker = Tracker::new(NODE, &[]);
    let mut object = json!({"metadata": {"namespace": "a", "name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let ips: Vec<&str> = shape.iter().map(|family| if family == Family::V4 { "10.0.0.1" } else { "fd00::1" }).collect();
    object["spec"]["clusterIPs"] = json!(ips);
    for (key, value) in spec.as_object().unwrap() {
        match key.as_str() {
            "status" => object["status"] = value.clone(),
            _ => object["spec"][key] = value.clone(),
        }
    }
    tracker.service(&serde_json::from_value(object).unwrap());
    for family in Family::BOTH {
        let prefix = if family == Family::V4 { "10.1.0." } else { "fd01::" };
        let mut list = endpoints.to_vec();
        for endpoint in &mut list {
            endpoint["addresses"] = json!([format!("{prefix}{}", endpoint["addresses"].as_str().unwrap())]);
        }
        let slice = json!({
            "metadata": {"namespace": "a", "name": format!("web-{family}"), "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": family, "ports": [{"name": "", "port": 8080}], "endpoints": list,
        });
        tracker.slice(&serde_json::from_value(slice).unwrap());
    }
    let node = json!({
        "metadata": {"name": NODE, "labels": {"topology.kubernetes.io/zone": "z1"}},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.1"}, {"type": "InternalIP", "address": "fd09::1"}]},
    });
    tracker.set_node(Some(&serde_json::from_value(node).unwrap()));
    tracker
}

fn planned(tracker: &Tracker, family: Family) -> ServicePlan {
    let name = Name::new("a", "web");
    plan(family, &name, tracker)
}

/// A plan as lines: the last parts of addresses stand for endpoints of either family.
fn lines(plan: &ServicePlan) -> Vec<String> {
    let pool = |pool: &Pool| {
        let last = |e: &std::net::SocketAddr| e.ip().to_string().rsplit(['.', ':']).next().unwrap().to_owned();
        let list: Vec<String> = pool.endpoints.iter().map(last).collect();
        format!("[{}]{}", list.join(" "), if pool.affinity.is_some() { " sticky" } else { "" })
    };
    let frontend = |frontend: Frontend| match frontend {
        Frontend::Address { ip, port, .. } => format!("{}:{port}", kind(ip)),
        Frontend::NodePort { port, .. } => format!("node:{port}"),
    };
    let line = |route: &Route| {
        let to = match &route.to {
            To::Reject => "reject".to_owned(),
            To::Drop => "drop".to_owned(),
            To::Inside(inside) => pool(inside),
            To::Outside(outside) => format!("masquerade {}", pool(outside)),
            To::OutsideLocal { own, others } => format!("own {} others {}", pool(own), pool(others)),
        };
        match &route.sources {
            Sources::Everyone => format!("{} -> {to}", frontend(route.frontend)),
            Sources::Only(list) => {
                let list: Vec<String> = list.iter().map(Cidr::to_string).collect();
                format!("{} from {} -> {to}", frontend(route.frontend), list.join(","))
            }
        }
    };
    plan.routes.iter().map(line).collect()
}

fn kind(ip: IpAddr) -> &'static str {
    match ip.to_string().as_str() {
        "10.0.0.1" | "fd00::1" => "cluster",
        "192.0.2.1" | "2001:db8::1" => "external",
        _ => "balancer",
    }
}

/// The same lines in every family that the shape has, and nothing in the other.
#[track_caller]
fn check(spec: &Value, endpoints: &[Value], expected: &[&str]) {
    for shape in Families::ALL {
        let tracker = tracker(shape, spec.clone(), endpoints);
        for family in Family::BOTH {
            let lines = lines(&planned(&tracker, family));
            let expected: &[&str] = if shape.contains(family) { expected } else { &[] };
            assert_eq!(lines, expected, "{shape} {family}");
        }
    }
}

fn ready(last: u8) -> Value {
    json!({"addresses": last.to_string(), "nodeName": "elsewhere"})
}

fn here(last: u8) -> Value {
    json!({"addresses": last.to_string(), "nodeName": NODE})
}

fn ending(last: u8, node: &str) -> Value {
    json!({"addresses": last.to_string(), "nodeName": node, "conditions": {"ready": false, "serving": true, "terminating": true}})
}

fn hinted(last: u8, zone: &str, node: &str) -> Value {
    json!({"addresses": last.to_string(), "nodeName": node, "hints": {"forZones": [{"name": zone}], "forNodes": [{"name": node}]}})
}

fn zoned(last: u8, zone: &str) -> Value {
    json!({"addresses": last.to_string(), "nodeName": "elsewhere", "hints": {"forZones": [{"name": zone}]}})
}

#[test]
fn a_cluster_ip_leads_to_ready_endpoints_or_refuses() {
    let not_ready = json!({"addresses": "9", "conditions": {"ready": false}});
    check(&json!({}), &[ready(2), here(1), not_ready.clone()], &["cluster:80 -> [1 2]"]);
    check(&json!({}), &[not_ready], &["cluster:80 -> reject"]);
    check(&json!({}), &[], &["cluster:80 -> reject"]);
    check(&json!({"sessionAffinity": "ClientIP"}), &[ready(1)], &["cluster:80 -> [1] sticky"]);
}

#[test]
fn endpoints_that_end_serve_only_when_no_other_is_left() {
    check(&json!({}), &[ready(1), ending(2, NODE)], &["cluster:80 -> [1]"]);
    check(&json!({}), &[ending(1, "elsewhere"), ending(2, NODE)], &["cluster:80 -> [1 2]"]);
    let local = json!({"internalTrafficPolicy": "Local"});
    check(&local, &[ready(1), ending(2, NODE)], &["cluster:80 -> [2]"]);
}

#[test]
fn the_internal_policy_local_stays_on_the_node() {
    let local = json!({"internalTrafficPolicy": "Local"});
    check(&local, &[ready(1), here(2)], &["cluster:80 -> [2]"]);
    check(&local, &[ready(1)], &["cluster:80 -> drop"]);
    check(&local, &[], &["cluster:80 -> reject"]);
}

#[test]
fn the_external_policy_decides_on_everything_but_the_cluster_ip() {
    let ports = json!([{"port": 80, "nodePort": 30080}]);
    let cluster = json!({"type": "NodePort", "ports": ports, "externalIPs": ["192.0.2.1", "2001:db8::1"]});
    check(
        &cluster,
        &[ready(1), here(2)],
        &["cluster:80 -> [1 2]", "external:80 -> masquerade [1 2]", "node:30080 -> masquerade [1 2]"],
    );
    let local = json!({"type": "NodePort", "ports": ports, "externalTrafficPolicy": "Local"});
    check(&local, &[ready(1), here(2)], &["cluster:80 -> [1 2]", "node:30080 -> own [1 2] others [2]"]);
    check(&local, &[ready(1)], &["cluster:80 -> [1]", "node:30080 -> own [1] others []"]);
    check(&local, &[], &["cluster:80 -> reject", "node:30080 -> reject"]);
}

#[test]
fn hints_count_when_all_have_them_and_one_means_us() {
    check(&json!({}), &[zoned(1, "z1"), zoned(2, "z2")], &["cluster:80 -> [1]"]);
    check(&json!({}), &[zoned(1, "z1"), ready(2)], &["cluster:80 -> [1 2]"]);
    check(&json!({}), &[zoned(1, "z2"), zoned(2, "z3")], &["cluster:80 -> [1 2]"]);
    check(&json!({}), &[hinted(1, "z1", "elsewhere"), hinted(2, "z1", NODE)], &["cluster:80 -> [2]"]);
    check(&json!({}), &[hinted(1, "z1", "other"), hinted(2, "z2", "elsewhere")], &["cluster:80 -> [1]"]);
    // Policy Local knows no topology.
    check(&json!({"internalTrafficPolicy": "Local"}), &[hinted(1, "z2", NODE), zoned(2, "z1")], &["cluster:80 -> [1]"]);
}

#[test]
fn a_load_balancer_address_counts_if_packets_arrive_with_it() {
    let service = |mode: Value| {
        json!({"type": "LoadBalancer", "status": {"loadBalancer": {"ingress": [
            {"ip": "198.51.100.1", "ipMode": mode}, {"ip": "2001:db8::9", "ipMode": mode}, {"hostname": "lb.example"}]}}})
    };
    check(&service(json!("VIP")), &[ready(1)], &["cluster:80 -> [1]", "balancer:80 -> masquerade [1]"]);
    check(&service(Value::Null), &[ready(1)], &["cluster:80 -> [1]", "balancer:80 -> masquerade [1]"]);
    check(&service(json!("Proxy")), &[ready(1)], &["cluster:80 -> [1]"]);
}

#[test]
fn source_ranges_of_one_family_never_leave_the_other_open() {
    for (ranges, v4, v6) in [
        (json!([]), "balancer:80 -> masquerade [1]", "balancer:80 -> masquerade [1]"),
        (
            json!(["203.0.113.0/24"]),
            "balancer:80 from 203.0.113.0/24 -> masquerade [1]",
            "balancer:80 from  -> masquerade [1]",
        ),
        (json!(["0.0.0.0/0"]), "balancer:80 -> masquerade [1]", "balancer:80 from  -> masquerade [1]"),
        (json!(["::/0"]), "balancer:80 from  -> masquerade [1]", "balancer:80 -> masquerade [1]"),
        (
            json!([" 10.9.0.0/16", "10.9.1.0/24", "2001:db8:5::/48", "nonsense"]),
            "balancer:80 from 10.9.0.0/16 -> masquerade [1]",
            "balancer:80 from 2001:db8:5::/48 -> masquerade [1]",
        ),
        // Where the node may come in, so may its programs under the balancer's address.
        (
            json!(["192.168.0.0/16"]),
            "balancer:80 from 192.168.0.0/16,198.51.100.1/32 -> masquerade [1]",
            "balancer:80 from  -> masquerade [1]",
        ),
    ] {
        let spec = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ranges, "status": {"loadBalancer": {"ingress": [
            {"ip": "198.51.100.1"}, {"ip": "2001:db8::9"}]}}});
        for shape in Families::ALL {
            let tracker = tracker(shape, spec.clone(), &[ready(1)]);
            for (family, expected) in [(Family::V4, v4), (Family::V6, v6)] {
                let lines = lines(&planned(&tracker, family));
                assert_eq!(lines.get(1).map(String::as_str), shape.contains(family).then_some(expected), "{ranges}");
            }
        }
    }
}

#[test]
fn endpoints_on_this_node_are_hairpins() {
    let tracker = tracker(Families::both(Family::V6), json!({}), &[ready(1), here(2), here(2)]);
    for (family, ip) in [(Family::V4, "10.1.0.2"), (Family::V6, "fd01::2")] {
        assert_eq!(planned(&tracker, family).hairpins, [ip.parse::<IpAddr>().unwrap()]);
    }
}

#[test]
fn node_port_addresses_of_one_family_close_the_other() {
    let node = Node {
        addresses: ["fd09::1", "192.168.0.1", "192.168.0.2"].map(|ip| ip.parse().unwrap()).to_vec(),
        ..Node::default()
    };
    let within = |texts: &[&str]| NodePortMatch::In(texts.iter().map(|text| text.parse().unwrap()).collect());
    for (flag, v4, v6) in [
        ("", within(&["192.168.0.1/32"]), within(&["fd09::1/128"])),
        ("primary", within(&["192.168.0.1/32"]), within(&["fd09::1/128"])),
        ("all", NodePortMatch::All, NodePortMatch::All),
        ("10.0.0.0/8,10.1.0.0/16", within(&["10.0.0.0/8"]), within(&[])),
        ("fd00::/8", within(&[]), within(&["fd00::/8"])),
        ("fd00::/8, 10.0.0.0/8", within(&["10.0.0.0/8"]), within(&["fd00::/8"])),
    ] {
        let addresses: NodePortAddresses = flag.parse().unwrap();
        assert_eq!(addresses.in_family(Family::V4, &node), v4, "{flag}");
        assert_eq!(addresses.in_family(Family::V6, &node), v6, "{flag}");
    }
    for (flag, message) in [
        ("primary,10.0.0.0/8", "\"primary\" cannot stand beside other values"),
        ("10.0.0.0", "\"10.0.0.0\" has no prefix length; accepted are CIDRs like 10.0.0.0/16 and fd00::/64"),
    ] {
        assert_eq!(flag.parse::<NodePortAddresses>().unwrap_err().to_string(), message);
    }
}

#[test]
fn names_of_affinity_stay_the_same_after_a_restart() {
    let tracker = tracker(Families::both(Family::V4), json!({"sessionAffinity": "ClientIP"}), &[ready(1)]);
    let ids: Vec<u64> = Family::BOTH
        .into_iter()
        .filter_map(|family| match &planned(&tracker, family).routes[0].to {
            To::Inside(pool) => pool.affinity.map(|affinity| affinity.id),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [0x9984_0fa4_778d_6a9b; 2]);
}

#[test]
fn flows_go_on_at_every_endpoint_that_serves() {
    for shape in
        [Families::one(Family::V4), Families::one(Family::V6), Families::both(Family::V4), Families::both(Family::V6)]
    {
        let endpoint = |last: &str, ready: bool, serving: bool, terminating: bool| json!({"addresses": last, "nodeName": "n2", "conditions": {"ready": ready, "serving": serving, "terminating": terminating}});
        let endpoints = [
            endpoint("2", true, true, false),
            endpoint("3", false, true, true),
            endpoint("4", false, false, true),
            endpoint("5", false, false, false),
        ];
        for (protocol, expected) in [("UDP", 2), ("TCP", 0)] {
            let spec = json!({"internalTrafficPolicy": "Local", "ports": [{"port": 80, "protocol": protocol}]});
            let mut tracker = tracker(shape, spec, &[]);
            for family in Family::BOTH {
                let prefix = if family == Family::V4 { "10.1.0." } else { "fd01::" };
                let mut list = endpoints.to_vec();
                for endpoint in &mut list {
                    endpoint["addresses"] = json!([format!("{prefix}{}", endpoint["addresses"].as_str().unwrap())]);
                }
                let slice = json!({
                    "metadata": {"namespace": "a", "name": format!("web-{family}"), "labels": {"kubernetes.io/service-name": "web"}},
                    "addressType": family, "ports": [{"name": "", "port": 8080, "protocol": protocol}], "endpoints": list,
                });
                tracker.slice(&serde_json::from_value(slice).unwrap());
            }
            for family in shape.iter() {
                let plan = planned(&tracker, family);
                assert_eq!(plan.routes.len(), 1);
                assert_eq!(plan.routes[0].to, To::Drop, "none of them is here");
                assert_eq!(plan.routes[0].serving.len(), expected);
            }
        }
    }
}

#[test]
fn an_address_of_the_load_balancer_is_for_whom_it_lets_in_also_as_external_ip() {
    for (family, ip) in [(Family::V4, "192.0.2.7"), (Family::V6, "2001:db8::7")] {
        let spec = json!({"type": "LoadBalancer", "externalIPs": [ip], "loadBalancerSourceRanges": ["203.0.113.0/24", "2001:db8:5::/48"],
            "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}});
        let tracker = tracker(Families::both(Family::V4), spec, &[json!({"addresses": "2"})]);
        let plan = planned(&tracker, family);
        assert_eq!(plan.routes.len(), 2, "{plan:?}");
        assert!(matches!(&plan.routes[1].sources, Sources::Only(list) if list.len() == 1), "{plan:?}");
    }
}
