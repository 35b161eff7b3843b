//! What an instance tells about its node.

use super::UNINITIALIZED;
use crate::account::Instance;
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use net::{Families, Family};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a node should say of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// `aws:///zone/id`.
    pub provider_id: String,
    /// Zone, region and instance type.
    pub labels: BTreeMap<String, String>,
    /// Addresses of the wanted families in their order, then names.
    pub addresses: Vec<NodeAddress>,
}

fn address(kind: &str, value: impl ToString) -> NodeAddress {
    NodeAddress { type_: kind.to_owned(), address: value.to_string() }
}

/// What an instance tells about its node.
pub fn facts(node: &Node, instance: &Instance, families: Families, region: &str) -> Facts {
    let mut interfaces: Vec<_> = instance.interfaces.iter().collect();
    interfaces.sort_by_key(|interface| interface.device_index);
    let mut addresses = Vec::new();
    for family in families.iter() {
        for interface in &interfaces {
            match family {
                Family::V4 => addresses.extend(interface.ipv4.iter().map(|ip| address("InternalIP", ip))),
                Family::V6 => addresses.extend(interface.ipv6.first().map(|ip| address("InternalIP", ip))),
            }
        }
        if family == Family::V4 {
            addresses.extend(instance.public_ipv4.map(|ip| address("ExternalIP", ip)));
        }
    }
    if !instance.private_dns.is_empty() {
        addresses.push(address("InternalDNS", &instance.private_dns));
        addresses.push(address("Hostname", &instance.private_dns));
    } else if let Some(name) = &node.metadata.name {
        addresses.push(address("Hostname", name));
    }
    if !instance.public_dns.is_empty() {
        addresses.push(address("ExternalDNS", &instance.public_dns));
    }
    let labels = [
        ("topology.kubernetes.io/zone", instance.zone.as_str()),
        ("topology.kubernetes.io/region", region),
        ("node.kubernetes.io/instance-type", instance.instance_type.as_str()),
        ("failure-domain.beta.kubernetes.io/zone", instance.zone.as_str()),
        ("failure-domain.beta.kubernetes.io/region", region),
        ("beta.kubernetes.io/instance-type", instance.instance_type.as_str()),
    ];
    Facts {
        provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
        labels: labels
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
        addresses,
    }
}

impl Facts {
    /// Whether there is an address of any wanted family. A node without one is of no use, and its taint keeps Pods away until it has one.
    pub fn has_address(&self) -> bool {
        self.addresses.iter().any(|address| address.type_ == "InternalIP")
    }

    /// What to change in the node, if anything: the provider id is set once, labels are kept, the taint goes.
    pub fn patch(&self, node: &Node) -> Option<Value> {
        let spec = node.spec.clone().unwrap_or_default();
        let mut patch = json!({});
        if spec.provider_id.as_deref().is_none_or(str::is_empty) {
            patch["spec"]["providerID"] = json!(self.provider_id);
        }
        let taints = spec.taints.unwrap_or_default();
        if taints.iter().any(|taint| taint.key == UNINITIALIZED) {
            let kept: Vec<_> = taints.iter().filter(|taint| taint.key != UNINITIALIZED).collect();
            patch["spec"]["taints"] = json!(kept);
            patch["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
        }
        let has = node.metadata.labels.clone().unwrap_or_default();
        for (key, value) in self.labels.iter().filter(|(key, value)| has.get(*key) != Some(*value)) {
            patch["metadata"]["labels"][key] = json!(value);
        }
        (patch != json!({})).then_some(patch)
    }

    /// The addresses, if the node says others. A host name that the kubelet gave stays.
    pub fn changed_addresses(&self, node: &Node) -> Option<Vec<NodeAddress>> {
        let has = node.status.as_ref().and_then(|status| status.addresses.clone()).unwrap_or_default();
        let hostname = has.iter().find(|address| address.type_ == "Hostname").cloned();
        let mut wanted: Vec<NodeAddress> =
            self.addresses.iter().filter(|one| hostname.is_none() || one.type_ != "Hostname").cloned().collect();
        wanted.extend(hostname);
        (wanted != has).then_some(wanted)
    }
}
