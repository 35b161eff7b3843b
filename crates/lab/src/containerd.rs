//! The configuration of a node's containerd.

use crate::Tools;
use std::path::Path;

/// By this name containerd knows what holds a Pod's namespaces.
pub(crate) const PAUSE: &str = "localhost/twinstack-pause:latest";

/// Images and snapshots are below `root` and last; everything else is below `run` and ends with the lab.
pub(crate) fn configuration(tools: &Tools, root: &Path, run: &Path) -> String {
    let at = |name: &str| run.join(name).display().to_string();
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{socket}"
[ttrpc]
address = "{ttrpc}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
stream_server_address = "127.0.0.1"
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{net}"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"#,
        root = root.display(),
        state = at("state"),
        socket = at("containerd.sock"),
        ttrpc = at("containerd.ttrpc"),
        plugins = tools.plugins.display(),
        net = at("net.d"),
        runc = tools.runc.display(),
    )
}
