//! The small objects: namespace, account and roles of routers, the disruption budget, network policies, the default certificate.

use super::{Input, deployment};
use crate::operator::names::OPERAND_NAMESPACE;
use serde_json::{Value, json};

/// Where routers live.
pub fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERAND_NAMESPACE, "labels": {
        "name": OPERAND_NAMESPACE,
        "network.openshift.io/policy-group": "ingress",
        "openshift.io/cluster-monitoring": "true",
    }}})
}

/// Whom routers act as.
pub fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "router", "namespace": OPERAND_NAMESPACE}})
}

/// What routers may do: read what routes are made of, write the status of Routes and Ingresses, ask who a reader of metrics is.
pub fn role() -> Value {
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "openshift-ingress-router"},
        "rules": [
            rule(&[""], &["namespaces", "services", "endpoints", "secrets"], &read),
            rule(&["discovery.k8s.io"], &["endpointslices"], &read),
            rule(&["route.openshift.io"], &["routes"], &read),
            rule(&["route.openshift.io"], &["routes/status"], &["get", "update", "patch"]),
            rule(&["networking.k8s.io"], &["ingresses", "ingressclasses"], &read),
            rule(&["networking.k8s.io"], &["ingresses/status"], &["get", "update", "patch"]),
            rule(&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]),
            rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update", "patch"]),
            rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
            rule(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
        ],
    })
}

/// The account gets the role.
pub fn binding() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "openshift-ingress-router"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "openshift-ingress-router"},
        "subjects": [{"kind": "ServiceAccount", "name": "router", "namespace": OPERAND_NAMESPACE}],
    })
}

/// How many routers may be taken away at a time; nothing where there is only one.
pub fn budget(input: Input<'_>) -> Option<Value> {
    let most = match deployment::replicas(input) {
        ..2 => return None,
        2 => json!(1),
        3.. => json!("25%"),
    };
    let most = if input.controller.spec.replicas.is_none() { json!("50%") } else { most };
    Some(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": input.names.router, "namespace": OPERAND_NAMESPACE, "labels": input.names.owning()},
        "spec": {
            "maxUnavailable": most,
            "selector": {"matchLabels": input.names.selector()},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }))
}

/// Routers may be reached on their ports and may reach everything; nothing else in the namespace may do either.
pub fn policies(input: Input<'_>) -> [Value; 2] {
    let policy = |name: &str, spec: Value| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec,
            "metadata": {"name": name, "namespace": OPERAND_NAMESPACE, "labels": input.names.owning()}})
    };
    let port = |name: &str| json!({"protocol": "TCP", "port": name});
    let mut nothing =
        policy("openshift-ingress-deny-all", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    nothing["metadata"]["labels"] = json!({});
    [
        policy(
            &input.names.router,
            json!({
                "podSelector": {"matchLabels": input.names.selector()},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": [port("http"), port("https"), port("metrics")]}],
                "egress": [{}],
            }),
        ),
        nothing,
    ]
}

/// A Secret for TLS.
pub fn certificate(input: Input<'_>, certificate: &str, key: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": input.names.certificate, "namespace": OPERAND_NAMESPACE, "labels": input.names.owning()},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    })
}

/// A Secret with the name and password for statistics.
pub fn stats(input: Input<'_>, password: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": input.names.stats, "namespace": OPERAND_NAMESPACE, "labels": input.names.owning()},
        "stringData": {"statsUsername": input.names.stats, "statsPassword": password},
    })
}
