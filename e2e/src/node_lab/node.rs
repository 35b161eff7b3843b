//! A node: a containerd and a kubelet in a namespace, with folders of their own.

use super::{
    Lab, Parts, images, kubelet,
    network::{node_addresses, start},
    remains::{self, Remains},
    tail, tool,
};
use crate::{Process, Usage, wait_for};
use kernel::{netns::Namespace, process};
use std::{path::PathBuf, time::Duration};

/// One node. It ends with everything that it ran.
pub struct Node {
    pub name: String,
    /// The family of its first address comes first.
    pub addresses: Vec<String>,
    number: usize,
    pub(super) folder: PathBuf,
    words: Vec<String>,
    namespace: String,
    containerd: Option<Process>,
    kubelet: Option<Process>,
}

impl Node {
    pub(super) fn start(lab: &Lab, number: usize, parts: &Parts<'_>) -> Self {
        let folder = lab.folder().join(format!("n{number}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let name = format!("n{number}");
        let space = lab.network.node(number);
        let addresses = lab.shape.of(&node_addresses(number));
        let mut node = Self {
            name: name.clone(),
            addresses: addresses.clone(),
            number,
            folder: folder.clone(),
            words: Vec::new(),
            namespace: space.name().to_owned(),
            containerd: None,
            kubelet: None,
        };
        std::fs::write(folder.join("containerd.toml"), node.configuration()).expect("a file");
        node.start_containerd(space);
        node.words = match &parts.kubelet {
            Some(program) => {
                node.import();
                kubelet::upstream(lab, &node, parts, program)
            }
            None => kubelet::own(lab, &node, parts),
        };
        node.start_kubelet(space);
        node
    }

    /// Brings the images to a runtime whose kubelet does not.
    fn import(&self) {
        for archive in std::fs::read_dir(images()).expect("a folder").flatten() {
            self.ctr(&["images", "import", &archive.path().display().to_string()]);
        }
    }

    /// Where a runtime finds the network of its Pods.
    pub fn network_folder(&self) -> PathBuf {
        self.folder.join("net.d")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("c.sock")
    }

    /// The cgroup of all that this node runs.
    pub fn cgroup(&self) -> String {
        format!("/twinstack-{}-{}", std::process::id(), self.namespace.rsplit('-').next().unwrap_or_default())
    }

    fn configuration(&self) -> String {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let runc = tool("runc").expect("checked").display().to_string();
        let plugins = tool("cni").expect("checked").display().to_string();
        format!(
            r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
address = "{socket}"
[ttrpc]
address = "{ttrpc}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/twinstack-pause:latest"
stream_server_address = "127.0.0.1"
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{conf}"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.other]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.other.options]
BinaryName = "{runc}"
SystemdCgroup = false
"#,
            root = at("root"),
            state = at("state"),
            socket = self.socket().display(),
            ttrpc = at("c.ttrpc"),
            conf = at("net.d"),
        )
    }

    /// Starts the runtime, after it was ended too.
    pub fn start_containerd(&mut self, space: &Namespace) {
        std::fs::create_dir_all(self.folder.join("net.d")).expect("a folder");
        let program = tool("containerd").expect("checked").display().to_string();
        let config = self.folder.join("containerd.toml").display().to_string();
        let containerd = start(space, &[&program, "--config", &config], &self.folder.join("containerd.log"));
        let socket = self.socket();
        let ready = wait_for(Duration::from_secs(60), || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok().then_some(())
        });
        assert!(ready.is_some(), "{}", containerd.output());
        self.containerd = Some(containerd);
    }

    /// Ends the runtime at once; containers go on.
    pub fn kill_containerd(&mut self) {
        self.containerd = None;
    }

    pub fn start_kubelet(&mut self, space: &Namespace) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.kubelet = Some(start(space, &words, &self.folder.join("kubelet.log")));
    }

    /// Ends the kubelet at once; containers go on.
    pub fn kill_kubelet(&mut self) {
        self.kubelet = None;
    }

    /// Ends the kubelet as a service manager does.
    pub fn stop_kubelet(&mut self) {
        if let Some(mut kubelet) = self.kubelet.take() {
            let ended = kubelet.terminate(Duration::from_secs(60));
            assert!(ended.is_some_and(|status| status.success()), "{}", kubelet.output());
        }
    }

    pub fn number(&self) -> usize {
        self.number
    }

    pub fn kubelet_usage(&self) -> Usage {
        self.kubelet.as_ref().map(Process::usage).unwrap_or_default()
    }

    pub fn kubelet_log(&self) -> String {
        self.kubelet.as_ref().map(Process::output).unwrap_or_default()
    }

    pub(super) fn logs(&self) -> String {
        let runtime = self.containerd.as_ref().map(Process::output).unwrap_or_default();
        format!("{}\n-- containerd\n{}", tail(&self.kubelet_log()), tail(&runtime))
    }

    /// Asks containerd itself.
    pub fn ctr(&self, words: &[&str]) -> String {
        let program = tool("ctr").expect("checked").display().to_string();
        let socket = self.socket().display().to_string();
        let mut all = vec!["--address", &socket, "--namespace", "k8s.io"];
        all.extend(words);
        process::run(&program, &all, "").map(|printed| printed.stdout).unwrap_or_default()
    }

    /// The ids of tasks that run, sandboxes among them.
    pub fn tasks(&self) -> Vec<String> {
        let text = self.ctr(&["tasks", "list", "--quiet"]);
        text.lines().map(str::to_owned).collect()
    }

    /// What is left of Pods on this node.
    pub fn remains(&self, space: &Namespace) -> Remains {
        remains::look(&self.folder, &self.cgroup(), space, self.tasks())
    }

    /// Ends the shims of this node at once, and with them everything they look after.
    pub fn kill_shims(&self) {
        remains::end(&self.folder, &self.cgroup(), &self.socket());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kubelet = None;
        remains::end(&self.folder, &self.cgroup(), &self.socket());
        self.containerd = None;
        remains::unmount(&self.folder);
        remains::remove_cgroups(&self.cgroup());
    }
}
