//! The objects of a cluster at one moment, by kind.

use k8s_openapi::{
    Metadata,
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod, Service},
        discovery::v1::EndpointSlice,
        events::v1::Event,
        networking::v1::{NetworkPolicy, ServiceCIDR},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use objects::Decode;
use serde_json::Value;
use std::{borrow::Cow, time::SystemTime};

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
    /// Takes in an object, or a list of them. Of other kinds nothing is kept; one that cannot be read is told, and what is no object.
    pub fn add(&mut self, object: Value) -> Result<(), String> {
        if object["kind"].as_str().is_none_or(str::is_empty) {
            let text: String = object.to_string().chars().take(60).collect();
            return Err(format!("{text}: is no object of Kubernetes, as it has no kind"));
        }
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

    /// Whether an object of a kind, as `Finding`s name it, is here: in this namespace, or in any.
    #[must_use]
    pub fn has(&self, kind: &str, name: &str, namespace: Option<&str>) -> bool {
        self.names()
            .any(|(known, about)| known == kind && about.name.as_deref() == Some(name) && is_in(&about, namespace))
    }

    /// Whether anything of a namespace is here.
    #[must_use]
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.names().any(|(_, about)| about.namespace.as_deref() == Some(namespace))
    }

    /// Kind, name and namespace of everything that can be asked for.
    fn names(&self) -> impl Iterator<Item = (String, Cow<'_, ObjectMeta>)> {
        fn of<'a, K: Metadata<Ty = ObjectMeta>>(
            kind: &'a str,
            list: &'a [K],
        ) -> impl Iterator<Item = (String, Cow<'a, ObjectMeta>)> {
            list.iter().map(move |object| (kind.to_owned(), Cow::Borrowed(object.metadata())))
        }
        let custom = self.custom.iter().map(|object| {
            let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
            let about = ObjectMeta { name: text("name"), namespace: text("namespace"), ..ObjectMeta::default() };
            (object["kind"].as_str().unwrap_or_default().to_lowercase(), Cow::Owned(about))
        });
        of("node", &self.nodes)
            .chain(of("pod", &self.pods))
            .chain(of("service", &self.services))
            .chain(of("endpointslice", &self.slices))
            .chain(of("networkpolicy", &self.policies))
            .chain(of("lease", &self.leases))
            .chain(custom)
    }
}

/// What is in no namespace is there whichever is asked for.
fn is_in(about: &ObjectMeta, namespace: Option<&str>) -> bool {
    namespace.is_none() || about.namespace.is_none() || about.namespace.as_deref() == namespace
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
        for garbage in [json!("garbage"), json!({}), json!(3), json!({"kind": ""}), json!([{"kind": "Node"}])] {
            let refused = snapshot.add(garbage.clone()).unwrap_err();
            assert!(refused.ends_with("is no object of Kubernetes, as it has no kind"), "{garbage}: {refused}");
        }
    }

    #[test]
    fn what_is_asked_for_is_there_or_not() {
        let mut snapshot = Snapshot::default();
        let items = json!([
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}},
            {"apiVersion": "operator.openshift.io/v1", "kind": "DNS", "metadata": {"name": "default"}},
        ]);
        snapshot.add(json!({"kind": "List", "items": items})).unwrap();
        for (kind, name, namespace, expected) in [
            ("service", "web", None, true),
            ("service", "web", Some("shop"), true),
            ("service", "web", Some("other"), false),
            ("service", "n", None, false),
            ("node", "n", Some("shop"), true),
            ("dns", "default", None, true),
            ("pod", "web", None, false),
        ] {
            assert_eq!(snapshot.has(kind, name, namespace), expected, "{kind}/{name} {namespace:?}");
        }
        assert!(snapshot.has_namespace("shop") && !snapshot.has_namespace("other"));
    }
}
