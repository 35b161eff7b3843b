//! A cluster that runs Pods, for real: an API server and controllers in a namespace that also is the router, nodes in namespaces of
//! their own, each with a containerd and a kubelet, and somebody outside.
//!
//! Used by the tests of nodes. Everything goes with the handle, containers, mounts and cgroups too. Where `KUBE_APISERVER` or `KUBELET` names
//! upstream's program, a lab can have that in the place of ours.

mod credentials;
mod kubelet;
mod network;
mod node;
mod remains;
mod server;

pub use crate::Usage;
pub use credentials::Credentials;
pub use network::{Network, Outside};
pub use node::Node;
pub use remains::Remains;

use crate::{Process, twinstack, wait_for};
use kernel::process::ProcessError;
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

/// How long a test waits for what must happen. Machines that do other things besides are slow.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Which families a cluster has, primary first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    V4,
    V6,
    V4V6,
    V6V4,
}

impl Shape {
    pub const ALL: [Self; 4] = [Self::V4, Self::V6, Self::V4V6, Self::V6V4];

    /// Picks of a pair, IPv4 first in it, what this cluster has, in its order.
    pub fn of<T: Clone>(self, pair: &[T; 2]) -> Vec<T> {
        let [v4, v6] = pair.clone();
        match self {
            Self::V4 => vec![v4],
            Self::V6 => vec![v6],
            Self::V4V6 => vec![v4, v6],
            Self::V6V4 => vec![v6, v4],
        }
    }

    /// The same between commas.
    pub fn list(self, pair: [&str; 2]) -> String {
        self.of(&pair).join(",")
    }
}

const PODS: [&str; 2] = ["10.244.0.0/16", "fd44::/48"];
const SERVICES: [&str; 2] = ["10.96.0.0/16", "fd00:10:96::/112"];

/// The cluster.
pub struct Lab {
    pub shape: Shape,
    pub nodes: Vec<Node>,
    pub network: Network,
    controllers: Option<Process>,
    server: server::ApiServer,
    kubectl: PathBuf,
    folder: tempfile::TempDir,
}

/// What a lab is made of.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    pub shape: Shape,
    pub nodes: usize,
    /// Further flags of the kubelets.
    pub flags: &'a [&'a str],
    /// Further flags of the API server, and of the controllers.
    pub server_flags: &'a [&'a str],
    pub controller_flags: &'a [&'a str],
    /// kube-apiserver, in the place of our API server.
    pub kube_apiserver: Option<PathBuf>,
    /// Upstream's kubelet, in the place of ours.
    pub kubelet: Option<PathBuf>,
    /// Whether nodes are given certificates; otherwise they have to ask for them.
    pub known: bool,
}

impl<'a> Parts<'a> {
    pub fn new(shape: Shape, nodes: usize, flags: &'a [&'a str]) -> Self {
        Self {
            shape,
            nodes,
            flags,
            server_flags: &[],
            controller_flags: &[],
            kube_apiserver: None,
            kubelet: None,
            known: true,
        }
    }
}

/// What is missing to run this at all.
pub fn missing() -> Option<&'static str> {
    if !network::possible() {
        return Some("run as root on a machine with namespaces, ip and nft (apt-get install iproute2 nftables)");
    }
    let needed = ["kubectl", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "cni", "busybox"];
    needed.into_iter().any(|name| tool(name).is_none()).then_some("scripts/need test")
}

/// A program or folder that `scripts/need` fetched, or that the machine has.
fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
    tools.into_iter().chain(std::env::split_paths(&folders)).map(|folder| folder.join(name)).find(|path| path.exists())
}

/// The archives that nodes have instead of a registry, made once.
fn images() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            for kind in ["pause", "busybox"] {
                let output = folder.path().join(format!("{kind}.tar")).display().to_string();
                let made = crate::run(&["image", "--kind", kind, "--output", &output]);
                assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            }
            folder
        })
        .path()
}

impl Lab {
    /// A cluster of this shape with so many nodes, all of them ready.
    pub fn new(shape: Shape, nodes: usize) -> Self {
        Self::with(shape, nodes, &[])
    }

    /// The same with further flags for the kubelets.
    pub fn with(shape: Shape, nodes: usize, flags: &[&str]) -> Self {
        let lab = Self::of(&Parts::new(shape, nodes, flags));
        for node in &lab.nodes {
            lab.node_ready(&node.name);
        }
        lab
    }

    /// A cluster of these parts, whose nodes are not waited for.
    pub fn of(parts: &Parts<'_>) -> Self {
        let mut lab = Self::without_nodes(parts);
        for number in 0..parts.nodes {
            lab.start_node(number, parts);
        }
        lab
    }

    /// The same without its nodes yet.
    pub fn without_nodes(parts: &Parts<'_>) -> Self {
        let network = Network::new(parts.nodes);
        let folder = tempfile::tempdir().expect("a folder");
        let server = server::ApiServer::start(parts, &network, folder.path());
        let kubectl = tool("kubectl").expect("checked by `missing`");
        let mut lab =
            Self { shape: parts.shape, nodes: Vec::new(), network, controllers: None, server, kubectl, folder };
        lab.start_controllers(parts.controller_flags);
        lab
    }

    pub fn start_node(&mut self, number: usize, parts: &Parts<'_>) {
        let node = Node::start(self, number, parts);
        self.nodes.push(node);
    }

    /// What somebody who installs a network does where the kubelet does not: the ranges of the first node, as the runtime's plugin wants
    /// them.
    pub fn connect(&self) {
        let ranges = self.until(&["get", "node", "n0"], |node| {
            let ranges = items(&node["spec"]["podCIDRs"]).to_vec();
            (!ranges.is_empty()).then_some(ranges)
        });
        let folder = self.nodes[0].network_folder();
        let route = |range: &Value| {
            let any = if range.as_str().is_some_and(|range| range.contains(':')) { "::/0" } else { "0.0.0.0/0" };
            json!({"dst": any})
        };
        let ipam = json!({
            "type": "host-local", "dataDir": self.folder().join("n0/cni"), "routes": ranges.iter().map(route).collect::<Vec<_>>(),
            "ranges": ranges.iter().map(|range| json!([{"subnet": range}])).collect::<Vec<_>>(),
        });
        let list = json!({"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": ipam}]});
        std::fs::write(folder.join("10-pods.conflist"), list.to_string()).expect("a file");
    }

    /// Ends and starts the kubelet of a node at once, as a power cut would.
    pub fn restart_kubelet(&mut self, number: usize) {
        let Self { nodes, network, .. } = self;
        nodes[number].kill_kubelet();
        nodes[number].start_kubelet(network.node(number));
    }

    /// Ends the controllers at once.
    pub fn kill_controllers(&mut self) {
        self.controllers = None;
    }

    /// Waits until a node is ready.
    #[track_caller]
    pub fn node_ready(&self, name: &str) {
        self.until(&["get", "node", name], |node| {
            let ready = items(&node["status"]["conditions"]);
            ready.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
        });
    }

    pub fn start_controllers(&mut self, flags: &[&str]) {
        let program = twinstack().display().to_string();
        let pods = format!("--cluster-cidr={}", self.shape.list(PODS));
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig().display());
        let pki =
            |flag: &str, name: &str| format!("--{flag}={}", self.folder.path().join("data/pki").join(name).display());
        let pki = [
            pki("root-ca-file", "ca.crt"),
            pki("cluster-signing-cert-file", "ca.crt"),
            pki("cluster-signing-key-file", "ca.key"),
        ];
        let mut words = vec![
            program.as_str(),
            "controller-manager",
            &kubeconfig,
            "--allocate-node-cidrs",
            &pods,
            "--leader-elect=false",
            "--secure-port=0",
        ];
        words.extend(pki.iter().map(String::as_str));
        words.extend(flags);
        self.controllers = Some(self.network.hub_process(&words, &self.folder.path().join("controllers.log")));
    }

    /// The administrator's.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Who can be given certificates in this cluster.
    pub fn credentials(&self) -> Credentials {
        Credentials::new(self.folder.path(), self.shape)
    }

    /// Runs kubectl to its end.
    pub fn kubectl(&self, words: &[&str], input: &str) -> Result<String, ProcessError> {
        let config = format!("--kubeconfig={}", self.kubeconfig().display());
        let cache = format!("--cache-dir={}", self.folder.path().join("kubectl").display());
        let mut all = vec![config.as_str(), cache.as_str()];
        all.extend(words);
        self.network.hub().run(&self.kubectl.display().to_string(), &all, input).map(|printed| printed.stdout)
    }

    #[track_caller]
    pub fn apply(&self, object: &Value) {
        self.kubectl(&["apply", "-f", "-"], &object.to_string()).unwrap_or_else(|error| panic!("{error}\n{object:#}"));
    }

    /// What `kubectl get` shows as JSON; nothing when it is not there.
    pub fn get(&self, words: &[&str]) -> Option<Value> {
        let mut all = words.to_vec();
        all.extend(["-o", "json"]);
        let text = self.kubectl(&all, "").ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Asks until the answer is good; fails with what was last seen and what the nodes logged.
    #[track_caller]
    pub fn until<T>(&self, words: &[&str], mut good: impl FnMut(&Value) -> Option<T>) -> T {
        let mut last = Value::Null;
        let found = wait_for(PATIENCE, || {
            last = self.get(words)?;
            good(&last)
        });
        match found {
            Some(found) => found,
            None => {
                let describe = self.kubectl(&["get", "events", "-A"], "").unwrap_or_default();
                panic!("kubectl {words:?}: {last:#}\n{describe}\n{}", self.logs())
            }
        }
    }

    /// The end of what everybody logged.
    pub fn logs(&self) -> String {
        let mut text = format!("== API server\n{}", tail(&self.server.log()));
        if let Some(controllers) = &self.controllers {
            text += &format!("\n== controllers\n{}", tail(&controllers.output()));
        }
        for node in &self.nodes {
            text += &format!("\n== {}\n{}", node.name, node.logs());
        }
        text
    }

    /// Waits until a Pod is ready; its addresses.
    #[track_caller]
    pub fn ready(&self, pod: &str) -> Vec<IpAddr> {
        self.until(&["get", "pod", pod], |pod| {
            let conditions = items(&pod["status"]["conditions"]);
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            ready.then(|| addresses(pod))
        })
    }

    /// Deletes a Pod and waits until it is gone.
    #[track_caller]
    pub fn delete(&self, pod: &str) {
        self.kubectl(&["delete", "pod", pod, "--wait=false"], "").expect("it is deleted");
        let gone = wait_for(PATIENCE, || self.get(&["get", "pod", pod]).is_none().then_some(()));
        assert!(gone.is_some(), "{pod} is still there: {:?}\n{}", self.get(&["get", "pod", pod]), self.logs());
    }
}

/// The end of a log, which says most.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// The items of a list; none where there is no list.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The addresses of a Pod, in their order.
pub fn addresses(pod: &Value) -> Vec<IpAddr> {
    items(&pod["status"]["podIPs"]).iter().filter_map(|one| one["ip"].as_str()?.parse().ok()).collect()
}

/// The image of most test containers.
pub const IMAGE: &str = "localhost/twinstack-busybox:latest";

/// A container of a Pod that runs a line of shell.
pub fn shell(name: &str, line: &str) -> Value {
    serde_json::json!({"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", line]})
}

/// A Pod with these containers.
pub fn pod(name: &str, containers: &[Value]) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": containers}})
}

/// A Pod that answers HTTP on 8080, on all its addresses, with its addresses.
pub fn server_pod(name: &str) -> Value {
    let mut server =
        shell("server", "mkdir -p /www; echo $MY_POD_IPS > /www/index.html; exec httpd -f -p 8080 -h /www");
    server["ports"] = serde_json::json!([{"containerPort": 8080}]);
    server["env"] =
        serde_json::json!([{"name": "MY_POD_IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]);
    pod(name, &[server])
}
