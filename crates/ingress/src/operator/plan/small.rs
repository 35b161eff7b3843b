//! The small objects: namespace, account and roles of routers, the disruption budget, network policies, the default certificate, copies of
//! ConfigMaps, what Prometheus asks.

use super::{Input, deployment, environment};
use crate::operator::names::{MANAGED_CONFIG_NAMESPACE, OPERAND_NAMESPACE};
use serde_json::{Value, json};

/// Where routers live.
pub fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERAND_NAMESPACE, "labels": {
        "name": OPERAND_NAMESPACE,
        "network.openshift.io/policy-group": "ingress",
        "openshift.io/cluster-monitoring": "true",
    }}})
}

/// Name of the account that routers act as.
pub const ACCOUNT: &str = "router";

/// Whom routers act as.
pub fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": OPERAND_NAMESPACE}})
}

/// Which Secrets routers may read; they ask for those that Routes and Ingresses name either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouterSecrets {
    #[default]
    All,
    /// Those that a Role in their namespace grants to the account of routers.
    Granted,
}

/// What routers may do.
pub fn role(secrets: RouterSecrets) -> Value {
    let rules = match secrets {
        RouterSecrets::All => api::rights::router(),
        RouterSecrets::Granted => api::rights::router_without_secrets(),
    };
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "openshift-ingress-router"},
        "rules": rules})
}

/// The account gets the role.
pub fn binding() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "openshift-ingress-router"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "openshift-ingress-router"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": OPERAND_NAMESPACE}],
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

/// Whom to trust for the hosts of the IngressController `default`, where upstream's clients look for it.
pub const DEFAULT_INGRESS_CERT: &str = "default-ingress-cert";

/// Its namespace, and the ConfigMap itself.
pub fn published_certificate(chain: &str) -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MANAGED_CONFIG_NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": DEFAULT_INGRESS_CERT, "namespace": MANAGED_CONFIG_NAMESPACE},
            "data": {"ca-bundle.crt": chain},
        }),
    ]
}

/// A Secret with the name and password for statistics.
pub fn stats(input: Input<'_>, password: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": input.names.stats, "namespace": OPERAND_NAMESPACE, "labels": input.names.owning()},
        "stringData": {"statsUsername": input.names.stats, "statsPassword": password},
    })
}

/// Where the authority of Services' certificates is put, on clusters that have one.
pub const SERVICE_CA: &str = "service-ca-bundle";

/// An empty ConfigMap that asks for it.
pub fn service_ca() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SERVICE_CA, "namespace": OPERAND_NAMESPACE,
        "annotations": {"service.beta.openshift.io/inject-cabundle": "true"}}})
}

/// A ConfigMap of the administrator's that routers need in their own namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy<'a> {
    /// The field that names it.
    pub field: &'static str,
    /// Its name in `openshift-config`.
    pub source: &'a str,
    /// Its name beside the routers.
    pub name: &'a str,
    /// Name of the volume.
    pub volume: &'static str,
    /// Where routers find it.
    pub path: &'static str,
}

/// All that the spec names.
pub fn copies(input: Input<'_>) -> Vec<Copy<'_>> {
    let (spec, names) = (&input.controller.spec, input.names);
    let authority = spec.client_tls.as_ref().filter(|tls| !tls.client_certificate_policy.is_empty());
    let authority = authority.map(|tls| Copy {
        field: "spec.clientTLS.clientCA",
        source: &tls.client_ca.name,
        name: &names.client_ca,
        volume: "client-ca",
        path: environment::CLIENT_CA,
    });
    let pages = spec.http_error_code_pages.as_ref().map(|pages| Copy {
        field: "spec.httpErrorCodePages",
        source: &pages.name,
        name: &names.error_pages,
        volume: "error-pages",
        path: environment::ERROR_PAGES,
    });
    authority.into_iter().chain(pages).filter(|copy| !copy.source.is_empty()).collect()
}

/// The copy of a ConfigMap with this content.
pub fn copy(input: Input<'_>, copy: Copy<'_>, data: &Value, binary: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "binaryData": binary,
        "metadata": {"name": copy.name, "namespace": OPERAND_NAMESPACE, "labels": input.names.owning()}})
}

/// How Prometheus asks routers: on the metrics port of the internal Service, with the password of the statistics.
pub fn monitor(input: Input<'_>) -> Value {
    let secret = |key: &str| json!({"name": input.names.stats, "key": key});
    json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": {"name": input.names.router, "namespace": OPERAND_NAMESPACE, "labels": input.names.owning()},
        "spec": {
            "namespaceSelector": {"matchNames": [OPERAND_NAMESPACE]},
            "selector": {"matchLabels": input.names.owning()},
            "endpoints": [{
                "port": "metrics", "scheme": "http", "path": "/metrics", "interval": "30s",
                "basicAuth": {"username": secret("statsUsername"), "password": secret("statsPassword")},
            }],
        },
    })
}
