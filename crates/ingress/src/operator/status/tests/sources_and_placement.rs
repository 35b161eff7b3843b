//! More tables of conditions: source ranges of a load balancer, routers that no node takes, blocks of the type that is not live, what the status says
//! of TLS and selectors, and the numbers for Prometheus.

use super::super::{
    balancer, operand,
    operand::Operand,
    status,
    tests::{NOW, balanced, live, observed},
};
use crate::operator::{
    metrics::{Gauges, hairpin_risk},
    plan::balancer::annotation,
    testing::Case,
};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use runtime::metrics::{Metrics, TextFormat};
use serde_json::{Value, json};

fn progressing(case: &Case, service: Option<&Service>) -> (String, String) {
    let operand = Operand::nothing(2);
    let conditions = balancer::conditions(case.input(), observed(&operand, service, None));
    let found = conditions.into_iter().find(|one| one.kind == "LoadBalancerProgressing").unwrap();
    (format!("{} {}", found.status, found.reason), found.message)
}

#[test]
fn source_ranges_that_nobody_asked_for_are_told() {
    let ranged = |ranges: Value| {
        let parameters = json!({"type": "AWS", "aws": {"type": "NLB"}});
        Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {
            "scope": "External", "allowedSourceRanges": ranges, "providerParameters": parameters,
        }}))
        .on("AWS")
    };
    for (what, asked, has, by_annotation, still) in [
        ("none", json!(null), json!(null), None, true),
        ("asked for", json!(["2001:db8::/32"]), json!(["2001:db8::/32"]), None, true),
        ("by hand", json!(null), json!(["192.0.2.0/24"]), None, false),
        ("by hand, asked for none", json!([]), json!(["2001:db8::/32"]), None, false),
        ("by the old annotation", json!(null), json!(null), Some("192.0.2.0/24"), false),
    ] {
        let mut service = live("NLB", "IPv4");
        service.spec.as_mut().unwrap().load_balancer_source_ranges = serde_json::from_value(has).unwrap();
        if let Some(text) = by_annotation {
            service.annotations_mut().insert(annotation::SOURCE_RANGES.to_owned(), text.to_owned());
        }
        let (shown, message) = progressing(&ranged(asked), Some(&service));
        assert_eq!(shown.starts_with("False"), still, "{what}: {message}");
        assert_eq!(message.contains("allowedSourceRanges"), !still, "{what}: {message}");
    }
}

#[test]
fn every_difference_is_told_in_one_message() {
    let mut service = live("NLB", "IPv4");
    service.annotations_mut().insert(annotation::AWS_INTERNAL.to_owned(), "true".to_owned());
    service.annotations_mut().insert(annotation::AWS_EIP.to_owned(), "eipalloc-1".to_owned());
    let (shown, message) = progressing(&balanced("NLB", "IPv4"), Some(&service));
    assert_eq!(shown, "True OperandsProgressing");
    for words in [
        "scope is to change from Internal to External",
        "elastic addresses are to change from eipalloc-1 to none given",
    ] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(progressing(&balanced("NLB", "IPv4"), None).0, "True NoService");
}

#[test]
fn routers_that_no_node_takes_are_named() {
    let pod = |name: &str, condition: Value| -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": [condition]}})).unwrap()
    };
    let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"});
    for (what, condition, expected) in [
        ("refused", refused.clone(), Some("router-1: 0/3 nodes are available")),
        ("taken", json!({"type": "PodScheduled", "status": "True"}), None),
        ("held back", json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}), None),
        ("something else", json!({"type": "Ready", "status": "False", "reason": "Unschedulable"}), None),
    ] {
        assert_eq!(operand::homeless(&pod("router-1", condition)).as_deref(), expected, "{what}");
    }
    let operand = Operand { homeless: vec!["router-1: 0/3 nodes are available".to_owned()], ..Operand::nothing(2) };
    let conditions = operand::conditions(&operand);
    let minimum = conditions.iter().find(|one| one.kind == "DeploymentReplicasMinAvailable").unwrap();
    assert!(minimum.message.contains("router-1: 0/3 nodes are available"), "{}", minimum.message);
    assert!(minimum.message.contains("nodePlacement"), "{}", minimum.message);
}

/// The block of the type that is not live goes once the change is over, and stays until then.
#[test]
fn parameters_of_the_other_type() {
    let operand = Operand::nothing(2);
    for (wanted, before, is_live, expected) in [
        ("Classic", "NLB", "NLB", ["classicLoadBalancer", "networkLoadBalancer"].as_slice()),
        ("Classic", "NLB", "Classic", &["classicLoadBalancer"]),
        ("NLB", "Classic", "Classic", &["classicLoadBalancer", "networkLoadBalancer"]),
        ("NLB", "Classic", "NLB", &["networkLoadBalancer"]),
        ("NLB", "NLB", "NLB", &["networkLoadBalancer"]),
        ("Classic", "Classic", "Classic", &["classicLoadBalancer"]),
    ] {
        let case = balanced(wanted, "IPv4").admitted_as(before, json!({}));
        let service = live(is_live, "IPv4");
        let (shown, _) = status(case.input(), observed(&operand, Some(&service), None), NOW);
        let shown = serde_json::to_value(shown).unwrap();
        let aws = &shown["endpointPublishingStrategy"]["loadBalancer"]["providerParameters"]["aws"];
        let blocks: Vec<&str> =
            aws.as_object().unwrap().keys().map(String::as_str).filter(|key| key.ends_with("LoadBalancer")).collect();
        assert_eq!(blocks, expected, "{before} to {wanted}, {is_live} live");
    }
}

#[test]
fn the_status_says_what_tls_and_selectors_come_to() {
    let operand = Operand::nothing(2);
    let selector = json!({"matchLabels": {"a": "b"}});
    let spec = json!({"endpointPublishingStrategy": {"type": "Private"}, "routeSelector": selector, "tlsSecurityProfile": {"type": "Modern"}});
    let (shown, _) = status(Case::new(spec).on("None").input(), observed(&operand, None, None), NOW);
    let shown = serde_json::to_value(shown).unwrap();
    assert_eq!(shown["routeSelector"], selector);
    assert_eq!(shown["namespaceSelector"], Value::Null);
    assert_eq!(shown["tlsProfile"]["minTLSVersion"], "VersionTLS13");
    assert_eq!(shown["tlsProfile"]["ciphers"][0], "TLS_AES_128_GCM_SHA256");
    // One that names no profile has that of the API server.
    let mut case = Case::strategy(json!({"type": "Private"})).on("None");
    case.cluster.tls = serde_json::from_value(json!({"type": "Old"})).unwrap();
    let (shown, _) = status(case.input(), observed(&operand, None, None), NOW);
    assert_eq!(shown.tls_profile.unwrap().min_tls_version, "VersionTLS11");
}

#[test]
fn an_internal_nlb_without_a_chosen_protocol_is_at_risk() {
    let nlb = |scope: &str, network: Value| {
        let parameters = json!({"type": "AWS", "aws": {"type": "NLB", "networkLoadBalancer": network}});
        Case::strategy(
            json!({"type": "LoadBalancerService", "loadBalancer": {"scope": scope, "providerParameters": parameters}}),
        )
        .on("AWS")
    };
    for (what, case, risk) in [
        ("external", nlb("External", json!({})), false),
        ("internal", nlb("Internal", json!({})), true),
        ("internal, from before there was a choice", nlb("Internal", json!({})).admitted_as("NLB", json!({})), true),
        ("internal, TCP", nlb("Internal", json!({"protocol": "TCP"})), false),
        ("internal, PROXY", nlb("Internal", json!({"protocol": "PROXY"})), false),
        ("internal, classic", balanced("Classic", "IPv4").internal(), false),
        ("elsewhere", nlb("Internal", json!({})).on("GCP"), false),
    ] {
        assert_eq!(hairpin_risk(case.input()), risk, "{what}");
    }
}

#[test]
fn numbers_come_and_go_with_an_ingress_controller() {
    let metrics = Metrics::new();
    let gauges = Gauges::new(&metrics);
    let text = || metrics.render(TextFormat::Classic).body;
    let operand = Operand::nothing(2);
    let case = balanced("NLB", "IPv4");
    let (shown, _) = status(case.input(), observed(&operand, None, None), NOW);
    gauges.show("default", &shown, true);
    for line in [
        r#"ingress_controller_conditions{name="default",condition="Available"} 0"#,
        r#"ingress_controller_conditions{name="default",condition="Degraded"} 0"#,
        r#"ingress_controller_aws_nlb_active{name="default"} 1"#,
        r#"ingress_controller_aws_nlb_hairpin_risk{name="default"} 1"#,
    ] {
        assert!(text().contains(line), "{line} is not in\n{}", text());
    }
    gauges.forget("default");
    assert!(!text().contains(r#"name="default""#), "{}", text());
}

#[test]
fn an_old_certificate_stands_in_the_way_of_newer_versions() {
    let operand = Operand::nothing(2);
    for (complaint, expected) in [(None, ("True", "Upgradeable")), (Some("old"), ("False", "OperandsNotUpgradeable"))] {
        let case = Case::strategy(json!({"type": "Private"})).on("None");
        let seen = super::super::Observed { certificate: complaint, ..observed(&operand, None, None) };
        let (shown, _) = status(case.input(), seen, NOW);
        let found = shown.conditions.iter().find(|one| one.kind == "Upgradeable").unwrap();
        assert_eq!((found.status.as_str(), found.reason.as_str()), expected);
    }
}
