//! What it takes to run the operator on a cluster: its namespace, account, rights and Deployment.
//!
//! Printed by `twinstack ingress-operator --manifests`. The rights are those that the operator uses, and those of routers, because nobody may
//! grant what he does not have.

use super::names::OPERATOR_NAMESPACE;
use serde_json::{Value, json};

/// The operator's account and Deployment.
const NAME: &str = "ingress-operator";
/// The operator's ClusterRole.
const ROLE: &str = "openshift-ingress-operator";
/// Health and metrics.
const PORT: u16 = 10264;

/// A rule, as Kubernetes writes it.
pub(super) fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// What the operator may do.
pub fn rules() -> Vec<Value> {
    let read = ["get", "list", "watch"];
    let whole = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let own = ["get", "create", "update", "delete"];
    let kept = ["get", "create", "update"];
    let status = ["get", "update", "patch"];
    vec![
        rule(&[""], &["services"], &whole),
        rule(&[""], &["namespaces", "serviceaccounts"], &kept),
        rule(&[""], &["secrets", "configmaps"], &own),
        rule(&[""], &["pods", "events"], &["get", "list"]),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]),
        rule(&["apps"], &["deployments"], &whole),
        rule(&["policy"], &["poddisruptionbudgets"], &own),
        rule(&["networking.k8s.io"], &["networkpolicies", "ingressclasses"], &own),
        rule(&["discovery.k8s.io"], &["endpointslices"], &kept),
        rule(&["monitoring.coreos.com"], &["servicemonitors"], &own),
        rule(&["rbac.authorization.k8s.io"], &["clusterroles", "clusterrolebindings"], &kept),
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["get", "create"]),
        rule(&["operator.openshift.io"], &["ingresscontrollers"], &whole),
        rule(&["operator.openshift.io"], &["ingresscontrollers/status"], &status),
        rule(&["ingress.operator.openshift.io"], &["dnsrecords"], &whole),
        rule(&["ingress.operator.openshift.io"], &["dnsrecords/status"], &status),
        // Owners that keep what they own from going first.
        rule(
            &["", "apps", "operator.openshift.io"],
            &["services/finalizers", "deployments/finalizers", "ingresscontrollers/finalizers"],
            &["update"],
        ),
        rule(&["config.openshift.io"], &["infrastructures", "ingresses", "dnses", "networks", "apiservers"], &read),
        rule(&["config.openshift.io"], &["clusteroperators"], &["get", "list", "watch", "create"]),
        rule(&["config.openshift.io"], &["clusteroperators/status"], &status),
    ]
}

/// What routers may do: read what routes are made of, write the status of Routes and Ingresses, tell what they did.
pub fn router_rules() -> Vec<Value> {
    let read = ["get", "list", "watch"];
    vec![
        rule(&[""], &["namespaces", "services", "secrets"], &read),
        rule(&["discovery.k8s.io"], &["endpointslices"], &read),
        rule(&["route.openshift.io"], &["routes"], &read),
        rule(&["route.openshift.io"], &["routes/status"], &["get", "update", "patch"]),
        rule(&["networking.k8s.io"], &["ingresses", "ingressclasses"], &read),
        rule(&["networking.k8s.io"], &["ingresses/status"], &["get", "update", "patch"]),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
        // OpenShift lets an account have the Pods that it may use a constraint for.
        json!({"apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
            "resourceNames": ["hostnetwork", "restricted"], "verbs": ["use"]}),
    ]
}

/// All objects, in the order in which they have to be made. `image` is both the operator's and the routers'.
pub fn objects(image: &str) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let version = format!("{rbac}/v1");
    let account = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": OPERATOR_NAMESPACE}]);
    let inside = |name: &str| json!({"name": name, "namespace": OPERATOR_NAMESPACE});
    let leases = rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update"]);
    let all: Vec<Value> = rules().into_iter().chain(router_rules()).collect();
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside(NAME)}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": all}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE}, "subjects": account,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ROLE}}),
        json!({"apiVersion": version, "kind": "Role", "metadata": inside(NAME), "rules": [leases]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": inside(NAME), "subjects": account,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": NAME}}),
        deployment(image),
    ]
}

fn deployment(image: &str) -> Value {
    let labels = json!({"name": NAME});
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": PORT, "scheme": "HTTPS"}, "periodSeconds": 10});
    let container = json!({
        "name": NAME,
        "image": image,
        "command": ["twinstack", "ingress-operator"],
        "args": [
            format!("--router-image={image}"),
            format!("--leader-elect-resource-namespace={OPERATOR_NAMESPACE}"),
            // Its addresses of all families, separated by commas.
            "--bind-address=$(POD_IPS)",
            format!("--secure-port={PORT}"),
        ],
        "env": [{"name": "POD_IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}],
        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"}},
    });
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": OPERATOR_NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": NAME, "priorityClassName": "system-cluster-critical", "containers": [container]},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    };

    fn words(rule: &Value, field: &str) -> Vec<String> {
        serde_json::from_value(rule[field].clone()).unwrap()
    }

    /// One line for each thing that rules allow.
    fn allowed(rules: &[Value]) -> Vec<String> {
        let one = |rule: &Value| {
            let mut lines = Vec::new();
            for group in words(rule, "apiGroups") {
                for resource in words(rule, "resources") {
                    let verbs = words(rule, "verbs");
                    lines.extend(
                        verbs.iter().map(|verb| format!("{verb} {resource}.{group} {}", rule["resourceNames"])),
                    );
                }
            }
            lines
        };
        rules.iter().flat_map(one).collect()
    }

    #[test]
    fn the_operator_has_every_right_that_it_gives_to_routers() {
        let objects = objects("image");
        let own = objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
        let own = allowed(own["rules"].as_array().unwrap());
        for line in allowed(&router_rules()) {
            assert!(own.contains(&line), "{line}");
        }
        let role = crate::operator::plan::small::role();
        assert_eq!(role["rules"], json!(router_rules()));
    }

    #[test]
    fn nobody_may_do_everything() {
        for line in allowed(&rules()).iter().chain(&allowed(&router_rules())) {
            assert!(!line.contains('*'), "{line}");
            for word in ["impersonate", "escalate", "bind "] {
                assert!(!line.starts_with(word), "{line}");
            }
        }
        assert!(!allowed(&router_rules()).iter().any(|line| line.contains("secrets") && line.starts_with("create")));
    }

    #[test]
    fn objects_are_what_they_say() {
        for object in objects("registry.example.test/twinstack:1") {
            let kind = object["kind"].as_str().unwrap().to_owned();
            let read =
                |outcome: Result<(), serde_json::Error>| outcome.unwrap_or_else(|error| panic!("{kind}: {error}"));
            match kind.as_str() {
                "Namespace" => read(serde_json::from_value::<Namespace>(object).map(drop)),
                "ServiceAccount" => read(serde_json::from_value::<ServiceAccount>(object).map(drop)),
                "ClusterRole" => read(serde_json::from_value::<ClusterRole>(object).map(drop)),
                "ClusterRoleBinding" => read(serde_json::from_value::<ClusterRoleBinding>(object).map(drop)),
                "Role" => read(serde_json::from_value::<Role>(object).map(drop)),
                "RoleBinding" => read(serde_json::from_value::<RoleBinding>(object).map(drop)),
                "Deployment" => {
                    assert!(object.to_string().contains("registry.example.test/twinstack:1"));
                    read(serde_json::from_value::<Deployment>(object).map(drop));
                }
                other => panic!("{other} is not known here"),
            }
        }
    }
}
