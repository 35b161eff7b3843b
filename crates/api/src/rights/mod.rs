//! What each component may do, as rules of RBAC: what `manifests` and `init` grant, and what operators grant to what they run.
//!
//! Least is best: nothing here has a star, but for what ends namespaces and collects garbage, and what concerns one namespace is granted there alone. An operator also has the rights that it
//! gives away, because nobody may grant what he does not have.

mod controllers;

pub use controllers::controller_manager;

use crate::config::{DNS_OPERATOR_DEFINITIONS, INGRESS_OPERATOR_DEFINITIONS};
use serde_json::{Value, json};

/// Where the servers of DNS live.
pub const DNS_NAMESPACE: &str = "openshift-dns";
/// Where the operator of DNS lives.
pub const DNS_OPERATOR_NAMESPACE: &str = "openshift-dns-operator";
/// Where the operator of routers lives.
pub const INGRESS_OPERATOR_NAMESPACE: &str = crate::config::INGRESS_NAMESPACE;
/// Where routers live.
pub const ROUTER_NAMESPACE: &str = "openshift-ingress";
/// Where the cloud-config of a cluster is kept.
pub const CLOUD_CONFIG_NAMESPACE: &str = "openshift-cloud-controller-manager";
/// Where administrators put what operators read.
pub const CONFIG_NAMESPACE: &str = "openshift-config";
/// Where other operators put what operators read.
pub const MANAGED_CONFIG_NAMESPACE: &str = "openshift-config-managed";
/// Where the cluster's own components live.
pub const SYSTEM_NAMESPACE: &str = "kube-system";

const READ: [&str; 3] = ["get", "list", "watch"];
const EXTENSIONS: &str = "apiextensions.k8s.io";
const FOLLOW: [&str; 2] = ["list", "watch"];
/// For what is applied: by those who ask before, and by those who watch.
const APPLY: [&str; 3] = ["get", "create", "patch"];
const KEEP: [&str; 4] = ["list", "watch", "create", "patch"];

/// What one component may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    /// In all namespaces, and with objects that are in none.
    pub everywhere: Vec<Value>,
    /// In single namespaces.
    pub within: Vec<(&'static str, Vec<Value>)>,
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// Only objects of these names.
fn named(group: &str, resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
    let mut rule = rule(group, resources, verbs);
    rule["resourceNames"] = json!(names);
    rule
}

fn events() -> Value {
    json!({"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]})
}

/// Those of one of several that lead in turn, with its lease in this namespace.
fn leader(namespace: &'static str) -> (&'static str, Vec<Value>) {
    (namespace, vec![rule("coordination.k8s.io", &["leases"], &["get", "create", "update"])])
}

/// `twinstack cloud-controller-manager`.
#[must_use]
pub fn cloud_controller_manager() -> Rights {
    Rights {
        everywhere: vec![
            rule("", &["nodes"], &["list", "watch", "patch", "delete"]),
            rule("", &["nodes/status"], &["patch"]),
            rule("", &["services"], &["get", "list", "watch", "patch"]),
            rule("", &["services/status"], &["patch"]),
            // Its UID tells this cluster from another one with the same id.
            named("", &["namespaces"], &[SYSTEM_NAMESPACE], &["get"]),
            events(),
        ],
        within: vec![leader(SYSTEM_NAMESPACE)],
    }
}

/// `twinstack cloud-config sync`.
#[must_use]
pub fn cloud_config_sync() -> Rights {
    Rights {
        everywhere: vec![rule("config.openshift.io", &["infrastructures", "featuregates"], &FOLLOW), events()],
        within: vec![
            // A target that was made immutable is made anew.
            (CLOUD_CONFIG_NAMESPACE, vec![rule("", &["configmaps"], &["list", "watch", "create", "patch", "delete"])]),
            (CONFIG_NAMESPACE, vec![rule("", &["configmaps"], &FOLLOW)]),
            (MANAGED_CONFIG_NAMESPACE, vec![rule("", &["configmaps"], &FOLLOW)]),
            leader(SYSTEM_NAMESPACE),
        ],
    }
}

/// `twinstack dns-operator`.
#[must_use]
pub fn dns_operator() -> Rights {
    let own = vec![
        rule("", &["services"], &KEEP),
        rule("", &["serviceaccounts"], &APPLY),
        rule("", &["pods"], &FOLLOW),
        // What was made immutable is made anew.
        rule("", &["configmaps"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule("apps", &["daemonsets"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule("networking.k8s.io", &["networkpolicies"], &APPLY),
        rule("monitoring.coreos.com", &["servicemonitors", "prometheusrules"], &APPLY),
    ];
    let mut everywhere = vec![
        rule("", &["namespaces"], &APPLY),
        rule(EXTENSIONS, &["customresourcedefinitions"], &["get", "create"]),
        named(EXTENSIONS, &["customresourcedefinitions"], &DNS_OPERATOR_DEFINITIONS, &["update"]),
        rule("rbac.authorization.k8s.io", &["clusterroles", "clusterrolebindings"], &APPLY),
        rule("operator.openshift.io", &["dnses"], &["get", "list", "watch", "create"]),
        rule("operator.openshift.io", &["dnses/status"], &["update"]),
        rule("config.openshift.io", &["networks", "infrastructures", "featuregates"], &FOLLOW),
        events(),
    ];
    everywhere.extend(dns_server());
    let bundles = vec![rule("", &["configmaps"], &FOLLOW)];
    Rights {
        everywhere,
        within: vec![(DNS_NAMESPACE, own), (CONFIG_NAMESPACE, bundles), leader(DNS_OPERATOR_NAMESPACE)],
    }
}

/// A DNS server with the plugin `kubernetes`: ours, or CoreDNS.
#[must_use]
pub fn dns_server() -> Vec<Value> {
    vec![
        rule("", &["endpoints", "services", "pods", "namespaces"], &FOLLOW),
        rule("discovery.k8s.io", &["endpointslices"], &FOLLOW),
    ]
}

/// The policy that gives Routes without a host one.
pub const GENERATED_HOSTS: &str = "generated-hosts.route.openshift.io";

/// `twinstack ingress-operator`: what it makes is in the namespace of routers, what it reads and tells in its own; the rest has no
/// namespace. What it gives to routers it has everywhere, as they do.
#[must_use]
pub fn ingress_operator() -> Rights {
    const ADMISSION: &str = "admissionregistration.k8s.io";
    const POLICIES: [&str; 2] = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
    const NAMESPACES: [&str; 3] = [ROUTER_NAMESPACE, INGRESS_OPERATOR_NAMESPACE, MANAGED_CONFIG_NAMESPACE];
    let whole = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let own = ["get", "create", "patch", "delete"];
    let status = ["get", "update", "patch"];
    let role = ["openshift-ingress-router"];
    let (rbac, records) = ("rbac.authorization.k8s.io", "ingress.operator.openshift.io");
    let mut everywhere = vec![
        rule("", &["namespaces"], &["create"]),
        named("", &["namespaces"], &NAMESPACES, &["get", "patch"]),
        rule("networking.k8s.io", &["ingressclasses"], &own),
        rule(rbac, &["clusterroles", "clusterrolebindings"], &["create"]),
        named(rbac, &["clusterroles", "clusterrolebindings"], &role, &["get", "patch"]),
        rule(EXTENSIONS, &["customresourcedefinitions"], &["get", "create"]),
        named(EXTENSIONS, &["customresourcedefinitions"], &INGRESS_OPERATOR_DEFINITIONS, &["update"]),
        rule(ADMISSION, &POLICIES, &["create"]),
        named(ADMISSION, &POLICIES, &[GENERATED_HOSTS], &["get", "patch"]),
        // Of its own namespace and that of routers; a name is published once, whoever asks for it.
        rule(records, &["dnsrecords"], &FOLLOW),
        rule("config.openshift.io", &["infrastructures", "ingresses", "dnses", "networks", "apiservers"], &READ),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        rule("config.openshift.io", &["clusteroperators/status"], &status),
    ];
    everywhere.extend(router());
    let in_records = [rule(records, &["dnsrecords"], &whole), rule(records, &["dnsrecords/status"], &status)];
    let mut routers = vec![
        rule("", &["services"], &whole),
        rule("", &["serviceaccounts"], &APPLY),
        // For routers that are processes and not Pods.
        named("", &["serviceaccounts/token"], &["router"], &["create"]),
        rule("", &["configmaps"], &own),
        rule("", &["secrets"], &["get", "create", "update", "delete"]),
        rule("", &["pods", "events"], &["get", "list"]),
        rule("apps", &["deployments"], &whole),
        rule("policy", &["poddisruptionbudgets"], &own),
        rule("networking.k8s.io", &["networkpolicies"], &own),
        rule("discovery.k8s.io", &["endpointslices"], &APPLY),
        rule("monitoring.coreos.com", &["servicemonitors"], &own),
        // Owners that keep what they own from going first.
        rule("", &["services/finalizers"], &["update"]),
        rule("apps", &["deployments/finalizers"], &["update"]),
    ];
    routers.extend(in_records.clone());
    let published = vec![
        rule("", &["configmaps"], &["create"]),
        named("", &["configmaps"], &["default-ingress-cert"], &["get", "patch"]),
    ];
    let (_, mut itself) = leader(INGRESS_OPERATOR_NAMESPACE);
    itself.extend(in_records);
    itself.extend([
        rule("operator.openshift.io", &["ingresscontrollers"], &whole),
        rule("operator.openshift.io", &["ingresscontrollers/status"], &status),
        rule("operator.openshift.io", &["ingresscontrollers/finalizers"], &["update"]),
    ]);
    Rights {
        everywhere,
        within: vec![
            (ROUTER_NAMESPACE, routers),
            (CONFIG_NAMESPACE, vec![rule("", &["configmaps"], &["get"])]),
            (MANAGED_CONFIG_NAMESPACE, published),
            (INGRESS_OPERATOR_NAMESPACE, itself),
        ],
    }
}

/// `twinstack router`: reads what routes are made of, writes the status of Routes and Ingresses, tells what it did.
///
/// Of Secrets it asks for those that its Routes and Ingresses name, by their names. RBAC has no words for that in a role that is written once;
/// docs/guide/router.md says how to grant them one by one.
#[must_use]
pub fn router() -> Vec<Value> {
    let mut rules = router_without_secrets();
    rules.push(rule("", &["secrets"], &FOLLOW));
    rules
}

/// The same for routers that see the Secrets that a Role in their namespace grants, and no others.
#[must_use]
pub fn router_without_secrets() -> Vec<Value> {
    let status = ["get", "update", "patch"];
    vec![
        rule("", &["namespaces", "services"], &READ),
        rule("discovery.k8s.io", &["endpointslices"], &READ),
        rule("route.openshift.io", &["routes"], &READ),
        rule("route.openshift.io", &["routes/status"], &status),
        rule("networking.k8s.io", &["ingresses", "ingressclasses"], &READ),
        rule("networking.k8s.io", &["ingresses/status"], &status),
        events(),
        // OpenShift lets an account have the Pods that it may use a constraint for.
        json!({"apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
            "resourceNames": ["hostnetwork", "restricted"], "verbs": ["use"]}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn components() -> [Rights; 4] {
        [cloud_controller_manager(), cloud_config_sync(), dns_operator(), ingress_operator()]
    }

    #[test]
    fn nobody_may_do_everything() {
        for rights in components() {
            let within = rights.within.iter().flat_map(|(_, inside)| inside);
            for rule in rights.everywhere.iter().chain(within) {
                for field in ["apiGroups", "resources", "verbs"] {
                    let words = words(rule, field);
                    assert!(!words.is_empty(), "{rule}");
                    assert!(
                        ["*", "impersonate", "escalate", "bind"].iter().all(|word| !words.contains(word)),
                        "{rule}"
                    );
                }
            }
        }
    }

    #[test]
    fn only_routers_and_their_operator_see_secrets_and_routers_only_read_them() {
        let verbs = |rules: &[Value]| -> Vec<String> {
            let about = rules.iter().filter(|rule| words(rule, "resources").contains(&"secrets"));
            about.flat_map(|rule| words(rule, "verbs")).map(str::to_owned).collect()
        };
        assert_eq!(verbs(&router()), FOLLOW);
        assert!(verbs(&router_without_secrets()).is_empty());
        for rights in [cloud_controller_manager(), cloud_config_sync(), dns_operator()] {
            let all: Vec<Value> =
                rights.within.into_iter().flat_map(|(_, rules)| rules).chain(rights.everywhere).collect();
            assert!(verbs(&all).is_empty());
        }
    }

    /// Namespaces that a component may write to, beside leases and events: its rules with verbs that change something.
    #[test]
    fn what_is_in_a_namespace_is_changed_by_rights_in_that_namespace() {
        let cluster_scoped = [
            "namespaces",
            "nodes",
            "nodes/status",
            "ingressclasses",
            "clusterroles",
            "clusterrolebindings",
            "customresourcedefinitions",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "clusteroperators",
            "clusteroperators/status",
            "dnses",
            "dnses/status",
            // Of all namespaces, by what these components are for.
            "events",
            "services",
            "services/status",
            "routes/status",
            "ingresses/status",
            "securitycontextconstraints",
        ];
        for (name, rights) in [
            ("cloud-controller-manager", cloud_controller_manager()),
            ("cloud-config-sync", cloud_config_sync()),
            ("dns-operator", dns_operator()),
            ("ingress-operator", ingress_operator()),
        ] {
            for rule in &rights.everywhere {
                let changes = words(rule, "verbs").iter().any(|verb| !READ.contains(verb));
                let more: Vec<&str> = words(rule, "resources")
                    .into_iter()
                    .filter(|one| changes && !cluster_scoped.contains(one))
                    .collect();
                assert_eq!(more, [""; 0], "{name} everywhere");
            }
        }
        let changed_services = |rights: &Rights| {
            rights.everywhere.iter().any(|rule| {
                words(rule, "resources").contains(&"services")
                    && words(rule, "verbs").iter().any(|verb| !READ.contains(verb))
            })
        };
        assert!(!changed_services(&ingress_operator()) && !changed_services(&dns_operator()));
        let reads_maps =
            |rights: &Rights| rights.everywhere.iter().any(|rule| words(rule, "resources").contains(&"configmaps"));
        assert!(![cloud_config_sync(), dns_operator(), ingress_operator()].iter().any(reads_maps));
    }

    #[test]
    fn operators_have_what_they_give() {
        for given in dns_server() {
            assert!(dns_operator().everywhere.contains(&given), "{given}");
        }
        for given in router() {
            assert!(ingress_operator().everywhere.contains(&given), "{given}");
        }
    }
}
