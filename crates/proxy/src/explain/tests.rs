//! What is said of a Service with every kind of frontend, in both families.

use super::*;
use crate::backend::nft;
use crate::plan;
use crate::track::Tracker;
use serde_json::{Value, json};

/// The report on a Service with this spec and status; endpoints are one here and one elsewhere, of both families.
fn report(spec: Value, status: Value, fixed: impl Fn(Family) -> Fixed) -> Report {
    let name = Name::new("default", "web");
    let mut tracker = Tracker::new("n1", &[]);
    tracker.service(
        &serde_json::from_value(
            json!({"metadata": {"namespace": "default", "name": "web"}, "spec": spec, "status": status}),
        )
        .unwrap(),
    );
    for (kind, ips) in [("IPv4", ["10.1.0.2", "10.1.1.2"]), ("IPv6", ["fd01::2", "fd01:1::2"])] {
        let slice = json!({
            "metadata": {"namespace": "default", "name": format!("web-{kind}"), "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": kind, "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": [ips[0]], "nodeName": "n1"}, {"addresses": [ips[1]], "nodeName": "n2"}],
        });
        tracker.slice(&serde_json::from_value(slice).unwrap());
    }
    let entry = tracker.get(&name).unwrap();
    let service = entry.service.as_ref().unwrap();
    let families = Family::BOTH.map(|family| {
        let plan = plan::plan(family, &name, entry, tracker.node());
        explain(family, service, &plan, &fixed(family), nft::way)
    });
    Report { service: name, node: "n1".to_owned(), mode: "nftables", families: families.into() }
}

fn fixed(family: Family) -> Fixed {
    let cidr = |v4: &str, v6: &str| if family == Family::V4 { v4.parse() } else { v6.parse() };
    Fixed {
        masquerade_mark: 0x4000,
        masquerade_all: false,
        local: LocalPods::Within(cidr("10.1.0.0/16", "fd01::/16").unwrap()),
        node_ports: NodePortMatch::In(vec![cidr("192.168.0.1/32", "fd09::1/128").unwrap()]),
        service_cidrs: Vec::new(),
    }
}

#[test]
fn the_table_tells_who_ends_where() {
    let spec = json!({
        "type": "LoadBalancer", "clusterIPs": ["10.0.0.1", "fd00::1"], "externalTrafficPolicy": "Local",
        "loadBalancerSourceRanges": ["203.0.113.0/24"], "sessionAffinity": "None",
        "ports": [{"port": 80, "nodePort": 30080}],
    });
    let status = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}, {"ip": "2001:db8::7"}]}});
    let text = table(&report(spec, status, fixed));
    let expected = "\
Service default/web on node n1, nftables

IPv4
  SENT TO                                FROM                            ENDS AT                              WHICH SEES  THROUGH
  cluster IP tcp 10.0.0.1:80             pods                            10.1.0.2:8080 (here), 10.1.1.2:8080  the client  services: goto pick-2-tcp
                                         this node, outside              10.1.0.2:8080 (here), 10.1.1.2:8080  this node   services: goto pick-2-tcp
";
    assert!(text.starts_with(expected), "{text}");
    for line in [
        "load balancer IP tcp 198.51.100.7:80   pods; only 203.0.113.0/24       10.1.0.2:8080 (here), 10.1.1.2:8080  the client  gates: goto check-source > services: goto local > services-own: goto pick-2-tcp",
        "outside; only 203.0.113.0/24    10.1.0.2:8080 (here)                 the client  gates: goto check-source > services: goto local > services-others: goto others-pick-1-tcp",
        "node port tcp 30080 at 192.168.0.1/32  pods                            10.1.0.2:8080 (here), 10.1.1.2:8080  the client  node-ports: goto local-node-port > node-ports-own: goto node-port-pick-2-tcp",
        "load balancer IP tcp [2001:db8::7]:80  pods, this node, outside  dropped: no source range of this family              gates: goto check-source\n",
        "node port tcp 30080 at fd09::1/128",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_family_that_the_service_does_not_have_is_closed() {
    for (ip, open, shut) in [("10.0.0.1", 0, 1), ("fd00::1", 1, 0)] {
        let spec = json!({"type": "NodePort", "clusterIPs": [ip], "ports": [{"port": 80, "nodePort": 30080}]});
        let report = report(spec, json!({}), fixed);
        assert!(!report.families[open].ways.is_empty() && report.families[shut].ways.is_empty());
        assert!(table(&report).contains("closed: the Service has no address of this family"));
    }
}

#[test]
fn what_does_not_arrive_says_why() {
    let spec = json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ports": [{"name": "other", "port": 80}]});
    for explained in report(spec, json!({}), fixed).families {
        let [way] = &explained.ways[..] else { panic!("all senders are refused alike: {explained:?}") };
        assert_eq!(
            (&way.fate, &way.from[..], &way.through[..]),
            (&Fate::Refused, &From::ALL[..], &["gates: goto refuse".to_owned()][..])
        );
    }
}

#[test]
fn where_pods_cannot_be_told_nobody_is_masqueraded() {
    let spec = json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "sessionAffinity": "ClientIP", "ports": [{"port": 80}]});
    let unknown = |family| Fixed { local: LocalPods::Unknown, ..fixed(family) };
    for explained in report(spec, json!({}), unknown).families {
        let [way] = &explained.ways[..] else { panic!("{explained:?}") };
        let Fate::Delivered { endpoints, seen, affinity } = &way.fate else { panic!("{way:?}") };
        assert_eq!((endpoints.len(), *seen, *affinity), (2, Seen::Client, Some(10_800)));
        assert!(way.through[0].starts_with("services: goto sticky-"), "{way:?}");
    }
}

#[test]
fn programs_get_the_same_as_json() {
    let spec = json!({"type": "NodePort", "clusterIPs": ["fd00::1"], "ports": [{"port": 80, "nodePort": 30080}]});
    let value = json(&report(spec, json!({}), fixed));
    assert_eq!(value["families"][0], json!({"family": "IPv4", "ways": []}));
    assert_eq!(
        value["families"][1]["ways"][2],
        json!({
            "kind": "NodePort", "protocol": "tcp", "port": 30080, "nodeAddresses": ["fd09::1/128"],
            "from": ["Pods", "Node", "Outside"], "outcome": "Delivered", "sees": "Node",
            "endpoints": [
                {"address": "fd01::2", "port": 8080, "onThisNode": true},
                {"address": "fd01:1::2", "port": 8080, "onThisNode": false},
            ],
            "through": ["node-ports: goto node-port-masquerade-pick-2-tcp"],
        })
    );
}
