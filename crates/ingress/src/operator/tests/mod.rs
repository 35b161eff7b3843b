//! The tables of admission: defaults by platform, what later edits bring, what is refused.

mod in_process;
mod life;
mod strategies;

use super::{
    admit::{Refused, admit},
    names, strategy,
    testing::{Case, cluster},
};
use api::config::Publishing;
use serde_json::{Value, json};

fn publishing(value: Value) -> Publishing {
    serde_json::from_value(value).unwrap()
}

/// The strategy that a spec comes to, after another one had been admitted.
fn after(platform: &str, before: Option<Value>, spec: Option<Value>) -> Value {
    let case = Case::new(json!({})).on(platform);
    let (before, spec) = (before.map(publishing), spec.map(publishing));
    serde_json::to_value(strategy::wanted(spec.as_ref(), before.as_ref(), &case.cluster, true)).unwrap()
}

#[test]
fn a_platform_suggests_a_strategy() {
    for (platform, kind) in [
        ("AWS", "LoadBalancerService"),
        ("Azure", "LoadBalancerService"),
        ("GCP", "LoadBalancerService"),
        ("IBMCloud", "LoadBalancerService"),
        ("PowerVS", "LoadBalancerService"),
        ("None", "HostNetwork"),
        ("BareMetal", "HostNetwork"),
        ("OpenStack", "HostNetwork"),
        ("VSphere", "HostNetwork"),
    ] {
        let got = after(platform, None, None);
        assert_eq!(got["type"], kind, "{platform}");
        match kind {
            "HostNetwork" => {
                let expected = json!({"protocol": "TCP", "httpPort": 80, "httpsPort": 443, "statsPort": 1936});
                assert_eq!(got["hostNetwork"], expected, "{platform}");
            }
            _ => {
                assert_eq!(got["loadBalancer"]["scope"], "External", "{platform}");
                assert_eq!(got["loadBalancer"]["dnsManagementPolicy"], "Managed", "{platform}");
                let aws = &got["loadBalancer"]["providerParameters"]["aws"];
                assert_eq!(aws["type"] == "Classic", platform == "AWS", "{platform}");
            }
        }
    }
}

#[test]
fn records_elsewhere_are_unmanaged() {
    let balanced =
        json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "dnsManagementPolicy": "Managed"}});
    let policy = |case: &Case, publishes: bool| {
        let wanted = strategy::wanted(Some(&publishing(balanced.clone())), None, &case.cluster, publishes);
        serde_json::to_value(wanted).unwrap()["loadBalancer"]["dnsManagementPolicy"].clone()
    };
    let aws = Case::new(json!({})).on("AWS");
    assert_eq!(policy(&aws, true), "Managed");
    assert_eq!(policy(&aws, false), "Unmanaged", "a domain that is not below the base domain");
    assert_eq!(policy(&Case::new(json!({})).on("OpenStack"), true), "Unmanaged");
    let mut hosted = Case::new(json!({})).on("AWS");
    hosted.cluster.cluster_hosted_dns = true;
    assert_eq!(policy(&hosted, true), "Unmanaged");
    for (base, domain, below) in [
        ("example.test", "apps.example.test", true),
        ("example.test.", "apps.example.test.", true),
        ("example.test", "apps.otherexample.test", false),
        ("example.test", "example.test", false),
        ("test", "apps.test", true),
        ("", "apps.test", false),
    ] {
        let mut case = Case::new(json!({})).on("AWS");
        case.cluster.base_domain = base.to_owned();
        assert_eq!(case.cluster.publishes(domain), below, "{domain} below {base}");
        assert!(case.on("Azure").cluster.publishes(domain), "only AWS and GCP have zones by domain");
    }
}

#[test]
fn protocols_change_both_ways() {
    for (kind, block) in [("NodePortService", "nodePort"), ("HostNetwork", "hostNetwork"), ("Private", "private")] {
        let with = |protocol: &str| json!({"type": kind, (block): {"protocol": protocol}});
        for (before, spec, expected) in [
            (None, json!({"type": kind}), "TCP"),
            (None, with(""), "TCP"),
            (None, with("PROXY"), "PROXY"),
            (Some(json!({"type": kind})), with("PROXY"), "PROXY"),
            (Some(with("TCP")), with("PROXY"), "PROXY"),
            (Some(with("PROXY")), with("TCP"), "TCP"),
            (Some(with("PROXY")), with(""), "TCP"),
            (Some(with("PROXY")), json!({"type": kind}), "TCP"),
        ] {
            let got = after("None", before.clone(), Some(spec.clone()));
            assert_eq!(got[block]["protocol"], expected, "{before:?} then {spec}");
        }
    }
    let ibm = |protocol: &str| {
        json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "dnsManagementPolicy": "Managed",
        "providerParameters": {"type": "IBM", "ibm": {"protocol": protocol}}}})
    };
    for (before, spec, expected) in
        [(None, "PROXY", "PROXY"), (Some(ibm("PROXY")), "TCP", "TCP"), (Some(ibm("PROXY")), "", "TCP")]
    {
        let got = after("IBMCloud", before, Some(ibm(spec)));
        assert_eq!(got["loadBalancer"]["providerParameters"]["ibm"]["protocol"], expected);
    }
}

fn aws(kind: &str, more: Value) -> Value {
    let block = if kind == "NLB" { "networkLoadBalancer" } else { "classicLoadBalancer" };
    json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "dnsManagementPolicy": "Managed",
        "providerParameters": {"type": "AWS", "aws": {"type": kind, (block): more}}}})
}

#[test]
fn parameters_on_aws() {
    let protocol = |protocol: &str| json!({"protocol": protocol});
    let bare = json!({"type": "LoadBalancerService"});
    for (what, before, spec, kind, block) in [
        ("new, nothing said", None, None, "Classic", json!({})),
        ("new", None, Some(aws("NLB", json!({}))), "NLB", protocol("TCP")),
        ("new with PROXY", None, Some(aws("NLB", protocol("PROXY"))), "NLB", protocol("PROXY")),
        ("from before there was a choice", Some(aws("NLB", json!({}))), Some(aws("NLB", json!({}))), "NLB", json!({})),
        ("opts in", Some(aws("NLB", json!({}))), Some(aws("NLB", protocol("PROXY"))), "NLB", protocol("PROXY")),
        ("cleared", Some(aws("NLB", protocol("PROXY"))), Some(aws("NLB", json!({}))), "NLB", protocol("TCP")),
        ("to NLB", Some(aws("Classic", json!({}))), Some(aws("NLB", json!({}))), "NLB", protocol("TCP")),
        ("to Classic", Some(aws("NLB", protocol("PROXY"))), Some(aws("Classic", json!({}))), "Classic", json!({})),
        ("type no longer said", Some(aws("NLB", protocol("TCP"))), Some(bare), "NLB", protocol("TCP")),
        (
            "timeout",
            None,
            Some(aws("Classic", json!({"connectionIdleTimeout": "2m"}))),
            "Classic",
            json!({"connectionIdleTimeout": "2m"}),
        ),
        (
            "timeout cleared",
            Some(aws("Classic", json!({"connectionIdleTimeout": "2m"}))),
            Some(aws("Classic", json!({}))),
            "Classic",
            json!({}),
        ),
        (
            "timeout below nothing",
            None,
            Some(aws("Classic", json!({"connectionIdleTimeout": "-2m"}))),
            "Classic",
            json!({}),
        ),
    ] {
        let got = after("AWS", before, spec);
        let parameters = &got["loadBalancer"]["providerParameters"]["aws"];
        assert_eq!(parameters["type"], kind, "{what}");
        let name = if kind == "NLB" { "networkLoadBalancer" } else { "classicLoadBalancer" };
        assert_eq!(parameters[name], block, "{what}");
    }
}

#[test]
fn the_ingress_configuration_counts_for_new_ones_only() {
    let facts = json!({"platformStatus": {"type": "AWS", "aws": {"region": "a"}}});
    let nlb =
        json!({"domain": "apps.example.test", "loadBalancer": {"platform": {"type": "AWS", "aws": {"type": "NLB"}}}});
    let cluster = cluster(facts, nlb, json!({"baseDomain": "example.test"}));
    let kind = |before: Option<Value>| {
        let before = before.map(publishing);
        strategy::wanted(None, before.as_ref(), &cluster, true).aws().unwrap().kind.name()
    };
    assert_eq!(kind(None), "NLB");
    assert_eq!(kind(Some(aws("Classic", json!({})))), "Classic");
}

#[test]
fn scope_policy_and_kind() {
    let internal = json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "Internal", "dnsManagementPolicy": "Unmanaged"}});
    let got = after("AWS", Some(aws("NLB", json!({"protocol": "TCP"}))), Some(internal.clone()));
    assert_eq!(got["loadBalancer"]["scope"], "Internal");
    assert_eq!(got["loadBalancer"]["dnsManagementPolicy"], "Unmanaged");
    let back = after("AWS", Some(internal), Some(aws("NLB", json!({}))));
    assert_eq!(
        (&back["loadBalancer"]["scope"], &back["loadBalancer"]["dnsManagementPolicy"]),
        (&json!("External"), &json!("Managed"))
    );
    let other = after(
        "AWS",
        Some(json!({"type": "Private", "private": {"protocol": "TCP"}})),
        Some(json!({"type": "NodePortService", "nodePort": {"protocol": "PROXY"}})),
    );
    assert_eq!(other["type"], "Private", "the kind stays");
    let ports = json!({"type": "HostNetwork", "hostNetwork": {"httpPort": 8080, "httpsPort": 8443, "statsPort": 9000}});
    let cleared = after("None", Some(ports.clone()), Some(json!({"type": "HostNetwork"})));
    assert_eq!(cleared["hostNetwork"]["httpPort"], 80);
    assert_eq!(after("None", None, Some(ports))["hostNetwork"]["statsPort"], 9000);
}

#[test]
fn what_is_wrong_is_said_all_at_once() {
    let case = |spec: Value| {
        let mut case = Case::new(spec).on("None");
        case.cluster.domain = "apps.example.test".to_owned();
        case
    };
    let others = [("other".to_owned(), "apps.example.test".to_owned())];
    for (spec, others, expected) in [
        (json!({}), &[][..], vec![]),
        (
            json!({}),
            &others[..],
            vec!["spec.domain: \"apps.example.test\" is the domain of IngressController \"other\""],
        ),
        (json!({"domain": "b.example.test"}), &others[..], vec![]),
        (
            json!({"endpointPublishingStrategy": {"type": "HostNetwork", "hostNetwork": {"httpPort": 443, "statsPort": 443}}}),
            &[][..],
            vec!["hostNetwork.httpsPort: 443 is httpPort as well", "hostNetwork.statsPort: 443 is httpPort as well"],
        ),
        (
            json!({
                "tuningOptions": {"headerBufferBytes": 16384, "headerBufferMaxRewriteBytes": 16384},
                "tlsSecurityProfile": {"type": "Custom", "custom": {}},
                "clientTLS": {"clientCertificatePolicy": "Required", "clientCA": {"name": "a"}, "allowedSubjectPatterns": ["ok", "("]},
            }),
            &[][..],
            vec!["custom.ciphers: is empty", "headerBufferMaxRewriteBytes: 16384", "allowedSubjectPatterns[1]: \"(\""],
        ),
    ] {
        let case = case(spec.clone());
        let wrong = match admit(&case.controller, others, &case.cluster) {
            Ok(_) => Vec::new(),
            Err(Refused(wrong)) => wrong,
        };
        assert_eq!(wrong.len(), expected.len(), "{spec}: {wrong:?}");
        for (message, words) in wrong.iter().zip(expected) {
            assert!(message.contains(words), "{message} should have {words}");
        }
    }
    let nameless = Case::new(json!({})).on("None");
    assert!(admit(&nameless.controller, &[], &nameless.cluster).is_err(), "there is no domain at all");
}

/// Whatever would end a router at its start is refused, by the field it came from.
#[test]
fn what_no_router_would_start_with_is_not_admitted() {
    let set = |value: &str| json!({"name": "X-A", "action": {"type": "Set", "set": {"value": value}}});
    for (spec, annotations, expected) in [
        (
            json!({"tuningOptions": {"headerBufferBytes": 2_000_000}}),
            json!({}),
            vec!["spec.tuningOptions.headerBufferBytes: \"2000000\""],
        ),
        (
            json!({"tuningOptions": {"headerBufferMaxRewriteBytes": 600_000, "headerBufferBytes": 1_048_576}}),
            json!({}),
            vec!["spec.tuningOptions.headerBufferMaxRewriteBytes: \"600000\""],
        ),
        (
            json!({"httpHeaders": {"actions": {"request": [set("fine"), set("%[src]")], "response": [set("100%")]}}}),
            json!({}),
            vec![
                "spec.httpHeaders.actions.request[1]: \"X-A:%[src]:Set\"",
                "spec.httpHeaders.actions.response[0]: \"X-A:100%:Set\"",
            ],
        ),
        (
            json!({"httpHeaders": {"uniqueId": {"name": "X-Id", "format": "%nonsense"}, "headerNameCaseAdjustments": ["X-A", "X-a"]}}),
            json!({}),
            vec![
                "spec.httpHeaders.uniqueId.format: \"%nonsense\"",
                "spec.httpHeaders.headerNameCaseAdjustments[1]: \"X-a\"",
            ],
        ),
        (
            json!({"logging": {"access": {"destination": {"type": "Container"}, "httpLogFormat": "%[env(HOME)]"}}}),
            json!({}),
            vec!["spec.logging.access.httpLogFormat:"],
        ),
        (
            json!({}),
            json!({names::HARD_STOP_AFTER: "soon"}),
            vec!["metadata.annotations[ingress.operator.openshift.io/hard-stop-after]: \"soon\""],
        ),
        (
            json!({"endpointPublishingStrategy": {"type": "NodePortService", "nodePort": {"protocol": "PROXY"}}}),
            json!({names::PROXY_SENDERS: "10.0.0.0/8,everybody"}),
            vec!["metadata.annotations[twinstack.dev/proxy-protocol-trusted-cidrs]: \"10.0.0.0/8,everybody\""],
        ),
        (
            json!({
                "endpointPublishingStrategy": {"type": "Private", "private": {"protocol": "PROXY"}},
                "httpHeaders": {
                    "uniqueId": {"name": "X-Id", "format": "%{+X}o %ci-%[uuid]"}, "headerNameCaseAdjustments": ["X-A"],
                    "actions": {"request": [set("it's %{+Q}[req.hdr(host),lower]")]},
                },
                "logging": {"access": {"destination": {"type": "Container"}, "httpLogFormat": "%ci:%cp [%t] %ft %b/%s"}},
            }),
            json!({names::PROXY_SENDERS: "10.0.0.0/8, fd00::/8", names::HARD_STOP_AFTER: "1h"}),
            vec![],
        ),
    ] {
        for shape in
            [&["10.128.0.0/14"][..], &["fd01::/48"], &["10.128.0.0/14", "fd01::/48"], &["fd01::/48", "10.128.0.0/14"]]
        {
            let mut case = Case::new(spec.clone()).on("None").pods(shape);
            case.cluster.domain = "apps.example.test".to_owned();
            case.controller.metadata.annotations = serde_json::from_value(annotations.clone()).unwrap();
            let wrong =
                admit(&case.controller, &[], &case.cluster).err().map(|Refused(wrong)| wrong).unwrap_or_default();
            assert_eq!(wrong.len(), expected.len(), "{spec}: {wrong:?}");
            for (message, words) in wrong.iter().zip(&expected) {
                assert!(
                    message.starts_with(words) && message.contains("accepted:"),
                    "{message} should begin with {words}"
                );
            }
        }
    }
}

#[test]
fn what_has_no_effect_is_told() {
    let mut case = Case::new(json!({
        "domain": "a.example.test",
        "haproxyVersion": "3.2",
        "tuningOptions": {"clientTimeout": "-5s", "serverTimeout": "0s", "reloadInterval": "500ms", "configurationManagement": "ForkAndReload"},
        "unsupportedConfigOverrides": {"loadBalancingAlgorithm": "leastconn", "contStats": "true"},
    }))
    .on("None");
    case.controller.metadata.annotations = Some([(names::PROXY_SENDERS.to_owned(), "fd00::/8".to_owned())].into());
    let told = admit(&case.controller, &[], &case.cluster).unwrap().without_effect;
    let expected = [
        "spec.haproxyVersion \"3.2\" has no effect",
        "spec.tuningOptions.configurationManagement \"ForkAndReload\" has no effect",
        "spec.tuningOptions.clientTimeout \"-5s\" has no effect: the default is used",
        "spec.tuningOptions.reloadInterval \"500ms\" has no effect: 1s is used",
        "spec.unsupportedConfigOverrides.contStats \"true\" has no effect",
        "metadata.annotations[twinstack.dev/proxy-protocol-trusted-cidrs] has no effect without the PROXY protocol",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (message, words) in told.iter().zip(expected) {
        assert!(message.starts_with(words), "{message} should begin with {words}");
    }
}

#[test]
fn edits_without_effect_are_told() {
    let mut case =
        Case::new(json!({"domain": "new.example.test", "endpointPublishingStrategy": {"type": "Private"}})).on("None");
    case.controller.status = serde_json::from_value(json!({
        "domain": "old.example.test", "endpointPublishingStrategy": {"type": "NodePortService", "nodePort": {"protocol": "TCP"}},
    }))
    .unwrap();
    let admission = admit(&case.controller, &[], &case.cluster).unwrap();
    assert_eq!(admission.domain, "old.example.test");
    assert_eq!(admission.without_effect.len(), 2, "{:?}", admission.without_effect);
}
