//! What a kubelet may do: read what its own pods need, write its own Node, Lease and pods. Mirrors the Node authorizer.
//!
//! Judges by name only; `node_restriction` looks into the objects of writes at admission.

use super::{
    Attributes, Authorizer, Decision, PolicyRule, Reason, Rules, bootstrap,
    pod_graph::{Linked, NodeGraph},
};
use crate::authn::User;
use std::sync::Arc;

/// Namespace of the leases by which nodes tell that they live.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Decides for users in `system:nodes`; has no opinion about others.
pub struct NodeAuthorizer {
    graph: Arc<dyn NodeGraph>,
    /// For everything that is the same on every node.
    rules: Vec<PolicyRule>,
}

impl NodeAuthorizer {
    /// Asks `graph` what belongs to a node's pods.
    pub fn new(graph: Arc<dyn NodeGraph>) -> Self {
        let mut rules = bootstrap::cluster_role_rules("system:node");
        // Beyond upstream: a node's service proxy may run under the node's identity.
        let text = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        rules.push(PolicyRule {
            verbs: text(&["get", "list", "watch"]),
            groups: text(&["discovery.k8s.io"]),
            resources: text(&["endpointslices"]),
            ..PolicyRule::default()
        });
        Self { graph, rules }
    }

    fn decide(&self, node: &str, asked: &Attributes<'_>) -> Result<(), String> {
        if asked.path.is_none() {
            match (asked.group, asked.resource) {
                ("", "secrets") => return self.read(node, Linked::Secret, asked),
                ("", "configmaps") => return self.read(node, Linked::ConfigMap, asked),
                ("", "persistentvolumeclaims") if asked.subresource == "status" => {
                    only(asked.verb, &["update", "patch"], "can only get/update/patch this type")?;
                    return self.linked(node, Linked::PersistentVolumeClaim, asked);
                }
                ("", "persistentvolumeclaims") => return self.get(node, Linked::PersistentVolumeClaim, asked),
                ("", "persistentvolumes") => return self.get(node, Linked::PersistentVolume, asked),
                ("storage.k8s.io", "volumeattachments") => return self.get(node, Linked::VolumeAttachment, asked),
                ("", "serviceaccounts") => return self.service_account(node, asked),
                ("coordination.k8s.io", "leases") => return lease(node, asked),
                ("storage.k8s.io", "csinodes") => return csi_node(node, asked),
                ("", "nodes") => return own_node(node, asked),
                ("", "pods") => return self.pod(node, asked),
                _ => {}
            }
        }
        if self.rules.iter().any(|rule| rule.allows(asked)) { Ok(()) } else { Err(String::new()) }
    }

    fn read(&self, node: &str, kind: Linked, asked: &Attributes<'_>) -> Result<(), String> {
        only(asked.verb, &["get", "list", "watch"], "can only read resources of this type")?;
        only(asked.subresource, &[""], "cannot read subresource")?;
        if asked.namespace.is_empty() {
            return Err("can only read namespaced object of this type".to_owned());
        }
        self.linked(node, kind, asked)
    }

    fn get(&self, node: &str, kind: Linked, asked: &Attributes<'_>) -> Result<(), String> {
        only(asked.verb, &["get"], "can only get individual resources of this type")?;
        only(asked.subresource, &[""], "cannot get subresource")?;
        self.linked(node, kind, asked)
    }

    fn linked(&self, node: &str, kind: Linked, asked: &Attributes<'_>) -> Result<(), String> {
        if asked.name.is_empty() {
            return Err("No Object name found".to_owned());
        }
        match self.graph.reaches(node, kind, asked.namespace, asked.name) {
            true => Ok(()),
            false => Err(format!("no relationship found between node '{node}' and this object")),
        }
    }

    fn service_account(&self, node: &str, asked: &Attributes<'_>) -> Result<(), String> {
        if asked.verb == "get" && asked.subresource.is_empty() {
            return self.read(node, Linked::ServiceAccount, asked);
        }
        if asked.verb != "create" || asked.name.is_empty() {
            return Err("can only create tokens for individual service accounts".to_owned());
        }
        only(asked.subresource, &["token"], "can only create token subresource of serviceaccount")?;
        self.linked(node, Linked::ServiceAccount, asked)
    }

    fn pod(&self, node: &str, asked: &Attributes<'_>) -> Result<(), String> {
        match (asked.subresource, asked.verb) {
            ("", "get") => self.get(node, Linked::Pod, asked),
            ("", "list" | "watch") if selects_node(asked.field_selector, node) => Ok(()),
            ("", "list" | "watch") if asked.name.is_empty() => {
                Err("can only list/watch pods with spec.nodeName field selector".to_owned())
            }
            ("", "list" | "watch") => self.linked(node, Linked::Pod, asked),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(String::new()),
        }
    }
}

fn only(given: &str, accepted: &[&str], otherwise: &str) -> Result<(), String> {
    if accepted.contains(&given) { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn own_node(node: &str, asked: &Attributes<'_>) -> Result<(), String> {
    match (asked.subresource, asked.verb, asked.name) {
        ("", "create" | "update" | "patch", _) | ("status", "update" | "patch", _) => Ok(()),
        ("", "get" | "list" | "watch", name) if name == node => Ok(()),
        ("", "get" | "list" | "watch", "") => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch", name) => {
            Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
        }
        _ => Err(String::new()),
    }
}

fn lease(node: &str, asked: &Attributes<'_>) -> Result<(), String> {
    let verbs = ["get", "create", "update", "patch", "delete"];
    only(asked.verb, &verbs, "can only get, create, update, patch, or delete a node lease")?;
    if asked.namespace != LEASE_NAMESPACE {
        return Err(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"));
    }
    // The path of a create has no name; admission looks into the object.
    match asked.verb == "create" || asked.name == node {
        true => Ok(()),
        false => Err("can only access node lease with the same name as the requesting node".to_owned()),
    }
}

fn csi_node(node: &str, asked: &Attributes<'_>) -> Result<(), String> {
    let verbs = ["get", "create", "update", "patch", "delete"];
    only(asked.subresource, &[""], "cannot authorize CSINode subresources")?;
    only(asked.verb, &verbs, "can only get, create, update, patch, or delete a CSINode")?;
    match asked.verb == "create" || asked.name == node {
        true => Ok(()),
        false => Err("can only access CSINode with the same name as the requesting node".to_owned()),
    }
}

/// Whether a field selector holds the list to pods of this node. One with escapes, which no kubelet sends, does not: the
/// comma in it may be part of a value.
fn selects_node(selector: &str, node: &str) -> bool {
    !selector.contains('\\')
        && selector.split(',').any(|term| {
            // `!=` leaves a `!` at the end of the field, which then is another field.
            let parts = term.split_once("==").or_else(|| term.split_once('='));
            parts.is_some_and(|(field, value)| field.trim() == "spec.nodeName" && value == node)
        })
}

impl Authorizer for NodeAuthorizer {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        match attributes.user.node() {
            None => Decision::none(),
            Some("") => Decision::NoOpinion(format!("unknown node for user {:?}", attributes.user.name).into()),
            Some(node) => match self.decide(node, attributes) {
                Ok(()) => Decision::Allow(Reason::default()),
                Err(reason) => Decision::NoOpinion(reason.into()),
            },
        }
    }

    fn rules_for(&self, user: &User, _namespace: &str) -> Rules {
        match user.node() {
            None => Rules::default(),
            Some(_) => Rules {
                incomplete: true,
                errors: vec!["node authorizer does not support user rule resolution".to_owned()],
                ..Rules::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node n1 runs one pod; everything it needs is called `mine`.
    struct Mine;

    impl NodeGraph for Mine {
        fn reaches(&self, node: &str, _: Linked, namespace: &str, name: &str) -> bool {
            (node, namespace, name) == ("n1", "ns", "mine")
        }
    }

    fn ask(verb: &str, group: &str, resource: &str, namespace: &str, name: &str, selector: &str) -> Decision {
        let user = User::new("system:node:n1", ["system:nodes", "system:authenticated"]);
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let field_selector = selector;
        let asked = Attributes::resource(&user, verb, group, resource);
        NodeAuthorizer::new(Arc::new(Mine)).authorize(&Attributes {
            namespace,
            subresource,
            name,
            field_selector,
            ..asked
        })
    }

    #[test]
    fn a_kubelet_gets_what_its_pods_need_and_no_more() {
        let (core, coordination) = ("", "coordination.k8s.io");
        for (verbs, group, resource, namespace, name, want) in [
            ("get list watch", core, "secrets", "ns", "mine", true),
            ("get list watch", core, "secrets", "ns", "other", false),
            ("get list watch", core, "secrets", "ns", "", false),
            ("list", core, "secrets", "", "", false),
            ("create update patch delete", core, "secrets", "ns", "mine", false),
            ("get list watch", core, "configmaps", "ns", "mine", true),
            ("get", core, "configmaps", "other", "mine", false),
            ("get", core, "persistentvolumeclaims", "ns", "mine", true),
            ("list", core, "persistentvolumeclaims", "ns", "mine", false),
            ("update patch", core, "persistentvolumeclaims/status", "ns", "mine", true),
            ("get", core, "serviceaccounts", "ns", "mine", true),
            ("create", core, "serviceaccounts/token", "ns", "mine", true),
            ("create", core, "serviceaccounts/token", "ns", "other", false),
            ("create", core, "serviceaccounts", "ns", "mine", false),
            ("get list watch", core, "nodes", "", "n1", true),
            ("get list watch", core, "nodes", "", "n2", false),
            ("list", core, "nodes", "", "", false),
            ("create update patch", core, "nodes", "", "n1", true),
            ("delete deletecollection", core, "nodes", "", "n1", false),
            ("update patch", core, "nodes/status", "", "n1", true),
            ("get", core, "nodes/proxy", "", "n1", false),
            ("get", core, "pods", "ns", "mine", true),
            ("get", core, "pods", "ns", "other", false),
            ("list watch", core, "pods", "", "", false),
            ("create delete", core, "pods", "ns", "any", true),
            ("update patch", core, "pods", "ns", "mine", false),
            ("update patch", core, "pods/status", "ns", "any", true),
            ("create", core, "pods/eviction", "ns", "any", true),
            ("get", core, "pods/log", "ns", "mine", false),
            ("get create update patch delete", coordination, "leases", "kube-node-lease", "n1", true),
            ("get update patch delete", coordination, "leases", "kube-node-lease", "n2", false),
            ("get", coordination, "leases", "kube-system", "n1", false),
            ("list", coordination, "leases", "kube-node-lease", "", false),
            ("get list watch", core, "services", "", "", true),
            ("create", core, "services", "ns", "", false),
            ("get list watch", "discovery.k8s.io", "endpointslices", "", "", true),
            ("create update patch", core, "events", "ns", "", true),
            ("create", "authentication.k8s.io", "tokenreviews", "", "", true),
            ("create", "authorization.k8s.io", "subjectaccessreviews", "", "", true),
            ("get list watch create", "certificates.k8s.io", "certificatesigningrequests", "", "", true),
            ("get", "apps", "deployments", "ns", "mine", false),
            ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", false),
        ] {
            for verb in verbs.split(' ') {
                let got = ask(verb, group, resource, namespace, name, "");
                assert_eq!(got.allowed(), want, "{verb} {resource} {namespace}/{name}: {got:?}");
            }
        }
    }

    #[test]
    fn pods_are_listed_by_the_nodes_own_field_selector() {
        for (selector, want) in [
            ("spec.nodeName=n1", true),
            ("spec.nodeName==n1", true),
            ("status.phase=Running,spec.nodeName=n1", true),
            ("spec.nodeName!=n1", false),
            ("spec.nodeName=n2", false),
            ("spec.nodeName=n1x", false),
            ("spec.nodeName", false),
            ("metadata.name=spec.nodeName=n1", false),
            (r"metadata.name=x\,spec.nodeName=n1", false),
            ("", false),
        ] {
            assert_eq!(ask("list", "", "pods", "", "", selector).allowed(), want, "{selector}");
        }
    }

    #[test]
    fn a_refusal_says_why() {
        for (got, want) in [
            (ask("get", "", "secrets", "ns", "other", ""), "no relationship found between node 'n1' and this object"),
            (ask("list", "", "nodes", "", "", ""), "node 'n1' cannot read all nodes, only its own Node object"),
            (ask("list", "", "pods", "", "", ""), "can only list/watch pods with spec.nodeName field selector"),
        ] {
            assert_eq!(got, Decision::NoOpinion(want.into()));
        }
    }

    #[test]
    fn others_are_left_to_others() {
        let authorizer = NodeAuthorizer::new(Arc::new(Mine));
        for (name, group, want) in [
            ("system:node:n1", "dev", Decision::none()),
            ("bob", "system:nodes", Decision::none()),
            ("system:node:", "system:nodes", Decision::NoOpinion("unknown node for user \"system:node:\"".into())),
        ] {
            let user = User::new(name, [group]);
            let asked = Attributes { name: "n1", ..Attributes::resource(&user, "get", "", "nodes") };
            assert_eq!(authorizer.authorize(&asked), want, "{name}");
        }
    }
}
