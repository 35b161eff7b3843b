//! What is said of a Service with every kind of frontend, in both families.

use super::*;
use crate::{
    backend::{iptables, ipvs, nft},
    plan,
    track::Tracker,
};
use serde_json::{Value, json};

/// The report on a Service with this spec and status; endpoints are one here and one elsewhere, of both families.
fn report(spec: Value, status: Value, fixed: impl Fn(Family) -> Fixed) -> Report {
    report_of("nftables", spec, status, fixed)
}

fn report_of(mode: &'static str, spec: Value, status: Value, fixed: impl Fn(Family) -> Fixed) -> Report {
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
        let plan = plan::plan(family, &name, &tracker);
        let plan = if mode == "ipvs" { ipvs::served(plan) } else { plan };
        explain(family, service, &plan, &fixed(family), |route, from| match mode {
            "iptables" => iptables::trace(family, &name, &plan, route, from),
            "ipvs" => ipvs::trace(family, route, from),
            _ => nft::trace(route, from),
        })
    });
    Report { service: name, node: "n1".to_owned(), mode, families: families.into() }
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
        assert!(!report.families[open].paths.is_empty() && report.families[shut].paths.is_empty());
        assert!(table(&report).contains("closed: the Service has no address of this family"));
    }
}

#[test]
fn what_does_not_arrive_says_why() {
    let spec = json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ports": [{"name": "other", "port": 80}]});
    for explained in report(spec, json!({}), fixed).families {
        let [path] = &explained.paths[..] else { panic!("all senders are refused alike: {explained:?}") };
        assert_eq!(
            (&path.fate, &path.from[..], &path.through[..]),
            (&Fate::Refused, &From::ALL[..], &["gates: goto refuse".to_owned()][..])
        );
    }
}

#[test]
fn where_pods_cannot_be_told_nobody_is_masqueraded() {
    let spec = json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "sessionAffinity": "ClientIP", "ports": [{"port": 80}]});
    let unknown = |family| Fixed { local: LocalPods::Unknown, ..fixed(family) };
    for explained in report(spec, json!({}), unknown).families {
        let [path] = &explained.paths[..] else { panic!("{explained:?}") };
        let Fate::Delivered { endpoints, seen, affinity } = &path.fate else { panic!("{path:?}") };
        assert_eq!((endpoints.len(), *seen, *affinity), (2, SourceAddress::Client, Some(10_800)));
        assert!(path.through[0].starts_with("services: goto sticky-"), "{path:?}");
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

/// A load balancer under the policy Local that only some IPv4 clients may use, and a second port without endpoints.
fn guarded() -> (Value, Value) {
    let spec = json!({
        "type": "LoadBalancer", "clusterIPs": ["10.0.0.1", "fd00::1"], "externalTrafficPolicy": "Local",
        "loadBalancerSourceRanges": ["203.0.113.0/24"],
        "ports": [{"port": 80, "nodePort": 30080}, {"name": "none", "port": 81, "nodePort": 30081}],
    });
    (spec, json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}, {"ip": "2001:db8::7"}]}}))
}

/// The ways to a frontend of one family, each as its senders and what it passes.
fn passed(report: &Report, family: usize, kind: Kind, port: u16) -> Vec<(Vec<From>, String)> {
    let is = |path: &&PacketPath| {
        let (Frontend::Address { port: at, .. } | Frontend::NodePort { port: at, .. }) = path.frontend;
        path.kind == kind && at == port
    };
    let paths = report.families[family].paths.iter().filter(is);
    paths.map(|path| (path.from.clone(), path.through.join(" > "))).collect()
}

#[test]
fn with_iptables_the_chains_are_named() {
    let (spec, status) = guarded();
    let report = report_of("iptables", spec, status, fixed);
    let all = From::ALL.to_vec();
    // printf 'default/web:80tcp' | openssl dgst -sha256 -binary | base32 | cut -c-16
    let hash = "CVMJW3DXWMTNVZQK";
    for family in [0, 1] {
        let inside = passed(&report, family, Kind::ClusterIp, 80);
        assert!(
            inside.iter().all(|(_, through)| *through == format!("nat KUBE-SERVICES > KUBE-SVC-{hash}")),
            "{inside:?}"
        );
        let refused = passed(&report, family, Kind::ClusterIp, 81);
        assert_eq!(refused, [(all.clone(), "filter KUBE-SERVICES: REJECT".to_owned())]);
        let node_port: Vec<String> =
            passed(&report, family, Kind::NodePort, 30080).into_iter().map(|(_, path)| path).collect();
        let to = format!("nat KUBE-NODEPORTS > KUBE-EXT-{hash}");
        assert_eq!(
            node_port,
            [format!("{to} > KUBE-SVC-{hash}"), format!("{to} > KUBE-SVC-{hash}"), format!("{to} > KUBE-SVL-{hash}")]
        );
        let closed = passed(&report, family, Kind::NodePort, 30081);
        assert_eq!(closed, [(all.clone(), "filter KUBE-NODEPORTS: REJECT".to_owned())]);
    }
    let [(pods, first), (_, _), (outside, last)] = &passed(&report, 0, Kind::LoadBalancerIp, 80)[..] else {
        panic!("{report:?}")
    };
    assert_eq!((pods, outside), (&vec![From::Pods], &vec![From::Outside]));
    for (path, end) in [(first, "SVC"), (last, "SVL")] {
        let (head, tail) = ("nat KUBE-SERVICES > KUBE-FW-", format!(" > KUBE-EXT-{hash} > KUBE-{end}-{hash}"));
        assert!(path.starts_with(head) && path.ends_with(&tail), "{path}");
    }
    let barred = passed(&report, 1, Kind::LoadBalancerIp, 80);
    let [(from, path)] = &barred[..] else { panic!("nobody of IPv6 may: {barred:?}") };
    assert_eq!(*from, all);
    assert!(
        path.starts_with("nat KUBE-SERVICES > KUBE-FW-") && path.ends_with(" > filter KUBE-PROXY-FIREWALL: DROP"),
        "{path}"
    );
}

#[test]
fn with_ipvs_sets_and_servers_are_named_and_everyone_goes_to_the_endpoints_here() {
    let (spec, status) = guarded();
    let report = report_of("ipvs", spec, status, fixed);
    for (family, number, at, balancer) in [(0, 4, "10.0.0.1:80", "198.51.100.7:80"), (1, 6, "[fd00::1]:80", "")] {
        let set = |name: &str| format!("twinstack-{number}-{name}");
        let inside = format!("TWINSTACK-IPVS-SERVICES: {} > virtual server tcp {at}", set("cluster-ips"));
        assert!(passed(&report, family, Kind::ClusterIp, 80).iter().all(|(_, through)| *through == inside));
        let node_port = format!("TWINSTACK-IPVS-SERVICES: {} > virtual servers tcp 30080", set("local"));
        let paths = passed(&report, family, Kind::NodePort, 30080);
        assert!(!paths.is_empty() && paths.iter().all(|(_, through)| *through == node_port), "{paths:?}");
        let refused = passed(&report, family, Kind::NodePort, 30081);
        assert_eq!(refused, [(From::ALL.to_vec(), "virtual servers tcp 30081".to_owned())]);
        let gate = format!("TWINSTACK-IPVS-GATE: {}", set("guarded"));
        let guarded = match balancer {
            "" => gate,
            at => format!("{gate} > TWINSTACK-IPVS-SERVICES: {} > virtual server tcp {at}", set("local")),
        };
        let paths = passed(&report, family, Kind::LoadBalancerIp, 80);
        assert!(!paths.is_empty() && paths.iter().all(|(_, through)| *through == guarded), "{paths:?}");
        for path in report.families[family].paths.iter().filter(|path| path.kind == Kind::NodePort) {
            if let Fate::Delivered { endpoints, .. } = &path.fate {
                assert!(endpoints.len() == 1 && endpoints[0].1, "{path:?}");
            }
        }
    }
}

#[test]
fn what_a_service_names_and_does_not_get_is_told() {
    let service = |name: &str, second: u8, cluster_ips: Value, external: Value| {
        serde_json::from_value(json!({
            "metadata": {"namespace": "a", "name": name, "creationTimestamp": format!("2026-01-01T00:00:0{second}Z")},
            "spec": {"type": "NodePort", "clusterIPs": cluster_ips, "externalIPs": external, "ports": [{"port": 80, "nodePort": 30080}]},
        }))
        .unwrap()
    };
    let mut tracker = Tracker::new("n1", &["192.168.0.1".parse().unwrap(), "fd09::1".parse().unwrap()]);
    tracker.set_node(None);
    let shared = json!(["192.0.2.7", "2001:db8::7"]);
    tracker.service(&service("old", 1, json!(["10.0.0.1", "fd00::1"]), shared));
    let all = json!(["192.0.2.7", "2001:db8::7", "192.168.0.1", "fd09::1", "192.0.2.8"]);
    tracker.service(&service("web", 2, json!(["10.0.0.2", "fd00::2"]), all));
    let name = Name::new("a", "web");
    for (family, shared, own) in
        [(Family::V4, "192.0.2.7:80", "192.168.0.1"), (Family::V6, "[2001:db8::7]:80", "fd09::1")]
    {
        let expected = [
            format!("external IP {own}: it is an address of a node"),
            format!("external IP tcp {shared}: it belongs to Service a/old"),
            "tcp node port 30080: it belongs to Service a/old".to_owned(),
        ];
        let unserved = unserved(family, &name, &tracker);
        assert_eq!(unserved, expected);
        let explained = Explained { family, paths: Vec::new(), unserved };
        let report =
            Report { service: name.clone(), node: "n1".to_owned(), mode: "nftables", families: vec![explained] };
        assert!(table(&report).contains(&format!("\n  not served: {}\n", expected[0])), "{}", table(&report));
        assert_eq!(json(&report)["families"][0]["unserved"][2], expected[2]);
    }
}
