//! What Services may ask for: annotations, ports, ranges, as tables. Both what is accepted and what is refused, with the words.

use super::super::{
    annotations::SOURCE_RANGES,
    names::{Cluster, IDENTITY_TAG, Owner},
    nodes,
    request::Request,
    strangers::{NO_EFFECT, READ, REFUSED},
};
use crate::memory::{
    Example,
    testing::{annotated, service, settings},
};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

const TYPE: &str = "service.beta.kubernetes.io/aws-load-balancer-type";

fn read(change: &Value) -> Result<Request, String> {
    Request::read(&service("web", change)).map(Option::unwrap).map_err(|mistakes| mistakes.join("; "))
}

/// Annotations by their suffixes, on a classic load balancer.
fn classic(pairs: &[(&str, &str)]) -> Value {
    let mut change = annotated(pairs);
    change["metadata"]["annotations"][TYPE] = Value::Null;
    change
}

fn families(list: &[&str]) -> Value {
    let policy = if list.len() == 2 { "RequireDualStack" } else { "SingleStack" };
    json!({"ipFamilyPolicy": policy, "ipFamilies": list})
}

/// What is said of a change: `None` when it is accepted.
fn table(rows: &[(Value, Option<&str>)]) {
    for shape in [&["IPv4"][..], &["IPv4", "IPv6"], &["IPv6", "IPv4"]] {
        for (change, message) in rows {
            let mut change = change.clone();
            // A classic load balancer has one family.
            if change["metadata"]["annotations"].get(TYPE).is_none() {
                let mut spec = families(shape);
                for (key, value) in change["spec"].as_object().into_iter().flatten() {
                    spec[key] = value.clone();
                }
                change["spec"] = spec;
            }
            match (read(&change), message) {
                (Ok(_), None) => {}
                (Err(why), Some(message)) => assert!(why.contains(message), "{change}: {message:?} in {why:?}"),
                (outcome, message) => panic!("{change}: {outcome:?}, expected {message:?}"),
            }
        }
    }
}

#[test]
fn groups_are_brought_to_both_kinds_and_added_to_one() {
    let extra = Some("BYO extra security group annotation is not supported by NLB");
    table(&[
        (classic(&[("security-groups", "sg-1")]), None),
        (classic(&[("extra-security-groups", "sg-1")]), None),
        (classic(&[("extra-security-groups", "sg-1,sg-2,sg-3,sg-4")]), None),
        (
            classic(&[("extra-security-groups", "sg-1,sg-2,sg-3,sg-4,sg-5")]),
            Some("6 groups; a load balancer takes up to 5"),
        ),
        (classic(&[("security-groups", "sg-1"), ("extra-security-groups", "sg-2")]), None),
        (annotated(&[("security-groups", "sg-1")]), None),
        (annotated(&[("security-groups", " sg-1 ,, sg-2 ")]), None),
        (annotated(&[("security-groups", "web")]), Some("\"web\" is no security group id")),
        (annotated(&[("extra-security-groups", "sg-1")]), extra),
        (annotated(&[("extra-security-groups", "")]), extra),
        (annotated(&[("extra-security-groups", "sg-1,sg-2")]), extra),
        (classic(&[("target-group-attributes", "preserve_client_ip.enabled=true")]), Some("has no target groups")),
        (annotated(&[("manage-backend-security-group-rules", "maybe")]), Some("accepted: true, false")),
    ]);
}

#[test]
fn attributes_of_target_groups() {
    let udp = json!({"ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}]});
    let both = json!({"ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}, {"port": 53, "nodePort": 30053}]});
    let (keep, proxy) = ("preserve_client_ip.enabled", "proxy_protocol_v2.enabled");
    let with = |spec: &Value, text: &str| {
        let mut change = annotated(&[("target-group-attributes", text)]);
        change["spec"] = spec.clone();
        change
    };
    let tcp = json!({});
    let mut rows = Vec::new();
    for value in ["true", "false"] {
        rows.push((with(&tcp, &format!("{keep}={value}")), None));
        rows.push((with(&tcp, &format!("{proxy}={value}")), None));
        rows.push((with(&tcp, &format!(" {keep}={value} , {proxy}={value} ")), None));
        rows.push((with(&udp, &format!("{proxy}={value}")), None));
        let refused = (value == "false").then_some("cannot be false for a UDP port");
        rows.push((with(&udp, &format!("{keep}={value}")), refused));
        rows.push((with(&both, &format!("{keep}={value},{proxy}=true")), refused));
    }
    for wrong in ["True", "FALSE", "1", "yes", ""] {
        rows.push((with(&tcp, &format!("{keep}={wrong}")), Some("accepted are true and false")));
        rows.push((with(&tcp, &format!("{proxy}={wrong}")), Some("accepted are true and false")));
    }
    for unknown in ["stickiness.enabled=true", "PRESERVE_CLIENT_IP.enabled=true", "x"] {
        rows.push((with(&tcp, unknown), Some("is not known")));
    }
    for empty in ["", " ", ",", "=true"] {
        rows.push((with(&tcp, empty), Some("holds no key=value")));
    }
    table(&rows);
}

#[test]
fn numbers_and_words_are_checked() {
    table(&[
        (annotated(&[("healthcheck-timeout", "4")]), None),
        (annotated(&[("healthcheck-timeout", "abc")]), Some("a number from 2 to 120")),
        (annotated(&[("healthcheck-timeout", "1")]), Some("a number from 2 to 120")),
        (annotated(&[("healthcheck-interval", "301")]), Some("a number from 5 to 300")),
        (annotated(&[("healthcheck-healthy-threshold", "11")]), Some("a number from 2 to 10")),
        (annotated(&[("healthcheck-unhealthy-threshold", "-1")]), Some("a number from 2 to 10")),
        (annotated(&[("healthcheck-protocol", "udp")]), Some("Unsupported health check protocol")),
        (annotated(&[("healthcheck-protocol", "ssl")]), Some("Unsupported health check protocol")),
        (classic(&[("healthcheck-protocol", "ssl")]), None),
        (annotated(&[("healthcheck-port", "0")]), Some("Invalid health check port '0'")),
        (annotated(&[("healthcheck-port", "traffic-port")]), None),
        (annotated(&[("access-log-enabled", "true")]), Some("access-log-s3-bucket-name")),
        (classic(&[("access-log-emit-interval", "4")]), Some("a number from 5 to 60")),
        (classic(&[("access-log-emit-interval", "30")]), Some("30 is not accepted; accepted: 5, 60")),
        (classic(&[("access-log-emit-interval", "60")]), None),
        (classic(&[("proxy-protocol", "on")]), Some("the only value supported is '*'")),
        (annotated(&[("proxy-protocol", "on")]), None),
        (classic(&[("connection-draining-enabled", "sometimes")]), Some("accepted: true, false")),
        (classic(&[("connection-idle-timeout", "0")]), Some("a number from 1 to 4000")),
        (annotated(&[("subnets", " , ")]), Some("is empty; give ids or names of subnets")),
        (annotated(&[("private-ipv4-addresses", "10.0.0.4")]), Some("only an internal load balancer")),
        (annotated(&[("internal", "true"), ("private-ipv4-addresses", "10.0.0.4")]), None),
        (annotated(&[("internal", "true"), ("private-ipv4-addresses", "2001:db8::1")]), Some("is no IPv4 address")),
        (annotated(&[("internal", "true"), ("eip-allocations", "eipalloc-1")]), Some("has no elastic addresses")),
        (annotated(&[("additional-resource-tags", "aws:x=1")]), Some("begins with aws:")),
        (annotated(&[("backend-protocol", "quic")]), Some("accepted: tcp, ssl, http, https")),
    ]);
    let many: Vec<String> = (0..46).map(|number| format!("k{number}=v")).collect();
    table(&[(annotated(&[("additional-resource-tags", &many.join(","))]), Some("46 tags; up to 45"))]);
}

#[test]
fn fields_of_the_service_that_cannot_be_had() {
    let port = |more: Value| json!({"spec": {"ports": [more]}});
    table(&[
        (json!({"spec": {"sessionAffinity": "ClientIP"}}), Some("unsupported load balancer affinity: ClientIP")),
        (json!({"spec": {"sessionAffinity": "None"}}), None),
        (json!({"spec": {"loadBalancerIP": "192.0.2.1"}}), Some("LoadBalancerIP cannot be specified for AWS ELB")),
        (json!({"spec": {"ports": []}}), Some("requested load balancer with no ports")),
        (port(json!({"port": 80, "nodePort": 0})), Some("port 80 has no node port")),
        (port(json!({"port": 80})), Some("allocateLoadBalancerNodePorts must not be false")),
        (port(json!({"port": 80, "nodePort": 30080, "protocol": "SCTP"})), Some("accepted: TCP, UDP")),
        (port(json!({"port": 53, "nodePort": 30053, "protocol": "UDP"})), None),
    ]);
    let mut udp = classic(&[]);
    udp["spec"]["ports"] = json!([{"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    table(&[(udp, Some("Protocol UDP not supported by LoadBalancer; accepted: TCP"))]);
}

#[test]
fn source_ranges_are_sorted_into_families() {
    /// Given, and what becomes of it for IPv4 alone and for both; then reasons that are told for both.
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        (&[], &["0.0.0.0/0"], &["0.0.0.0/0", "::/0"], &[]),
        (&["10.1.2.3/8"], &["10.0.0.0/8"], &["10.0.0.0/8"], &["FamilyClosed"]),
        (&["2001:db8::1/32"], &[], &["2001:db8::/32"], &["FamilyClosed"]),
        (&["10.0.0.0/8", " 2001:db8::/32 "], &["10.0.0.0/8"], &["10.0.0.0/8", "2001:db8::/32"], &[]),
        (&["0.0.0.0/0", "10.0.0.0/8"], &["0.0.0.0/0", "10.0.0.0/8"], &["0.0.0.0/0", "10.0.0.0/8"], &["FamilyClosed"]),
    ];
    for (given, four, both, noted) in rows {
        for (list, expected) in [(&["IPv4"][..], four), (&["IPv4", "IPv6"], both), (&["IPv6", "IPv4"], both)] {
            let mut spec = families(list);
            spec["loadBalancerSourceRanges"] = json!(given);
            let request = read(&json!({"spec": spec})).unwrap();
            let ranges: Vec<String> = request.ranges.iter().map(ToString::to_string).collect();
            assert_eq!(ranges, **expected, "{given:?} {list:?}");
            if list.len() == 2 {
                let reasons: Vec<&str> = request.notes.iter().map(|note| note.reason).collect();
                assert_eq!(reasons, **noted, "{given:?}");
            }
        }
    }
    // The annotation counts only where the field says nothing.
    let annotation = json!({"metadata": {"annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": "192.0.2.0/24, 198.51.100.0/24"}}});
    assert_eq!(read(&annotation).unwrap().ranges.len(), 2);
    let wrong = json!({"metadata": {"annotations": {SOURCE_RANGES: "everybody"}}});
    assert!(read(&wrong).unwrap_err().starts_with(SOURCE_RANGES));
    let mut both = annotation;
    both["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.0/8"]);
    assert_eq!(read(&both).unwrap().ranges.len(), 1);
    both["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.0/8", "nonsense", "10.0.0.0/99"]);
    let why = read(&both).unwrap_err();
    assert!(why.contains("nonsense") && why.contains("10.0.0.0/99"), "{why}");
}

#[test]
fn annotations_of_the_other_controller_are_refused_or_told() {
    let spec = |list: &[&str], pairs: &[(&str, &str)]| {
        let mut change = annotated(pairs);
        change["spec"] = families(list);
        change
    };
    table(&[
        (annotated(&[("nlb-target-type", "ip")]), Some("targets are nodes here")),
        (annotated(&[("nlb-target-type", "instance")]), None),
        (
            annotated(&[("scheme", "internal")]),
            Some("aws-load-balancer-internal decides this, and makes it internet-facing"),
        ),
        (annotated(&[("scheme", "internal"), ("internal", "true")]), None),
        (annotated(&[("scheme", "internet-facing")]), None),
        (annotated(&[("security-group-prefix-lists", "pl-1")]), Some("prefix lists are not supported")),
        (classic(&[("ip-address-type", "dualstack")]), Some("spec.ipFamilies decides this, and makes it ipv4")),
    ]);
    for (list, kind) in [(&["IPv4"][..], "ipv4"), (&["IPv4", "IPv6"], "dualstack"), (&["IPv6", "IPv4"], "dualstack")] {
        for given in ["ipv4", "dualstack", "dualstack-without-public-ipv4"] {
            assert_eq!(read(&spec(list, &[("ip-address-type", given)])).is_ok(), given == kind, "{list:?} {given}");
        }
        let noted = |pairs: &[(&str, &str)]| -> Vec<(&'static str, String)> {
            let request = read(&spec(list, pairs)).unwrap();
            request.notes.into_iter().map(|note| (note.reason, note.message)).collect()
        };
        for suffix in NO_EFFECT {
            assert_eq!(noted(&[(suffix, "x")])[0].0, "AnnotationHasNoEffect", "{suffix}");
        }
        assert_eq!(noted(&[("listener-attributes.TCP-80", "x")])[0].0, "AnnotationHasNoEffect");
        let (reason, message) = noted(&[("proxy-protocol", "*")]).remove(0);
        assert_eq!(reason, "AnnotationHasNoEffect");
        assert!(message.contains("proxy-protocol is for classic load balancers"), "{message}");
        let (reason, message) = noted(&[("healthcheck-intervall", "10")]).remove(0);
        assert_eq!(reason, "AnnotationNotKnown");
        assert!(
            message.ends_with("did you mean service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval?"),
            "{message}"
        );
        let (_, message) = noted(&[("ssl-cert", Example::CERTIFICATE), ("ssl-ports", "80,https")]).remove(0);
        assert!(message.contains("https is no port of the Service"), "{message}");
    }
    let request = read(&classic(&[("proxy-protocol", "*"), ("eip-allocations", "eipalloc-1")])).unwrap();
    let notes: Vec<&str> = request.notes.iter().map(|note| note.message.as_str()).collect();
    assert!(notes.len() == 1 && notes[0].contains("eip-allocations is for network load balancers"), "{notes:?}");
    for kind in ["NLB", "clb", ""] {
        let request = read(&annotated(&[("type", kind)])).unwrap();
        assert_eq!(request.notes[0].reason, "LoadBalancerTypeNotKnown", "{kind:?}");
    }
    for kind in ["external", "nlb-ip"] {
        assert_eq!(Request::read(&service("web", &annotated(&[("type", kind), ("scheme", "internal")]))), Ok(None));
    }
    let mut all: Vec<&str> = READ.iter().chain(NO_EFFECT).chain(REFUSED).copied().collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "each is in one list");
}

#[test]
fn the_kind_is_not_guessed_from_the_host_name() {
    for host in [
        "a1.elb.us-east-1.amazonaws.com",
        "a1.us-east-1.elb.amazonaws.com",
        "a1.cn-north-1.elb.amazonaws.com.cn",
        "a1.elb.cn-north-1.amazonaws.com.cn",
    ] {
        let status = json!({"status": {"loadBalancer": {"ingress": [{"hostname": host}]}}});
        for mut change in [json!({}), classic(&[])] {
            change["status"] = status["status"].clone();
            assert!(read(&change).is_ok(), "{host}");
        }
    }
}

#[test]
fn nodes_are_chosen_by_their_labels() {
    let node = |number: usize, labels: Value| -> Arc<Node> {
        let object = json!({"metadata": {"name": format!("n{number}"), "labels": labels}, "spec": {"providerID": format!("aws:///z/i-{number}")}});
        Arc::new(serde_json::from_value(object).unwrap())
    };
    let all = [
        node(1, json!({"role": "web", "zone": "a"})),
        node(2, json!({"role": "web"})),
        node(3, json!({"role": "db", "zone": ""})),
        node(4, Value::Null),
    ];
    for (text, expected) in [
        ("", &["i-1", "i-2", "i-3", "i-4"][..]),
        ("role=web", &["i-1", "i-2"]),
        ("role=web,zone=a", &["i-1"]),
        ("zone=", &["i-1", "i-3"]),
        ("zone", &["i-1", "i-3"]),
        ("role=cache", &[]),
    ] {
        let labels = read(&annotated(&[("target-node-labels", text)])).unwrap().annotations.node_labels;
        let chosen: Vec<String> = nodes::instances(&all, &labels).into_iter().collect();
        assert_eq!(chosen, expected, "{text:?}");
    }
    let unready = [node(5, json!({})), Arc::new(Node::default())];
    assert_eq!(nodes::instances(&unready, &BTreeMap::new()).len(), 1, "one without provider id is left out");
}

#[test]
fn whose_something_is_by_its_tags() {
    let cluster = settings().cluster;
    let owner = Owner { namespace: "ns".into(), name: "web".into(), uid: "u".into() };
    let (ours, service) = ("kubernetes.io/cluster/example", "kubernetes.io/service-name");
    /// Tags; whether the cluster owns it, whether it owns it for the Service, whether somebody else claims it.
    type Row<'a> = (&'a [(&'a str, &'a str)], bool, bool, bool);
    let rows: &[Row<'_>] = &[
        (&[], false, false, false),
        (&[("team", "a")], false, false, false),
        (&[(ours, "owned")], true, false, false),
        (&[(ours, "owned"), (service, "ns/web")], true, true, false),
        (&[(ours, "owned"), (service, "ns/other")], true, false, true),
        (&[(ours, "shared"), (service, "ns/web")], false, false, true),
        (&[("kubernetes.io/cluster/other", "owned"), (service, "ns/web")], false, false, true),
        (&[("kubernetes.io/cluster/other", "owned"), (ours, "owned")], true, false, true),
        (&[("kubernetes.io/cluster/other", "owned"), (ours, "owned"), (service, "ns/web")], true, true, false),
        (&[("KubernetesCluster", "example"), (service, "ns/web")], true, true, false),
        (&[("KubernetesCluster", "other"), (service, "ns/web")], false, false, true),
        (&[(service, "ns/web")], false, false, false),
        (&[(ours, "owned"), (service, "ns/web"), (IDENTITY_TAG, "0c1d-kube-system")], true, true, false),
        (&[(ours, "owned"), (service, "ns/web"), (IDENTITY_TAG, "another")], false, false, true),
    ];
    for (tags, owns, for_service, claimed) in rows {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(cluster.owns(&tags), *owns, "{tags:?}");
        assert_eq!(cluster.owns_for(&tags, &owner), *for_service, "{tags:?}");
        assert_eq!(cluster.is_claimed(&tags, &owner), *claimed, "{tags:?}");
    }
    let tags = cluster.tags(&owner, &[].into());
    assert!(
        !cluster.shares(&tags) && cluster.shares(&[("kubernetes.io/cluster/other".into(), "shared".into())].into())
    );
    for (name, made) in [
        (owner.network_group("kubernetes"), true),
        (owner.classic_group(), true),
        ("k8s-ns-web-0123456789".to_owned(), true),
        ("k8s-ns-web-perimeter0".to_owned(), false),
        ("k8s-ns-web-01234".to_owned(), false),
        ("web".to_owned(), false),
    ] {
        assert_eq!(cluster.made_for(&name, &tags), made.then_some("ns/web"), "{name}");
        assert_eq!(cluster.made_for(&name, &[(service.to_owned(), "ns/web".to_owned())].into()), None, "{name}");
    }
    let legacy = Cluster { legacy_tag: true, ..cluster };
    let tags =
        legacy.tags(&owner, &[(service.to_owned(), "mine".to_owned()), ("a".to_owned(), "b=c".to_owned())].into());
    assert_eq!(tags[service], "ns/web", "ours win");
    assert_eq!((tags["a"].as_str(), tags["KubernetesCluster"].as_str()), ("b=c", "example"));
}

#[test]
fn names_are_short_and_differ_with_the_uid() {
    let owner = |uid: &str| Owner { namespace: "a-very-long-namespace".into(), name: "w".into(), uid: uid.into() };
    let name = owner("one").network_group("c");
    assert!(name.starts_with("k8s-averylon-w-"), "{name}");
    assert_eq!(name, owner("one").network_group("c"));
    assert_ne!(name, owner("two").network_group("c"));
    assert_ne!(name, owner("one").network_group("d"));
    assert!(owner("0123456789-0123456789-0123456789-0123456789").load_balancer().len() <= 32);
}
