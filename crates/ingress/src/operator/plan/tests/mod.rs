//! The tables of what stands in front of routers: PROXY protocol, the load balancer Service with its classes of changes, records.

mod changes;
mod load_balancer;
mod rollout;
mod router;

use super::{
    balancer::{self, annotation},
    change, environment, progress, proxy_protocol, record, services,
};
use crate::operator::{names, testing::Case};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const NLB: &str = "NLB";
pub(super) const CLASSIC: &str = "Classic";
const FAMILIES: [&str; 3] = ["IPv4", "DualStackIPv4Primary", "DualStackIPv6Primary"];

pub(super) fn balanced(kind: &str, more: Value) -> Case {
    let block = if kind == NLB { "networkLoadBalancer" } else { "classicLoadBalancer" };
    Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "providerParameters": {
        "type": "AWS", "aws": {"type": kind, (block): more},
    }}}))
    .on("AWS")
}

pub(super) fn service(value: Value) -> Service {
    serde_json::from_value(value).unwrap()
}

/// A live Service of this type, as the operator made it.
pub(super) fn live(kind: &str, family: &str) -> Service {
    live_of(&balanced(kind, json!({})).family(family))
}

pub(super) fn live_of(case: &Case) -> Service {
    balancer::wanted(case.input(), None).unwrap()
}

pub(super) fn spec(service: &Service) -> Value {
    serde_json::to_value(service.spec.as_ref().unwrap()).unwrap()
}

pub(super) fn annotations(service: &Service) -> BTreeMap<String, String> {
    let short = |key: &String| {
        key.trim_start_matches("service.beta.kubernetes.io/").trim_start_matches("aws-load-balancer-").to_owned()
    };
    let shown = service.annotations().iter().filter(|(key, _)| *key != annotation::LOCAL_WITH_FALLBACK);
    shown.map(|(key, value)| (short(key), value.clone())).collect()
}

pub(super) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn families_of_a_load_balancer_follow_the_cluster_and_the_type() {
    let nothing = (Value::Null, Value::Null);
    let dual = |list: Value| (json!("RequireDualStack"), list);
    let single = || (json!("SingleStack"), json!(["IPv4"]));
    for (family, kind, expected) in [
        ("IPv4", NLB, nothing.clone()),
        ("IPv4", CLASSIC, nothing.clone()),
        ("DualStackIPv4Primary", NLB, dual(json!(["IPv4", "IPv6"]))),
        ("DualStackIPv6Primary", NLB, dual(json!(["IPv6", "IPv4"]))),
        ("DualStackIPv4Primary", CLASSIC, single()),
        ("DualStackIPv6Primary", CLASSIC, single()),
    ] {
        let spec = spec(&live(kind, family));
        assert_eq!((spec["ipFamilyPolicy"].clone(), spec["ipFamilies"].clone()), expected, "{kind} on {family}");
    }
    // Not said at all is classic; another platform has no such families, whatever its block for AWS says.
    let implicit = Case::strategy(json!({"type": "LoadBalancerService"})).on("AWS").family("DualStackIPv6Primary");
    assert_eq!(spec(&live_of(&implicit))["ipFamilies"], json!(["IPv4"]));
    let elsewhere = balanced(NLB, json!({})).on("GCP").family("DualStackIPv4Primary");
    assert_eq!(spec(&live_of(&elsewhere))["ipFamilies"], Value::Null);
    let bare = Case::strategy(json!({"type": "LoadBalancerService"})).on("None");
    assert_eq!(spec(&live_of(&bare))["ipFamilyPolicy"], Value::Null);
    assert_eq!(spec(&live_of(&bare.pods(&["fd01::/48", "10.128.0.0/14"])))["ipFamilyPolicy"], "PreferDualStack");
    let plain = Case::strategy(json!({"type": "NodePortService"})).on("AWS").family("DualStackIPv6Primary");
    for other in [services::node_port(plain.input()).unwrap(), services::internal(plain.input())] {
        assert_eq!(spec(&other)["ipFamilies"], Value::Null);
    }
}

#[test]
fn annotations_on_aws() {
    let common = [
        ("healthcheck-timeout", "4"),
        ("healthcheck-unhealthy-threshold", "2"),
        ("healthcheck-healthy-threshold", "2"),
    ];
    let with = |more: &[(&str, &str)]| map(&[&common[..], more].concat());
    let classic = [("proxy-protocol", "*"), ("healthcheck-interval", "5")];
    let nlb = [("type", "nlb"), ("healthcheck-interval", "10")];
    let plain = ("target-group-attributes", "preserve_client_ip.enabled=true,proxy_protocol_v2.enabled=false");
    let proxy = ("target-group-attributes", "preserve_client_ip.enabled=false,proxy_protocol_v2.enabled=true");
    let subnets = json!({"ids": ["subnet-0a", "subnet-0b"], "names": ["one"]});
    let listed = ("subnets", "subnet-0a,subnet-0b,one");
    let (add, both) = (|base: &[(&str, &str)], more: &[(&str, &str)]| with(&[base, more].concat()), [nlb[0], nlb[1]]);
    for (what, case, expected) in [
        ("classic", balanced(CLASSIC, json!({})), add(&classic, &[])),
        ("nlb", balanced(NLB, json!({})), add(&both, &[plain])),
        ("nlb TCP", balanced(NLB, json!({"protocol": "TCP"})), add(&both, &[plain])),
        ("nlb PROXY", balanced(NLB, json!({"protocol": "PROXY"})), add(&both, &[proxy])),
        ("classic subnets", balanced(CLASSIC, json!({"subnets": subnets})), add(&classic, &[listed])),
        ("nlb subnets", balanced(NLB, json!({"subnets": subnets})), add(&both, &[plain, listed])),
        (
            "nlb addresses",
            balanced(NLB, json!({"eipAllocations": ["eipalloc-1", "eipalloc-2"]})),
            add(&both, &[plain, ("eip-allocations", "eipalloc-1,eipalloc-2")]),
        ),
        ("internal", balanced(CLASSIC, json!({})).internal(), add(&classic, &[("internal", "true")])),
        (
            "tags",
            balanced(CLASSIC, json!({})).tags(&[("a", "b"), ("", "dropped"), ("c", "")]),
            add(&classic, &[("additional-resource-tags", "a=b,c=")]),
        ),
    ] {
        assert_eq!(annotations(&live_of(&case)), expected, "{what}");
    }
    // One that was made before there was a protocol to choose keeps what somebody may have set by hand.
    let old = balanced(NLB, json!({})).admitted_as(NLB, json!({}));
    assert_eq!(annotations(&live_of(&old)), add(&both, &[]));
}

#[test]
fn idle_timeouts_are_whole_seconds_above_nothing() {
    for (given, expected) in [
        (json!({}), None),
        (json!({"connectionIdleTimeout": "0s"}), None),
        (json!({"connectionIdleTimeout": "-5s"}), None),
        (json!({"connectionIdleTimeout": "5s"}), Some("5")),
        (json!({"connectionIdleTimeout": "1h"}), Some("3600")),
        (json!({"connectionIdleTimeout": "1m30.5s"}), Some("90")),
    ] {
        let service = live_of(&balanced(CLASSIC, given.clone()));
        assert_eq!(service.annotations().get(annotation::AWS_IDLE).map(String::as_str), expected, "{given}");
    }
}

#[test]
fn annotations_on_other_platforms() {
    let case = |platform: &str, scope: &str, parameters: Value| {
        let balancer = match parameters.is_null() {
            true => json!({"scope": scope}),
            false => json!({"scope": scope, "providerParameters": parameters}),
        };
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": balancer})).on(platform)
    };
    for (platform, scope, parameters, expected) in [
        ("Azure", "Internal", Value::Null, map(&[("azure-load-balancer-internal", "true")])),
        ("Azure", "External", Value::Null, map(&[])),
        ("GCP", "Internal", Value::Null, map(&[(annotation::GCP_TYPE, "Internal")])),
        (
            "GCP",
            "Internal",
            json!({"type": "GCP", "gcp": {"clientAccess": "Global"}}),
            map(&[(annotation::GCP_TYPE, "Internal"), (annotation::GCP_GLOBAL, "true")]),
        ),
        ("IBMCloud", "External", Value::Null, map(&[(annotation::IBM_IP_TYPE, "public")])),
        (
            "PowerVS",
            "Internal",
            json!({"type": "IBM", "ibm": {"protocol": "PROXY"}}),
            map(&[(annotation::IBM_IP_TYPE, "private"), (annotation::IBM_FEATURES, "proxy-protocol")]),
        ),
        ("OpenStack", "Internal", Value::Null, map(&[("openstack-internal-load-balancer", "true")])),
    ] {
        let service = live_of(&case(platform, scope, parameters));
        assert_eq!(annotations(&service), expected, "{platform} {scope}");
        let local = !matches!(platform, "IBMCloud" | "PowerVS");
        assert_eq!(spec(&service)["externalTrafficPolicy"], if local { "Local" } else { "Cluster" }, "{platform}");
        assert_eq!(service.annotations().contains_key(annotation::LOCAL_WITH_FALLBACK), local, "{platform}");
    }
    let floating = json!({"type": "OpenStack", "openstack": {"floatingIP": "192.0.2.9"}});
    assert_eq!(spec(&live_of(&case("OpenStack", "External", floating)))["loadBalancerIP"], "192.0.2.9");
    for kind in ["NodePortService", "HostNetwork", "Private"] {
        assert!(balancer::wanted(Case::strategy(json!({"type": kind})).on("AWS").input(), None).is_none(), "{kind}");
    }
}

#[test]
fn routers_expect_the_proxy_protocol_of_what_stands_in_front_of_them() {
    let plain = |kind: &str, block: &str, protocol: Option<&str>| {
        let mut strategy = json!({"type": kind});
        if let Some(protocol) = protocol {
            strategy[block] = json!({"protocol": protocol});
        }
        Case::strategy(strategy).on("None")
    };
    let mut table = Vec::new();
    for (kind, block) in [("HostNetwork", "hostNetwork"), ("NodePortService", "nodePort"), ("Private", "private")] {
        for (protocol, expected) in [(None, false), (Some(""), false), (Some("TCP"), false), (Some("PROXY"), true)] {
            table.push((format!("{kind} {protocol:?}"), plain(kind, block, protocol), None, expected));
        }
    }
    let nlb = |protocol: &str| balanced(NLB, json!({"protocol": protocol}));
    let sending = live_of(&nlb("PROXY"));
    let ibm = |platform: &str, protocol: &str| {
        let parameters = json!({"type": "IBM", "ibm": {"protocol": protocol}});
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "providerParameters": parameters}}))
            .on(platform)
    };
    let bare = |platform: &str| Case::strategy(json!({"type": "LoadBalancerService"})).on(platform);
    table.extend([
        ("classic".to_owned(), balanced(CLASSIC, json!({})), None, true),
        ("classic by default".to_owned(), bare("AWS"), None, true),
        ("nlb".to_owned(), balanced(NLB, json!({})), None, false),
        ("nlb TCP".to_owned(), nlb("TCP"), None, false),
        ("nlb PROXY".to_owned(), nlb("PROXY"), None, true),
        ("nlb, no protocol said before".to_owned(), balanced(NLB, json!({})).admitted_as(NLB, json!({})), None, false),
        ("nlb PROXY wanted, classic live".to_owned(), nlb("PROXY"), Some(live(CLASSIC, "IPv4")), true),
        ("nlb TCP wanted, nlb with PROXY live".to_owned(), nlb("TCP"), Some(sending.clone()), false),
        ("nlb PROXY wanted, nlb with TCP live".to_owned(), nlb("PROXY"), Some(live(NLB, "IPv4")), true),
        (
            "classic wanted, nlb live but replaced at once".to_owned(),
            balanced(CLASSIC, json!({})).annotated(names::AUTO_DELETE),
            Some(live(NLB, "IPv4")),
            true,
        ),
        ("nlb wanted, classic live".to_owned(), nlb("TCP"), Some(live(CLASSIC, "IPv4")), true),
        ("classic wanted, nlb live".to_owned(), balanced(CLASSIC, json!({})), Some(live(NLB, "IPv4")), false),
        ("classic wanted, nlb with PROXY live".to_owned(), balanced(CLASSIC, json!({})), Some(sending), true),
        (
            "nlb wanted, classic live but replaced at once".to_owned(),
            nlb("TCP").annotated(names::AUTO_DELETE),
            Some(live(CLASSIC, "IPv4")),
            false,
        ),
        ("IBMCloud PROXY".to_owned(), ibm("IBMCloud", "PROXY"), None, true),
        ("PowerVS PROXY".to_owned(), ibm("PowerVS", "PROXY"), None, true),
        ("IBMCloud TCP".to_owned(), ibm("IBMCloud", "TCP"), None, false),
        ("Azure".to_owned(), bare("Azure"), None, false),
        ("GCP".to_owned(), bare("GCP"), None, false),
    ]);
    for (what, case, live, expected) in table {
        assert_eq!(proxy_protocol::needed(case.input(), live.as_ref()), Ok(expected), "{what}");
        let environment = environment::environment(case.input(), live.as_ref()).unwrap();
        let variable = environment.get("ROUTER_USE_PROXY_PROTOCOL").map(String::as_str);
        assert_eq!(variable, expected.then_some("true"), "{what}: present only when it is on");
    }
    let unknown = Case::strategy(json!({"type": "Private"}));
    assert!(proxy_protocol::needed(unknown.input(), None).is_err());
}

#[test]
fn tunnels_end_before_a_network_load_balancer_forgets_them() {
    let given = json!({"tunnelTimeout": "2h"});
    for (what, case, live, expected) in [
        ("nlb", balanced(NLB, json!({})), None, Some("349s")),
        ("classic", balanced(CLASSIC, json!({})), None, None),
        ("nlb live, classic wanted", balanced(CLASSIC, json!({})), Some(live(NLB, "IPv4")), Some("349s")),
        ("classic live, nlb wanted", balanced(NLB, json!({})), Some(live(CLASSIC, "IPv4")), None),
        ("given", balanced(NLB, json!({})).tuned(given.clone()), None, Some("7200s")),
        ("given, classic", balanced(CLASSIC, json!({})).tuned(given.clone()), None, Some("7200s")),
        ("given, classic live", balanced(NLB, json!({})).tuned(given), Some(live(CLASSIC, "IPv4")), Some("7200s")),
        ("nothing given", balanced(NLB, json!({})).tuned(json!({"tunnelTimeout": "0s"})), None, Some("349s")),
        ("nlb with PROXY", balanced(NLB, json!({"protocol": "PROXY"})), None, Some("349s")),
        (
            "classic live but replaced at once",
            balanced(NLB, json!({})).annotated(names::AUTO_DELETE),
            Some(live(CLASSIC, "IPv4")),
            Some("349s"),
        ),
        ("by a NodePort", Case::strategy(json!({"type": "NodePortService"})).on("AWS"), None, None),
        ("elsewhere", Case::strategy(json!({"type": "LoadBalancerService"})).on("GCP"), None, None),
    ] {
        let environment = environment::environment(case.input(), live.as_ref()).unwrap();
        assert_eq!(environment.get("ROUTER_DEFAULT_TUNNEL_TIMEOUT").map(String::as_str), expected, "{what}");
    }
}

/// Which drifts of a live load balancer Service are put right, and which are left to whoever made them.
#[test]
fn drift_of_a_live_load_balancer_service() {
    type Drift = fn(&mut Service);
    let acted_on: [(&str, Drift); 7] = [
        ("interval changed", |live| drop(live.annotations_mut().insert(annotation::AWS_INTERVAL.into(), "30".into()))),
        ("interval deleted", |live| drop(live.annotations_mut().remove(annotation::AWS_INTERVAL))),
        ("fallback deleted", |live| drop(live.annotations_mut().remove(annotation::LOCAL_WITH_FALLBACK))),
        ("tags added", |live| drop(live.annotations_mut().insert(annotation::AWS_TAGS.into(), "a=b".into()))),
        ("target group changed", |live| {
            drop(live.annotations_mut().insert(annotation::AWS_TARGET_GROUP.into(), "x=y".into()))
        }),
        ("second family lost", |live| live.spec.as_mut().unwrap().ip_families = Some(vec!["IPv4".into()])),
        ("policy changed", |live| live.spec.as_mut().unwrap().ip_family_policy = Some("PreferDualStack".into())),
    ];
    let left: [(&str, Drift); 14] = [
        ("nothing", |_| {}),
        ("uid", |live| live.metadata.uid = Some("2".into())),
        ("cluster IP", |live| live.spec.as_mut().unwrap().cluster_ip = Some("10.0.0.1".into())),
        ("external IPs", |live| live.spec.as_mut().unwrap().external_ips = Some(vec!["192.0.2.1".into()])),
        ("traffic policy", |live| live.spec.as_mut().unwrap().external_traffic_policy = Some("Cluster".into())),
        ("health port", |live| live.spec.as_mut().unwrap().health_check_node_port = Some(32000)),
        ("ports", |live| live.spec.as_mut().unwrap().ports.as_mut().unwrap().truncate(1)),
        ("selector", |live| live.spec.as_mut().unwrap().selector = None),
        ("affinity", |live| live.spec.as_mut().unwrap().session_affinity = Some("ClientIP".into())),
        ("address", |live| live.spec.as_mut().unwrap().load_balancer_ip = Some("192.0.2.1".into())),
        ("source ranges", |live| {
            live.spec.as_mut().unwrap().load_balancer_source_ranges = Some(vec!["192.0.2.0/24".into()])
        }),
        ("old source ranges", |live| {
            drop(live.annotations_mut().insert(annotation::SOURCE_RANGES.into(), "10.0.0.0/8".into()))
        }),
        ("subnets", |live| drop(live.annotations_mut().insert(annotation::AWS_SUBNETS.into(), "subnet-1".into()))),
        ("own annotation", |live| drop(live.annotations_mut().insert("example.test/mine".into(), "x".into()))),
    ];
    let case = balanced(NLB, json!({})).family("DualStackIPv4Primary");
    for (drifts, acted) in [(&acted_on[..], true), (&left[..], false)] {
        for (what, drift) in drifts {
            let mut live = live(NLB, "DualStackIPv4Primary");
            drift(&mut live);
            let wanted = balancer::wanted(case.input(), Some(&live)).unwrap();
            let new = change::update(case.input(), &live, &wanted);
            assert_eq!(new.is_some(), acted, "{what}");
            // Once it is written there is nothing more to write.
            assert!(new.is_none_or(|new| change::update(case.input(), &new, &wanted).is_none()), "{what}, again");
        }
    }
    // Set by hand on one from before there was a choice: not taken away.
    let old = balanced(NLB, json!({})).admitted_as(NLB, json!({}));
    let mut by_hand = live_of(&old);
    by_hand.annotations_mut().insert(annotation::AWS_TARGET_GROUP.into(), "proxy_protocol_v2.enabled=true".into());
    let wanted = balancer::wanted(old.input(), Some(&by_hand)).unwrap();
    assert!(change::update(old.input(), &by_hand, &wanted).is_none());
}

#[test]
fn source_ranges_are_replaced_only_where_they_are_asked_for() {
    let asked = Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {
        "scope": "External", "allowedSourceRanges": ["192.0.2.0/24", "2001:db8::/32"],
    }}))
    .on("AWS");
    let mut live = live(CLASSIC, "IPv4");
    live.annotations_mut().insert(annotation::SOURCE_RANGES.into(), "10.0.0.0/8".into());
    let new = change::update(asked.input(), &live, &balancer::wanted(asked.input(), Some(&live)).unwrap()).unwrap();
    assert_eq!(spec(&new)["loadBalancerSourceRanges"], json!(["192.0.2.0/24", "2001:db8::/32"]));
    assert!(!new.annotations().contains_key(annotation::SOURCE_RANGES));
}

/// Decision: until the administrator has replaced it, the live one is left as it is, families and health checks included.
#[test]
fn a_pending_change_of_the_type_leaves_the_live_service_alone() {
    for family in FAMILIES {
        for (from, to) in [(NLB, CLASSIC), (CLASSIC, NLB)] {
            let live = live(from, family);
            for protocol in ["TCP", "PROXY"] {
                let more = if to == NLB { json!({"protocol": protocol}) } else { json!({}) };
                let case = balanced(to, more).family(family);
                let wanted = balancer::wanted(case.input(), Some(&live)).unwrap();
                assert_eq!(change::update(case.input(), &live, &wanted), None, "{from} to {to} on {family}");
                assert_eq!(annotations(&wanted), annotations(&live), "{from} to {to} on {family}");
                assert_eq!(spec(&wanted), spec(&live), "{from} to {to} on {family}");
                let found = progress::differences(case.input(), &live);
                assert!(matches!(found[..], [progress::Difference::Kind(..)]), "{found:?}");
                let message = progress::message(case.input(), &found[0]);
                assert!(message.contains("oc -n openshift-ingress delete svc/router-default"), "{message}");
                assert!(message.contains(&format!(r#""type":"{from}""#)), "{message}");
                let warns = message.contains("does not support dual-stack") && message.contains(family);
                assert_eq!(warns, to == CLASSIC && family != "IPv4", "{from} to {to} on {family}: {message}");
            }
            // Replaced without asking: the new one is what counts.
            let case = balanced(to, json!({})).family(family).annotated(names::AUTO_DELETE);
            let wanted = balancer::wanted(case.input(), Some(&live)).unwrap();
            assert_eq!(wanted.annotations().contains_key(annotation::AWS_TYPE), to == NLB);
        }
    }
}

#[test]
fn what_only_a_new_load_balancer_can_bring() {
    let subnets = |ids: &[&str]| json!({"subnets": {"ids": ids}});
    let with = |kind: &str, key: &str, value: &str| {
        let mut live = live(kind, "IPv4");
        live.annotations_mut().insert(key.to_owned(), value.to_owned());
        live
    };
    let internal = || with(CLASSIC, annotation::AWS_INTERNAL, "true");
    let azure =
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "Internal"}})).on("Azure");
    for (what, case, live, differs, in_place) in [
        ("the same", balanced(CLASSIC, json!({})), live(CLASSIC, "IPv4"), false, false),
        ("scope", balanced(CLASSIC, json!({})), internal(), true, false),
        (
            "old word for internal",
            balanced(CLASSIC, json!({})).internal(),
            with(CLASSIC, annotation::AWS_INTERNAL, "0.0.0.0/0"),
            false,
            false,
        ),
        ("scope on Azure", azure, service(json!({"spec": {}})), true, true),
        ("subnets", balanced(NLB, subnets(&["subnet-1"])), live(NLB, "IPv4"), true, false),
        (
            "subnets in another order",
            balanced(NLB, subnets(&["subnet-1", "subnet-2"])),
            with(NLB, annotation::AWS_SUBNETS, "subnet-2, subnet-1"),
            false,
            false,
        ),
        ("subnets by hand", balanced(NLB, json!({})), with(NLB, annotation::AWS_SUBNETS, "subnet-2"), true, false),
        ("addresses", balanced(NLB, json!({"eipAllocations": ["eipalloc-1"]})), live(NLB, "IPv4"), true, false),
        (
            "first family",
            balanced(NLB, json!({})).family("DualStackIPv6Primary"),
            live(NLB, "DualStackIPv4Primary"),
            true,
            false,
        ),
        ("second family", balanced(NLB, json!({})).family("DualStackIPv4Primary"), live(NLB, "IPv4"), false, false),
    ] {
        let found = progress::differences(case.input(), &live);
        assert_eq!(!found.is_empty(), differs, "{what}: {found:?}");
        for difference in &found {
            assert_eq!(progress::changes_in_place(case.input(), difference), in_place, "{what}");
            let message = progress::message(case.input(), difference);
            assert_eq!(message.contains("delete svc/router-default"), !in_place, "{what}: {message}");
        }
    }
}

#[test]
fn a_plain_service_keeps_what_was_allocated() {
    let case = Case::strategy(json!({"type": "NodePortService"})).on("None");
    let wanted = services::node_port(case.input()).unwrap();
    let mut live = wanted.clone();
    let spec = live.spec.as_mut().unwrap();
    spec.cluster_ips = Some(vec!["10.0.0.1".into(), "fd00::1".into()]);
    spec.ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
    spec.ports.as_mut().unwrap()[0].node_port = Some(30080);
    spec.health_check_node_port = Some(32000);
    assert!(services::update(&live, &wanted).is_none(), "what the API server gave is no drift");
    live.spec.as_mut().unwrap().ports.as_mut().unwrap().retain(|port| port.name.as_deref() != Some("metrics"));
    assert!(services::update(&live, &wanted).is_none(), "the metrics port is not added again");
    live.spec.as_mut().unwrap().selector = Some(BTreeMap::from([("a".into(), "b".into())]));
    let new = services::update(&live, &wanted).unwrap();
    assert_eq!(new.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port, Some(30080));
    assert_eq!(new.spec.as_ref().unwrap().cluster_ips, live.spec.as_ref().unwrap().cluster_ips);
    assert!(services::update(&new, &wanted).is_none());
    let internal = services::internal(case.input());
    assert_eq!(internal.spec.as_ref().unwrap().ports.as_ref().unwrap().len(), 3);
}

#[test]
fn a_record_leads_to_what_the_load_balancer_says() {
    let case = || balanced(NLB, json!({}));
    let with = |ingress: Value| service(json!({"status": {"loadBalancer": {"ingress": ingress}}}));
    for (what, case, service, expected) in [
        ("a host name", case(), with(json!([{"hostname": "a.elb.test"}])), Some(("CNAME", json!(["a.elb.test"])))),
        ("IPv4", case(), with(json!([{"ip": "192.0.2.1"}])), Some(("A", json!(["192.0.2.1"])))),
        ("IPv6", case(), with(json!([{"ip": "2001:db8::1"}])), Some(("AAAA", json!(["2001:db8::1"])))),
        (
            "both",
            case(),
            with(json!([{"ip": "2001:db8::1"}, {"ip": "192.0.2.1"}])),
            Some(("A", json!(["2001:db8::1", "192.0.2.1"]))),
        ),
        ("nothing yet", case(), with(json!([])), None),
        ("no domain", case().domain(""), with(json!([{"ip": "192.0.2.1"}])), None),
        (
            "no load balancer",
            Case::strategy(json!({"type": "Private"})).on("AWS"),
            with(json!([{"ip": "192.0.2.1"}])),
            None,
        ),
    ] {
        let record = record::wanted(case.input(), Some(&service)).map(|record| serde_json::to_value(record).unwrap());
        let shown = record
            .as_ref()
            .map(|record| (record["spec"]["recordType"].as_str().unwrap(), record["spec"]["targets"].clone()));
        assert_eq!(shown, expected, "{what}");
        if let Some(record) = record {
            assert_eq!(record["spec"]["dnsName"], "*.apps.example.test.");
            assert_eq!(record["spec"]["recordTTL"], 30);
            assert_eq!(record["spec"]["dnsManagementPolicy"], "Managed");
        }
    }
}
