//! The objects of a component, in the order in which they have to be made.

use super::components::{Access, Component, Placement};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Where the files of [`Pod::files`] are in it.
pub(super) const FILES: &str = "/etc/kubernetes/twinstack";

/// As whom it runs where nothing needs root.
const NOBODY: u32 = 65534;
const RBAC: &str = "rbac.authorization.k8s.io";

/// What the administrator says about the component's Pods.
pub(super) struct Pod {
    pub(super) image: String,
    /// Host and port of the API, if not those that Pods are told.
    pub(super) server: Option<(String, u16)>,
    /// Names and contents.
    pub(super) files: Vec<(&'static str, String)>,
    /// Further words of the command line.
    pub(super) words: Vec<String>,
}

pub(super) fn all(component: &Component, pod: &Pod) -> Vec<Value> {
    let Component { name, namespace, .. } = *component;
    let mut objects: Vec<Value> = namespaces(component)
        .into_iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    objects.push(
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}),
    );
    objects.extend(access(component));
    if !pod.files.is_empty() {
        let data: Value = pod.files.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}));
    }
    objects.push(workload(component, pod));
    objects
}

/// Its own and those in which it has rights; every cluster has `kube-system`.
fn namespaces(component: &Component) -> BTreeSet<&'static str> {
    let mut all = BTreeSet::from([component.namespace]);
    if let Access::Own(rights) = component.access {
        all.extend(rights().within.iter().map(|(namespace, _)| *namespace));
    }
    all.remove(api::rights::SYSTEM_NAMESPACE);
    all
}

fn access(component: &Component) -> Vec<Value> {
    let Component { name, namespace, role, .. } = *component;
    let version = format!("{RBAC}/v1");
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    let refers = |kind: &str, to: &str| json!({"apiGroup": RBAC, "kind": kind, "name": to});
    // The cluster's own binding has the role's name.
    let binding =
        if matches!(component.access, Access::OfCluster) { format!("twinstack:{name}") } else { role.to_owned() };
    let bound = json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": binding}, "subjects": subjects,
        "roleRef": refers("ClusterRole", role)});
    let Access::Own(rights) = component.access else { return vec![bound] };
    let rights = rights();
    let mut objects = vec![
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rights.everywhere}),
        bound,
    ];
    for (namespace, rules) in rights.within {
        let metadata = json!({"name": role, "namespace": namespace});
        objects.push(json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules}));
        objects.push(json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata, "subjects": subjects,
            "roleRef": refers("Role", role)}));
    }
    objects
}

fn workload(component: &Component, pod: &Pod) -> Value {
    let Component { name, namespace, placement, .. } = *component;
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "twinstack"});
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    let template = json!({"metadata": {"labels": labels}, "spec": pod_spec(component, pod)});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let kind = if placement == Placement::Anywhere { "Deployment" } else { "DaemonSet" };
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec});
    if placement == Placement::Anywhere {
        object["spec"]["replicas"] = 1.into();
    }
    object
}

fn pod_spec(component: &Component, pod: &Pod) -> Value {
    let Component { name, placement, .. } = *component;
    let mut spec = json!({
        "serviceAccountName": name,
        "priorityClassName": if placement == Placement::EveryNode { "system-node-critical" } else { "system-cluster-critical" },
        "containers": [container(component, pod)],
        "volumes": volumes(component, pod).into_iter().map(|(volume, _)| volume).collect::<Vec<_>>(),
    });
    match placement {
        Placement::Anywhere => {}
        Placement::ControlPlane => {
            spec["hostNetwork"] = true.into();
            spec["nodeSelector"] = json!({"node-role.kubernetes.io/control-plane": ""});
            // Nodes keep the first until this component has looked at them, and the last until their network works.
            spec["tolerations"] = json!([
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
                {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
            ]);
        }
        Placement::EveryNode => {
            spec["hostNetwork"] = true.into();
            spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
            spec["tolerations"] = json!([{"operator": "Exists"}]);
        }
    }
    without_empty_lists(spec)
}

fn container(component: &Component, pod: &Pod) -> Value {
    let Component { name, placement, .. } = *component;
    let health = (component.health)();
    let (words, environment) = command_line(component, pod);
    // In a node's network it listens on loopback only, but for the proxy, whose health load balancers ask for.
    let scheme = if placement == Placement::EveryNode { "HTTP" } else { "HTTPS" };
    let probe = |path: &str| {
        let mut get = json!({"path": path, "port": health, "scheme": scheme});
        if placement == Placement::ControlPlane {
            get["host"] = "127.0.0.1".into();
        }
        json!({"httpGet": get, "periodSeconds": 10})
    };
    let mut container = json!({
        "name": name,
        "image": pod.image,
        "command": std::iter::once("twinstack").chain(component.command.name.split(' ')).collect::<Vec<_>>(),
        "args": words,
        "env": environment,
        "ports": [{"name": "health", "containerPort": health, "protocol": "TCP"}],
        "livenessProbe": probe("/livez"),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": security(placement),
        "volumeMounts": volumes(component, pod).into_iter().map(|(_, mount)| mount).collect::<Vec<_>>(),
    });
    // The proxy's /healthz says whether load balancers should use the node, which says nothing about the Pod.
    if placement != Placement::EveryNode {
        container["readinessProbe"] = probe("/readyz");
    }
    without_empty_lists(container)
}

/// The API leaves them out, and would be told of a change each time.
fn without_empty_lists(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
    object
}

/// Words and environment.
fn command_line(component: &Component, pod: &Pod) -> (Vec<String>, Vec<Value>) {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let (mut words, mut environment) = (Vec::new(), Vec::new());
    if let Some(flag) = component.image_flag {
        words.push(format!("--{flag}={}", pod.image));
    }
    match component.placement {
        Placement::Anywhere => {
            words.push(format!("--leader-elect-resource-namespace={}", component.namespace));
            // Its addresses of all families, separated by commas.
            words.push("--bind-address=$(POD_IPS)".to_owned());
            environment.push(field("POD_IPS", "status.podIPs"));
        }
        Placement::ControlPlane => {}
        Placement::EveryNode => {
            words.push("--hostname-override=$(NODE_NAME)".to_owned());
            environment.push(field("NODE_NAME", "spec.nodeName"));
        }
    }
    words.extend(pod.words.iter().cloned());
    if let Some((host, port)) = &pod.server {
        environment.push(json!({"name": "KUBERNETES_SERVICE_HOST", "value": host}));
        environment.push(json!({"name": "KUBERNETES_SERVICE_PORT", "value": port.to_string()}));
    }
    (words, environment)
}

fn security(placement: Placement) -> Value {
    match placement {
        // It writes rules and settings of the node's kernel.
        Placement::EveryNode => json!({"privileged": true}),
        Placement::Anywhere | Placement::ControlPlane => json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": NOBODY,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }),
    }
}

/// Volumes, and where the container has them.
fn volumes(component: &Component, pod: &Pod) -> Vec<(Value, Value)> {
    let host = |name: &str, path: &str, kind: &str| {
        let volume = json!({"name": name, "hostPath": {"path": path, "type": kind}});
        (volume, json!({"name": name, "mountPath": path}))
    };
    let mut all = Vec::new();
    if !pod.files.is_empty() {
        let volume = json!({"name": "files", "configMap": {"name": component.name}});
        all.push((volume, json!({"name": "files", "mountPath": FILES, "readOnly": true})));
    }
    if component.placement == Placement::EveryNode {
        // One program at a time changes iptables; kernel modules are loaded on demand.
        all.push(host("xtables-lock", "/run/xtables.lock", "FileOrCreate"));
        let (volume, mut mount) = host("modules", "/lib/modules", "Directory");
        mount["readOnly"] = true.into();
        all.push((volume, mount));
    }
    all
}
