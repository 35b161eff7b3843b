//! What `init` writes is started: the API server and the controller manager as processes, with exactly the flags, files and identities that it
//! wrote, on a machine where its directory lies in /etc/kubernetes.

use e2e::{Kubectl, Process, run, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);

/// A shape of cluster: what `init` reads.
struct Shape {
    name: &'static str,
    advertise: &'static str,
    pods: &'static str,
    services: &'static str,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "v4", advertise: "10.90.0.2", pods: "10.244.0.0/16", services: "10.96.0.0/16" },
    Shape { name: "v6", advertise: "fd00:90::2", pods: "fd00:10:244::/56", services: "fd00:10:96::/112" },
    Shape {
        name: "v4v6",
        advertise: "10.90.0.2,fd00:90::2",
        pods: "10.244.0.0/16,fd00:10:244::/56",
        services: "10.96.0.0/16,fd00:10:96::/112",
    },
    Shape {
        name: "v6v4",
        advertise: "fd00:90::2,10.90.0.2",
        pods: "fd00:10:244::/56,10.244.0.0/16",
        services: "fd00:10:96::/112,10.96.0.0/16",
    },
];

/// A control plane node: a network with the advertised addresses, and the directory in its place.
struct Host {
    space: Namespace,
    folder: TempDir,
    kubectl: PathBuf,
}

impl Host {
    /// None where the machine of the tests cannot, which is noted.
    fn make(shape: &Shape) -> Option<Self> {
        let Ok(space) = Namespace::new("init") else {
            e2e::skip(
                "what init writes, started",
                "run as root on a machine with namespaces and ip (apt-get install iproute2)",
            );
            return None;
        };
        for words in ["addr add 10.90.0.2/32 dev lo", "addr add fd00:90::2/128 dev lo nodad"] {
            let words: Vec<&str> = words.split(' ').collect();
            space.run("ip", &words, "").expect("ip does it");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let input = folder.path().join("kubeadm.yaml");
        let Shape { advertise, pods, services, .. } = shape;
        let text = format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {{advertiseAddress: '{advertise}'}}\n\
             ---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: blue\n\
             networking: {{podSubnet: '{pods}', serviceSubnet: '{services}'}}\n\
             controllerManager: {{extraArgs: [{{name: concurrent-service-syncs, value: '2'}}, {{name: no-such-flag, value: x}}]}}\n"
        );
        fs::write(&input, text).expect("a file");
        let (input, target) = (input.display().to_string(), folder.path().join("lab").display().to_string());
        let output = run(&["init", "--config", &input, "--output", &target]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let warned = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(warned.contains("no-such-flag") && warned.contains("left out"), "{warned}");
        let kubectl = Kubectl::all(&folder.path().join("lab/admin.conf"), folder.path()).pop()?.program().to_owned();
        Some(Self { space, folder, kubectl })
    }

    fn lab(&self) -> PathBuf {
        self.folder.path().join("lab")
    }

    /// Starts a program on it. Its `/etc` has the directory and nothing else; nothing of the machine around is changed.
    fn start(&self, words: &[String], log: &str) -> Process {
        let script = "set -e; mount -t tmpfs tmpfs /etc; mkdir /etc/kubernetes; mount --bind \"$1\" /etc/kubernetes; \
                      mount -t tmpfs tmpfs /var/lib; shift; exec \"$@\"";
        let lab = self.lab().display().to_string();
        let mut all = vec!["netns", "exec", self.space.name(), "sh", "-c", script, "sh", &lab];
        all.extend(words.iter().map(String::as_str));
        Process::start("ip", &all, &self.folder.path().join(log))
    }

    /// Runs kubectl on it as whoever a kubeconfig says.
    fn try_as(&self, kubeconfig: &str, words: &[&str], input: &str) -> Result<String, String> {
        let config = format!("--kubeconfig={}", self.lab().join(kubeconfig).display());
        let cache = format!("--cache-dir={}", self.folder.path().join("cache").display());
        let all = [&[config.as_str(), cache.as_str()], words].concat();
        let program = self.kubectl.display().to_string();
        self.space.run(&program, &all, input).map(|printed| printed.stdout).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn admin(&self, words: &[&str], input: &str) -> String {
        self.try_as("admin.conf", words, input).unwrap_or_else(|error| panic!("kubectl {words:?}: {error}"))
    }

    /// Waits until the administrator is answered with this.
    #[track_caller]
    fn wait(&self, words: &[&str], is: impl Fn(&str) -> bool, controllers: &Process) -> String {
        let mut last = Err(String::new());
        let seen = wait_for(PATIENCE, || {
            last = self.try_as("admin.conf", words, "");
            last.as_ref().ok().filter(|text| is(text)).cloned()
        });
        seen.unwrap_or_else(|| panic!("kubectl {words:?}: {last:?}\n{}", controllers.output()))
    }

    /// Merges a status into an object, as a kubelet would.
    fn set_status(&self, path: &str, status: &Value) {
        let mut object: Value = serde_json::from_str(&self.admin(&["get", "--raw", path], "")).expect("an object");
        object["status"] = status.clone();
        self.admin(&["replace", "--raw", &format!("{path}/status"), "-f", "-"], &object.to_string());
    }
}

/// The command of a static pod that `init` wrote, run by the binary under test.
fn manifest(lab: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(lab.join("manifests").join(name)).expect("a manifest");
    let lines = text.lines().skip_while(|line| line.trim() != "command:" && line.trim() != "- command:").skip(1);
    let words = lines.map_while(|line| line.trim().strip_prefix("- "));
    let mut words: Vec<String> = words.map(|word| word.trim_matches('"').to_owned()).collect();
    assert!(words.len() > 3 && words[0] == "twinstack", "{words:?} in\n{text}");
    words[0] = twinstack().display().to_string();
    words
}

/// The same by the file of flags.
fn component(name: &str) -> Vec<String> {
    let config = format!("/etc/kubernetes/components/{name}.yaml");
    vec![twinstack().display().to_string(), name.to_owned(), "--config".to_owned(), config]
}

#[test]
fn the_written_api_server_and_controller_manager_make_a_cluster_that_works() {
    for (at, shape) in SHAPES.iter().enumerate() {
        let Some(host) = Host::make(shape) else { return };
        let (server, manager) = match at % 2 {
            0 => (manifest(&host.lab(), "kube-apiserver.yaml"), manifest(&host.lab(), "kube-controller-manager.yaml")),
            _ => (component("apiserver"), component("controller-manager")),
        };
        assert!(!server.concat().contains("no-such-flag") && !manager.concat().contains("no-such-flag"));
        let api = host.start(&server, "apiserver.log");
        let up = wait_for(PATIENCE, || api.output().contains("API server is ready").then_some(()));
        assert!(up.is_some(), "{}: the API server did not come up:\n{}", shape.name, api.output());
        identities(&host, shape);
        let controllers = host.start(&manager, "controllers.log");
        work(&host, shape, &controllers);
        let log = controllers.output();
        assert!(!log.to_lowercase().contains("forbidden"), "{}: rights are missing:\n{log}", shape.name);
    }
}

/// Who may do what, before and after the objects are there.
fn identities(host: &Host, shape: &Shape) {
    // Nobody is an administrator by his certificate alone, but for the one that is locked up.
    let refused = host.try_as("admin.conf", &["get", "nodes"], "").expect_err("no binding is there yet");
    assert!(refused.contains("forbidden") || refused.contains("Forbidden"), "{refused}");
    for folder in ["crds", "objects"] {
        let folder = host.lab().join(folder).display().to_string();
        let applied = host.try_as("super-admin.conf", &["apply", "-f", &folder], "");
        // Objects of definitions that were made in the same moment may come too early once.
        let applied = applied.or_else(|_| host.try_as("super-admin.conf", &["apply", "-f", &folder], ""));
        applied.unwrap_or_else(|error| panic!("{}: {folder}: {error}", shape.name));
    }
    host.admin(&["get", "nodes"], "");
    // The API server's way to kubelets: what belongs to kubelets, and nothing else.
    let lab = host.lab();
    let pki = |file: &str| lab.join("pki").join(file).display().to_string();
    let server = host.admin(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"], "");
    let (certificate, key, authority) =
        (pki("apiserver-kubelet-client.crt"), pki("apiserver-kubelet-client.key"), pki("ca.crt"));
    let kubelet_client = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "u", "user": {"client-certificate": certificate, "client-key": key}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    fs::write(lab.join("kubelet-client.conf"), kubelet_client.to_string()).expect("a file");
    for (verb, what, subresource, expected) in [
        ("get", "nodes", "proxy", "yes"),
        ("create", "nodes", "proxy", "yes"),
        ("get", "nodes", "metrics", "yes"),
        ("*", "*", "", "no"),
        ("get", "secrets", "", "no"),
        ("delete", "nodes", "", "no"),
        ("create", "pods", "", "no"),
    ] {
        let subresource = format!("--subresource={subresource}");
        let answer = host.try_as("kubelet-client.conf", &["auth", "can-i", verb, what, &subresource], "");
        // kubectl ends with 1 for "no".
        let answer = answer.unwrap_or_else(|_| "no".to_owned());
        assert_eq!(answer.trim(), expected, "{}: {verb} {what} {subresource}", shape.name);
    }
}

/// Nodes get ranges, a Deployment gets pods that are placed, a Service gets slices, and everything goes again.
fn work(host: &Host, shape: &Shape, controllers: &Process) {
    let families = shape.pods.split(',').count();
    host.admin(&["create", "namespace", "shop"], "");
    host.wait(
        &["get", "configmap", "kube-root-ca.crt", "-n", "shop", "-o", "name"],
        |text| text.contains("kube-root-ca.crt"),
        controllers,
    );
    host.wait(
        &["get", "serviceaccount", "default", "-n", "shop", "-o", "name"],
        |text| text.contains("default"),
        controllers,
    );
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "localhost/none"}]},
        }},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "ipFamilyPolicy": "PreferDualStack"},
    });
    for object in [&deployment, &service] {
        host.admin(&["create", "-f", "-"], &object.to_string());
    }
    let pods = ["get", "pods", "-n", "shop", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"];
    let names = host.wait(&pods, |text| text.split_whitespace().count() == 2, controllers);

    host.admin(
        &["create", "-f", "-"],
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}}).to_string(),
    );
    let ready = json!({
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
        "allocatable": {"cpu": "4", "memory": "4Gi", "pods": "110"}, "capacity": {"cpu": "4", "memory": "4Gi", "pods": "110"},
        "addresses": [{"type": "InternalIP", "address": shape.advertise.split(',').next()}],
    });
    host.set_status("/api/v1/nodes/one", &ready);
    let ranges = ["get", "node", "one", "-o", "jsonpath={.spec.podCIDRs[*]}"];
    let given = host.wait(&ranges, |text| text.split_whitespace().count() == families, controllers);
    for (range, whole) in given.split_whitespace().zip(shape.pods.split(',')) {
        assert_eq!(range.contains(':'), whole.contains(':'), "{}: {given}", shape.name);
    }
    let placed = ["get", "pods", "-n", "shop", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"];
    host.wait(&placed, |text| text == "one one", controllers);

    for (number, name) in names.split_whitespace().enumerate() {
        let addresses: Vec<String> = given.split_whitespace().map(|range| pod_address(range, number)).collect();
        let ips: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        let status = json!({
            "phase": "Running", "podIP": addresses[0], "podIPs": ips, "hostIP": shape.advertise.split(',').next(),
            "conditions": [{"type": "Ready", "status": "True"}], "startTime": now(),
        });
        host.set_status(&format!("/api/v1/namespaces/shop/pods/{name}"), &status);
    }
    let slices = [
        "get",
        "endpointslices",
        "-n",
        "shop",
        "-l",
        "kubernetes.io/service-name=web",
        "-o",
        "jsonpath={.items[*].endpoints[*].addresses[0]}",
    ];
    host.wait(&slices, |text| text.split_whitespace().count() == 2 * families, controllers);
    let available = ["get", "deployment", "web", "-n", "shop", "-o", "jsonpath={.status.availableReplicas}"];
    host.wait(&available, |text| text == "2", controllers);

    host.admin(&["delete", "deployment", "web", "-n", "shop", "--wait=false"], "");
    // No kubelet takes pods away that it runs: that is left to the administrator here.
    host.wait(&["get", "replicasets", "-n", "shop", "-o", "name"], str::is_empty, controllers);
    host.admin(&["delete", "pods", "-n", "shop", "--all", "--force", "--grace-period=0", "--wait=false"], "");
    host.admin(&["delete", "namespace", "shop", "--wait=false"], "");
    host.wait(&["get", "namespace", "shop", "--ignore-not-found", "-o", "name"], str::is_empty, controllers);
}

/// The address of a pod in a node's range.
fn pod_address(range: &str, number: usize) -> String {
    let network = range.split('/').next().unwrap_or_default();
    match network.strip_suffix(".0") {
        Some(start) => format!("{start}.{}", number + 10),
        None => format!("{network}{}", number + 10),
    }
}

fn now() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs();
    k8s_openapi::jiff::Timestamp::from_second(seconds as i64).expect("a time").to_string()
}
