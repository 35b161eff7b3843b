//! `manifests/`: static pods of the control plane, named and labelled as kubeadm does it.

use super::{DATA_DIR, File, flags::Component, yaml};
use crate::Cluster;
use net::HasFamily;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

pub(super) fn files(cluster: &Cluster, version: &str) -> Vec<File> {
    let pods = Component::of(cluster).into_iter().filter_map(|component| Some((pod_name(component)?, component)));
    pods.map(|(name, component)| {
        let pod = pod(name, component, cluster, version);
        File::new(format!("manifests/{name}.yaml"), yaml::render(&pod))
    })
    .collect()
}

/// Upstream's names, by which tools find these pods. Kubelet and proxy are no static pods.
fn pod_name(component: Component) -> Option<&'static str> {
    match component {
        Component::ApiServer => Some("kube-apiserver"),
        Component::ControllerManager => Some("kube-controller-manager"),
        Component::CloudControllerManager => Some("cloud-controller-manager"),
        Component::Kubelet | Component::Proxy => None,
    }
}

fn pod(name: &str, component: Component, cluster: &Cluster, version: &str) -> Value {
    let flags = component.flags(cluster);
    let mut command = vec!["twinstack".to_owned(), component.command().to_owned()];
    command.extend(flags.iter().map(|(name, value)| format!("--{name}={value}")));
    let mounts = mounts(component, cluster, &flags);
    let mut container = json!({
        "name": name,
        "image": format!("{}:{version}", cluster.image),
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "volumeMounts": mounts.iter().map(Mount::in_container).collect::<Vec<_>>(),
    });
    let mut metadata =
        json!({"name": name, "namespace": "kube-system", "labels": {"component": name, "tier": "control-plane"}});
    if component == Component::ApiServer {
        let local = SocketAddr::new(cluster.local(), cluster.port);
        let annotation = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint";
        metadata["annotations"] = json!({annotation: local.to_string()});
        let host = probed(cluster, &flags);
        for (probe, path, period, failures) in [
            ("startupProbe", "/livez", 10, 24),
            ("livenessProbe", "/livez", 10, 8),
            ("readinessProbe", "/readyz", 1, 3),
        ] {
            container[probe] = json!({
                "httpGet": {"host": host.to_string(), "path": path, "port": cluster.port, "scheme": "HTTPS"},
                "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 15,
            });
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [container],
            "hostNetwork": true,
            "priority": 2_000_001_000,
            "priorityClassName": "system-node-critical",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": mounts.iter().map(Mount::on_machine).collect::<Vec<_>>(),
        },
    })
}

/// Where the kubelet asks: a server that listens everywhere answers on its loopback, another one only where it listens.
fn probed(cluster: &Cluster, flags: &[(String, String)]) -> IpAddr {
    let bound = flags.iter().rev().find(|(name, _)| name == "bind-address").map(|(_, value)| value.as_str());
    let first = bound.and_then(|list| net::parse_ip(list.split(',').next()?.trim()).ok());
    first.filter(|address| !address.is_unspecified()).unwrap_or_else(|| cluster.local().family().loopback())
}

/// A path of the machine that the container sees under the same name.
struct Mount {
    name: &'static str,
    path: String,
    kind: &'static str,
    read_only: bool,
}

impl Mount {
    fn read_only(name: &'static str, path: String, kind: &'static str) -> Self {
        Self { name, path, kind, read_only: true }
    }

    fn in_container(&self) -> Value {
        json!({"name": self.name, "mountPath": self.path, "readOnly": self.read_only})
    }

    fn on_machine(&self) -> Value {
        json!({"name": self.name, "hostPath": {"path": self.path, "type": self.kind}})
    }
}

fn mounts(component: Component, cluster: &Cluster, flags: &[(String, String)]) -> Vec<Mount> {
    match component {
        Component::ApiServer => {
            // The server keeps certificates of its own making beside those written here.
            let folder =
                |name, path: &str| Mount { name, path: path.to_owned(), kind: "DirectoryOrCreate", read_only: false };
            let mut mounts = vec![folder("certificates", &cluster.certificates_dir), folder("state", DATA_DIR)];
            let etcd = ["etcd-cafile", "etcd-certfile", "etcd-keyfile"];
            let files = etcd.iter().filter_map(|flag| flags.iter().find(|(name, _)| name == flag));
            let below = |file: &String| file.starts_with(&format!("{}/", cluster.certificates_dir));
            for (name, file) in files.filter(|(_, file)| !below(file)) {
                let name = etcd.iter().find(|flag| *flag == name).copied().unwrap_or("etcd");
                mounts.push(Mount::read_only(name, file.clone(), "File"));
            }
            mounts
        }
        _ => {
            let file = |(name, flag): (&'static str, &str)| {
                let value = flags.iter().find(|(name, _)| name == flag).map(|(_, value)| value.clone());
                value.filter(|path| path.starts_with('/')).map(|path| Mount::read_only(name, path, "File"))
            };
            let named = [
                ("kubeconfig", "kubeconfig"),
                ("cloud-config", "cloud-config"),
                ("root-ca", "root-ca-file"),
                ("signing-certificate", "cluster-signing-cert-file"),
                ("signing-key", "cluster-signing-key-file"),
            ];
            let mut mounts: Vec<Mount> = Vec::new();
            for mount in named.into_iter().filter_map(file) {
                if !mounts.iter().any(|known| known.path == mount.path) {
                    mounts.push(mount);
                }
            }
            mounts
        }
    }
}
