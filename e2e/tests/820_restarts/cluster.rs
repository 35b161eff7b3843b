//! All components beside an API server that comes and goes, in a network namespace of their own.

use crate::api::{Api, Store};
use e2e::{INGRESS_LISTS, Kubectl, Process, haproxy, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf, process::Command, time::Duration};
use tempfile::TempDir;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);
const PODS: &str = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56";

/// See the module. Everything ends with the handle.
pub(crate) struct Cluster {
    pub(crate) api: Api,
    pub(crate) kubectl: Kubectl,
    pub(crate) components: Vec<(&'static str, Process)>,
    /// The addresses of the Service of each round.
    pub(crate) addresses: BTreeMap<u32, Vec<String>>,
    pub(crate) kubeconfig: PathBuf,
    folder: TempDir,
    space: Namespace,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.components.clear();
        self.api.kill();
        // HAProxy outlives its router; here it ends with the test.
        let pids = Command::new("ip").args(["netns", "pids", self.space.name()]).output();
        let pids = pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let own = std::process::id().to_string();
        for pid in pids.split_whitespace().filter(|pid| *pid != own) {
            let _ = Command::new("kill").args(["-9", pid]).status();
        }
    }
}

impl Cluster {
    /// An API server and all components; nothing when this machine cannot run them, which is noted.
    pub(crate) fn start(store: Store) -> Option<Self> {
        if let Some(how) = haproxy::missing() {
            e2e::skip("components beside an API server that comes and goes", how);
            return None;
        }
        let space = Namespace::new("restarts").expect("a namespace");
        // From here on everything that this thread starts is inside.
        space.enter().expect("the namespace can be entered");
        let folder = tempfile::tempdir().expect("a folder");
        let api = Api::new(store, folder.path())?;
        // The server's own is away while its folder is put back.
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::copy(api.kubeconfig(), &kubeconfig).expect("a kubeconfig");
        let kubectl = Kubectl::all(&kubeconfig, folder.path()).pop()?;
        let (components, addresses) = (Vec::new(), BTreeMap::new());
        let mut cluster = Self { api, kubectl, components, addresses, kubeconfig, folder, space };
        cluster.start_components();
        Some(cluster)
    }

    fn start_components(&mut self) {
        let alone = "--leader-elect=false";
        let corefile = self.folder.path().join("Corefile");
        let kubernetes = format!("kubernetes cluster.local {{\n  kubeconfig {}\n }}", self.kubeconfig.display());
        let text = format!(".:1053 {{\n bind 127.0.0.1 ::1\n ready 127.0.0.1:8181\n {kubernetes}\n}}\n");
        std::fs::write(&corefile, text).expect("a file");
        let conf = format!("--conf={}", corefile.display());
        let ready = "--secure-port=10257";
        let hollow = "--hollow-nodes=1";
        self.run("controller-manager", &[], &[ready, alone, "--allocate-node-cidrs", PODS, hollow]);
        self.run("ingress-operator", &[], &[alone, "--secure-port=0", "--dns-provider=lab"]);
        self.run("dns-operator", &[], &[alone, "--secure-port=0"]);
        let example = ["--aws-account=example", "--controllers=service-lb-controller", alone, "--secure-port=0"];
        self.run("cloud-controller-manager", &[], &example);
        self.run("proxy", &[], &["--hostname-override=n1", PODS, "--proxy-mode=nftables"]);
        self.start_process("dns", &["env"], &["dns", &conf]);
        self.until("the definitions are served", || {
            INGRESS_LISTS.iter().all(|list| self.get(&format!("/apis/{list}")).is_some())
        });
        self.configure();
        self.until("the DNS resource is there", || self.get("/apis/operator.openshift.io/v1/dnses/default").is_some());
        let work = format!("--working-dir={}", self.folder.path().join("router").display());
        let program = format!("--haproxy={}", haproxy::tool("haproxy").expect("checked").display());
        let environment = [
            "ROUTER_IP_V4_V6_MODE=v4v6",
            "ROUTER_SERVICE_HTTP_PORT=8080",
            "ROUTER_SERVICE_HTTPS_PORT=8443",
            "STATS_PORT=1936",
            "ROUTER_MAX_CONNECTIONS=1000",
            "RELOAD_INTERVAL=100ms",
        ];
        self.run("router", &environment, &[&work, &program]);
    }

    /// What an installer would write for the ingress operator.
    fn configure(&self) {
        self.kubectl.ok(&["create", "namespace", "openshift-ingress-operator"]);
        let infrastructure = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "spec": {"platformSpec": {"type": "None"}}});
        self.kubectl.ok_with(&["create", "-f", "-"], &infrastructure.to_string());
        let path = "/apis/config.openshift.io/v1/infrastructures/cluster";
        self.until("the platform is known", || {
            let Some(mut object) = self.get(path) else { return false };
            object["status"] = json!({"platform": "None", "platformStatus": {"type": "None"}, "controlPlaneTopology": "SingleReplica",
                "infrastructureTopology": "SingleReplica", "infrastructureName": "x", "apiServerURL": "", "apiServerInternalURI": ""});
            let words = ["replace", "--raw", &format!("{path}/status"), "-f", "-"];
            self.kubectl.run_with(&words, &object.to_string()).success
        });
    }

    fn run(&mut self, component: &'static str, environment: &[&str], flags: &[&str]) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let mut words = vec![component, &kubeconfig];
        words.extend(flags);
        let mut before = vec!["env"];
        before.extend(environment);
        self.start_process(component, &before, &words);
    }

    fn start_process(&mut self, component: &'static str, before: &[&str], words: &[&str]) {
        let program = twinstack().display().to_string();
        let mut all = before[1..].to_vec();
        all.push(&program);
        all.extend(words);
        let log = self.folder.path().join(format!("{component}.log"));
        self.components.push((component, Process::start(before[0], &all, &log)));
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let output = self.kubectl.run(&["get", "--raw", path]);
        output.success.then(|| serde_json::from_str(&output.stdout).expect("JSON"))
    }

    /// Waits until it is so, or fails with the ends of all logs.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        if wait_for(PATIENCE, || so().then_some(())).is_none() {
            let last = |text: String| {
                let lines: Vec<&str> = text.lines().collect();
                lines[lines.len().saturating_sub(12)..].join("\n")
            };
            let logs = self.components.iter().map(|(name, process)| format!("{name}:\n{}", last(process.output())));
            let logs: Vec<String> = logs.chain([format!("API server:\n{}", last(self.api.log()))]).collect();
            panic!("never: {what}\n{}", logs.join("\n\n"));
        }
    }

    /// Makes something new for every component.
    pub(crate) fn make(&mut self, round: u32) {
        let name = format!("web-{round}");
        let labels = json!({"app": name});
        let container = json!({"name": "c", "image": "example.test/web"});
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
                "spec": {"ipFamilyPolicy": "RequireDualStack", "selector": labels, "ports": [{"name": "http", "port": 80}]}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("lb-{round}"), "namespace": "default",
                    "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}},
                "spec": {"type": "LoadBalancer", "selector": labels, "ports": [{"name": "http", "port": 80}]}},
            {"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": name, "namespace": "default"},
                "spec": {"host": format!("{name}.apps.test"), "to": {"kind": "Service", "name": name},
                    "tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Redirect"}}},
            {"apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
                "metadata": {"name": format!("ic-{round}"), "namespace": "openshift-ingress-operator"},
                "spec": {"domain": format!("ic-{round}.test"), "endpointPublishingStrategy": {"type": "Private"}}},
        ]});
        self.kubectl.ok_with(&["apply", "--validate=false", "-f", "-"], &objects.to_string());
        let zone = format!("z{round}.test");
        let server =
            json!({"name": format!("z{round}"), "zones": [zone], "forwardPlugin": {"upstreams": ["127.0.0.1:5300"]}});
        let patch = json!({"spec": {"servers": [server]}}).to_string();
        self.kubectl.ok(&["patch", "dnses.operator.openshift.io", "default", "--type=merge", "-p", &patch]);
        let service = self.get(&format!("/api/v1/namespaces/default/services/{name}")).expect("it was just made");
        let addresses = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
        self.addresses.insert(round, addresses.filter_map(Value::as_str).map(str::to_owned).collect());
    }

    /// Deletes what a round made, but for the zone, which the next round has replaced.
    pub(crate) fn delete(&self, round: u32) {
        let (name, balancer) = (format!("web-{round}"), format!("service/lb-{round}"));
        let objects = ["deployment", "service", "route"].map(|kind| format!("{kind}/{name}"));
        let mut words = vec!["delete", "--wait=false", &balancer];
        words.extend(objects.iter().map(String::as_str));
        self.kubectl.ok(&words);
        let controller = format!("ingresscontroller/ic-{round}");
        self.kubectl.ok(&["delete", "--wait=false", "-n", "openshift-ingress-operator", &controller]);
    }
}
