//! The tables of strategies: defaults for every platform and Ingress configuration, and what later edits bring.

use super::super::{strategy, testing::cluster};
use api::config::Publishing;
use serde_json::{Value, json};

fn publishing(value: Value) -> Publishing {
    serde_json::from_value(value).unwrap()
}

/// The strategy of a platform whose Ingress configuration may name a type for AWS.
fn wanted(platform: Value, ingress: Option<&str>, before: Option<Value>, spec: Option<Value>) -> Value {
    let mut config = json!({"domain": "apps.example.test"});
    if let Some(kind) = ingress {
        config["loadBalancer"] = json!({"platform": {"type": "AWS", "aws": {"type": kind}}});
    }
    let cluster = cluster(json!({"platformStatus": platform}), config, json!({"baseDomain": "example.test"}));
    let (before, spec) = (before.map(publishing), spec.map(publishing));
    serde_json::to_value(strategy::wanted(spec.as_ref(), before.as_ref(), &cluster, true)).unwrap()
}

#[test]
fn defaults_of_every_platform() {
    let aws = |kind: &str, block: &str, inside: Value| json!({"type": "AWS", "aws": {"type": kind, (block): inside}});
    let classic = || aws("Classic", "classicLoadBalancer", json!({}));
    let nlb = || aws("NLB", "networkLoadBalancer", json!({"protocol": "TCP"}));
    let named = |kind: &str| json!({"type": kind});
    let hosted = |kind: &str, block: &str| json!({"type": kind, (block): {"region": "r", "cloudLoadBalancerConfig": {"dnsType": "ClusterHosted"}}});
    for (what, platform, ingress, parameters, policy) in [
        ("AWS", named("AWS"), None, classic(), "Managed"),
        ("AWS with NLB", named("AWS"), Some("NLB"), nlb(), "Managed"),
        ("AWS with Classic", named("AWS"), Some("Classic"), classic(), "Managed"),
        ("AWS, its own DNS", hosted("AWS", "aws"), None, classic(), "Unmanaged"),
        ("AWS with NLB, its own DNS", hosted("AWS", "aws"), Some("NLB"), nlb(), "Unmanaged"),
        ("Azure", named("Azure"), None, Value::Null, "Managed"),
        ("Azure, its own DNS", hosted("Azure", "azure"), None, Value::Null, "Unmanaged"),
        ("Azure with a type for AWS", named("Azure"), Some("NLB"), Value::Null, "Managed"),
        ("GCP", named("GCP"), None, Value::Null, "Managed"),
        ("GCP, its own DNS", hosted("GCP", "gcp"), None, Value::Null, "Unmanaged"),
        ("IBMCloud", named("IBMCloud"), None, Value::Null, "Managed"),
        ("PowerVS", named("PowerVS"), None, Value::Null, "Managed"),
    ] {
        let got = wanted(platform, ingress, None, None);
        assert_eq!(got["type"], "LoadBalancerService", "{what}");
        assert_eq!(got["loadBalancer"]["scope"], "External", "{what}");
        assert_eq!(got["loadBalancer"]["providerParameters"], parameters, "{what}");
        assert_eq!(got["loadBalancer"]["dnsManagementPolicy"], policy, "{what}");
    }
    for platform in [
        "None",
        "BareMetal",
        "OpenStack",
        "VSphere",
        "Libvirt",
        "Nutanix",
        "oVirt",
        "EquinixMetal",
        "KubeVirt",
        "External",
    ] {
        let got = wanted(named(platform), Some("NLB"), None, None);
        assert_eq!(got["type"], "HostNetwork", "{platform}");
        assert_eq!(got["loadBalancer"], Value::Null, "{platform}");
    }
}

/// A load balancer as a spec or a status has it.
fn balancer(scope: &str, policy: &str, parameters: Value) -> Value {
    let mut balancer = json!({"scope": scope, "dnsManagementPolicy": policy});
    if !parameters.is_null() {
        balancer["providerParameters"] = parameters;
    }
    json!({"type": "LoadBalancerService", "loadBalancer": balancer})
}

#[test]
fn edits_of_a_load_balancer() {
    let managed = |scope: &str, parameters: Value| balancer(scope, "Managed", parameters);
    let gcp = |access: &str| json!({"type": "GCP", "gcp": {"clientAccess": access}});
    let ibm = |protocol: &str| json!({"type": "IBM", "ibm": {"protocol": protocol}});
    let openstack = |address: &str| json!({"type": "OpenStack", "openstack": {"floatingIP": address}});
    for (what, platform, before, spec, at, expected) in [
        (
            "inside",
            "GCP",
            managed("External", Value::Null),
            managed("Internal", Value::Null),
            "/scope",
            json!("Internal"),
        ),
        (
            "outside",
            "GCP",
            managed("Internal", Value::Null),
            managed("External", Value::Null),
            "/scope",
            json!("External"),
        ),
        (
            "records are somebody else's",
            "AWS",
            managed("External", Value::Null),
            balancer("External", "Unmanaged", Value::Null),
            "/dnsManagementPolicy",
            json!("Unmanaged"),
        ),
        (
            "records are ours again",
            "AWS",
            balancer("External", "Unmanaged", Value::Null),
            managed("External", Value::Null),
            "/dnsManagementPolicy",
            json!("Managed"),
        ),
        (
            "access from nowhere to everywhere",
            "GCP",
            managed("Internal", Value::Null),
            managed("Internal", gcp("Global")),
            "/providerParameters/gcp/clientAccess",
            json!("Global"),
        ),
        (
            "access narrowed",
            "GCP",
            managed("Internal", gcp("Global")),
            managed("Internal", gcp("Local")),
            "/providerParameters/gcp/clientAccess",
            json!("Local"),
        ),
        (
            "access cleared",
            "GCP",
            managed("Internal", gcp("Global")),
            managed("Internal", json!({"type": "GCP"})),
            "/providerParameters/gcp",
            Value::Null,
        ),
        (
            "PROXY from nothing",
            "IBMCloud",
            managed("External", Value::Null),
            managed("External", ibm("PROXY")),
            "/providerParameters/ibm/protocol",
            json!("PROXY"),
        ),
        (
            "PROXY to TCP",
            "PowerVS",
            managed("External", ibm("PROXY")),
            managed("External", ibm("TCP")),
            "/providerParameters/ibm/protocol",
            json!("TCP"),
        ),
        (
            "an address",
            "OpenStack",
            managed("External", Value::Null),
            managed("External", openstack("192.0.2.1")),
            "/providerParameters/openstack/floatingIP",
            json!("192.0.2.1"),
        ),
    ] {
        let got = wanted(json!({"type": platform}), None, Some(before), Some(spec));
        assert_eq!(got["loadBalancer"].pointer(at).cloned().unwrap_or_default(), expected, "{what}");
    }
    let ranges =
        json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "allowedSourceRanges": ["::/0"]}});
    for (what, before, spec, expected) in [
        ("given", None, ranges.clone(), json!(["::/0"])),
        ("cleared", Some(ranges), managed("External", Value::Null), Value::Null),
    ] {
        let got = wanted(json!({"type": "AWS"}), None, before, Some(spec));
        assert_eq!(got["loadBalancer"]["allowedSourceRanges"], expected, "source ranges {what}");
    }
}

#[test]
fn edits_of_parameters_on_aws() {
    let aws = |kind: &str, block: &str, inside: Value| {
        balancer("External", "Managed", json!({"type": "AWS", "aws": {"type": kind, (block): inside}}))
    };
    let nlb = |inside: Value| aws("NLB", "networkLoadBalancer", inside);
    let classic = |inside: Value| aws("Classic", "classicLoadBalancer", inside);
    let subnets = json!({"ids": ["subnet-1"]});
    let bare = balancer("External", "Managed", Value::Null);
    for (what, ingress, before, spec, kind, block) in [
        (
            "subnets given",
            None,
            nlb(json!({"protocol": "TCP"})),
            nlb(json!({"subnets": subnets})),
            "NLB",
            json!({"subnets": subnets, "protocol": "TCP"}),
        ),
        ("subnets cleared", None, classic(json!({"subnets": subnets})), classic(json!({})), "Classic", json!({})),
        (
            "subnets go with the type",
            None,
            classic(json!({"subnets": subnets})),
            nlb(json!({})),
            "NLB",
            json!({"protocol": "TCP"}),
        ),
        (
            "addresses given",
            None,
            nlb(json!({"protocol": "PROXY"})),
            nlb(json!({"protocol": "PROXY", "eipAllocations": ["a"]})),
            "NLB",
            json!({"protocol": "PROXY", "eipAllocations": ["a"]}),
        ),
        (
            "a timeout changed",
            None,
            classic(json!({"connectionIdleTimeout": "1m"})),
            classic(json!({"connectionIdleTimeout": "2m"})),
            "Classic",
            json!({"connectionIdleTimeout": "2m"}),
        ),
        (
            "a timeout of nothing",
            None,
            classic(json!({"connectionIdleTimeout": "1m"})),
            classic(json!({"connectionIdleTimeout": "0s"})),
            "Classic",
            json!({}),
        ),
        (
            "parameters cleared: the type stays",
            None,
            nlb(json!({"protocol": "PROXY"})),
            bare.clone(),
            "NLB",
            json!({"protocol": "TCP"}),
        ),
        (
            "the Ingress configuration does not count any more",
            Some("NLB"),
            classic(json!({})),
            bare.clone(),
            "Classic",
            json!({}),
        ),
        (
            "nor the other way",
            Some("Classic"),
            nlb(json!({"protocol": "TCP"})),
            bare,
            "NLB",
            json!({"protocol": "TCP"}),
        ),
    ] {
        let got = wanted(json!({"type": "AWS"}), ingress, Some(before), Some(spec));
        let parameters = &got["loadBalancer"]["providerParameters"]["aws"];
        assert_eq!(parameters["type"], kind, "{what}");
        let name = if kind == "NLB" { "networkLoadBalancer" } else { "classicLoadBalancer" };
        assert_eq!(parameters[name], block, "{what}");
    }
}

#[test]
fn ports_of_the_host() {
    let ports = |http: Value, https: Value, stats: Value| json!({"type": "HostNetwork", "hostNetwork": {"httpPort": http, "httpsPort": https, "statsPort": stats}});
    let custom = ports(json!(8080), json!(8443), json!(9000));
    for (what, before, spec, expected) in [
        ("none said", None, json!({"type": "HostNetwork"}), [80, 443, 1936]),
        ("all said", None, custom.clone(), [8080, 8443, 9000]),
        ("0 is the default", None, ports(json!(0), json!(0), json!(0)), [80, 443, 1936]),
        ("one changed", Some(custom.clone()), ports(json!(8081), json!(8443), json!(9000)), [8081, 8443, 9000]),
        (
            "one removed",
            Some(custom.clone()),
            json!({"type": "HostNetwork", "hostNetwork": {"httpsPort": 8443}}),
            [80, 8443, 1936],
        ),
        ("all removed", Some(custom.clone()), json!({"type": "HostNetwork", "hostNetwork": {}}), [80, 443, 1936]),
        ("from a status without ports", Some(json!({"type": "HostNetwork"})), custom, [8080, 8443, 9000]),
    ] {
        let got = wanted(json!({"type": "None"}), None, before, Some(spec));
        let host = &got["hostNetwork"];
        let shown = ["httpPort", "httpsPort", "statsPort"].map(|field| host[field].as_u64().unwrap());
        assert_eq!(shown, expected, "{what}");
    }
}
