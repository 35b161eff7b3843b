//! The DaemonSet of the servers.

use super::{Bundle, access::ACCOUNT, object};
use crate::operator::{DNS, NAME, POD_LABEL, PORT, Program};
use api::config::NodePlacement;
use serde_json::{Value, json};

/// The DaemonSet.
#[must_use]
pub fn daemonset(image: &str, program: Program, placement: &NodePlacement, bundles: &[Bundle]) -> Value {
    let labels = json!({POD_LABEL: DNS});
    let mut volumes = vec![
        json!({"name": "config-volume", "configMap": {"name": NAME, "items": [{"key": "Corefile", "path": "Corefile"}]}}),
        json!({"name": "tmp-dir", "emptyDir": {}}),
    ];
    volumes.extend(bundles.iter().map(|bundle| {
        let items = json!([{"key": "ca-bundle.crt", "path": "ca-bundle.crt"}]);
        json!({"name": bundle.copy(), "configMap": {"name": bundle.copy(), "items": items}})
    }));
    let pod = json!({
        "serviceAccountName": ACCOUNT,
        "priorityClassName": "system-node-critical",
        // Its own resolver would be itself.
        "dnsPolicy": "Default",
        "nodeSelector": node_selector(placement),
        "tolerations": tolerations(placement),
        "containers": [container(image, program, bundles)],
        "volumes": volumes,
    });
    let annotation = json!({"target.workload.openshift.io/management": "{\"effect\": \"PreferredDuringScheduling\"}"});
    let spec = json!({
        "selector": {"matchLabels": labels},
        // Three looks at its readiness.
        "minReadySeconds": 9,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}},
        "template": {"metadata": {"labels": labels, "annotations": annotation}, "spec": pod},
    });
    object("apps/v1", "DaemonSet", NAME, json!({"spec": spec}))
}

fn container(image: &str, program: Program, bundles: &[Bundle]) -> Value {
    let conf = "/etc/coredns/Corefile";
    let command = match program {
        Program::Twinstack => json!(["twinstack", "dns", "--conf", conf]),
        Program::CoreDns => json!(["coredns", "-conf", conf]),
    };
    let mut mounts = vec![
        json!({"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true}),
        json!({"name": "tmp-dir", "mountPath": "/tmp"}),
    ];
    mounts.extend(
        bundles.iter().map(|bundle| json!({"name": bundle.copy(), "mountPath": bundle.folder, "readOnly": true})),
    );
    let probe = |path: &str, port: u16| json!({"path": path, "port": port, "scheme": "HTTP"});
    json!({
        "name": "dns",
        "image": image,
        "command": command,
        "ports": [
            {"name": "dns", "containerPort": PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9153, "protocol": "TCP"},
        ],
        "readinessProbe": {
            "httpGet": probe("/ready", 8181),
            "initialDelaySeconds": 10, "periodSeconds": 3, "timeoutSeconds": 3, "successThreshold": 1, "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": probe("/health", 8080),
            "initialDelaySeconds": 60, "timeoutSeconds": 5, "successThreshold": 1, "failureThreshold": 5,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "70Mi"}},
        "securityContext": {"readOnlyRootFilesystem": true},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    })
}

/// As given, or Linux.
pub(crate) fn node_selector(placement: &NodePlacement) -> Value {
    match placement.node_selector.is_empty() {
        true => json!({"kubernetes.io/os": "linux"}),
        false => json!(placement.node_selector),
    }
}

/// As given, or the control plane's, under its old name and its new one.
pub(crate) fn tolerations(placement: &NodePlacement) -> Value {
    match placement.tolerations.is_empty() {
        true => json!([
            {"key": "node-role.kubernetes.io/master", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
        ]),
        false => json!(placement.tolerations),
    }
}
