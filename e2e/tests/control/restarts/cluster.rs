//! All components beside an API server that comes and goes, in a network namespace of their own.

use super::api::{Api, Store};
use e2e::{INGRESS_LISTS, Kubectl, Process, haproxy, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf, process::Command, time::Duration};
use tempfile::TempDir;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const CLOUD_CONFIG_NAMESPACE: &str = "openshift-cloud-controller-manager";
const PODS: &str = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56";

/// A lease that is lost and won again within seconds.
const LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms"];

/// What runs the DNS server and the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operands {
    /// The test; operators render workloads.
    Workload,
    /// The operators, in and beside their processes, holding leases.
    Process,
}

/// See the module. Everything ends with the handle.
pub(crate) struct Cluster {
    pub(crate) api: Api,
    pub(crate) kubectl: Kubectl,
    pub(crate) operands: Operands,
    pub(crate) components: Vec<(&'static str, Process)>,
    /// Program and words of each component.
    words: BTreeMap<&'static str, Vec<String>>,
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
    pub(crate) fn start(store: Store, operands: Operands) -> Option<Self> {
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
        let (components, words, addresses) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut cluster = Self { api, kubectl, operands, components, words, addresses, kubeconfig, folder, space };
        cluster.start_components();
        Some(cluster)
    }

    fn start_components(&mut self) {
        let alone = "--leader-elect=false";
        let ready = "--secure-port=10257";
        let hollow = "--hollow-nodes=1";
        self.run("controller-manager", &[], &[ready, alone, "--allocate-node-cidrs", PODS, hollow]);
        match self.operands {
            Operands::Workload => {
                self.run("ingress-operator", &[], &[alone, "--secure-port=0", "--dns-provider=lab"]);
                self.run("dns-operator", &[], &[alone, "--secure-port=0"]);
                self.start_dns();
            }
            Operands::Process => self.start_operators_with_servers(),
        }
        let example = ["--aws-account=example", "--controllers=service-lb-controller", alone, "--secure-port=0"];
        self.run("cloud-controller-manager", &[], &example);
        self.run("cloud-config sync", &[], &[alone, "--secure-port=0"]);
        self.run("proxy", &[], &["--hostname-override=n1", PODS, "--proxy-mode=nftables"]);
        self.until("the definitions are served", || {
            INGRESS_LISTS.iter().all(|list| self.get(&format!("/apis/{list}")).is_some())
        });
        self.configure();
        self.until("the DNS resource is there", || self.get("/apis/operator.openshift.io/v1/dnses/default").is_some());
        if self.operands == Operands::Workload {
            self.start_router();
        }
    }

    fn start_dns(&mut self) {
        let corefile = self.folder.path().join("Corefile");
        let kubernetes = format!("kubernetes cluster.local {{\n  kubeconfig {}\n }}", self.kubeconfig.display());
        let text = format!(".:1053 {{\n bind 127.0.0.1 ::1\n ready 127.0.0.1:8181\n {kubernetes}\n}}\n");
        std::fs::write(&corefile, text).expect("a file");
        let conf = format!("--conf={}", corefile.display());
        self.start_process("dns", &[], &["dns", &conf]);
    }

    fn start_operators_with_servers(&mut self) {
        let data = |flag: &str| format!("--{flag}={}", self.folder.path().join(flag).display());
        let (dns, routers) = (data("dns-data-dir"), data("operand-data-dir"));
        let common = ["--operand=process", "--secure-port=0", LEASE[0], LEASE[1], LEASE[2]];
        let mut flags = common.to_vec();
        flags.extend(["--dns-bind-address=127.0.0.1,::1", "--dns-port=1053", &dns]);
        self.run("dns-operator", &[], &flags);
        let mut flags = common.to_vec();
        flags.extend(["--operand-bind-address=127.0.0.1,::1", "--operand-ports=8080,8443,1936", "--dns-provider=lab"]);
        flags.push(&routers);
        self.run("ingress-operator", &[], &flags);
    }

    fn start_router(&mut self) {
        let work = format!("--working-dir={}", self.folder.path().join("router").display());
        let program = format!("--haproxy={}", haproxy::tool("haproxy").expect("checked").display());
        let environment = [
            "ROUTER_IP_V4_V6_MODE=v4v6",
            "ROUTER_SERVICE_HTTP_PORT=8080",
            "ROUTER_SERVICE_HTTPS_PORT=8443",
            "STATS_PORT=1936",
            "ROUTER_MAX_CONNECTIONS=1000",
            "RELOAD_INTERVAL=100ms",
            "ROUTER_GRACEFUL_SHUTDOWN_DELAY=0s",
        ];
        self.run("router", &environment, &[&work, &program]);
    }

    /// What an installer would write for the ingress operator.
    fn configure(&self) {
        for namespace in
            ["openshift-ingress-operator", "openshift-config-managed", "openshift-config", CLOUD_CONFIG_NAMESPACE]
        {
            self.kubectl.ok(&["create", "namespace", namespace]);
        }
        let networks = json!({"clusterNetwork": [{"cidr": "10.244.0.0/16"}, {"cidr": "fd00:10:244::/56"}]});
        let network = json!({"apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"},
            "spec": networks, "status": networks});
        self.kubectl.ok_with(&["create", "-f", "-"], &network.to_string());
        let infrastructure = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "spec": {"platformSpec": {"type": "AWS"}}});
        self.kubectl.ok_with(&["create", "-f", "-"], &infrastructure.to_string());
        let path = "/apis/config.openshift.io/v1/infrastructures/cluster";
        self.until("the platform is known", || {
            let Some(mut object) = self.get(path) else { return false };
            object["status"] = json!({"platform": "AWS", "platformStatus": {"type": "AWS", "aws": {"region": "us-east-1"}}, "controlPlaneTopology": "SingleReplica",
                "infrastructureTopology": "SingleReplica", "infrastructureName": "x", "apiServerURL": "", "apiServerInternalURI": ""});
            let words = ["replace", "--raw", &format!("{path}/status"), "-f", "-"];
            self.kubectl.run_with(&words, &object.to_string()).success
        });
        if self.operands == Operands::Process {
            let domain = json!({"domain": "apps.test", "endpointPublishingStrategy": {"type": "Private"}});
            self.kubectl.ok_with(&["create", "-f", "-"], &ingress_controller("default", domain).to_string());
        }
    }

    fn run(&mut self, component: &'static str, environment: &[&str], flags: &[&str]) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let mut words: Vec<&str> = component.split(' ').collect();
        words.push(&kubeconfig);
        words.extend(flags);
        self.start_process(component, environment, &words);
    }

    fn start_process(&mut self, component: &'static str, environment: &[&str], words: &[&str]) {
        let program = twinstack().display().to_string();
        let all = environment.iter().chain([&program.as_str()]).chain(words).map(|word| (*word).to_owned()).collect();
        self.words.insert(component, all);
        let process = self.launch(component);
        self.components.push((component, process));
    }

    fn launch(&self, component: &str) -> Process {
        let words: Vec<&str> = self.words[component].iter().map(String::as_str).collect();
        Process::start("env", &words, &self.folder.path().join(format!("{component}.log")))
    }

    /// A component that was stopped runs again.
    pub(crate) fn start_again(&mut self, component: &str) {
        let process = self.launch(component);
        *self.component(component) = process;
    }

    pub(crate) fn component(&mut self, component: &str) -> &mut Process {
        let found = self.components.iter_mut().find(|(name, _)| *name == component);
        &mut found.expect("it was started").1
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
        let mut objects = json!({"apiVersion": "v1", "kind": "List", "items": [
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
            {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "kube-cloud-config", "namespace": "openshift-config-managed"},
                "data": {"cloud.conf": format!("[Global]\nVPC = {}\n", vpc(round))}},
        ]});
        if self.operands == Operands::Workload {
            let spec = json!({"domain": format!("ic-{round}.test"), "endpointPublishingStrategy": {"type": "Private"}});
            let controller = ingress_controller(&format!("ic-{round}"), spec);
            objects["items"].as_array_mut().expect("a list").push(controller);
        }
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

    /// Deletes what a round made, but for the zone and the cloud-config, which the next round replaces.
    pub(crate) fn delete(&self, round: u32) {
        let (name, balancer) = (format!("web-{round}"), format!("service/lb-{round}"));
        let objects = ["deployment", "service", "route"].map(|kind| format!("{kind}/{name}"));
        let mut words = vec!["delete", "--wait=false", &balancer];
        words.extend(objects.iter().map(String::as_str));
        self.kubectl.ok(&words);
        if self.operands == Operands::Workload {
            let controller = format!("ingresscontroller/ic-{round}");
            self.kubectl.ok(&["delete", "--wait=false", "-n", "openshift-ingress-operator", &controller]);
        }
    }
}

/// What a round writes into the cloud-config.
pub(crate) fn vpc(round: u32) -> String {
    format!("vpc-of-round-{round}.")
}

fn ingress_controller(name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "openshift-ingress-operator"});
    json!({"apiVersion": "operator.openshift.io/v1", "kind": "IngressController", "metadata": metadata, "spec": spec})
}
