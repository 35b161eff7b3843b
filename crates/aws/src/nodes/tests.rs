//! What nodes are told, in every shape of cluster.

use super::{facts, matters};
use crate::{account::Instance, memory::Example};
use k8s_openapi::api::core::v1::Node;
use net::{Families, Family};
use serde_json::{Value, json};

#[test]
fn addresses_come_in_the_order_of_the_families() {
    let state = Example { nodes: 1 }.state();
    let instance = &state.instances["i-0000"];
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "node-0"}})).unwrap();
    let (v4, v6) = ("10.0.100.10", "2001:db8:0:64::a");
    for (families, expected) in Families::ALL.into_iter().zip([vec![v4], vec![v6], vec![v4, v6], vec![v6, v4]]) {
        let facts = facts(&node, instance, families, "us-east-1");
        let internal: Vec<&str> = facts
            .addresses
            .iter()
            .filter(|address| address.type_ == "InternalIP")
            .map(|address| address.address.as_str())
            .collect();
        assert_eq!(internal, expected, "{families}");
        assert_eq!(facts.provider_id, "aws:///us-east-1a/i-0000");
    }
}

#[test]
fn a_node_has_an_address_of_a_wanted_family_or_none() {
    let mut instance = Example { nodes: 1 }.state().instances["i-0000"].clone();
    let node = Node::default();
    let has = |instance: &Instance| Families::ALL.map(|families| facts(&node, instance, families, "r").has_address());
    assert_eq!(has(&instance), [true; 4]);
    instance.interfaces.iter_mut().for_each(|interface| interface.ipv6.clear());
    assert_eq!(has(&instance), [true, false, true, true], "IPv6 alone");
    instance.interfaces.clear();
    assert_eq!(has(&instance), [false; 4]);
}

#[test]
fn a_node_is_told_once() {
    let state = Example { nodes: 1 }.state();
    let instance = &state.instances["i-0000"];
    let mut node: Node = serde_json::from_value(json!({
        "metadata": {"name": "node-0", "resourceVersion": "7"},
        "spec": {"taints": [
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule", "value": "true"},
            {"key": "mine", "effect": "NoSchedule"},
        ]},
    }))
    .unwrap();
    let facts = facts(&node, instance, Families::both(Family::V6), "us-east-1");
    let patch = facts.patch(&node).unwrap();
    assert_eq!(patch["spec"]["providerID"], "aws:///us-east-1a/i-0000");
    assert_eq!(patch["spec"]["taints"].as_array().unwrap().len(), 1);
    assert_eq!(patch["metadata"]["labels"]["topology.kubernetes.io/zone"], "us-east-1a");
    assert_eq!(patch["metadata"]["labels"]["node.kubernetes.io/instance-type"], "m6i.large");
    node.spec.as_mut().unwrap().provider_id = Some(facts.provider_id.clone());
    node.spec.as_mut().unwrap().taints = None;
    node.metadata.labels = Some(facts.labels.clone());
    assert_eq!(facts.patch(&node), None);
    let addresses = facts.changed_addresses(&node).unwrap();
    node.status.get_or_insert_default().addresses = Some(addresses);
    assert_eq!(facts.changed_addresses(&node), None);
}

#[test]
fn a_heartbeat_is_no_reason_to_ask_aws() {
    let node = |at: &str, value: Value| -> Node {
        let mut object = json!({
            "metadata": {"name": "node-0", "uid": "1", "resourceVersion": "1", "labels": {"a": "b"}},
            "spec": {"providerID": "aws:///us-east-1a/i-0000"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "2001:db8::1"}],
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
            },
        });
        *object.pointer_mut(at).unwrap() = value;
        serde_json::from_value(object).unwrap()
    };
    let before = node("/metadata/name", json!("node-0"));
    assert!(matters(None, Some(&before)) && matters(Some(&before), None));
    for (at, value, expected) in [
        ("/metadata/resourceVersion", json!("2"), false),
        ("/status/conditions/0/lastHeartbeatTime", json!("2026-01-01T00:05:00Z"), false),
        ("/status/conditions/0/status", json!("Unknown"), false),
        ("/metadata/uid", json!("2"), true),
        ("/metadata/labels", json!({}), true),
        ("/spec", json!({"taints": [{"key": "a", "effect": "NoSchedule"}]}), true),
        ("/status/addresses/0/address", json!("10.0.0.2"), true),
        ("/status/addresses/1/address", json!("2001:db8::2"), true),
        ("/status/addresses", json!([]), true),
    ] {
        let after = node(at, value);
        assert_eq!(matters(Some(&before), Some(&after)), expected, "{at}");
    }
}
