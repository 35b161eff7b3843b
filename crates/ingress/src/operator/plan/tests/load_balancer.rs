//! The annotations of the load balancer Service, one by one: what is there, what is not, with which value.

use super::super::{
    balancer::{self, annotation},
    tests::{CLASSIC, NLB, annotations, balanced, live, live_of, map, spec},
};
use crate::operator::testing::Case;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};

const PLAIN: (&str, &str) =
    ("target-group-attributes", "preserve_client_ip.enabled=true,proxy_protocol_v2.enabled=false");
const PROXY: (&str, &str) =
    ("target-group-attributes", "preserve_client_ip.enabled=false,proxy_protocol_v2.enabled=true");
const HEALTH: [(&str, &str); 3] =
    [("healthcheck-timeout", "4"), ("healthcheck-unhealthy-threshold", "2"), ("healthcheck-healthy-threshold", "2")];
const FOR_CLASSIC: [(&str, &str); 2] = [("proxy-protocol", "*"), ("healthcheck-interval", "5")];
const FOR_NLB: [(&str, &str); 2] = [("type", "nlb"), ("healthcheck-interval", "10")];

fn of(base: &[(&str, &str)], more: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    map(&[&HEALTH[..], base, more].concat())
}

#[test]
fn annotations_on_aws_by_type_scope_tags_subnets_and_addresses() {
    let subnets = json!({"ids": ["subnet-0a", "subnet-0b"], "names": ["one", "two"]});
    let listed = ("subnets", "subnet-0a,subnet-0b,one,two");
    let addresses = json!(["eipalloc-1", "eipalloc-2"]);
    let allocated = ("eip-allocations", "eipalloc-1,eipalloc-2");
    let inside = ("internal", "true");
    let tagged = ("additional-resource-tags", "a=b,c=");
    let tags = [("a", "b"), ("", "dropped"), ("c", "")];
    let proxy = json!({"protocol": "PROXY"});
    for (what, case, expected) in [
        (
            "classic, internal, tags",
            balanced(CLASSIC, json!({})).internal().tags(&tags),
            of(&FOR_CLASSIC, &[inside, tagged]),
        ),
        (
            "classic, names alone",
            balanced(CLASSIC, json!({"subnets": {"names": ["one"]}})),
            of(&FOR_CLASSIC, &[("subnets", "one")]),
        ),
        (
            "classic, internal, subnets",
            balanced(CLASSIC, json!({"subnets": subnets})).internal(),
            of(&FOR_CLASSIC, &[inside, listed]),
        ),
        ("nlb, internal", balanced(NLB, json!({})).internal(), of(&FOR_NLB, &[PLAIN, inside])),
        ("nlb, internal, PROXY", balanced(NLB, proxy.clone()).internal(), of(&FOR_NLB, &[PROXY, inside])),
        ("nlb, tags", balanced(NLB, json!({})).tags(&tags), of(&FOR_NLB, &[PLAIN, tagged])),
        ("nlb, only tags without a key", balanced(NLB, json!({})).tags(&[("", "x")]), of(&FOR_NLB, &[PLAIN])),
        (
            "nlb, subnets and addresses",
            balanced(NLB, json!({"subnets": subnets, "eipAllocations": addresses})),
            of(&FOR_NLB, &[PLAIN, listed, allocated]),
        ),
        ("nlb, empty lists", balanced(NLB, json!({"subnets": {}, "eipAllocations": []})), of(&FOR_NLB, &[PLAIN])),
        (
            "nlb, groups",
            balanced(NLB, json!({"securityGroups": ["sg-1", "sg-2"]})),
            of(&FOR_NLB, &[PLAIN, ("security-groups", "sg-1,sg-2")]),
        ),
        ("nlb, no protocol said before", balanced(NLB, json!({})).admitted_as(NLB, json!({})), of(&FOR_NLB, &[])),
        ("nlb, protocol cleared", balanced(NLB, json!({})).admitted_as(NLB, proxy.clone()), of(&FOR_NLB, &[PLAIN])),
        (
            "nlb, protocol chosen where none was said before",
            balanced(NLB, proxy).admitted_as(NLB, json!({})),
            of(&FOR_NLB, &[PROXY]),
        ),
    ] {
        assert_eq!(annotations(&live_of(&case)), expected, "{what}");
    }
    // The block of the other type does not count.
    let both = Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "providerParameters": {
        "type": "AWS", "aws": {"type": NLB, "classicLoadBalancer": {"subnets": subnets, "connectionIdleTimeout": "9s"}},
    }}}))
    .on("AWS");
    assert_eq!(annotations(&live_of(&both)), of(&FOR_NLB, &[PLAIN]));
}

/// What was said by an administrator does not matter while the live load balancer is of the other type.
#[test]
fn annotations_follow_the_live_type() {
    let sends = |protocol: &str| live_of(&balanced(NLB, json!({"protocol": protocol})));
    let untouched = live_of(&balanced(NLB, json!({})).admitted_as(NLB, json!({})));
    for (what, case, live, expected) in [
        (
            "classic live, nlb with PROXY wanted",
            balanced(NLB, json!({"protocol": "PROXY"})),
            live(CLASSIC, "IPv4"),
            of(&FOR_CLASSIC, &[]),
        ),
        (
            "classic live, nlb with TCP wanted",
            balanced(NLB, json!({"protocol": "TCP"})),
            live(CLASSIC, "IPv4"),
            of(&FOR_CLASSIC, &[]),
        ),
        ("nlb with PROXY live, classic wanted", balanced(CLASSIC, json!({})), sends("PROXY"), of(&FOR_NLB, &[PROXY])),
        ("nlb with TCP live, classic wanted", balanced(CLASSIC, json!({})), sends("TCP"), of(&FOR_NLB, &[PLAIN])),
        ("nlb without attributes live, classic wanted", balanced(CLASSIC, json!({})), untouched, of(&FOR_NLB, &[])),
    ] {
        assert_eq!(annotations(&balancer::wanted(case.input(), Some(&live)).unwrap()), expected, "{what}");
    }
}

#[test]
fn other_platforms_have_words_of_their_own() {
    let ibm = |protocol: &str| json!({"type": "IBM", "ibm": {"protocol": protocol}});
    let gcp = |access: &str| json!({"type": "GCP", "gcp": {"clientAccess": access}});
    let (public, private) = ((annotation::IBM_IP_TYPE, "public"), (annotation::IBM_IP_TYPE, "private"));
    let proxied = (annotation::IBM_FEATURES, "proxy-protocol");
    let google = (annotation::GCP_TYPE, "Internal");
    for (platform, scope, parameters, expected) in [
        ("IBMCloud", "External", ibm(""), map(&[public])),
        ("IBMCloud", "External", ibm("TCP"), map(&[public])),
        ("IBMCloud", "External", ibm("PROXY"), map(&[public, proxied])),
        ("IBMCloud", "Internal", ibm("PROXY"), map(&[private, proxied])),
        ("PowerVS", "External", ibm("TCP"), map(&[public])),
        ("PowerVS", "External", ibm("PROXY"), map(&[public, proxied])),
        ("GCP", "External", gcp("Global"), map(&[])),
        ("GCP", "Internal", gcp("Global"), map(&[google, (annotation::GCP_GLOBAL, "true")])),
        ("GCP", "Internal", gcp("Local"), map(&[google, (annotation::GCP_GLOBAL, "false")])),
        ("Azure", "Internal", json!({"type": "Azure"}), map(&[("azure-load-balancer-internal", "true")])),
        ("OpenStack", "External", json!({"type": "OpenStack"}), map(&[])),
        ("BareMetal", "Internal", json!({"type": "BareMetal"}), map(&[])),
    ] {
        let strategy =
            json!({"type": "LoadBalancerService", "loadBalancer": {"scope": scope, "providerParameters": parameters}});
        let service = live_of(&Case::strategy(strategy).on(platform));
        assert_eq!(annotations(&service), expected, "{platform} {scope} {parameters}");
        assert_eq!(spec(&service)["ipFamilies"], Value::Null, "{platform}");
    }
}

#[test]
fn what_every_load_balancer_service_has() {
    for case in [
        balanced(CLASSIC, json!({})),
        balanced(NLB, json!({})),
        Case::strategy(json!({"type": "LoadBalancerService"})).on("GCP"),
    ] {
        let service = live_of(&case);
        let owner = "ingresscontroller.operator.openshift.io/owning-ingresscontroller";
        assert_eq!(
            service.labels().clone(),
            map(&[("app", "router"), ("router", "router-default"), (owner, "default")])
        );
        let spec = spec(&service);
        assert_eq!(
            spec["selector"],
            json!({"ingresscontroller.operator.openshift.io/deployment-ingresscontroller": "default"})
        );
        let ports: Vec<_> =
            spec["ports"].as_array().unwrap().iter().map(|port| (&port["port"], &port["targetPort"])).collect();
        assert_eq!(ports, [(&json!(80), &json!("http")), (&json!(443), &json!("https"))]);
        assert_eq!((&spec["internalTrafficPolicy"], &spec["sessionAffinity"]), (&json!("Cluster"), &json!("None")));
        assert_eq!(spec["loadBalancerSourceRanges"], Value::Null);
    }
    // Switched off by somebody who knows.
    for (word, expected) in [("false", false), ("true", true)] {
        let overrides = json!({"unsupportedConfigOverrides": {"localWithFallback": word}, "endpointPublishingStrategy": {"type": "LoadBalancerService"}});
        let service = live_of(&Case::new(overrides).on("AWS"));
        assert_eq!(service.annotations().contains_key(annotation::LOCAL_WITH_FALLBACK), expected, "{word}");
    }
    let owned = balancer::owned_by(Service::default(), Some(("router-default", "7")));
    assert_eq!(owned.owner_references()[0].uid, "7");
}

#[test]
fn no_idle_timeout_where_nothing_says_one() {
    for (what, case) in [
        ("no load balancer said", Case::strategy(json!({"type": "LoadBalancerService"})).on("AWS")),
        (
            "no parameters",
            Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External"}})).on("AWS"),
        ),
        ("no block", balanced(CLASSIC, Value::Null)),
        ("empty block", balanced(CLASSIC, json!({}))),
        ("not a length of time", balanced(CLASSIC, json!({"connectionIdleTimeout": "soon"}))),
        ("less than a second", balanced(CLASSIC, json!({"connectionIdleTimeout": "500ms"}))),
        ("of an nlb", balanced(NLB, json!({}))),
    ] {
        assert!(!live_of(&case).annotations().contains_key(annotation::AWS_IDLE), "{what}");
    }
}
