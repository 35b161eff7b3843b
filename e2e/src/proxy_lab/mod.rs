//! A node to run `twinstack proxy` on, for real: a client outside, a node with two pods, and a pod on another node, each in a
//! network namespace, joined by cables of both families, with an API server inside.
//!
//! Used by the tests of the proxy. Everything goes with the handle.

mod api;
mod flows;
mod network;
mod peer;
mod traffic;

pub use api::PLAIN_API;
pub use flows::{Flows, Heard, ask_udp};
pub use network::{CLIENT, GATES, NODE, PODS, Pair, cable, ip};
pub use peer::kube_proxy;
pub use traffic::{Answer, ask, ask_here, ask_patiently, http};

use crate::{Process, account, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::Value;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);
const DEBUG: &str = "--log-level=debug,hyper=warn,kube=info,rustls=warn,tower=warn";
/// The name of the Node whose proxy is tested.
pub const NODE_NAME: &str = "n1";
/// Nodes of the pods, in the order of [`PODS`].
pub const NODES_OF_PODS: [&str; 3] = [NODE_NAME, NODE_NAME, "n2"];

/// The namespaces, and what runs in them.
pub struct Lab {
    /// Outside of the cluster.
    pub client: Namespace,
    /// Two pods on the node, and one elsewhere.
    pub pods: Vec<Arc<Namespace>>,
    /// Where the proxy runs.
    pub node: Namespace,
    _servers: Vec<traffic::Server>,
    api: api::Api,
    folder: tempfile::TempDir,
}

/// What is missing to run this at all.
pub fn missing() -> Option<&'static str> {
    if !network::possible() {
        return Some("run as root on a machine with namespaces, ip and nft (apt-get install iproute2 nftables)");
    }
    if kubectl().is_none() { Some("scripts/need test, or put kubectl on the PATH") } else { None }
}

fn kubectl() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
    std::env::split_paths(&folders).chain(tools).map(|folder| folder.join("kubectl")).find(|path| path.is_file())
}

impl Lab {
    /// Makes it: pods answer, and the API knows the node. The API server is Twinstack's, or the one that `KUBE_APISERVER` names.
    pub fn new() -> Self {
        let (client, node, pods) = network::make();
        let servers = pods.iter().enumerate().flat_map(|(number, pod)| traffic::serve(pod, number)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = kubectl().expect("checked by `missing`");
        let api = api::Api::start(&node, folder.path(), &kubectl);
        let lab = Self { client, pods, node, _servers: servers, api, folder };
        lab.apply(&serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE_NAME}}));
        let addresses: Vec<Value> =
            NODE.iter().map(|ip| serde_json::json!({"type": "InternalIP", "address": ip})).collect();
        lab.set_status("/api/v1/nodes/n1", &serde_json::json!({"addresses": addresses}));
        lab
    }

    /// Starts the proxy in a mode; `log` names its file.
    pub fn proxy(&self, mode: &str, log: &str) -> Process {
        self.proxy_with(log, &[&format!("--proxy-mode={mode}")])
    }

    /// Starts the proxy with further flags.
    pub fn proxy_with(&self, log: &str, more: &[&str]) -> Process {
        let program = twinstack().display().to_string();
        let mut words = vec![program.as_str(), "proxy", "--iptables-sync-period=1s", DEBUG];
        let flags = self.flags();
        words.extend(flags.iter().map(String::as_str));
        words.extend(more);
        self.start(&words, log)
    }

    /// What every command of the proxy needs to know of this cluster.
    pub fn flags(&self) -> Vec<String> {
        let more = ["--hostname-override=n1", "--cluster-cidr=10.244.0.0/16,fd44::/16"];
        std::iter::once(self.kubeconfig()).chain(more.map(str::to_owned)).collect()
    }

    /// Starts another program on the node; `log` names its file.
    pub fn start(&self, words: &[&str], log: &str) -> Process {
        start(&self.node, words, &[], &self.folder.path().join(log))
    }

    /// Waits until the proxy has brought everything into the kernel once.
    #[track_caller]
    pub fn wait_in_place(&self, proxy: &Process) {
        let done = wait_for(PATIENCE, || proxy.output().contains("rules are in place").then_some(()));
        assert!(done.is_some(), "{}", proxy.output());
    }

    /// Runs `twinstack proxy` with these words to its end, on the node.
    pub fn run_proxy(&self, words: &[&str]) -> Result<String, String> {
        let program = twinstack().display().to_string();
        let mut all = vec!["proxy"];
        all.extend(words);
        self.node.run(&program, &all, "").map(|printed| printed.stdout).map_err(|error| error.to_string())
    }

    /// The flag that leads to the API, with the rights of the role that every cluster has for proxies.
    pub fn kubeconfig(&self) -> String {
        let kubeconfig = account::acting_as("system:kube-proxy", "proxy", self.api.kubeconfig());
        format!("--kubeconfig={}", kubeconfig.display())
    }

    /// The flag that leads to the API, with the rights of the administrator.
    pub fn admin_kubeconfig(&self) -> String {
        format!("--kubeconfig={}", self.api.kubeconfig().display())
    }

    /// A folder for files of the test.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Makes an object or changes it into this one.
    #[track_caller]
    pub fn apply(&self, object: &Value) {
        self.api.apply(&self.node, object);
    }

    /// Sets the status of the object at a path.
    #[track_caller]
    pub fn set_status(&self, path: &str, status: &Value) {
        self.api.set_status(&self.node, path, status);
    }

    /// Removes the object at a path.
    #[track_caller]
    pub fn delete(&self, path: &str) {
        self.api.delete(&self.node, path);
    }

    /// The object or list at a path.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        self.api.get(&self.node, path)
    }

    /// The nftables rules of one family, with all elements.
    pub fn table(&self, family: &str) -> String {
        self.node.run("nft", &["list", "table", family, "twinstack-proxy"], "").map(|p| p.stdout).unwrap_or_default()
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

fn start(space: &Namespace, program: &[&str], flags: &[&str], log: &std::path::Path) -> Process {
    let mut words = vec!["netns", "exec", space.name()];
    words.extend(program);
    words.extend(flags);
    Process::start("ip", &words, log)
}
