//! The objects as upstream's clients write them, read and written again.

use super::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn survives<T: Serialize + DeserializeOwned>(object: Value) -> T {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
    read
}

#[test]
fn every_definition_is_named_after_its_group_and_plural() {
    let definitions = definitions();
    assert_eq!(definitions.len(), definition_texts().len());
    for ((name, _), definition) in definition_texts().iter().zip(&definitions) {
        let (plural, group) = name.split_once('.').unwrap();
        assert_eq!(definition["metadata"]["name"], *name);
        assert_eq!(definition["spec"]["group"], group);
        assert_eq!(definition["spec"]["names"]["plural"], plural);
    }
}

/// A comma too many in YAML makes a key without a value.
#[test]
fn nothing_in_a_definition_is_null() {
    fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Object(map) => map.iter().for_each(|(key, value)| nulls(value, &format!("{path}.{key}"), found)),
            Value::Array(list) => list.iter().for_each(|value| nulls(value, path, found)),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    definitions().iter().for_each(|definition| nulls(definition, "", &mut found));
    assert_eq!(found, [""; 0]);
}

#[test]
fn an_infrastructure_keeps_what_nobody_here_knows() {
    let read: Infrastructure = survives(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster", "generation": 3},
        "spec": {"platformSpec": {"type": "AWS", "aws": {"serviceEndpoints": [{"name": "ec2", "url": "https://a.test"}]}}},
        "status": {
            "infrastructureName": "lab-x2k9p", "platform": "AWS", "cpuPartitioning": "None",
            "apiServerURL": "https://api.lab.example.test:6443", "apiServerInternalURI": "https://api-int.lab.example.test:6443",
            "controlPlaneTopology": "SingleReplica", "infrastructureTopology": "HighlyAvailable",
            "platformStatus": {"type": "AWS", "aws": {
                "region": "eu-west-1", "ipFamily": "DualStackIPv6Primary",
                "cloudLoadBalancerConfig": {"dnsType": "PlatformDefault"}}}},
    }));
    let family = read.status.unwrap().platform_status.unwrap().aws.unwrap().ip_family;
    assert_eq!(family.families().to_string(), "IPv6,IPv4");
}

#[test]
fn an_absent_or_empty_family_is_ipv4() {
    for aws in [json!({"region": "a"}), json!({"region": "a", "ipFamily": ""})] {
        let read: AwsPlatformStatus = serde_json::from_value(aws).unwrap();
        assert_eq!(read.ip_family, AwsIpFamily::IPv4);
    }
}

#[test]
fn an_ingress_controller_keeps_its_union_and_the_rest() {
    let read: IngressController = survives(json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
        "metadata": {"name": "default", "namespace": "openshift-ingress-operator"},
        "spec": {"replicas": 2, "tuningOptions": {"threadCount": 8}, "endpointPublishingStrategy": {
            "type": "LoadBalancerService",
            "loadBalancer": {"scope": "External", "dnsManagementPolicy": "Managed", "providerParameters": {
                "type": "AWS", "aws": {"type": "NLB", "networkLoadBalancer": {"protocol": "PROXY"}}}}}},
    }));
    let strategy = read.spec.endpoint_publishing_strategy.unwrap();
    assert_eq!(strategy.kind, PublishingKind::LoadBalancerService);
    let aws = strategy.load_balancer.and_then(|balancer| balancer.provider_parameters?.aws).unwrap();
    assert_eq!(aws.kind, LoadBalancerKind::Nlb);
}

#[test]
fn a_gate_is_open_when_its_version_lists_it() {
    let read: FeatureGate = survives(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "spec": {"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["AWSDualStackInstall"]}},
        "status": {"featureGates": [
            {"version": "1", "enabled": [{"name": "AWSDualStackInstall"}, {"name": "Both"}], "disabled": [{"name": "DNSTemplatePlugin"}]},
            {"version": "2", "enabled": [{"name": "Both"}], "disabled": []}]},
    }));
    let status = read.status.unwrap();
    for (version, gate, open) in [
        (Some("1"), "AWSDualStackInstall", true),
        (Some("1"), "DNSTemplatePlugin", false),
        (Some("2"), "AWSDualStackInstall", false),
        (Some("3"), "AWSDualStackInstall", false),
        (Some("3"), "Both", true),
        (None, "AWSDualStackInstall", false),
        (None, "Both", true),
    ] {
        assert_eq!(status.is_enabled(version, gate), open, "{version:?} {gate}");
    }
    assert!(!FeatureGateStatus::default().is_enabled(None, "Both"));
}

#[test]
fn the_small_ones_survive_too() {
    survives::<Network>(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"},
        "spec": {"clusterNetwork": [{"cidr": "fd01::/48", "hostPrefix": 64}, {"cidr": "10.128.0.0/14", "hostPrefix": 23}],
            "serviceNetwork": ["fd02::/112", "172.30.0.0/16"], "networkType": "OVNKubernetes", "serviceNodePortRange": "1-2"},
        "status": {"clusterNetwork": [{"cidr": "10.128.0.0/14"}], "serviceNetwork": [], "networkType": "x", "clusterNetworkMTU": 8901},
    }));
    survives::<Ingress>(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Ingress", "metadata": {"name": "cluster"},
        "spec": {"domain": "apps.lab.example.test", "appsDomain": "a.test", "loadBalancer": {"platform": {"type": "AWS", "aws": {"type": "Classic"}}}},
        "status": {"defaultPlacement": "Workers"},
    }));
    survives::<Dns>(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {"name": "cluster"},
        "spec": {"baseDomain": "lab.example.test", "publicZone": {"id": "Z1"}, "privateZone": {"tags": {"Name": "lab-int"}},
            "platform": {"type": "AWS", "aws": {"privateZoneIAMRole": "arn:aws:iam::123456789012:role/r"}}},
    }));
}
