//! How a kubelet is started: ours with flags, upstream's with its file.

use super::{Lab, Node, PODS, Parts, images, remains};
use crate::twinstack;
use serde_json::json;
use std::path::Path;

/// The command line of ours.
pub(super) fn own(lab: &Lab, node: &Node, parts: &Parts<'_>) -> Vec<String> {
    let folder = &node.folder;
    let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
    let mut words = vec![
        twinstack().display().to_string(),
        "kubelet".to_owned(),
        flag("client-ca-file", &lab.folder().join("data/pki/ca.crt")),
        format!("--hostname-override={}", node.name),
        format!("--node-ip={}", node.addresses.join(",")),
        format!("--container-runtime-endpoint=unix://{}", node.socket().display()),
        flag("root-dir", &folder.join("kubelet")),
        flag("pod-logs-dir", &folder.join("logs")),
        flag("cni-conf-dir", &folder.join("net.d")),
        flag("image-dir", images()),
        format!("--cgroup-root={}", node.cgroup()),
        format!("--cluster-cidr={}", lab.shape.list(PODS)),
        "--node-status-update-frequency=1s".to_owned(),
        // What the machine is short of is not the tests' business.
        "--eviction-hard=memory.available<1Mi,nodefs.available<0%,nodefs.inodesFree<0%".to_owned(),
        "--log-level=debug,hyper=warn,h2=warn,kube=info,rustls=warn,tower=warn,tonic=warn".to_owned(),
    ];
    if parts.known {
        words.push(flag("kubeconfig", &known(lab, node)));
    }
    words.extend(parts.flags.iter().map(|flag| (*flag).to_owned()));
    words
}

/// The command line of upstream's, whose images and network somebody else brings.
pub(super) fn upstream(lab: &Lab, node: &Node, parts: &Parts<'_>, program: &Path) -> Vec<String> {
    let folder = &node.folder;
    // Upstream's makes none but its own below.
    remains::make_cgroups(&node.cgroup());
    let file = folder.join("kubelet.json");
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": lab.folder().join("data/pki/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": format!("unix://{}", node.socket().display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup(),
        "failCgroupV1": false,
        "failSwapOn": false,
        "podLogsDir": folder.join("logs"),
        "clusterDomain": "cluster.local",
        "nodeStatusUpdateFrequency": "1s",
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%"},
        "localStorageCapacityIsolation": false,
        "oomScoreAdj": 0,
    });
    std::fs::write(&file, configuration.to_string()).expect("a file");
    let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
    let mut words = vec![
        program.display().to_string(),
        flag("config", &file),
        flag("root-dir", &folder.join("kubelet")),
        flag("cert-dir", &folder.join("kubelet/pki")),
        format!("--hostname-override={}", node.name),
        format!("--node-ip={}", node.addresses.join(",")),
    ];
    if parts.known {
        words.push(flag("kubeconfig", &known(lab, node)));
    }
    words.extend(parts.flags.iter().map(|flag| (*flag).to_owned()));
    words
}

/// A file with a certificate of the node.
fn known(lab: &Lab, node: &Node) -> std::path::PathBuf {
    lab.credentials().client(&node.name, &format!("system:node:{}", node.name), &["system:nodes"])
}
