//! Which drifts of live Services are put right: the load balancer's, the NodePort's, the internal one's; whose a Service is.

use super::super::{
    balancer::{self, annotation},
    change, live as of_live, services,
    tests::{CLASSIC, NLB, balanced, live, live_of, service, spec},
};
use crate::operator::testing::Case;
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::util::intstr::IntOrString};
use kube::ResourceExt;
use serde_json::{Value, json};

type Drift = fn(&mut Service);

fn set(live: &mut Service, key: &str, value: &str) {
    live.annotations_mut().insert(key.to_owned(), value.to_owned());
}

fn inner(live: &mut Service) -> &mut k8s_openapi::api::core::v1::ServiceSpec {
    live.spec.as_mut().unwrap()
}

#[test]
fn drift_that_is_put_right_or_left_by_type() {
    let idle = || balanced(CLASSIC, json!({"connectionIdleTimeout": "2m"}));
    let tagged = || balanced(CLASSIC, json!({})).tags(&[("a", "b")]);
    let ranged = || {
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "allowedSourceRanges": ["2001:db8::/32"]}})).on("AWS")
    };
    let ibm = || {
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "providerParameters": {"type": "IBM", "ibm": {"protocol": "PROXY"}}}}))
            .on("IBMCloud")
    };
    let google = || {
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "Internal", "providerParameters": {"type": "GCP", "gcp": {"clientAccess": "Global"}}}}))
            .on("GCP")
    };
    let azure =
        || Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "Internal"}})).on("Azure");
    let table: [(&str, Case, Drift, bool); 26] = [
        ("idle timeout deleted", idle(), |live| drop(live.annotations_mut().remove(annotation::AWS_IDLE)), true),
        ("idle timeout changed", idle(), |live| set(live, annotation::AWS_IDLE, "9"), true),
        ("idle timeout by hand", balanced(CLASSIC, json!({})), |live| set(live, annotation::AWS_IDLE, "9"), true),
        ("tags changed", tagged(), |live| set(live, annotation::AWS_TAGS, "a=c"), true),
        ("tags deleted", tagged(), |live| drop(live.annotations_mut().remove(annotation::AWS_TAGS)), true),
        (
            "proxy deleted",
            balanced(CLASSIC, json!({})),
            |live| drop(live.annotations_mut().remove(annotation::AWS_PROXY)),
            true,
        ),
        ("proxy on an nlb", balanced(NLB, json!({})), |live| set(live, annotation::AWS_PROXY, "*"), true),
        (
            "attributes deleted",
            balanced(NLB, json!({})),
            |live| drop(live.annotations_mut().remove(annotation::AWS_TARGET_GROUP)),
            true,
        ),
        (
            "attributes on a classic one",
            balanced(CLASSIC, json!({})),
            |live| set(live, annotation::AWS_TARGET_GROUP, "a=b"),
            false,
        ),
        ("fallback changed", balanced(NLB, json!({})), |live| set(live, annotation::LOCAL_WITH_FALLBACK, "x"), true),
        (
            "source ranges changed",
            ranged(),
            |live| inner(live).load_balancer_source_ranges = Some(vec!["::/0".into()]),
            true,
        ),
        ("source ranges deleted", ranged(), |live| inner(live).load_balancer_source_ranges = None, true),
        (
            "old word for internal",
            balanced(CLASSIC, json!({})).internal(),
            |live| set(live, annotation::AWS_INTERNAL, "0.0.0.0/0"),
            true,
        ),
        ("features of IBM", ibm(), |live| drop(live.annotations_mut().remove(annotation::IBM_FEATURES)), true),
        ("address type of IBM", ibm(), |live| set(live, annotation::IBM_IP_TYPE, "private"), false),
        ("global access", google(), |live| set(live, annotation::GCP_GLOBAL, "false"), true),
        ("scope of Google", google(), |live| drop(live.annotations_mut().remove(annotation::GCP_TYPE)), true),
        ("scope of Azure", azure(), |live| drop(live.annotations_mut().remove(annotation::AZURE_INTERNAL)), true),
        ("scope of AWS", balanced(CLASSIC, json!({})), |live| set(live, annotation::AWS_INTERNAL, "true"), false),
        ("addresses", balanced(NLB, json!({})), |live| set(live, annotation::AWS_EIP, "eipalloc-1"), false),
        ("thresholds", balanced(NLB, json!({})), |live| set(live, annotation::AWS_HEALTHY, "9"), false),
        ("health timeout", balanced(NLB, json!({})), |live| set(live, annotation::AWS_TIMEOUT, "9"), false),
        ("type", balanced(NLB, json!({})), |live| inner(live).type_ = Some("ClusterIP".into()), false),
        (
            "node port",
            balanced(NLB, json!({})),
            |live| inner(live).ports.as_mut().unwrap()[0].node_port = Some(30000),
            false,
        ),
        (
            "families that the API server chose",
            balanced(NLB, json!({})),
            |live| {
                inner(live).ip_families = Some(vec!["IPv6".into()]);
                inner(live).ip_family_policy = Some("SingleStack".into());
            },
            false,
        ),
        ("groups by hand", balanced(NLB, json!({})), |live| set(live, annotation::AWS_GROUPS, "sg-1"), false),
    ];
    for (what, case, drift, acted) in table {
        let mut live = live_of(&case);
        drift(&mut live);
        let wanted = balancer::wanted(case.input(), Some(&live)).unwrap();
        let new = change::update(case.input(), &live, &wanted);
        assert_eq!(new.is_some(), acted, "{what}");
        assert!(new.is_none_or(|new| change::update(case.input(), &new, &wanted).is_none()), "{what}, again");
    }
}

#[test]
fn source_ranges() {
    let (four, six) = ("192.0.2.0/24", "2001:db8::/32");
    let asked = |ranges: Value| {
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "allowedSourceRanges": ranges}})).on("AWS")
    };
    for (what, spec_ranges, live_ranges, live_annotation, expected, keeps_annotation) in [
        ("nothing anywhere", json!(null), json!(null), None, json!(null), false),
        ("asked for", json!([four, six]), json!(null), None, json!([four, six]), false),
        ("asked for over others", json!([four]), json!([six]), None, json!([four]), false),
        ("asked for over the old annotation", json!([six]), json!(null), Some("10.0.0.0/8"), json!([six]), false),
        ("asked for over both", json!([six]), json!([four]), Some("10.0.0.0/8"), json!([six]), false),
        ("as they are", json!([four, six]), json!([four, six]), None, json!([four, six]), false),
        ("by hand", json!(null), json!([four]), None, json!([four]), false),
        ("by hand, with the old annotation", json!(null), json!(null), Some(four), json!(null), true),
        ("by hand, both", json!([]), json!([six]), Some(four), json!([six]), true),
        ("cleared", json!([]), json!([four, six]), None, json!([four, six]), false),
    ] {
        let case = asked(spec_ranges);
        let mut live = live(CLASSIC, "IPv4");
        inner(&mut live).load_balancer_source_ranges = serde_json::from_value(live_ranges).unwrap();
        if let Some(text) = live_annotation {
            set(&mut live, annotation::SOURCE_RANGES, text);
        }
        let wanted = balancer::wanted(case.input(), Some(&live)).unwrap();
        let after = change::update(case.input(), &live, &wanted).unwrap_or(live);
        assert_eq!(spec(&after)["loadBalancerSourceRanges"], expected, "{what}");
        assert_eq!(after.annotations().contains_key(annotation::SOURCE_RANGES), keeps_annotation, "{what}");
    }
}

#[test]
fn a_service_is_ours_by_its_label_alone() {
    let owner = crate::operator::names::OWNING;
    for (what, metadata, ours) in [
        ("no labels", json!({"name": "router-default"}), false),
        ("other labels", json!({"labels": {"app": "router", "router": "router-default"}}), false),
        ("another's", json!({"labels": {(owner): "other"}}), false),
        ("ours", json!({"labels": {(owner): "default"}}), true),
    ] {
        assert_eq!(of_live::is_owned(&service(json!({"metadata": metadata})), "default"), ours, "{what}");
    }
}

/// The NodePort and the internal Service: everything but what the API server gives is put right.
#[test]
fn drift_of_plain_services() {
    let both: [(&str, Drift, bool); 16] = [
        ("nothing", |_| {}, false),
        ("uid", |live| live.metadata.uid = Some("2".into()), false),
        (
            "addresses",
            |live| {
                inner(live).cluster_ip = Some("10.0.0.1".into());
                inner(live).cluster_ips = Some(vec!["10.0.0.1".into(), "fd00::1".into()]);
            },
            false,
        ),
        ("external addresses", |live| inner(live).external_ips = Some(vec!["2001:db8::1".into()]), false),
        (
            "both families given",
            |live| {
                inner(live).ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
                inner(live).ip_family_policy = Some("RequireDualStack".into());
            },
            false,
        ),
        (
            "one family given",
            |live| {
                inner(live).ip_families = Some(vec!["IPv6".into()]);
                inner(live).ip_family_policy = Some("SingleStack".into());
            },
            false,
        ),
        ("node port given", |live| inner(live).ports.as_mut().unwrap()[0].node_port = Some(30080), false),
        ("health port given", |live| inner(live).health_check_node_port = Some(32000), false),
        ("annotation of somebody", |live| set(live, "example.test/mine", "x"), false),
        ("port", |live| inner(live).ports.as_mut().unwrap()[0].port = 8080, true),
        ("target", |live| inner(live).ports.as_mut().unwrap()[1].target_port = Some(IntOrString::Int(1)), true),
        ("port gone", |live| drop(inner(live).ports.as_mut().unwrap().remove(0)), true),
        ("selector", |live| inner(live).selector = None, true),
        ("affinity", |live| inner(live).session_affinity = Some("ClientIP".into()), true),
        ("type", |live| inner(live).type_ = Some("LoadBalancer".into()), true),
        ("label", |live| live.labels_mut().clear(), true),
    ];
    let case = Case::strategy(json!({"type": "NodePortService"})).on("None").pods(&["10.128.0.0/14", "fd01::/48"]);
    for wanted in [services::node_port(case.input()).unwrap(), services::internal(case.input())] {
        let of = wanted.name_any();
        for (what, drift, acted) in both {
            let mut live = wanted.clone();
            drift(&mut live);
            let new = services::update(&live, &wanted);
            assert_eq!(new.is_some(), acted, "{of}: {what}");
            let Some(new) = new else { continue };
            assert!(services::update(&new, &wanted).is_none(), "{of}: {what}, again");
            assert_eq!(new.labels(), wanted.labels(), "{of}: {what}");
        }
    }
    let wanted = services::node_port(case.input()).unwrap();
    let mut live = wanted.clone();
    inner(&mut live).external_traffic_policy = Some("Cluster".into());
    assert!(services::update(&live, &wanted).is_some(), "routers see who asks");
    // The certificate of the internal Service is asked for by an annotation.
    let wanted = services::internal(case.input());
    let mut live = wanted.clone();
    live.annotations_mut().clear();
    assert!(services::update(&live, &wanted).is_some());
}
