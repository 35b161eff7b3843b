//! A router with its neighbours in a network namespace, for tests: pods that answer on both families, and an API server.

mod ask;
mod header;
mod load;
mod pod;

pub use header::{proxy_v1, proxy_v2, proxy_v2_local};
pub use load::Load;

use crate::{Process, kube_apiserver, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

/// Addresses of both families that mean the same thing.
pub type Pair = [&'static str; 2];

/// Addresses of pods.
pub const PODS: [Pair; 3] = [["10.1.0.1", "fd01::1"], ["10.1.0.2", "fd01::2"], ["10.1.0.3", "fd01::3"]];
/// Of this machine, but not loopback.
pub const OWN: Pair = ["192.0.2.10", "2001:db8::10"];
/// Of this machine.
pub const LOOPBACK: Pair = ["127.0.0.1", "::1"];
/// Where clients of load balancers come from.
pub const CLIENTS: Pair = ["198.51.100.7", "2001:db8:a::7"];
/// Where pods listen; routers have the ports from 8080 on.
pub const POD_PORT: u16 = 8888;
/// Longest wait for what should come.
pub const PATIENCE: Duration = Duration::from_secs(60);
const ROUTE_DEFINITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/api/src/config/crds/routes.yaml");

const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";

/// Whose API server a world has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Twinstack's.
    Own,
    /// The one that `KUBE_APISERVER` names, on an etcd.
    Real,
}

impl Api {
    /// Those that are there.
    pub fn all() -> Vec<Self> {
        let real = std::env::var_os("KUBE_APISERVER").map(|_| Self::Real);
        [Self::Own].into_iter().chain(real).collect()
    }
}

/// A namespace with an API server, pods that answer, and routers.
pub struct World {
    pub space: Arc<Namespace>,
    /// Everything that is written.
    pub folder: tempfile::TempDir,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    processes: Vec<Process>,
}

impl Drop for World {
    fn drop(&mut self) {
        // HAProxy outlives its router; here it ends with the test.
        let pids = quietly("ip", &["netns", "pids", self.space.name()]);
        for pid in pids.split_whitespace() {
            quietly("kill", &["-9", pid]);
        }
    }
}

/// What a program prints, whatever becomes of it.
fn quietly(program: &str, words: &[&str]) -> String {
    let output = std::process::Command::new(program).args(words).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// A program on the PATH or among the tools.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let more = [std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from), Some(PathBuf::from("/usr/sbin"))];
    std::env::split_paths(&folders)
        .chain(more.into_iter().flatten())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// What is missing to run this at all.
pub fn missing() -> Option<&'static str> {
    if Namespace::new("probe").is_err() {
        return Some("run as root on a machine with network namespaces and ip (apt-get install iproute2)");
    }
    if tool("haproxy").is_none() {
        return Some("apt-get install haproxy");
    }
    if tool("kubectl").is_none() { Some("scripts/need test, or put kubectl on the PATH") } else { None }
}

/// The ports of one router.
#[derive(Clone, Copy)]
pub struct Ports {
    pub http: u16,
    pub https: u16,
    /// For health and metrics.
    pub stats: u16,
}

/// A running router.
pub struct Router {
    /// Its process; HAProxy is another one.
    pub process: Process,
    /// Where it listens.
    pub ports: Ports,
    /// Its working folder.
    pub folder: PathBuf,
}

impl World {
    /// Makes it: the API serves Routes.
    pub fn new(name: &str, api: Api) -> Self {
        let space =
            Namespace::new(&format!("router-{name}-{}", format!("{api:?}").to_lowercase())).expect("a namespace");
        for (v4, v6) in PODS.iter().chain([&OWN]).map(|pair| (pair[0], pair[1])) {
            space.run("ip", &["addr", "add", &format!("{v4}/32"), "dev", "lo"], "").expect("an address");
            space.run("ip", &["addr", "add", &format!("{v6}/128"), "dev", "lo"], "").expect("an address");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = Self {
            space: Arc::new(space),
            kubeconfig: folder.path().join("data/admin.kubeconfig"),
            folder,
            kubectl: tool("kubectl").expect("checked"),
            processes: Vec::new(),
        };
        let data = format!("--data-dir={}", world.folder.path().join("data").display());
        let program = twinstack().display().to_string();
        let words: [&str; 6] =
            [&program, "apiserver", "--bind-address=127.0.0.1,::1", "--secure-port=6443", RANGES, &data];
        let own = world.start(&words, "apiserver");
        let ready = wait_for(PATIENCE, || own.output().contains("API server is ready").then_some(()));
        assert!(ready.is_some(), "{}", own.output());
        world.processes.push(own);
        if api == Api::Real {
            world.start_real();
        }
        // A real API server takes a while to make the namespace.
        let ready = wait_for(Duration::from_secs(90), || world.try_kubectl(&["get", "namespace", "default"], "").ok());
        assert!(ready.is_some(), "{}", world.processes.iter().map(Process::output).collect::<String>());
        world.kubectl(&["apply", "--validate=false", "-f", ROUTE_DEFINITION], "");
        let served = wait_for(PATIENCE, || world.try_kubectl(&["get", "routes"], "").ok());
        assert!(served.is_some(), "Routes are served");
        world
    }

    /// A kube-apiserver on an etcd; Twinstack's server has made the keys it needs.
    fn start_real(&mut self) {
        let (peer, pki) = (self.folder.path().join("peer"), self.folder.path().join("data/pki"));
        let at = SocketAddr::from(([127, 0, 0, 1], 6444));
        let mut words = kube_apiserver::words(&peer, &pki, at, "http://127.0.0.1:2379", RANGES);
        words.extend(["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"].map(str::to_owned));
        let etcd =
            tool("etcd").expect("a real API server needs etcd on the PATH or among the tools").display().to_string();
        let etcd = self.start(&[&etcd, "--data-dir", &peer.join("etcd").display().to_string()], "etcd");
        words.insert(0, std::env::var("KUBE_APISERVER").expect("checked"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let server = self.start(&words, "kube-apiserver");
        self.kubeconfig = peer.join("kubeconfig");
        self.processes.extend([etcd, server]);
    }

    /// Starts a program in the namespace.
    pub fn start(&self, words: &[&str], log: &str) -> Process {
        let mut all = vec!["netns", "exec", self.space.name()];
        all.extend(words);
        Process::start("ip", &all, &self.folder.path().join(format!("{log}.log")))
    }

    /// Ends the API server.
    pub fn end_api(&mut self) {
        self.processes.clear();
    }

    /// The HAProxies that run here.
    pub fn haproxies(&self) -> Vec<String> {
        let pids = quietly("ip", &["netns", "pids", self.space.name()]);
        let name = |pid: &&str| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        pids.split_whitespace().filter(|pid| name(pid).trim() == "haproxy").map(str::to_owned).collect()
    }

    /// Ends every HAProxy at once, as a crash would.
    pub fn kill_haproxies(&self) {
        let killed = self.haproxies();
        killed.iter().for_each(|pid| drop(quietly("kill", &["-9", pid])));
        let gone = wait_for(PATIENCE, || self.haproxies().iter().all(|pid| !killed.contains(pid)).then_some(()));
        assert!(gone.is_some(), "killed processes end");
    }

    /// How to reach the API.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig.display().to_string()
    }

    /// What kubectl prints, or why not.
    pub fn try_kubectl(&self, words: &[&str], input: &str) -> Result<String, String> {
        let config = format!("--kubeconfig={}", self.kubeconfig());
        let program = self.kubectl.display().to_string();
        let home = format!("HOME={}", self.folder.path().display());
        let mut all = vec![home.as_str(), &program, &config];
        all.extend(words);
        self.space.run("env", &all, input).map(|printed| printed.stdout).map_err(|error| error.to_string())
    }

    /// What kubectl prints.
    pub fn kubectl(&self, words: &[&str], input: &str) -> String {
        self.try_kubectl(words, input).expect("kubectl is content")
    }

    /// Applies an object.
    pub fn apply(&self, object: &Value) {
        self.kubectl(&["apply", "--validate=false", "-f", "-"], &object.to_string());
    }

    /// A Service of both families with these pods behind it, on this port.
    pub fn service(&self, name: &str, pods: &[usize], port: u16) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"name": "http", "port": 80, "targetPort": port}]}}));
        self.slices(name, pods, port);
    }

    /// The slices of a Service: these pods, on this port.
    pub fn slices(&self, service: &str, pods: &[usize], port: u16) {
        for (at, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
            let endpoint = |pod: &usize| {
                json!({"addresses": [PODS[*pod][at]], "conditions": {"ready": true},
                    "targetRef": {"kind": "Pod", "name": format!("pod-{pod}"), "namespace": "default"}})
            };
            let endpoints: Vec<Value> = pods.iter().map(endpoint).collect();
            self.apply(&json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": format!("{service}-{}", family.to_lowercase()), "labels": {"kubernetes.io/service-name": service}},
                "addressType": family, "ports": [{"name": "http", "port": port, "protocol": "TCP"}], "endpoints": endpoints}));
        }
    }

    /// A Route; `more` goes into its spec.
    pub fn route(&self, name: &str, host: &str, service: &str, more: Value, annotations: Value) {
        let mut spec = json!({"host": host, "to": {"kind": "Service", "name": service}});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self.apply(&json!({"apiVersion": "route.openshift.io/v1", "kind": "Route",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec}));
    }

    /// A pod's server on both of its addresses: answers with its number and what it was asked.
    pub fn pod(&self, pod: usize, port: u16) {
        for address in PODS[pod] {
            let at = SocketAddr::new(ip(address), port);
            let listener = self.space.within(|| TcpListener::bind(at)).expect("the namespace").expect("an address");
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    thread::spawn(move || pod::answer_all(stream, pod));
                }
            });
        }
    }

    /// A router that is ready; its ports follow each other. HAPROXY in the environment names another program than HAProxy,
    /// KUBECONFIG another file than the administrator's, NOFILE how many files it may open.
    pub fn router(&self, name: &str, first: u16, environment: &[(&str, &str)]) -> Router {
        let ports = Ports { http: first, https: first + 1, stats: first + 2 };
        let router = self.start_router(name, ports, environment);
        let ready =
            wait_for(PATIENCE, || (self.get(LOOPBACK[1], ports.stats, "/healthz/ready").ok()? == 200).then_some(()));
        assert!(ready.is_some(), "{name}: {}", router.process.output());
        router
    }

    /// A router, perhaps not ready yet.
    pub fn start_router(&self, name: &str, ports: Ports, environment: &[(&str, &str)]) -> Router {
        // A folder above it that only this router has.
        let work = self.folder.path().join("work").join(name).join("router");
        std::fs::create_dir_all(&work).expect("a folder");
        let given =
            |name: &str| environment.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned());
        let mut words: Vec<String> = Vec::new();
        words.extend(given("NOFILE").into_iter().flat_map(|files| ["prlimit".to_owned(), format!("--nofile={files}")]));
        words.push("env".to_owned());
        let common = [
            ("ROUTER_SERVICE_NAME", name.to_owned()),
            ("ROUTER_CANONICAL_HOSTNAME", "router.apps.test".to_owned()),
            ("ROUTER_IP_V4_V6_MODE", "v4v6".to_owned()),
            ("ROUTER_SERVICE_HTTP_PORT", ports.http.to_string()),
            ("ROUTER_SERVICE_HTTPS_PORT", ports.https.to_string()),
            ("STATS_PORT", ports.stats.to_string()),
            ("ROUTER_SYSLOG_ADDRESS", "stdout".to_owned()),
            ("ROUTER_THREADS", "2".to_owned()),
            ("ROUTER_MAX_CONNECTIONS", "4000".to_owned()),
            ("RELOAD_INTERVAL", "100ms".to_owned()),
            ("ROUTER_GRACEFUL_SHUTDOWN_DELAY", "1s".to_owned()),
        ];
        words.extend(common.into_iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(environment.iter().map(|(name, value)| format!("{name}={value}")));
        let haproxy = given("HAPROXY").map(PathBuf::from);
        words.extend([twinstack().display().to_string(), "router".to_owned()]);
        words.push(format!("--kubeconfig={}", given("KUBECONFIG").unwrap_or_else(|| self.kubeconfig())));
        words.push(format!("--working-dir={}", work.display()));
        words.push(format!("--haproxy={}", haproxy.unwrap_or_else(|| tool("haproxy").expect("checked")).display()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Router { process: self.start(&words, &format!("{name}-{}", ports.http)), ports, folder: work }
    }
}

impl Router {
    /// How often HAProxy was started or replaced so far.
    pub fn generations(&self) -> usize {
        self.process.output().matches("HAProxy runs what is wanted").count()
    }
}

/// An address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
