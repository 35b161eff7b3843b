//! The metrics Service, and what only some clusters have: NetworkPolicies, a ServiceMonitor and alerts.

use super::{Parts, alerts, object};
use crate::operator::{DNS, Operand, POD_LABEL, PORT};
use runtime::operator::discovery::{NETWORK_POLICY, PROMETHEUS_RULE, SERVICE_MONITOR};
use serde_json::{Value, json};

/// Marks the Service of the metrics.
const METRICS_LABEL: &str = "dns.operator.openshift.io/metrics-dns";

pub(super) fn objects(parts: &Parts<'_>) -> Vec<Value> {
    // The server in this process shows its metrics with those of the process.
    if !matches!(parts.operand, Operand::Workload { .. }) {
        return Vec::new();
    }
    let mut objects = vec![service()];
    if parts.served.has(NETWORK_POLICY) {
        objects.extend(policies());
    }
    if parts.served.has(SERVICE_MONITOR) {
        objects.push(monitor());
    }
    if parts.served.has(PROMETHEUS_RULE) {
        objects.push(alerts::rule());
    }
    objects
}

fn service() -> Value {
    let spec = json!({
        "type": "ClusterIP",
        // Every Pod is asked for itself.
        "clusterIP": "None",
        "ipFamilyPolicy": "PreferDualStack",
        "selector": {POD_LABEL: DNS},
        "ports": [{"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": "metrics"}],
    });
    let mut service = object("v1", "Service", "dns-default-metrics", json!({"spec": spec}));
    service["metadata"]["labels"][METRICS_LABEL] = DNS.into();
    service
}

/// Nothing but what is needed: questions from everybody, metrics for the monitoring, questions to everybody.
fn policies() -> [Value; 2] {
    let version = "networking.k8s.io/v1";
    let deny = json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}});
    let monitoring =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-monitoring"}}});
    let operator =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns-operator"}}});
    let allow = json!({"spec": {
        "podSelector": {"matchLabels": {POD_LABEL: DNS}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"ports": [{"port": PORT, "protocol": "UDP"}, {"port": PORT, "protocol": "TCP"}]},
            {"ports": [{"port": 9153, "protocol": "TCP"}], "from": [monitoring, operator]},
        ],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]}],
    }});
    [object(version, "NetworkPolicy", "deny-all", deny), object(version, "NetworkPolicy", "dns-default", allow)]
}

fn monitor() -> Value {
    let spec = json!({
        "endpoints": [{"port": "metrics", "interval": "30s"}],
        "selector": {"matchLabels": {METRICS_LABEL: DNS}},
    });
    object("monitoring.coreos.com/v1", "ServiceMonitor", "dns-default", json!({"spec": spec}))
}
