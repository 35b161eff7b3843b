//! The objects of a cluster at one moment, by kind.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
    events::v1::Event,
    networking::v1::{NetworkPolicy, ServiceCIDR},
};
use objects::Decode;
use serde_json::Value;
use std::time::SystemTime;

/// A kind that is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Empty for the core.
    pub group: &'static str,
    pub version: &'static str,
    /// `Service`.
    pub kind: &'static str,
    /// `services`.
    pub plural: &'static str,
    /// Which of them.
    pub fields: &'static str,
}

const fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, version, kind, plural, fields: "" }
}

/// All of them. Those that a cluster does not serve are none.
pub const KINDS: &[Kind] = &[
    kind("", "v1", "Node", "nodes"),
    kind("", "v1", "Pod", "pods"),
    kind("", "v1", "Service", "services"),
    kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs"),
    kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    Kind { fields: "type=Warning", ..kind("events.k8s.io", "v1", "Event", "events") },
    kind("coordination.k8s.io", "v1", "Lease", "leases"),
    kind("operator.openshift.io", "v1", "IngressController", "ingresscontrollers"),
    kind("operator.openshift.io", "v1", "DNS", "dnses"),
    kind("ingress.operator.openshift.io", "v1", "DNSRecord", "dnsrecords"),
    kind("route.openshift.io", "v1", "Route", "routes"),
];

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) services: Vec<Service>,
    pub(crate) slices: Vec<EndpointSlice>,
    pub(crate) ranges: Vec<ServiceCIDR>,
    pub(crate) policies: Vec<NetworkPolicy>,
    pub(crate) warnings: Vec<Event>,
    pub(crate) leases: Vec<Lease>,
    /// Objects of custom kinds, which say in conditions how they are.
    pub(crate) custom: Vec<Value>,
    /// When they were read from the cluster; nothing for objects from a file.
    pub taken: Option<SystemTime>,
}

impl Snapshot {
    /// Takes in an object, or a list of them. Of other kinds nothing is kept; one that cannot be read is told.
    pub fn add(&mut self, object: Value) -> Result<(), String> {
        if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) {
            let Value::Object(mut list) = object else { return Ok(()) };
            let Some(Value::Array(items)) = list.remove("items") else { return Ok(()) };
            let problems: Vec<String> = items.into_iter().filter_map(|item| self.add(item).err()).collect();
            return if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) };
        }
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        match (group, object["kind"].as_str().unwrap_or_default()) {
            ("", "Node") => keep(&mut self.nodes, object),
            ("", "Pod") => keep(&mut self.pods, object),
            ("", "Service") => keep(&mut self.services, object),
            ("discovery.k8s.io", "EndpointSlice") => keep(&mut self.slices, object),
            ("networking.k8s.io", "ServiceCIDR") => keep(&mut self.ranges, object),
            ("networking.k8s.io", "NetworkPolicy") => keep(&mut self.policies, object),
            ("coordination.k8s.io", "Lease") => keep(&mut self.leases, object),
            ("events.k8s.io", "Event") => keep(&mut self.warnings, object),
            ("operator.openshift.io" | "ingress.operator.openshift.io" | "route.openshift.io", _) => {
                self.custom.push(object);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn keep<T: Decode>(list: &mut Vec<T>, object: Value) -> Result<(), String> {
    let what = format!(
        "{} {}",
        object["kind"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default()
    );
    list.push(objects::from_value(&object).map_err(|error| format!("{what}: {error}"))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_taken_apart_and_strangers_left_out() {
        let mut snapshot = Snapshot::default();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}},
            {"apiVersion": "v1", "kind": "ServiceList", "items": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "c"}}]},
            {"apiVersion": "operator.openshift.io/v1", "kind": "DNS", "metadata": {"name": "default"}},
        ]});
        snapshot.add(list).unwrap();
        let Snapshot { nodes, pods, services, custom, .. } = &snapshot;
        assert_eq!((nodes.len(), pods.len(), services.len(), custom.len()), (1, 0, 1, 1));
        let wrong = snapshot.add(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": 1}));
        assert!(wrong.unwrap_err().starts_with("Pod p: "));
    }
}
